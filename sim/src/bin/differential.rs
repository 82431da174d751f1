//! `differential [--seed N] [--count N] [--link veth|tap] [--family drawn|4|6] [--ringway PATH]`: the same socket calls on Ringway
//! and on this machine's kernel.
//!
//! Needs root and the built `ringway` (by default beside this program). Prints each difference and the command that
//! reproduces it, then `N seeds, N calls, N differ`; the exit status says whether none did.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use ringway_sim::check::Failure;
use ringway_sim::differential::{Family, Link, Step, World, compare};

/// Makes the same socket calls on Ringway and on this machine's kernel, and prints where the answers differ. Needs root.
#[derive(Parser)]
struct Arguments {
    /// First seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of seeds.
    #[arg(long, default_value_t = 1)]
    count: u64,
    /// Wire between the two hosts.
    #[arg(long, value_enum, default_value_t = Link::Veth)]
    link: Link,
    /// Family of the sockets; `drawn`: the seed decides.
    #[arg(long, value_enum, default_value_t = Family::Drawn)]
    family: Family,
    /// The `ringway` program; by default the one beside this program.
    #[arg(long, value_name = "PATH")]
    ringway: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
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
    let beside = || std::env::current_exe().map_or("ringway".into(), |path| path.with_file_name("ringway"));
    let ringway = arguments.ringway.clone().unwrap_or_else(beside);
    let mut world = World::new(&ringway.display().to_string(), arguments.link)?;
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
