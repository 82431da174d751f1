//! Measures bulk over the shared-memory link: one connection, two threads, one core each; Gbit/s of payload.
//!
//! Rounds last a quarter of a second and the rows' rounds
//! are interleaved; the median and the best round are printed. The sender copies bytes into frames, the receiver copies
//! them out of frames, each through a buffer of 64 KiB. Each end is a stack, a link and a loop that polls without
//! sleeping; with fewer than two free cores the numbers mean little.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use clap::Parser;
use ringway_bench::bulk_link::{End, LinkRow, ROWS};
use ringway_device::memory::link::CAPACITY;
use ringway_shm::wire::wire;

/// A row's two threads; they park between its rounds.
struct Running {
    name: &'static str,
    shared: Arc<Shared>,
    threads: Vec<thread::JoinHandle<()>>,
    rates: Vec<f64>,
}

/// State shared by the threads of a row.
struct Shared {
    active: AtomicBool,
    stop: AtomicBool,
    received: AtomicU64,
    packets: AtomicU64,
}

const ROUND: std::time::Duration = std::time::Duration::from_millis(250);

/// Measures bulk over the shared-memory link, in Gbit/s of payload.
#[derive(Parser)]
struct Arguments {
    /// Seconds per row.
    #[arg(default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// The only row to measure, counted from 0; without it, all rows.
    #[arg(value_parser = row)]
    row: Option<&'static LinkRow>,
}

fn row(text: &str) -> Result<&'static LinkRow, String> {
    let row = text.parse().ok().and_then(|row: usize| ROWS.get(row));
    row.ok_or_else(|| format!("expected a row from 0 to {}", ROWS.len() - 1))
}

fn main() {
    let Arguments { seconds, row } = Arguments::parse();
    let rows = row.map_or(ROWS, std::slice::from_ref);
    let mut rows: Vec<Running> = rows.iter().map(start).collect();
    for _ in 0..seconds * 4 {
        for row in &mut rows {
            row.round();
        }
    }
    println!("Gbit/s of payload, one connection, median of {} interleaved rounds [best]", seconds * 4);
    for row in rows {
        row.finish();
    }
}

fn start(row: &'static LinkRow) -> Running {
    let (near, far) = wire(CAPACITY).expect("memory for the rings");
    let shared = Arc::new(Shared {
        active: AtomicBool::new(false),
        stop: AtomicBool::new(false),
        received: AtomicU64::new(0),
        packets: AtomicU64::new(0),
    });
    let ready = Arc::new(Barrier::new(3));
    let threads = [(near, true), (far, false)].into_iter().map(|(wire, sends)| {
        let (shared, ready) = (shared.clone(), ready.clone());
        thread::spawn(move || {
            pin(if sends { 0 } else { 1 });
            let mut end = End::new(wire, row, sends);
            ready.wait();
            run(&mut end, &shared, sends);
            if sends {
                println!("{}: {}", row.name, end.describe());
            }
        })
    });
    let threads = threads.collect();
    ready.wait();
    Running { name: row.name, shared, threads, rates: Vec::new() }
}

fn run(end: &mut End, shared: &Shared, sends: bool) {
    while !shared.stop.load(Ordering::Relaxed) {
        if !shared.active.load(Ordering::Relaxed) {
            thread::park();
            continue;
        }
        for _ in 0..64 {
            end.turn();
        }
        if !sends {
            shared.received.store(end.received, Ordering::Relaxed);
            shared.packets.store(end.packets(), Ordering::Relaxed);
        }
    }
}

/// Pins the calling thread, so that each end has its own processor; continues unpinned on an error.
fn pin(cpu: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        eprintln!("link: not pinned: {error}");
    }
}

impl Running {
    fn round(&mut self) {
        self.shared.active.store(true, Ordering::Relaxed);
        self.threads.iter().for_each(|thread| thread.thread().unpark());
        // Time for the windows to fill again.
        thread::sleep(ROUND / 10);
        let (start, before) = (std::time::Instant::now(), self.shared.received.load(Ordering::Relaxed));
        thread::sleep(ROUND);
        let bytes = self.shared.received.load(Ordering::Relaxed) - before;
        self.rates.push(bytes as f64 * 8e-9 / start.elapsed().as_secs_f64());
        self.shared.active.store(false, Ordering::Relaxed);
        thread::sleep(ROUND / 50);
    }

    fn finish(mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.thread().unpark();
            thread.join().expect("the thread has not failed");
        }
        self.rates.sort_by(f64::total_cmp);
        let (bytes, packets) = (self.shared.received.load(Ordering::Relaxed), self.shared.packets.load(Ordering::Relaxed));
        let median = self.rates[self.rates.len() / 2];
        let best = self.rates[self.rates.len() - 1];
        println!("{median:>8.2} [{best:>6.2}]  {}; {} B per packet", self.name, bytes / packets.max(1));
    }
}
