//! A request log to replay: the time of each request and the bytes of its reply.
//!
//! A file has a line `time_ms size` for each request, numbers with or without a fraction, in order of time; empty lines and
//! lines that begin with `#` are skipped. Without a file, a log is generated from a seed: Poisson arrivals, and lognormal
//! sizes with the median and the mean of mTCP's (table 4). Promises: no input causes a panic; an error names its line. Does
//! not do: more than [`ENTRIES_MAX`] requests.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::message::HEADER_BYTES;
use super::order::Pace;
use super::schedule::Schedule;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Time after the beginning of the log.
    pub at: Duration,
    /// Bytes of the reply.
    pub size: u32,
}

/// Source of a log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Source {
    /// Read from this file.
    File(PathBuf),
    /// Generated with this rate of requests per second.
    Rate(u32),
}

/// Largest number of requests in a log.
pub const ENTRIES_MAX: usize = 4_000_000;
/// Longest line, bytes.
const LINE_MAX: u64 = 256;
/// Largest reply, bytes: a larger one takes longer than a round.
const SIZE_MAX: u32 = 16 << 20;
/// Latest time, milliseconds: a day.
const TIME_MAX_MS: f64 = 86_400_000.0;
/// Median and mean of the generated sizes, bytes.
const MEDIAN_BYTES: f64 = 1_700.0;
const MEAN_BYTES: f64 = 40_000.0;
/// Offset between the beginnings of copies, so that no two requests have the same intended time.
const COPY_APART: Duration = Duration::from_micros(997);

impl Source {
    /// The requests of `copies` simultaneous copies within `length`, in order of time.
    ///
    /// # Errors
    /// The file cannot be read or is not a log.
    pub fn entries(&self, copies: u32, length: Duration, seed: u64) -> io::Result<Vec<Entry>> {
        let mut all = Vec::new();
        for copy in 0..copies {
            let mut one = match self {
                Source::File(path) => read(path)?,
                Source::Rate(rate) => made(*rate, length, seed.wrapping_mul(1 << 16).wrapping_add(u64::from(copy))),
            };
            one.iter_mut().for_each(|entry| entry.at += COPY_APART * copy);
            one.retain(|entry| entry.at < length);
            all.append(&mut one);
            if all.len() > ENTRIES_MAX {
                return Err(wrong(format!("{copies} copies have more than {ENTRIES_MAX} requests")));
            }
        }
        all.sort_by_key(|entry| entry.at);
        Ok(all)
    }
}

fn read(path: &Path) -> io::Result<Vec<Entry>> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    parse(BufReader::new(File::open(path).map_err(named)?)).map_err(named)
}

/// Parses a log.
///
/// # Errors
/// A line is not a request; the error contains its number.
pub fn parse(mut text: impl BufRead) -> io::Result<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if io::Read::take(&mut text, LINE_MAX + 1).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.len() as u64 > LINE_MAX {
            return Err(wrong(format!("line {number} has more than {LINE_MAX} bytes")));
        }
        let words = std::str::from_utf8(&line).map_err(|_| wrong(format!("line {number} is no text")))?.trim();
        if words.is_empty() || words.starts_with('#') {
            continue;
        }
        let entry = entry(words).ok_or_else(|| wrong(format!("line {number} is not `time_ms size`: {words:?}")))?;
        if entries.last().is_some_and(|last| last.at > entry.at) {
            return Err(wrong(format!("line {number} is earlier than the one before it")));
        }
        if entries.len() == ENTRIES_MAX {
            return Err(wrong(format!("line {number}: more than {ENTRIES_MAX} requests")));
        }
        entries.push(entry);
    }
    Ok(entries)
}

fn entry(words: &str) -> Option<Entry> {
    let mut numbers = words.split_whitespace().map(str::parse::<f64>);
    let (Some(Ok(at_ms)), Some(Ok(size)), None) = (numbers.next(), numbers.next(), numbers.next()) else { return None };
    if !(0.0..=TIME_MAX_MS).contains(&at_ms) || !(0.0..=f64::from(u32::MAX)).contains(&size) {
        return None;
    }
    Some(Entry { at: Duration::from_nanos((at_ms * 1e6) as u64), size: message_bytes(size) })
}

/// Clamps a size to that of a message: at least the header, at most `SIZE_MAX`.
fn message_bytes(size: f64) -> u32 {
    (size as u32).clamp(HEADER_BYTES as u32, SIZE_MAX)
}

fn made(rate: u32, length: Duration, seed: u64) -> Vec<Entry> {
    let mut times = Schedule::of(Pace::Poisson(f64::from(rate)), seed).expect("Poisson is an open pace");
    let mut normal = Normal(Schedule::of(Pace::Poisson(1.0), !seed).expect("Poisson is an open pace"));
    // A lognormal distribution has the median exp(mu) and the mean exp(mu + sigma² / 2).
    let sigma = (2.0 * (MEAN_BYTES / MEDIAN_BYTES).ln()).sqrt();
    let mut entries = Vec::new();
    while times.next() < length && entries.len() < ENTRIES_MAX {
        let size = MEDIAN_BYTES * (sigma * normal.next()).exp();
        entries.push(Entry { at: times.next(), size: message_bytes(size) });
        times.step();
    }
    entries
}

/// Generates normally distributed numbers from exponential ones (polar form of Box and Muller).
struct Normal(Schedule);

impl Normal {
    fn next(&mut self) -> f64 {
        // The squared radius is exponential with mean 2; exp(-x) of another exponential number is a uniform angle.
        let radius = (2.0 * self.exponential()).sqrt();
        let turn = (-self.exponential()).exp();
        radius * (turn * std::f64::consts::TAU).cos()
    }

    fn exponential(&mut self) -> f64 {
        let before = self.0.next();
        self.0.step();
        (self.0.next() - before).as_secs_f64()
    }
}

fn wrong(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests;
