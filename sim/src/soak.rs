//! Soaks: random scenarios, seed after seed on several threads, until a time has passed.
//!
//! Promises: a scenario that fails or panics is reported with its seed and does not end the soak; the seeds follow each
//! other without gaps from the first one, so that a soak can be repeated. Does not do: stop within a scenario.

use std::panic::catch_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use ringway_engine::clock;
use ringway_shm::Duration;

use crate::check::Failure;
use crate::scenario::Scenario;

/// Parameters of a soak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Soak {
    /// The first seed.
    pub seed: u64,
    /// Maximum number of seeds.
    pub count: u64,
    /// Real time during which new scenarios are started; `None`: until all seeds have run.
    pub span: Option<Duration>,
    /// Number of threads; at least one runs.
    pub threads: usize,
}

/// Result of a soak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of scenarios.
    pub runs: u64,
    /// Number of scenarios that failed.
    pub failed: u64,
    /// Payload bytes compared.
    pub received_bytes: u64,
    /// Segments checked.
    pub segments: u64,
    /// Ends that the peer's stack has given up after its last retransmission.
    pub given_up: u64,
    /// Real time, milliseconds.
    pub millis: u64,
}

impl Totals {
    /// Returns the number of scenarios per second.
    pub fn rate(&self) -> f64 {
        self.runs as f64 * 1_000.0 / self.millis.max(1) as f64
    }
}

impl Soak {
    /// Runs the soak; calls `on_failure` for each seed that fails, at once.
    pub fn run(&self, on_failure: &(dyn Fn(u64, &Failure) + Sync)) -> Totals {
        let (next, totals, start) = (AtomicU64::new(self.seed), Mutex::new(Totals::default()), clock::now());
        let work = || {
            while self.span.is_none_or(|span| clock::now() < start + span) {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed.wrapping_sub(self.seed) >= self.count {
                    break;
                }
                let result = run_seed(seed);
                let mut totals = totals.lock().expect("no panic while it is held");
                totals.runs += 1;
                match &result {
                    Ok(report) => {
                        totals.received_bytes += report.received_bytes;
                        totals.segments += report.segments;
                        totals.given_up += report.given_up;
                    }
                    Err(_) => totals.failed += 1,
                }
                drop(totals);
                if let Err(failure) = result {
                    on_failure(seed, &failure);
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..self.threads {
                scope.spawn(work);
            }
            work();
        });
        let totals = *totals.lock().expect("no thread panicked");
        Totals { millis: clock::now().since(start).as_millis(), ..totals }
    }
}

/// Runs the random scenario of `seed`; a panic counts as a failure.
fn run_seed(seed: u64) -> Result<crate::scenario::Report, Failure> {
    let outcome = catch_unwind(|| Scenario::random(seed).run());
    outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
        Err(Failure(format!("panicked: {}", text.unwrap_or_default())))
    })
}

/// Reads `90`, `90s`, `5m`, `2h`, and sums of them such as `1m30s`.
///
/// # Errors
/// Returns what is wrong with the text.
pub fn parse_span(text: &str) -> Result<Duration, String> {
    let wrong = || format!("expected a time such as 60s, 5m or 1h30m, got {text}");
    let mut rest = text;
    let mut seconds: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        let unit = rest[digits..].find(|letter: char| letter.is_ascii_digit()).map_or(rest.len(), |at| digits + at);
        let scale = match &rest[digits..unit] {
            "" | "s" => 1,
            "m" | "min" => 60,
            "h" => 3_600,
            _ => return Err(wrong()),
        };
        seconds = number.checked_mul(scale).and_then(|more| seconds.checked_add(more)).ok_or_else(wrong)?;
        rest = &rest[unit..];
    }
    if seconds == 0 || seconds > SPAN_MAX_SECONDS { Err(wrong()) } else { Ok(Duration::from_secs(seconds)) }
}

/// A year: a larger value is a mistake.
const SPAN_MAX_SECONDS: u64 = 366 * 24 * 3_600;

#[cfg(test)]
mod tests;
