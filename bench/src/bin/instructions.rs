//! Counts instructions with callgrind: each trace at N and at 2N units, the difference divided by N.
//!
//! `instructions [N]` prints the table; `instructions run NAME N` is what it starts under valgrind.
//! What start-up and the handshakes cost cancels out; the wire and the other host are not collected.
#![forbid(unsafe_code)]

use std::process::{Command, ExitCode};

use ringway_bench::trace::{TRACES, Trace};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["run", name, units] => run(name, units),
        [] => table("2000"),
        [units] => table(units),
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    let names: Vec<&str> = TRACES.iter().map(|trace| trace.name).collect();
    eprintln!("usage: instructions [N] | instructions run {} N", names.join("|"));
    ExitCode::from(2)
}

fn run(name: &str, units: &str) -> ExitCode {
    match (TRACES.iter().find(|trace| trace.name == name), units.parse()) {
        (Some(trace), Ok(units)) => trace.run(units),
        _ => return usage(),
    }
    ExitCode::SUCCESS
}

fn table(units: &str) -> ExitCode {
    let Some(units) = units.parse::<u64>().ok().filter(|units| *units > 0) else { return usage() };
    println!("instructions in the server's stack and application, per unit (N = {units})");
    for trace in TRACES {
        match difference(trace, units) {
            Ok(count) => println!("{count:>8.0}  {:<16} {}", trace.name, trace.unit),
            Err(error) => {
                eprintln!("{}: {error}", trace.name);
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn difference(trace: &Trace, units: u64) -> Result<f64, String> {
    let once = collected(trace, units)?;
    let twice = collected(trace, 2 * units)?;
    let more = twice.checked_sub(once).filter(|more| *more > 0).ok_or_else(|| format!("{once} at N, {twice} at 2N"))?;
    Ok(more as f64 / units as f64)
}

/// Instructions that callgrind collected inside the measured turns.
fn collected(trace: &Trace, units: u64) -> Result<u64, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*measured_server_turn*"]);
    valgrind.arg(program).args(["run", trace.name, &units.to_string()]);
    let output = valgrind.output().map_err(|error| format!("valgrind cannot be started: {error}"))?;
    let words = String::from_utf8_lossy(&output.stderr);
    let line = words.lines().find_map(|line| line.split_once("Collected :")).filter(|_| output.status.success());
    let count = line.and_then(|(_, count)| count.trim().parse::<u64>().ok());
    count.ok_or_else(|| format!("valgrind ({}) said:\n{words}", output.status))
}
