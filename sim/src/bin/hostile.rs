//! `hostile --socket PATH --rounds N [--seed N] [--form region|requests|attach|all] [--peer ADDRESS]`: processes that attach
//! to a service and misbehave.
//!
//! A round is a process of its own, which works for a few milliseconds and then ends or is killed. It has one of three
//! forms: `region` writes random words over its shared memory, `requests` sends random requests in the contract's format,
//! `attach` lies in the control messages and in the descriptors they carry. A round that the service refuses counts as
//! refused. The tool prints the number of rounds by result; the caller must check whether the service and its other users
//! were affected. The seed and the number of a round decide what it does; the machine decides when a kill takes effect.
#![forbid(unsafe_code)]

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use clap::Parser;
use ringway_sim::hostile::{Form, Round};
use ringway_sim::random::Random;

/// Latest time at which a round is killed, microseconds; most have ended by then.
const KILL_MICROS: u64 = 20_000;
/// Exit code of a round that the service has refused.
const REFUSED: u8 = 3;

/// Starts processes that attach to a service and misbehave.
#[derive(Parser)]
struct Arguments {
    /// The service's socket.
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Number of rounds; each is a process of its own.
    #[arg(long)]
    rounds: u64,
    /// Decides what the rounds do.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What a round does; `all`: each form in turn.
    #[arg(long, default_value = "all", value_parser = ["region", "requests", "attach", "all"])]
    form: String,
    /// Destination of requests, beside random addresses.
    #[arg(long, value_name = "ADDRESS", default_value = "192.0.2.1")]
    peer: IpAddr,
    /// Number of the round that this process runs; without it, the process starts the others.
    #[arg(long, hide = true)]
    round: Option<u64>,
}

/// Runs one round in this process.
fn play(arguments: &Arguments, number: u64) -> ExitCode {
    let random = Random::new(arguments.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let named = Form::ALL.into_iter().find(|form| form.name() == arguments.form);
    let form = named.unwrap_or(Form::ALL[(number % 3) as usize]);
    let attached = Round::new(&arguments.socket, arguments.peer, random).play(form);
    match attached {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hostile: round {number} ({}): {error}", form.name());
            ExitCode::from(REFUSED)
        }
    }
}

/// Runs every round as a process; half of them are killed at a random instant.
fn run(arguments: &Arguments, program: &Path) -> std::io::Result<ExitCode> {
    let (mut done, mut refused, mut killed) = (0, 0, 0);
    let mut random = Random::new(arguments.seed);
    for number in 0..arguments.rounds {
        let mut command = Command::new(program);
        command.arg("--socket").arg(&arguments.socket).args(["--rounds", "1"]);
        command.args(["--seed", &arguments.seed.to_string(), "--round", &number.to_string()]);
        command.args(["--peer", &arguments.peer.to_string()]).stdin(Stdio::null()).stdout(Stdio::null());
        command.args(["--form", &arguments.form]);
        let mut child = command.spawn()?;
        if random.number().is_multiple_of(2) {
            std::thread::sleep(Duration::from_micros(random.number() % KILL_MICROS));
            child.kill()?;
        }
        match child.wait()?.code() {
            Some(0) => done += 1,
            Some(_) => refused += 1,
            None => killed += 1,
        }
    }
    println!("{} rounds: {done} done, {killed} killed, {refused} refused", arguments.rounds);
    Ok(ExitCode::SUCCESS)
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.round {
        Some(number) => Ok(play(&arguments, number)),
        None => std::env::current_exe().and_then(|program| run(&arguments, &program)),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("hostile: {error}");
        ExitCode::from(2)
    })
}
