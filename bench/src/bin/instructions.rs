//! Counts instructions with callgrind: each trace at N and at 2N units, the difference divided by N.
//!
//! Prints a table, compares it with the figures of `bench/instructions.toml` or rewrites that file. `run` is the command run
//! under valgrind. The cost of start-up and handshakes cancels out; the wire and the other host are not
//! counted.
#![forbid(unsafe_code)]

use std::process::{self, ExitCode};

use clap::{Parser, Subcommand};
use ringway_bench::figures::{Figures, TOLERANCE_PERCENT, Verdict};
use ringway_bench::trace::{TRACES, Trace};

/// The file of expected figures.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/instructions.toml");
/// Units of the figures in the file.
const UNITS: u64 = 2_000;

/// Counts instructions of the server's stack and application per unit, with callgrind.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Fails when a figure of the file has grown by more than 2 %.
    #[arg(long, conflicts_with = "update")]
    check: bool,
    /// Rewrites the figures of the file.
    #[arg(long)]
    update: bool,
    /// Units of the table.
    #[arg(default_value_t = UNITS, value_parser = units(), conflicts_with_all = ["check", "update"])]
    units: u64,
}

#[derive(Subcommand)]
enum Command {
    /// Runs one trace, for callgrind.
    Run {
        /// Its name.
        #[arg(value_parser = trace)]
        trace: &'static Trace,
        /// Units to run.
        #[arg(value_parser = units())]
        units: u64,
    },
}

fn units() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..)
}

fn trace(name: &str) -> Result<&'static Trace, String> {
    TRACES.iter().find(|trace| trace.name == name).ok_or_else(|| {
        let names: Vec<&str> = TRACES.iter().map(|trace| trace.name).collect();
        format!("expected one of {}", names.join(", "))
    })
}

fn main() -> ExitCode {
    let result = match Arguments::parse() {
        Arguments { command: Some(Command::Run { trace, units }), .. } => {
            trace.run(units);
            Ok(ExitCode::SUCCESS)
        }
        Arguments { check: true, .. } => check(),
        Arguments { update: true, .. } => update(),
        Arguments { units, .. } => table(units),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn table(units: u64) -> Result<ExitCode, String> {
    println!("instructions in the server's stack and application, per unit (N = {units})");
    for trace in TRACES {
        println!("{:>8.0}  {:<20} {}", difference(trace, units)?, trace.name, trace.unit);
    }
    Ok(ExitCode::SUCCESS)
}

/// Compares each trace with its figure. With another compiler, differences are shown but are no failure.
fn check() -> Result<ExitCode, String> {
    let text = std::fs::read_to_string(FILE).map_err(|error| format!("{FILE}: {error}"))?;
    let figures = Figures::parse(&text)?;
    let compiler = compiler()?;
    let comparable = compiler == figures.compiler;
    if !comparable {
        println!("the figures are of {}, this is {compiler}: differences do not fail the check", figures.compiler);
    }
    let mut worse = false;
    for trace in TRACES {
        let count = difference(trace, figures.units)?;
        let verdict = figures.judge(trace.name, count);
        println!("{count:>8.0}  {:<20} {verdict}", trace.name);
        worse |= !matches!(verdict, Verdict::AsBefore { .. } | Verdict::Better { .. });
    }
    if worse && comparable {
        println!("a figure has grown by more than {TOLERANCE_PERCENT} %, or is missing: find the cause; if it is intended,");
        println!("run `cargo run --release -p ringway-bench --bin instructions -- --update` and commit the file with the reason");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn update() -> Result<ExitCode, String> {
    let counts: Result<Vec<(String, f64)>, String> =
        TRACES.iter().map(|trace| Ok((trace.name.to_owned(), difference(trace, UNITS)?))).collect();
    let figures = Figures { compiler: compiler()?, units: UNITS, counts: counts? };
    std::fs::write(FILE, figures.to_string()).map_err(|error| format!("{FILE}: {error}"))?;
    print!("{figures}");
    Ok(ExitCode::SUCCESS)
}

fn compiler() -> Result<String, String> {
    let output = process::Command::new("rustc").arg("-V").output().map_err(|error| format!("cannot start rustc: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn difference(trace: &Trace, units: u64) -> Result<f64, String> {
    let named = |error| format!("{}: {error}", trace.name);
    let once = collected(trace, units).map_err(named)?;
    let twice = collected(trace, 2 * units).map_err(named)?;
    let more = twice.checked_sub(once).filter(|more| *more > 0).ok_or_else(|| named(format!("{once} at N, {twice} at 2N")))?;
    Ok(more as f64 / units as f64)
}

/// Instructions that callgrind counted inside `measured_server_turn`.
fn collected(trace: &Trace, units: u64) -> Result<u64, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut valgrind = process::Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*measured_server_turn*"]);
    valgrind.arg(program).args(["run", trace.name, &units.to_string()]);
    let output = valgrind.output().map_err(|error| format!("cannot start valgrind: {error}"))?;
    let words = String::from_utf8_lossy(&output.stderr);
    let line = words.lines().find_map(|line| line.split_once("Collected :")).filter(|_| output.status.success());
    let count = line.and_then(|(_, count)| count.trim().parse::<u64>().ok());
    count.ok_or_else(|| format!("valgrind ({}) printed:\n{words}", output.status))
}
