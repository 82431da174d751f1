//! A value in a table: how it reads, how it sorts, and its JSON.

use std::cmp::Ordering;

use serde_json::{Value, json};

/// A value and its unit.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Text(String),
    /// The number of a process or a user: all its digits.
    Name(u32),
    /// A number of things, or of things per second.
    Number(f64),
    /// Bytes, shown in KiB, MiB, …
    Bytes(u64),
    /// A part of one.
    Share(f64),
    /// Microseconds.
    Time(u64),
    /// There is no such value.
    Nothing,
}

impl Cell {
    /// As people read it, six characters at most unless it is a text or name.
    pub(super) fn text(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Name(number) => number.to_string(),
            Cell::Number(number) => short(*number, 1000.0, ["", "k", "M", "G", "T"]),
            Cell::Bytes(bytes) => short(*bytes as f64, 1024.0, ["", "Ki", "Mi", "Gi", "Ti"]),
            Cell::Share(share) => format!("{:.0}%", share * 100.0),
            Cell::Time(us) => time(*us),
            Cell::Nothing => "-".to_owned(),
        }
    }

    pub(super) fn json(&self) -> Value {
        match self {
            Cell::Text(text) => json!(text),
            Cell::Number(number) | Cell::Share(number) if number.fract() == 0.0 => json!(*number as u64),
            Cell::Number(number) | Cell::Share(number) => json!((number * 1000.0).round() / 1000.0),
            Cell::Name(number) => json!(number),
            Cell::Bytes(number) | Cell::Time(number) => json!(number),
            Cell::Nothing => Value::Null,
        }
    }

    /// Texts by letters, all else by size; nothing is least.
    pub(super) fn compare(&self, other: &Cell) -> Ordering {
        match (self, other) {
            (Cell::Text(one), Cell::Text(other)) => one.cmp(other),
            _ => self.size().total_cmp(&other.size()),
        }
    }

    fn size(&self) -> f64 {
        match self {
            Cell::Text(_) | Cell::Nothing => -1.0,
            Cell::Name(number) => f64::from(*number),
            Cell::Number(number) | Cell::Share(number) => *number,
            Cell::Bytes(number) | Cell::Time(number) => *number as f64,
        }
    }
}

/// Three digits and the sign of the magnitude.
fn short(number: f64, base: f64, signs: [&str; 5]) -> String {
    let mut number = number;
    let mut signs = signs.into_iter();
    let mut sign = signs.next().unwrap_or_default();
    // What would round up to a fourth digit counts in the next magnitude.
    while number >= base - 0.5
        && let Some(next) = signs.next()
    {
        (number, sign) = (number / base, next);
    }
    let digits = if number >= 99.95 || number.fract() == 0.0 {
        0
    } else if number >= 9.995 {
        1
    } else {
        2
    };
    format!("{number:.digits$}{sign}")
}

fn time(us: u64) -> String {
    match us {
        0..1_000 => format!("{us}µs"),
        1_000..1_000_000 => format!("{}ms", short(us as f64 / 1e3, f64::INFINITY, [""; 5])),
        _ => format!("{}s", short(us as f64 / 1e6, f64::INFINITY, [""; 5])),
    }
}
