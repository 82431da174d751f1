//! Artificial CPU time per request in the server's program.

use std::time::{Duration, Instant};

/// Keeps the processor busy for each request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work(Duration);

impl Work {
    /// Work of `time` for each request; zero: none.
    pub fn each(time: Duration) -> Work {
        Work(time)
    }

    /// Spins for the time of `requests` requests.
    ///
    /// # Blocking
    /// For this time.
    pub fn on(self, requests: u64) {
        let time = self.0.saturating_mul(u32::try_from(requests).unwrap_or(u32::MAX));
        if time.is_zero() {
            return;
        }
        let begun = Instant::now();
        while begun.elapsed() < time {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests;
