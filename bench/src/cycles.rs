//! `ringway bench cycles`: CPU time in the eight classes of the host-overheads paper, by target.
//!
//! Runs a scenario under `perf record -e cpu-clock -g` on all cores and counts the samples of its roles
//! and their descendants. Promises: the share that the symbol table does not name is printed. Does not do:
//! separate inlined functions, which count as the function that contains them. While interrupts are off,
//! a sample is delayed until they are on again.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, ValueEnum};

mod classes;
mod perf;
mod sample_counts;
mod script;
mod table;

use crate::options::Options;
use crate::scenario::apps::is_installed;
use crate::target::{Target, WireKind};
use classes::Table;
use perf::Recording;
use sample_counts::SampleCounts;

/// Arguments of `ringway bench cycles`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Link between client and server
    #[arg(long, value_enum, default_value_t = WireKind::Veth)]
    wire: WireKind,
    /// Servers to measure
    #[arg(long, value_enum, value_delimiter = ',', value_name = "TARGET,…", default_values_t = [Target::Linux, Target::Preload])]
    target: Vec<Target>,
    /// Load to run
    #[arg(long, value_enum, value_delimiter = ',', value_name = "SCENARIO,…", default_values_t = [Load::Bulk, Load::Conns])]
    scenario: Vec<Load>,
    /// Seconds per point of the scenario
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    /// Print one JSON object per class, core and target
    #[arg(short, long)]
    json: bool,
    /// Print no progress on standard error
    #[arg(short, long)]
    quiet: bool,
    /// Also list the N most frequent innermost functions with their classes
    #[arg(long, default_value_t = 0, value_name = "N")]
    functions: usize,
}

/// The load that runs under perf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Load {
    /// Replies of 2 MiB on one connection
    Bulk,
    /// 64 connections with small requests
    Conns,
}

impl Load {
    fn name(self) -> &'static str {
        match self {
            Load::Bulk => "bulk",
            Load::Conns => "conns",
        }
    }

    fn options(self) -> &'static [&'static str] {
        match self {
            Load::Bulk => &["--size", "2M"],
            Load::Conns => &["--connections", "64"],
        }
    }
}

/// Result of one target.
#[derive(Debug)]
struct Seen {
    target: Target,
    counts: SampleCounts,
}

/// Breaks down the CPU time of large replies after their measurement; does nothing without perf.
pub fn of_bulk(targets: &[Target], options: &Options) -> ExitCode {
    if !is_installed("perf") {
        eprintln!("ringway bench cycles: perf is not installed: no breakdown of CPU time");
        return ExitCode::SUCCESS;
    }
    run(&Arguments {
        wire: WireKind::Veth,
        target: targets.to_vec(),
        scenario: vec![Load::Bulk],
        seconds: options.seconds.map_or(4, |seconds| seconds.ceil().clamp(1.0, 60.0) as u32),
        json: options.json,
        functions: 0,
        quiet: options.quiet,
    })
}

/// Records and prints; fails when perf or the scenario fails.
pub fn run(arguments: &Arguments) -> ExitCode {
    match show(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ringway bench cycles: {error}");
            ExitCode::FAILURE
        }
    }
}

fn show(arguments: &Arguments) -> io::Result<()> {
    let symbols = Table::load();
    for load in &arguments.scenario {
        let mut all = Vec::new();
        for target in &arguments.target {
            if !arguments.quiet {
                eprintln!("ringway bench cycles: {} on {}", load.name(), target.name());
            }
            all.push(Seen { target: *target, counts: record(arguments, *load, *target, &symbols)? });
        }
        let text =
            if arguments.json { table::rows(*load, arguments.wire, &all) } else { table::text(*load, arguments.wire, &all) };
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        for seen in &all {
            let busy = seen.counts.whole().busy() as f64;
            for (class, name, count) in seen.counts.functions(arguments.functions) {
                let share = 100.0 * count as f64 / busy;
                writeln!(io::stderr(), "{} on {}: {share:>5.1} %  {class:<18} {name}", load.name(), seen.target.name())?;
            }
        }
    }
    Ok(())
}

fn record(arguments: &Arguments, load: Load, target: Target, symbols: &Table) -> io::Result<SampleCounts> {
    let program = std::env::current_exe()?.to_string_lossy().into_owned();
    let seconds = arguments.seconds.to_string();
    let (wire, target) = (arguments.wire.name(), target.name());
    let fixed =
        ["bench", load.name(), "--wire", &wire, "--target", &target, "--rounds", "1", "--seconds", &seconds, "--json", "--quiet"];
    let words = fixed.iter().chain(load.options()).map(|word| word.to_string());
    let recording = Recording::of(&std::iter::once(program).chain(words).collect::<Vec<_>>())?;
    if recording.output.trim().is_empty() {
        return Err(io::Error::other(format!("{} on {target} printed no row", load.name())));
    }
    let mut counts = SampleCounts::new(recording.recorder);
    recording.read(&mut |event| counts.take(event, symbols))?;
    if counts.whole().busy() == 0 {
        return Err(io::Error::other("perf saw no sample of the measured processes"));
    }
    Ok(counts)
}
