//! Pacing: segments leave at a rate instead of in bursts, by the timer wheel.
//!
//! Read draft-ietf-ccwg-bbr §5.6.2, §5.6.3 first. A packet moves the next departure time by its length over the rate. The
//! wheel ticks each millisecond, so packets that became due in between go out together; a packet is no larger than a
//! millisecond's worth, but at least two segments (Linux's TSO autosizing). Connections with a rate-based congestion control
//! are paced at its rate. Connections with SO_MAX_PACING_RATE or `tcp.pacing` are paced as in Linux: at twice the window per
//! round trip in slow start, 1.2 times it otherwise. Those that share a rate with others wait for their turn, too (`shared_rate`). A connection
//! that has nothing to send arms no timer.

use super::connection::{Connection, Shared};
use super::shared_rate::SharedRates;
use super::tcb::{Tcb, flag};

/// Maximum unused sending time that may be made up, microseconds: timers are late by up to a tick.
pub(super) const CREDIT_US: u64 = 2_000;
/// Maximum bytes of one packet.
const QUANTUM_BYTES_MAX: u64 = 64 << 10;
/// In the timer wheel: the owner is a connection that waits for its next departure.
pub(super) const PACING_BIT: u32 = 1 << 30;
/// Percent of the window per round trip, in slow start and after (Linux tcp_pacing_ss_ratio, tcp_pacing_ca_ratio).
const WINDOW_PERCENT: (u64, u64) = (200, 120);
/// Assumed round trip before the first sample, microseconds.
const ROUND_TRIP_US: u64 = 1_000;

/// See the module's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pacing {
    /// SO_MAX_PACING_RATE, bytes per second; 0: none.
    pub(crate) rate_max: u64,
    pub(crate) shared: SharedRates,
    /// Bytes for which `next_us` is booked with the rates that are shared.
    booked: u32,
    /// Time at which the next packet may leave, microseconds.
    next_us: u64,
    /// Tick of the wheel's live entry; 0: none.
    deadline: u32,
}

impl Pacing {
    /// Forgets what has left: the next packet may leave at once.
    pub(crate) fn forget_departures(&mut self) {
        *self = Pacing { rate_max: self.rate_max, shared: self.shared, ..Pacing::default() };
    }

    /// Returns true when dropping it loses nothing.
    pub(crate) fn is_quiet(&self) -> bool {
        self.rate_max == 0 && self.shared == SharedRates::default() && self.deadline == 0
    }

    /// The most that the application and the rates that are shared allow; 0: no limit.
    fn limit(&self) -> u64 {
        let shared = self.shared.iter().flatten().map(|shared| shared.rate());
        shared.chain((self.rate_max != 0).then_some(self.rate_max)).min().unwrap_or(0)
    }

    /// Books time for the next packet, of so many bytes, with the rates that are shared.
    fn book(&mut self, now_us: u64, bytes: u32) {
        for shared in self.shared.iter().flatten() {
            self.next_us = self.next_us.max(shared.book(now_us, bytes));
            self.booked = bytes;
        }
    }

    /// So many bytes have left; what was not booked is.
    fn use_booked(&mut self, now_us: u64, bytes: u32) {
        let unbooked = bytes.saturating_sub(self.booked);
        self.booked -= bytes - unbooked;
        if unbooked > 0 {
            for shared in self.shared.iter().flatten() {
                shared.book(now_us, unbooked);
            }
        }
    }
}

/// Bytes of one packet at `rate` (bytes per second).
pub(crate) fn quantum(rate: u64, mss: u32) -> u32 {
    (rate / 1_000).min(QUANTUM_BYTES_MAX).max(2 * mss as u64) as u32
}

