//! Runs scenarios from seeds: `ringway-sim [--seed N] [--count N] [--transfer BYTES] [--capture FILE] [--traced]`, or for a
//! time: `ringway-sim --soak 60s [--threads N] [--seed N]`.
//!
//! Without arguments it runs a hundred random scenarios. `--capture` writes the packets of the (last) run's hosts,
//! `--traced` also runs the checker of captures. A soak prints the number of scenarios, their rate, and all failures. Each
//! failure prints the command that replays it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, value_parser};
use ringway_shm::Duration;
use ringway_sim::faults::Faults;
use ringway_sim::scenario::Scenario;
use ringway_sim::soak::{Soak, parse_span};

/// Runs scenarios of the simulation from seeds.
#[derive(Parser)]
struct Arguments {
    /// First seed; by default 1, and for a soak the time.
    #[arg(long)]
    seed: Option<u64>,
    /// Number of seeds; by default 1 if a seed is given, else 100, and for a soak as many as its time allows.
    #[arg(long)]
    count: Option<u64>,
    /// One transfer of that many bytes over a bad wire, instead of a random scenario.
    #[arg(long, value_name = "BYTES")]
    transfer: Option<u64>,
    /// Writes the packets of the last run's hosts into a file.
    #[arg(long, value_name = "FILE")]
    capture: Option<String>,
    /// Also runs the checker of captures.
    #[arg(long)]
    traced: bool,
    /// Runs random scenarios for a time such as 60s or 10m.
    #[arg(long, value_name = "TIME", value_parser = parse_span, conflicts_with_all = ["transfer", "capture", "traced"])]
    soak: Option<Duration>,
    /// Number of threads of a soak.
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u64).range(1..))]
    threads: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.soak.is_some() { soak(&arguments) } else { replay(&arguments) }
}

/// Runs seeds for a time. The first seed defaults to the machine's time, so that no two soaks are the same.
fn soak(arguments: &Arguments) -> ExitCode {
    let seed = arguments.seed.unwrap_or_else(|| ringway_engine::clock::now().as_micros());
    let (count, threads) = (arguments.count.unwrap_or(u64::MAX), arguments.threads as usize);
    println!("soaking from seed {seed} on {threads} threads");
    let totals = Soak { seed, count, span: arguments.soak, threads }.run(&|seed, failure| {
        let what = failure.0.lines().next().unwrap_or_default();
        println!("seed {seed}: {what}\nreplay: cargo run -p ringway-sim -- --seed {seed}");
    });
    println!(
        "{} scenarios in {:.1} s, {:.1} a second, {} bytes compared, {} segments checked, {} ends given up by their peers, {} failed",
        totals.runs,
        totals.millis as f64 / 1_000.0,
        totals.rate(),
        totals.received_bytes,
        totals.segments,
        totals.given_up,
        totals.failed
    );
    if totals.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the requested seeds, up to the first that fails, and prints a line for each.
fn replay(arguments: &Arguments) -> ExitCode {
    let seed = arguments.seed.unwrap_or(1);
    let count = arguments.count.unwrap_or(if arguments.seed.is_some() { 1 } else { 100 });
    for seed in seed..seed.saturating_add(count) {
        let scenario = match arguments.transfer {
            Some(bytes) => Scenario::transfer(seed, bytes, Faults::bad_wire()),
            None => Scenario::random(seed),
        };
        let result = match &arguments.capture {
            Some(file) => scenario.run_captured(file),
            None if arguments.traced => scenario.run_traced(),
            None => scenario.run(),
        };
        match result {
            Ok(report) => println!("seed {seed}: {report:?}"),
            Err(failure) => {
                let transfer = arguments.transfer.map_or(String::new(), |bytes| format!(" --transfer {bytes}"));
                println!("seed {seed}: {failure}\n{scenario:#?}\nreplay: cargo run -p ringway-sim -- --seed {seed}{transfer}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
