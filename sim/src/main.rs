//! Runs scenarios from seeds: `ringway-sim [--seed N] [--count N] [--transfer BYTES] [--capture FILE] [--traced]`, or for a
//! time: `ringway-sim --soak 60s [--threads N] [--seed N]`.
//!
//! Without arguments it runs a hundred random scenarios. `--capture` writes the packets of the (last) run's hosts,
//! `--traced` also runs the checker of captures. A soak prints the number of scenarios, their rate, and all failures. Each
//! failure prints the command that replays it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use ringway_shm::Duration;
use ringway_sim::faults::Faults;
use ringway_sim::scenario::Scenario;
use ringway_sim::soak::{Soak, parse_span};

const USAGE: &str =
    "usage: [--seed N] [--count N] [--transfer BYTES] [--capture FILE] [--traced], or --soak TIME [--threads N] [--seed N]";

#[derive(Default)]
struct Arguments {
    seed: Option<u64>,
    count: Option<u64>,
    transfer: Option<u64>,
    capture: Option<String>,
    traced: bool,
    soak: Option<Duration>,
    threads: u64,
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments { threads: 1, ..Arguments::default() };
    while let Some(word) = words.next() {
        let mut text = || words.next().ok_or(format!("{word} needs a value; {USAGE}"));
        let number = |text: String| text.parse::<u64>().map_err(|error| format!("{text}: {error}"));
        match word.as_str() {
            "--seed" => arguments.seed = Some(number(text()?)?),
            "--count" => arguments.count = Some(number(text()?)?),
            "--transfer" => arguments.transfer = Some(number(text()?)?),
            "--capture" => arguments.capture = Some(text()?),
            "--traced" => arguments.traced = true,
            "--soak" => arguments.soak = Some(parse_span(&text()?)?),
            "--threads" => arguments.threads = number(text()?)?.max(1),
            _ => return Err(format!("{word}: unknown; {USAGE}")),
        }
    }
    if arguments.soak.is_some() && (arguments.transfer.is_some() || arguments.capture.is_some() || arguments.traced) {
        return Err(format!("a soak takes no --transfer, --capture or --traced; {USAGE}"));
    }
    Ok(arguments)
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)) {
        Ok(arguments) if arguments.soak.is_some() => soak(&arguments),
        Ok(arguments) => replay(&arguments),
        Err(text) => {
            eprintln!("{text}");
            ExitCode::from(2)
        }
    }
}

/// Runs seeds for a time. The first seed defaults to the machine's time, so that no two soaks are the same.
fn soak(arguments: &Arguments) -> ExitCode {
    let seed = arguments.seed.unwrap_or_else(|| ringway::clock::now().as_micros());
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
