//! A log of requests that is replayed: when each began and how many bytes its reply had.
//!
//! As a file: a line `time_ms size` for each request, numbers with or without a fraction, in order of time; empty lines and
//! lines that begin with `#` are passed over. Without a file a log is made from a seed: Poisson arrivals, and sizes with the
//! median and the mean of mTCP's (table 4), lognormal. Promises: no input makes it panic; what is wrong is said with its line.
//! Does not do: keeping more than [`ENTRIES_MAX`] requests.

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
    /// After the beginning of the log.
    pub at: Duration,
    /// Bytes of the reply.
    pub size: u32,
}

/// Where a log comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Source {
    /// This file.
    File(PathBuf),
    /// Made at this rate, per second.
    Rate(u32),
}

/// Requests that a log may have.
pub const ENTRIES_MAX: usize = 4_000_000;
/// Bytes of a line.
const LINE_MAX: u64 = 256;
/// The largest reply: one that is larger takes longer than a round.
const SIZE_MAX: u32 = 16 << 20;
/// The latest time, milliseconds: a day.
const TIME_MAX_MS: f64 = 86_400_000.0;
/// Of the sizes that are made, bytes.
const MEDIAN_BYTES: f64 = 1_700.0;
const MEAN_BYTES: f64 = 40_000.0;
/// Copies begin after each other by so much, so that no two requests are meant for the same instant.
const COPY_APART: Duration = Duration::from_micros(997);

impl Source {
    /// The requests of the first `length` of so many copies at once, in order of time.
    ///
    /// # Errors
    /// The file cannot be read or is no log.
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

/// Reads a log.
///
/// # Errors
/// A line that is no request, with its number.
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

/// A reply that can be sent: with a header, and not too large.
fn message_bytes(size: f64) -> u32 {
    (size as u32).clamp(HEADER_BYTES as u32, SIZE_MAX)
}

fn made(rate: u32, length: Duration, seed: u64) -> Vec<Entry> {
    let mut times = Schedule::of(Pace::Poisson(f64::from(rate)), seed).expect("Poisson is an open pace");
    let mut normal = Normal(Schedule::of(Pace::Poisson(1.0), !seed).expect("Poisson is an open pace"));
    // Of a lognormal distribution the median is exp(mu), the mean exp(mu + sigma² / 2).
    let sigma = (2.0 * (MEAN_BYTES / MEDIAN_BYTES).ln()).sqrt();
    let mut entries = Vec::new();
    while times.next() < length && entries.len() < ENTRIES_MAX {
        let size = MEDIAN_BYTES * (sigma * normal.next()).exp();
        entries.push(Entry { at: times.next(), size: message_bytes(size) });
        times.step();
    }
    entries
}

/// Numbers of the normal distribution, from exponential ones by the polar form of Box and Muller.
struct Normal(Schedule);

impl Normal {
    fn next(&mut self) -> f64 {
        // A squared radius is exponential with mean 2; the angle is the other one's rank.
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
