//! `differential [--seed N] [--count N] [--link veth|tap] [--family drawn|4|6] [--ringway PATH]`: the same socket calls on Ringway
//! and on this machine's kernel.
//!
//! Needs root and the built `ringway` (by default beside this program). Prints each difference and the command that
//! reproduces it, then `N seeds, N calls, N differ`; the exit status says whether none did.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use ringway_sim::check::Failure;
use ringway_sim::differential::{Family, Link, Step, World, compare};

struct Arguments {
    seed: u64,
    count: u64,
    link: Link,
    family: Family,
    ringway: String,
}

const USAGE: &str = "usage: [--seed N] [--count N] [--link veth|tap] [--family drawn|4|6] [--ringway PATH]";

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let beside = std::env::current_exe().ok().map(|path| path.with_file_name("ringway").display().to_string());
    let ringway = beside.unwrap_or_else(|| "ringway".into());
    let mut arguments = Arguments { seed: 1, count: 1, link: Link::Veth, family: Family::Drawn, ringway };
    while let Some(word) = words.next() {
        let text = words.next().ok_or(format!("{word} needs a value"))?;
        let number = || text.parse::<u64>().map_err(|error| format!("{word} {text}: {error}"));
        match word.as_str() {
            "--seed" => arguments.seed = number()?,
            "--count" => arguments.count = number()?,
            "--link" => arguments.link = link(&text)?,
            "--family" => arguments.family = family(&text)?,
            "--ringway" => arguments.ringway = text,
            _ => return Err(format!("{word}: unknown; {USAGE}")),
        }
    }
    Ok(arguments)
}

fn link(text: &str) -> Result<Link, String> {
    match text {
        "veth" => Ok(Link::Veth),
        "tap" => Ok(Link::Tap),
        _ => Err(format!("--link: expected veth or tap, got {text}")),
    }
}

fn family(text: &str) -> Result<Family, String> {
    match text {
        "drawn" => Ok(Family::Drawn),
        "4" => Ok(Family::Ipv4),
        "6" => Ok(Family::Ipv6),
        _ => Err(format!("--family {text}: drawn, 4 or 6")),
    }
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    match run(&arguments) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::from(2)
        }
    }
}

/// Runs all seeds; returns the number of seeds that differ.
fn run(arguments: &Arguments) -> Result<u64, Failure> {
    let mut world = World::new(&arguments.ringway, arguments.link)?;
    let (mut calls, mut differ) = (0, 0);
    for seed in arguments.seed..arguments.seed.saturating_add(arguments.count) {
        let compared = compare(&mut world, seed, arguments.family)?;
        calls += compared.steps.len();
        if !compared.differences.is_empty() {
            differ += 1;
            for difference in &compared.differences {
                println!("seed {seed} {difference}");
            }
            let first = compared.differences.iter().map(|difference| difference.at).min().unwrap_or(0);
            let before: Vec<String> = compared.steps[..first].iter().map(Step::to_string).collect();
            println!("seed {seed} preceding calls: {}", before.join("; "));
            let link = if arguments.link == Link::Tap { " --link tap" } else { "" };
            let family = match arguments.family {
                Family::Drawn => "",
                Family::Ipv4 => " --family 4",
                Family::Ipv6 => " --family 6",
            };
            println!("reproduce: cargo run -p ringway-sim --bin differential -- --seed {seed}{link}{family}");
        }
    }
    println!("{} seeds, {calls} calls, {differ} differ", arguments.count);
    Ok(differ)
}
