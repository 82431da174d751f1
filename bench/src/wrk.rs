//! wrk's report: the figures in it, and what makes it worthless.
//!
//! Promises: figures of a run in which the server refused requests are an error. Does not do: running wrk.

use std::io;
use std::process::Output;

/// The figures of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    /// Requests answered.
    pub requests: f64,
    /// The rate that wrk prints.
    pub requests_per_s: f64,
    /// Median latency, microseconds.
    pub p50_us: f64,
    /// Latency that 99 % of the requests stay below, microseconds.
    pub p99_us: f64,
}

/// Whether a report with socket errors counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketErrors {
    /// They are an error.
    Fail,
    /// They are expected: with `Connection: close`, wrk counts the end of each connection as one.
    Expected,
}

/// Reads the report of a wrk that was run with `--latency`.
///
/// # Errors
/// wrk failed, the server refused requests, or wrk printed something else; with all that it printed.
pub fn read(output: &Output, socket_errors: SocketErrors) -> io::Result<Report> {
    let text = String::from_utf8_lossy(&output.stdout);
    let is_broken = socket_errors == SocketErrors::Fail && text.contains("Socket errors");
    let is_good = output.status.success() && !text.contains("Non-2xx") && !is_broken;
    parse(&text).filter(|_| is_good).ok_or_else(|| {
        let words = String::from_utf8_lossy(&output.stderr);
        io::Error::other(format!("wrk ({}) printed:\n{text}{words}", output.status))
    })
}

fn parse(text: &str) -> Option<Report> {
    let after = |label: &str| text.lines().find_map(|line| line.trim().strip_prefix(label)).map(str::trim);
    Some(Report {
        requests: text.lines().find(|line| line.contains(" requests in "))?.split_whitespace().next()?.parse().ok()?,
        requests_per_s: after("Requests/sec:")?.parse().ok()?,
        p50_us: microseconds(after("50%")?)?,
        p99_us: microseconds(after("99%")?)?,
    })
}

/// Parses wrk's times: `532.00us`, `1.20ms`, `2.01s`.
fn microseconds(text: &str) -> Option<f64> {
    let split = text.find(|letter: char| letter.is_ascii_alphabetic())?;
    let factor = match &text[split..] {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" => 60e6,
        _ => return None,
    };
    text[..split].parse::<f64>().ok().map(|value| value * factor)
}

#[cfg(test)]
mod tests;
