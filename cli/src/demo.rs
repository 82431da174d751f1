//! `ringway demo`: the same unmodified nginx on Ringway and on the kernel, side by side.
//!
//! Each stack has its own veth pair between two namespaces, so that neither stack pays for the
//! other. The load comes from the kernel's stack on the other side; rounds alternate and the medians
//! are shown. Promises: every byte fetched is compared, the kernel's TCP counters prove which stack
//! carried them, and everything created is removed, also after Ctrl-C.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

mod load;
mod server;

use load::Figures;
use ringway_bench::wire::veth::{Side, Wire, remove_on_signal};
use server::{Server, Stack};

/// Arguments of `ringway demo`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Print one JSON object
    #[arg(short, long)]
    json: bool,
    /// Number of rounds on each stack; the medians are shown
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Seconds of load per round
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Number of connections of the load generator
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1000))]
    connections: u32,
}

/// Result of the demo.
#[derive(Debug)]
struct Outcome {
    program: &'static str,
    ringway: Figures,
    kernel: Figures,
    bytes_ok: bool,
    kernel_segments: u64,
    first_byte: Duration,
}

/// Runs the demo; fails when a byte was wrong or the kernel's TCP received a segment.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let outcome = match compare(arguments) {
        Ok(outcome) => outcome,
        Err(error) => {
            eprintln!("ringway demo: {error}");
            return ExitCode::FAILURE;
        }
    };
    let text = if arguments.json { as_json(&outcome) } else { as_table(&outcome) };
    let written = io::stdout().write_all(text.as_bytes());
    if written.is_ok() && outcome.bytes_ok && outcome.kernel_segments == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn compare(arguments: &Arguments) -> io::Result<Outcome> {
    let start = Instant::now();
    let say = |words: &str| {
        if !arguments.json {
            eprintln!("ringway demo: {words}");
        }
    };
    remove_on_signal()?;
    let (our_wire, kernel_wire) = (Wire::new()?, Wire::new()?);
    say(&format!(
        "veth pairs between namespaces {} and {}, and {} and {}",
        our_wire.namespace(Side::Server),
        our_wire.namespace(Side::Client),
        kernel_wire.namespace(Side::Server),
        kernel_wire.namespace(Side::Client)
    ));
    let ours = Server::start(&our_wire, Stack::Ringway)?;
    if let Some(banner) = ours.banner() {
        say(&banner);
    }
    let before = our_wire.kernel_counter(Side::Server, "Tcp", "InSegs")?;
    let mut bytes_ok = ours.fetch_small()?;
    let first_byte = start.elapsed();
    say(&format!("first byte after {:.2} s", first_byte.as_secs_f64()));
    bytes_ok &= ours.fetch_large()?;
    let kernel = Server::start(&kernel_wire, Stack::Kernel)?;
    bytes_ok &= kernel.fetch_small()? && kernel.fetch_large()?;
    let (mut our_rounds, mut kernel_rounds) = (Vec::new(), Vec::new());
    for round in 1..=arguments.rounds {
        say(&format!(
            "round {round} of {}: {} s of wrk with {} connections on each stack",
            arguments.rounds, arguments.seconds, arguments.connections
        ));
        our_rounds.push(load::measure(&ours, arguments.seconds, arguments.connections)?);
        kernel_rounds.push(load::measure(&kernel, arguments.seconds, arguments.connections)?);
    }
    bytes_ok &= ours.fetch_large()?;
    let kernel_segments = our_wire.kernel_counter(Side::Server, "Tcp", "InSegs")? - before;
    let (ringway, other) = (load::median(&our_rounds), load::median(&kernel_rounds));
    Ok(Outcome { program: ours.program(), ringway, kernel: other, bytes_ok, kernel_segments, first_byte })
}

fn as_json(outcome: &Outcome) -> String {
    let figures = |figures: &Figures| {
        json!({
            "requests_per_s": figures.requests_per_s.round(),
            "p50_us": figures.p50_us,
            "p99_us": figures.p99_us,
            "cpu_s_per_million": (figures.cpu_s_per_million * 1000.0).round() / 1000.0,
        })
    };
    let whole = json!({
        "ringway": figures(&outcome.ringway),
        "kernel": figures(&outcome.kernel),
        "bytes_ok": outcome.bytes_ok,
        "kernel_tcp_untouched": outcome.kernel_segments == 0,
        "first_byte_s": (outcome.first_byte.as_secs_f64() * 1000.0).round() / 1000.0,
    });
    format!("{whole}\n")
}

fn as_table(outcome: &Outcome) -> String {
    let (ours, kernel) = (&outcome.ringway, &outcome.kernel);
    let mut text = format!("\n{:<34}{:>12}{:>12}{:>10}\n", outcome.program, "ringway", "kernel", "ratio");
    for (name, ours, kernel, digits) in [
        ("requests per second", ours.requests_per_s, kernel.requests_per_s, 0),
        ("latency p50, us", ours.p50_us, kernel.p50_us, 0),
        ("latency p99, us", ours.p99_us, kernel.p99_us, 0),
        ("CPU seconds per million requests", ours.cpu_s_per_million, kernel.cpu_s_per_million, 2),
    ] {
        text.push_str(&format!("{name:<34}{ours:>12.digits$}{kernel:>12.digits$}{:>9.2}x\n", ours / kernel));
    }
    let bytes = if outcome.bytes_ok { "all fetched bytes were correct" } else { "FETCHED BYTES WERE WRONG" };
    let carried = match outcome.kernel_segments {
        0 => "the kernel's TCP in Ringway's namespace received no segment".to_string(),
        segments => format!("THE KERNEL'S TCP RECEIVED {segments} SEGMENTS"),
    };
    text.push_str(&format!("\n{bytes}; {carried}; first byte after {:.2} s\n", outcome.first_byte.as_secs_f64()));
    text
}

#[cfg(test)]
mod tests;
