//! Counts instructions with callgrind: each trace at N and at 2N units, the difference divided by N.
//!
//! `instructions [N]` prints the table. `instructions --check` compares with the figures of `bench/instructions.toml` and
//! fails when one has grown by more than 2 %; `instructions --update` rewrites that file. `instructions run NAME N` is the
//! command run under valgrind. The cost of start-up and handshakes cancels out; the wire and the other host are not
//! counted.
#![forbid(unsafe_code)]

use std::process::{Command, ExitCode};

use ringway_bench::figures::{Figures, TOLERANCE_PERCENT, Verdict};
use ringway_bench::trace::{TRACES, Trace};

/// The file of expected figures.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/instructions.toml");
/// Units of the figures in the file.
const UNITS: u64 = 2_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["run", name, units] => return run(name, units),
        ["--check"] => check(),
        ["--update"] => update(),
        [] => table(2_000),
        [units] => match units.parse::<u64>() {
            Ok(units) if units > 0 => table(units),
            _ => return usage(),
        },
        _ => return usage(),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    let names: Vec<&str> = TRACES.iter().map(|trace| trace.name).collect();
    eprintln!("usage: instructions [N] | instructions --check | instructions --update | instructions run {} N", names.join("|"));
    ExitCode::from(2)
}

fn run(name: &str, units: &str) -> ExitCode {
    match (TRACES.iter().find(|trace| trace.name == name), units.parse()) {
        (Some(trace), Ok(units)) => trace.run(units),
        _ => return usage(),
    }
    ExitCode::SUCCESS
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
    let output = Command::new("rustc").arg("-V").output().map_err(|error| format!("cannot start rustc: {error}"))?;
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
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*measured_server_turn*"]);
    valgrind.arg(program).args(["run", trace.name, &units.to_string()]);
    let output = valgrind.output().map_err(|error| format!("cannot start valgrind: {error}"))?;
    let words = String::from_utf8_lossy(&output.stderr);
    let line = words.lines().find_map(|line| line.split_once("Collected :")).filter(|_| output.status.success());
    let count = line.and_then(|(_, count)| count.trim().parse::<u64>().ok());
    count.ok_or_else(|| format!("valgrind ({}) printed:\n{words}", output.status))
}
