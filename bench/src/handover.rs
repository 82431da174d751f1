//! `ringway bench handover`: what it takes until the kernel goes on with connections of a program under `ringway run`, and what their
//! peers notice.
//!
//! ```text
//!   one       idle connections, one by one: from the wish until the kernel has it
//!   many      idle connections at once: the same of the last one
//!   in use    a message each millisecond, whether or not replies arrive: the longest round trip, with a handover in its midst and without
//! ```
//! Promises: an error where a connection stays in the stack; rounds with and without a handover take turns. Does not do: rows for the
//! report, and judging disturbances: the machine must be at rest.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use clap::Args;
use ringway_channel::attach::want_sockets;

use crate::bed::{Bed, Ends, Setup};
use crate::load::latency::Latencies;
use crate::load::order::{Pace, Plan};
use crate::measure::machine;
use crate::options::Options;
use crate::scenario::closed;
use crate::target::Target;
use crate::wire::veth::remove_on_signal;

/// Arguments of `ringway bench handover`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Connections that go to the kernel at once
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=28_000))]
    connections: u32,
    /// Handovers of single connections, and rounds with and without a handover
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
}

/// Bytes of a message, and of its reply.
const MESSAGE: u32 = 64;
/// Messages per second of the connection in use.
const RATE: f64 = 1000.0;
const WARMUP: Duration = Duration::from_millis(50);
/// Length of a round; the handover is wanted in its midst.
const ROUND: Duration = Duration::from_millis(200);
/// The kernel's counter is looked at so often.
const LOOK: Duration = Duration::from_micros(20);
/// Time until a program has accepted what its clients have opened: for one, and for each.
const SETTLES: Duration = Duration::from_millis(20);
const ACCEPTS: Duration = Duration::from_micros(100);
/// Time limit for all connections to go.
const PATIENCE: Duration = Duration::from_secs(60);

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    match remove_on_signal().and_then(|()| measure(arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ringway bench handover: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &Arguments) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Err(io::Error::other("making network interfaces needs root"));
    }
    let mut bed = Bed::start(Target::Preload, &Options::parse(&["--quiet"]), &Setup::default(), arguments.connections)?;
    let mut out = io::stdout();
    writeln!(out, "{}, Linux {}, commit {}", machine::processor(), machine::kernel(), machine::commit())?;
    let one = one_by_one(&mut bed, arguments.rounds)?;
    writeln!(out, "{:<44}{}", "one idle connection", quantiles(&one))?;
    let count = arguments.connections;
    bed.prepare(&closed(count, MESSAGE, MESSAGE, 1))?;
    let taken = hand_over(&bed, count)?;
    let per_second = f64::from(count) / taken.as_secs_f64();
    writeln!(out, "{:<44}{:.0} ms, {per_second:.0} per second", format!("{count} idle connections"), taken.as_secs_f64() * 1e3)?;
    let [with, without] = in_use(&mut bed, arguments.rounds)?;
    writeln!(out, "{:<44}{}", "longest round trip, with a handover", quantiles(&with))?;
    writeln!(out, "{:<44}{}", "longest round trip, without", quantiles(&without))?;
    Ok(())
}

/// The times of single handovers.
fn one_by_one(bed: &mut Bed, rounds: u32) -> io::Result<Latencies> {
    let mut times = Latencies::default();
    for _ in 0..rounds {
        bed.prepare(&closed(1, MESSAGE, MESSAGE, 1))?;
        times.add(hand_over(bed, 1)?);
    }
    Ok(times)
}

/// The longest round trips of rounds with a handover, and of those without.
fn in_use(bed: &mut Bed, rounds: u32) -> io::Result<[Latencies; 2]> {
    let plan = Plan { pace: Pace::Fixed(RATE), ..closed(1, MESSAGE, MESSAGE, 1) };
    let mut longest = [Latencies::default(), Latencies::default()];
    for round in 0..rounds {
        for (is_without, longest) in longest.iter_mut().enumerate() {
            bed.prepare(&plan)?;
            let doors = bed.doors();
            let outcome = scope(|threads| {
                let wish = threads.spawn(|| {
                    sleep(WARMUP + ROUND / 2);
                    doors.iter().filter(|_| is_without == 0).try_for_each(|door| want(door).map(drop))
                });
                let sample = bed.run(WARMUP, ROUND, round.into());
                wish.join().map_err(|_| io::Error::other("the thread that wishes a handover has panicked"))?.and(sample)
            })?;
            wait_at_kernel(bed, u32::from(is_without == 0))?;
            longest.add(Duration::from_nanos((outcome.outcome.max_us * 1e3) as u64));
        }
    }
    Ok(longest)
}

/// Hands over all connections, of which there are `count`; returns the time that it took.
fn hand_over(bed: &Bed, count: u32) -> io::Result<Duration> {
    // The program accepts them meanwhile; the count below says whether it has.
    sleep(SETTLES + ACCEPTS * count);
    wait_at_kernel(bed, 0)?;
    let doors = bed.doors();
    let start = Instant::now();
    let asked = doors.iter().map(|door| want(door)).sum::<io::Result<u64>>()?;
    if asked != u64::from(count) {
        return Err(io::Error::other(format!("the service has {asked} of {count} connections")));
    }
    wait_at_kernel(bed, count)?;
    Ok(start.elapsed())
}

/// Waits until the kernel has `count` connections.
fn wait_at_kernel(bed: &Bed, count: u32) -> io::Result<()> {
    let start = Instant::now();
    loop {
        let there = bed.kernel_connections()?;
        if there == u64::from(count) {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            return Err(io::Error::other(format!("the kernel has {there} connections, not {count}")));
        }
        sleep(LOOK);
    }
}

fn want(door: &Path) -> io::Result<u64> {
    want_sockets(door, "all").map(u64::from).map_err(|error| io::Error::other(error.to_string()))
}

fn quantiles(times: &Latencies) -> String {
    format!("p50 {:.0} us, p99 {:.0} us", times.percentile_us(50.0), times.percentile_us(99.0))
}