/// The pacing rate that Linux shows for a connection with a window-based congestion control; bytes per second.
pub(crate) fn window_rate(tcb: &Tcb) -> u64 {
    let percent = if tcb.cwnd() < tcb.ssthresh() / 2 { WINDOW_PERCENT.0 } else { WINDOW_PERCENT.1 };
    let round_trip_us = if tcb.srtt_us() == 0 { ROUND_TRIP_US } else { tcb.srtt_us() as u64 };
    tcb.cwnd().max(tcb.flight()) as u64 * percent * 10_000 / round_trip_us
}

impl Shared {
    /// Like [`pacing_rate`](Connection::pacing_rate), for a connection that may be paced.
    #[inline(never)]
    fn choose_pacing_rate(&self, tcb: &Tcb) -> Option<u64> {
        let cold = self.cold.get(tcb.cold());
        let rate_max = cold.map_or(0, |cold| cold.pacing.limit());
        let rate = match cold.and_then(|cold| cold.rate_based.as_ref()) {
            Some(rate_based) => rate_based.pacing_rate(),
            None if tcb.congestion().is_rate_based() || self.config.pacing || rate_max != 0 => window_rate(tcb),
            None => return None,
        };
        Some(if rate_max == 0 { rate } else { rate.min(rate_max) }.max(1))
    }
}

impl Connection<'_, '_> {
    /// Pacing rate in bytes per second; `None`: the connection is not paced.
    #[inline]
    pub(crate) fn pacing_rate(&self) -> Option<u64> {
        let is_plain = self.tcb.cold() == super::cold::NONE && !self.is_rate_based() && !self.shared.config.pacing;
        if is_plain { None } else { self.shared.choose_pacing_rate(self.tcb) }
    }

    /// Returns true when the rate holds the next packet back.
    pub(crate) fn departs_later(&self) -> bool {
        self.shared.cold.get(self.tcb.cold()).is_some_and(|cold| cold.pacing.next_us > self.shared.moment.micros)
    }

    /// Returns true when the next packet, of `bytes` at most, may leave now; otherwise arms the wheel for the time at which it may.
    pub(crate) fn may_depart(&mut self, bytes: u32) -> bool {
        if self.tcb.has(flag::RETRANSMIT) {
            // Probes and first retransmissions do not wait.
            return true;
        }
        let now_us = self.shared.moment.micros;
        let index = self.index;
        let pacing = &mut self.demand_cold().pacing;
        if pacing.next_us <= now_us && pacing.booked == 0 {
            pacing.book(now_us, bytes);
        }
        if pacing.next_us <= now_us {
            pacing.next_us = pacing.next_us.max(now_us.saturating_sub(CREDIT_US));
            return true;
        }
        let tick = (pacing.next_us.div_ceil(1_000) as u32).max(1);
        let is_armed = pacing.deadline != 0 && (pacing.deadline.wrapping_sub(tick).cast_signed()) <= 0;
        if !is_armed {
            pacing.deadline = tick;
            self.shared.timers.insert(index | PACING_BIT, tick);
        }
        // The rate stops it, not the window.
        self.tcb.clear(flag::CWND_LIMITED);
        false
    }

    /// Accounts for `bytes` that have left at `rate`.
    pub(crate) fn departed(&mut self, bytes: u32, rate: u64) {
        let now_us = self.shared.moment.micros;
        let pacing = &mut self.demand_cold().pacing;
        pacing.use_booked(now_us, bytes);
        pacing.next_us += bytes as u64 * 1_000_000 / rate;
    }

    /// RFC 6298 §5.4: lets the first segment after a timeout leave at once, however much was sent before.
    pub(crate) fn depart_at_once(&mut self) {
        let now_us = self.shared.moment.micros;
        if let Some(cold) = self.cold() {
            cold.pacing.next_us = cold.pacing.next_us.min(now_us);
        }
    }

    /// Handles the wheel's entry of a connection that waits for its next departure.
    pub(crate) fn on_pacing_timer(&mut self, tick: u32) {
        let Some(cold) = self.cold().filter(|cold| cold.pacing.deadline == tick) else { return };
        cold.pacing.deadline = 0;
        self.mark_data_if_any();
    }
}
