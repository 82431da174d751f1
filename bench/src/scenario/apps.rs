//! `ringway bench apps`: unmodified servers under `ringway run` and on the kernel, with long and short connections
//! (mTCP: figure 9; the paper ported each server, here none is).
//!
//! Promises: each target has its own wire and they take turns; the server is bound to the second core and
//! the load to the first; a missing program or load gives a row that says so; all started processes are
//! ended. Does not do: tune the servers beyond one worker and no limit on requests.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, ValueEnum};

pub mod ask;
mod load;
mod program;
mod rows;

use crate::bed::server_core;
use crate::measure::calibration::Calibration;
use crate::measure::cpu::Used;
use crate::measure::noise::Disturbance;
use crate::options::Steering;
use crate::rounds::Rounds;
use crate::row::Row;
use crate::wire::veth::remove_on_signal;
use load::Load;
pub(crate) use program::is_installed;
use program::{Program, Server, Stack};
use rows::{Round, Setting};

/// Arguments of `ringway bench apps`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Programs to measure
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PROGRAM,…", default_values_t = Program::value_variants().to_vec())]
    program: Vec<Program>,
    /// Stacks to measure, in turn
    #[arg(long, value_enum, value_delimiter = ',', value_name = "TARGET,…", default_values_t = [Stack::Linux, Stack::Preload])]
    target: Vec<Stack>,
    /// Largest number of extra rounds per load that replace disturbed ones
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(..=100))]
    patience: u32,
    /// Number of connections of the load
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1000))]
    connections: u32,
    /// Seconds per round
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    /// Rounds per target; the medians are shown
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Core on which the kernel receives; default: the sender's core
    #[arg(long, value_enum, default_value_t = Steering::None)]
    rps: Steering,
    /// Print one JSON object per row
    #[arg(short, long)]
    json: bool,
    /// Print no progress on standard error
    #[arg(short, long)]
    quiet: bool,
}

/// Measures all programs; fails when an installed one could not be measured.
pub fn run(arguments: &Arguments) -> ExitCode {
    if !rustix::process::geteuid().is_root() {
        eprintln!("ringway bench apps: making network interfaces needs root");
        return ExitCode::FAILURE;
    }
    let mut failed = false;
    let measured = remove_on_signal().and_then(|()| Calibration::of_core(server_core())).and_then(|calibration| {
        let setting = Setting::new(calibration.frequency_ghz());
        if !arguments.json {
            print(rows::heading())?;
        }
        for program in &arguments.program {
            failed |= !measure(arguments, *program, &setting, calibration.fastest_ns)?;
        }
        Ok(())
    });
    match measured {
        Ok(()) if !failed => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("ringway bench apps: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures one program; returns false when it is installed but could not be measured.
fn measure(arguments: &Arguments, program: Program, setting: &Setting, fastest_ns: f64) -> io::Result<bool> {
    let absent = program
        .commands()
        .iter()
        .copied()
        .chain(program.loads().iter().map(Load::command))
        .find(|name| !program::is_installed(name));
    if let Some(absent) = absent {
        let why = format!("{absent} is not installed");
        for (load, stack) in program.loads().iter().flat_map(|load| arguments.target.iter().map(move |stack| (load, stack))) {
            give(arguments, &setting.absent(&load.label(program), *stack, &why))?;
        }
        return Ok(true);
    }
    let mut servers = Vec::new();
    for stack in &arguments.target {
        say(arguments, &format!("starting {} on {}", program.command(), stack.name()));
        match Server::start(program, *stack, arguments.rps) {
            Ok(server) => {
                server.pause();
                servers.push(server);
            }
            Err(error) => return refused(arguments, program, setting, *stack, &error.to_string()),
        }
    }
    let mut all_well = true;
    for load in program.loads() {
        match compare(arguments, &mut servers, load, fastest_ns) {
            Ok((rounds, repeated)) => {
                let connections = load.connections(arguments.connections);
                for row in setting.rows(&load.label(program), connections, &arguments.target, &rounds) {
                    give(arguments, &Row { repeated, ..row })?;
                }
            }
            Err(error) => {
                all_well = false;
                for stack in &arguments.target {
                    give(arguments, &setting.absent(&load.label(program), *stack, &one_line(&error.to_string())))?;
                }
            }
        }
    }
    Ok(all_well)
}

/// Prints rows for a server that did not start.
fn refused(arguments: &Arguments, program: Program, setting: &Setting, stack: Stack, why: &str) -> io::Result<bool> {
    for load in program.loads() {
        give(arguments, &setting.absent(&load.label(program), stack, &one_line(why)))?;
    }
    Ok(false)
}

/// Measures the rounds of one load, the targets in turn; returns them by target, and the number of repetitions.
fn compare(arguments: &Arguments, servers: &mut [Server], load: &Load, fastest_ns: f64) -> io::Result<(Vec<Vec<Round>>, u32)> {
    let mut rounds = Rounds::new(arguments.rounds, arguments.patience);
    while rounds.missing() > 0 {
        let number = rounds.next_number();
        let mut turn = Vec::new();
        for server in servers.iter() {
            let label = load.label(server.program);
            say(arguments, &format!("{label} on {}, round {number} of {}", server.stack.name(), arguments.rounds));
            server.resume();
            let round = round(arguments, server, load, fastest_ns)?;
            server.pause();
            turn.push((round, round.disturbance));
        }
        rounds.add(turn);
    }
    let repeated = rounds.repeated();
    let mut kept = vec![Vec::new(); servers.len()];
    for turn in rounds.keep() {
        turn.into_iter().zip(&mut kept).for_each(|((round, _), kept)| kept.push(round));
    }
    Ok((kept, repeated))
}

fn round(arguments: &Arguments, server: &Server, load: &Load, fastest_ns: f64) -> io::Result<Round> {
    let calibration = Calibration::of_core(server_core())?;
    let before = (server.used()?, Used::by(std::process::id(), load::CORE)?, server.counters()?);
    let figures = load.run(server, load.connections(arguments.connections), arguments.seconds)?;
    let used = server.used()?.since(&before.0);
    let client = Used::by(std::process::id(), load::CORE)?.since(&before.1);
    let counters = server.counters()?;
    let after = Calibration::of_core(server_core())?;
    let whole_ns = f64::from(arguments.seconds) * 1e9;
    let disturbance = Disturbance {
        calibration: calibration.median_ns.max(after.median_ns) / fastest_ns.min(calibration.fastest_ns).min(after.fastest_ns)
            - 1.0,
        steal: used.core.steal_ns.max(client.core.steal_ns) as f64 / whole_ns,
        others: used.others_ns() as f64 / whole_ns,
    };
    Ok(Round {
        figures,
        server_ns: used.cpu_ns(),
        client_ns: client.core.busy_ns,
        resent: counters.resent - before.2.resent,
        kernel_segments: counters.received - before.2.received,
        disturbance,
    })
}

fn give(arguments: &Arguments, row: &Row) -> io::Result<()> {
    print(if arguments.json { row.to_json() + "\n" } else { rows::line(row) })
}

fn print(text: String) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn say(arguments: &Arguments, words: &str) {
    if !arguments.quiet {
        // A closed standard error is no error.
        writeln!(io::stderr(), "ringway bench apps: {words}").unwrap_or_default();
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
