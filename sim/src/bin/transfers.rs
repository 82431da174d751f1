//! `transfers [--seed N] [--count N] [--bytes N] [--mbit N] [--rtt-ms N] [--loss-ppm N] [--queue-packets N] [--control NAME]
//! [--send-buffer N]`: one transfer for each seed over a long path in virtual time.
//!
//! Prints the rate of each and its longest time without progress, which shows a stall that a mean hides; then the number
//! that stood still for longer than 150 ms (a retransmission timeout is at least 200 ms), the number below half of the
//! path's rate, and the median rate. Unless given, the path's queue holds its bandwidth-delay product.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Parser, value_parser};
use ringway_shm::Duration;
use ringway_sim::check::Failure;
use ringway_sim::faults::Faults;
use ringway_sim::scenario::Scenario;
use ringway_stack::CongestionControl;

/// Bytes of a packet with its link header.
const PACKET_BYTES: u64 = 1514;
/// Enough frames not to limit the receiver's window.
const FRAMES: u32 = 65_536;
/// Maximum virtual time of one transfer, milliseconds.
const PATIENCE_MS: u64 = 600_000;
/// Milliseconds without progress that count as a stall.
const STALL_MS: u64 = 150;

/// Runs one transfer for each seed over a long path in virtual time, and prints rates and stalls.
#[derive(Parser)]
struct Arguments {
    /// First seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of seeds.
    #[arg(long, default_value_t = 10, value_parser = value_parser!(u64).range(..=1_000_000))]
    count: u64,
    /// Bytes of one transfer.
    #[arg(long, default_value_t = 256 << 20, value_parser = value_parser!(u64).range(1..=1 << 40))]
    bytes: u64,
    /// Rate of the path, Mbit/s.
    #[arg(long, default_value_t = 1_000, value_parser = value_parser!(u64).range(1..=100_000))]
    mbit: u64,
    /// Round-trip time, milliseconds.
    #[arg(long, default_value_t = 20, value_parser = value_parser!(u64).range(..=10_000))]
    rtt_ms: u64,
    /// Lost packets of a million.
    #[arg(long, default_value_t = 10_000, value_parser = value_parser!(u32).range(..=500_000))]
    loss_ppm: u32,
    /// Packets that the path's queue holds; by default its bandwidth-delay product.
    #[arg(long, value_parser = value_parser!(u64).range(..=1_000_000))]
    queue_packets: Option<u64>,
    /// Congestion control.
    #[arg(long, default_value = "bbr", value_parser = controls())]
    control: CongestionControl,
    /// Largest send buffer, bytes; by default the stack's.
    #[arg(long, value_parser = value_parser!(u32).range(..=1 << 30))]
    send_buffer: Option<u32>,
}

/// Returns the parser of a congestion control's name.
fn controls() -> impl TypedValueParser<Value = CongestionControl> {
    PossibleValuesParser::new(CongestionControl::ALL.map(CongestionControl::name)).try_map(|text| {
        CongestionControl::ALL.into_iter().find(|control| control.name() == text).ok_or("unknown congestion control")
    })
}

/// Result of one transfer.
struct Outcome {
    mbit: u64,
    longest_ms: u64,
    longest_at_ms: u64,
}

/// Makes the transfer of `seed`.
fn scenario(arguments: &Arguments, seed: u64) -> Scenario {
    let product = arguments.mbit * 125 * arguments.rtt_ms / PACKET_BYTES;
    let queue = arguments.queue_packets.unwrap_or(product.max(100));
    let mut faults = Faults::none(Duration::from_micros(arguments.rtt_ms * 500));
    faults.wire.loss_ppm = arguments.loss_ppm;
    faults.wire.rate_bits = arguments.mbit * 1_000_000;
    faults.wire.rate_queue_bytes = queue * PACKET_BYTES;
    faults.wire.packets_max = 2 * (product + queue) as usize + 8_192;
    let mut scenario = Scenario::transfer(seed, arguments.bytes, faults);
    scenario.frames = FRAMES;
    scenario.options.congestion_control = arguments.control;
    if let Some(bytes) = arguments.send_buffer {
        scenario.configs[0].tcp.send_buffer_bytes = bytes;
    }
    scenario
}

fn run(arguments: &Arguments, seed: u64) -> Result<Outcome, Failure> {
    let mut network = scenario(arguments, seed).network();
    let (mut received, mut since, mut outcome) = (0, 0, Outcome { mbit: 0, longest_ms: 0, longest_at_ms: 0 });
    for now in 1..=PATIENCE_MS {
        network.run_for(Duration::from_millis(1))?;
        let total = network.hosts[1].application.received_bytes();
        if total == received {
            continue;
        }
        if now - since > outcome.longest_ms {
            (outcome.longest_ms, outcome.longest_at_ms) = (now - since, since);
        }
        (received, since) = (total, now);
        if received == arguments.bytes {
            outcome.mbit = received * 8 / now / 1_000;
            return Ok(outcome);
        }
    }
    Err(Failure(format!("{received} bytes in {PATIENCE_MS} ms")))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let (mut rates, mut stalls) = (Vec::new(), 0);
    for seed in arguments.seed..arguments.seed.saturating_add(arguments.count) {
        match run(&arguments, seed) {
            Ok(Outcome { mbit, longest_ms, longest_at_ms }) => {
                println!("seed {seed}: {mbit} Mbit/s, {longest_ms} ms without progress at {longest_at_ms} ms");
                rates.push(mbit);
                stalls += u64::from(longest_ms > STALL_MS);
            }
            Err(failure) => {
                eprintln!("seed {seed}: {failure}");
                return ExitCode::FAILURE;
            }
        }
    }
    rates.sort_unstable();
    let slow = rates.iter().filter(|&&rate| rate * 2 < arguments.mbit).count();
    let median = rates.get(rates.len() / 2).copied().unwrap_or(0);
    println!(
        "{} transfers, {stalls} stood still for more than {STALL_MS} ms, {slow} below half of the path's rate, median {median} Mbit/s",
        rates.len()
    );
    ExitCode::SUCCESS
}
