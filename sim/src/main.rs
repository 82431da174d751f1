//! Runs scenarios from seeds: `ringway-sim [--seed N] [--count N] [--transfer BYTES] [--capture FILE]`.
//!
//! Without arguments it runs a hundred random scenarios. `--capture` writes what the (last) run's hosts sent. A failure prints the command that replays it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use ringway_sim::faults::Faults;
use ringway_sim::scenario::Scenario;

struct Arguments {
    seed: u64,
    count: u64,
    transfer: Option<u64>,
    capture: Option<String>,
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments { seed: 1, count: 0, transfer: None, capture: None };
    while let Some(word) = words.next() {
        if word == "--capture" {
            arguments.capture = Some(words.next().ok_or("--capture needs a file")?);
            continue;
        }
        let mut number = || {
            let text = words.next().ok_or(format!("{word} needs a number"))?;
            text.parse::<u64>().map_err(|error| format!("{word} {text}: {error}"))
        };
        match word.as_str() {
            "--seed" => arguments.seed = number()?,
            "--count" => arguments.count = number()?,
            "--transfer" => arguments.transfer = Some(number()?),
            _ => return Err(format!("{word}: unknown; usage: [--seed N] [--count N] [--transfer BYTES] [--capture FILE]")),
        }
        if word == "--seed" && arguments.count == 0 {
            arguments.count = 1;
        }
    }
    if arguments.count == 0 {
        arguments.count = 100;
    }
    Ok(arguments)
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    for seed in arguments.seed..arguments.seed + arguments.count {
        let scenario = match arguments.transfer {
            Some(bytes) => Scenario::transfer(seed, bytes, Faults::bad_wire()),
            None => Scenario::random(seed),
        };
        let result = match &arguments.capture {
            Some(file) => scenario.run_captured(file),
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
