//! `ringway top`: rates of workers, interfaces, programs and connections, and what is dropped and why, drawn again and again.
//!
//! The process reads the same files as `ringway ss` and asks no service. Promises: the terminal is as before when the command ends by a
//! key, a signal or a panic. Does not do: show sockets of the kernel; ss(8) shows them.

mod cell;
mod history;
mod model;
mod sample;
mod screen;
mod sheet;
mod sheets;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::output;
use crate::services;
use model::Model;
use sample::Sample;
use sheets::Rates;

/// Arguments of `ringway top`.
#[derive(Args, Debug)]
#[command(
    after_help = "Keys: 1 workers and interfaces, 2 programs, 3 connections, 4 drops; arrows, Enter and Esc; s and r sort; / filters; ? lists all.
Examples:
  ringway top                          each two seconds, until q
  ringway top --once                   the rates of one interval as text, for a terminal that cannot be drawn on
  ringway top --json | jq .workers     a line of JSON for each interval, until it is ended
  ringway top dport = :443             only connections to this port
Exit status: 0: ended by a key or signal; 1: it failed, or with --once no service is running."
)]
pub(crate) struct Arguments {
    /// Time between two readings, seconds
    #[arg(short, long, value_name = "SECONDS", default_value = "2", value_parser = interval)]
    delay: Duration,
    /// Print the rates of one interval and end
    #[arg(long)]
    once: bool,
    /// Print JSON: a line for each interval, or with --once a single one
    #[arg(short, long)]
    json: bool,
    #[command(flatten)]
    services: services::Choice,
    /// Connections to show, as in `ringway ss`
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
}

/// Reads a number of seconds from a tenth to an hour.
fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text} is no number of seconds"))?;
    if (0.1..=3600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(format!("{text} is not from 0.1 to 3600 seconds"))
    }
}

/// Shows them.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    output::end("top", show(arguments))
}

fn show(arguments: &Arguments) -> io::Result<()> {
    let mut model = Model::new(&arguments.filter, arguments.delay).map_err(io::Error::other)?;
    model.nothing = arguments.services.nothing().to_string();
    let read = || arguments.services.find().map(|services| Sample::take(&services));
    let end = Arc::new(AtomicBool::new(false));
    if arguments.once || arguments.json {
        return print(arguments, model, read);
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(io::Error::other("standard input and output are no terminal; --once or --json print without one"));
    }
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register(signal, Arc::clone(&end))?;
    }
    screen::run(model, read, &end)
}

/// Prints the rates of one interval, or with `--json` of all that come.
fn print(arguments: &Arguments, model: Model, read: impl Fn() -> io::Result<Sample>) -> io::Result<()> {
    let mut before = read()?;
    loop {
        thread::sleep(arguments.delay);
        let now = read()?;
        if arguments.once && now.is_empty() {
            return Err(arguments.services.nothing());
        }
        let rates = Rates::between(&before, &now, model.filter());
        let text = if arguments.json { rates.json() } else { rates.text() };
        output::stream(&text)?;
        if arguments.once {
            return Ok(());
        }
        before = now;
    }
}

#[cfg(test)]
mod tests;
