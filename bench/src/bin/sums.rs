//! Measures the checksum of a segment in nanoseconds, alone and while copying, for each variant of this processor.
//!
//! All data stays in the first-level cache. The rounds of all rows are interleaved and
//! the median is printed, so that other work on the machine affects all rows alike.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::time::Instant;

use clap::Parser;
use ringway_shm::sum::Variant;

const ROUNDS: usize = 101;
const CALLS: u32 = 2_000;

/// A row: its name and one call.
type Row = (String, Box<dyn FnMut(&[u8], &mut [u8])>);

/// Measures the checksum of a segment, alone and while copying, for each variant of this processor.
#[derive(Parser)]
struct Arguments {
    /// Bytes of the segment, 1 MiB at most.
    #[arg(default_value_t = 1_460, value_parser = clap::value_parser!(u32).range(..=1 << 20))]
    bytes: u32,
}

fn main() {
    let bytes = Arguments::parse().bytes as usize;
    let (source, mut target) = (vec![0x5a; bytes], vec![0; bytes]);
    let mut rows = rows();
    let mut times = vec![Vec::with_capacity(ROUNDS); rows.len()];
    for _ in 0..ROUNDS {
        for ((_, call), times) in rows.iter_mut().zip(&mut times) {
            let start = Instant::now();
            for _ in 0..CALLS {
                call(black_box(&source), black_box(&mut target));
            }
            times.push(start.elapsed().as_nanos() as f64 / f64::from(CALLS));
        }
    }
    println!("ns for {bytes} B, median of {ROUNDS} interleaved rounds [least]; used here: {:?}", Variant::chosen());
    for ((name, _), times) in rows.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        println!("{:>8.1} [{:>6.1}]  {name}", times[ROUNDS / 2], times[0]);
    }
}

fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = vec![("copy alone".into(), Box::new(|from, to| to.copy_from_slice(from)))];
    for variant in Variant::ALL.into_iter().filter(|variant| variant.is_available()) {
        let sum = move |from: &[u8], _: &mut [u8]| {
            black_box(variant.sum(from));
        };
        let copy = move |from: &[u8], to: &mut [u8]| {
            black_box(variant.copy(to, from));
        };
        let both = move |from: &[u8], to: &mut [u8]| {
            to.copy_from_slice(from);
            black_box(variant.sum(to));
        };
        rows.push((format!("{variant:?} sum"), Box::new(sum)));
        rows.push((format!("{variant:?} copy and sum in one pass"), Box::new(copy)));
        rows.push((format!("{variant:?} copy, then sum"), Box::new(both)));
    }
    rows
}
