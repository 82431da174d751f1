//! A rate that several connections share, also those of several stacks.
//!
//! A connection books the time of its next packet behind those that others have booked, so that all get the same share and each waits for its own
//! time alone; what is sent without a booking (retransmissions, and what a packet has more than was booked) delays what is booked next. Promises:
//! over any time the connections send no more than the rate allows, but for unused time of two milliseconds, and retransmissions, which never wait.
//! Does not do: weights; a connection that has booked and does not send wastes the time of a packet.

use core::sync::atomic::{AtomicU64, Ordering};

use super::pacing::CREDIT_US;

/// See the module's text.
#[derive(Debug)]
pub struct SharedRate {
    /// Bytes per second.
    rate: u64,
    /// What is booked ends here, nanoseconds.
    next_ns: AtomicU64,
}

impl SharedRate {
    /// So many bytes per second.
    pub const fn new(rate: u64) -> SharedRate {
        SharedRate { rate: if rate == 0 { 1 } else { rate }, next_ns: AtomicU64::new(0) }
    }

    /// Bytes per second.
    pub const fn rate(&self) -> u64 {
        self.rate
    }

    /// Books time for `bytes` behind what is booked; returns when they may leave, microseconds on the worker's clock.
    pub fn book(&self, now_us: u64, bytes: u32) -> u64 {
        let cost_ns = (u64::from(bytes) * 1_000_000_000).div_ceil(self.rate);
        let earliest_ns = now_us.saturating_sub(CREDIT_US) * 1_000;
        let after = |booked_ns: u64| booked_ns.max(earliest_ns).saturating_add(cost_ns);
        // Orders nothing else.
        let booked_ns = self.next_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |booked_ns| Some(after(booked_ns)));
        let (Ok(booked_ns) | Err(booked_ns)) = booked_ns;
        booked_ns.max(earliest_ns).div_ceil(1_000)
    }
}

/// The same rate is one object.
impl PartialEq for SharedRate {
    fn eq(&self, other: &SharedRate) -> bool {
        core::ptr::eq(self, other)
    }
}

impl Eq for SharedRate {}

/// The rates that a connection shares with others: as many as hold for it.
pub type SharedRates = [Option<&'static SharedRate>; 2];
