//! Delivery rate of connections with a congestion control that keeps no samples, for `TCP_INFO`.
//!
//! Read draft-ietf-ccwg-bbr §4.1 (and `rate`, which samples every packet) first. Here one packet is sampled at a time, about
//! once in a round trip. The sample is the bytes delivered between the last ACK before it was sent and its own ACK, over the
//! longer of the times to send and to acknowledge them. Only statistics use it. Times are microseconds modulo 2^32.

use super::connection::Connection;
use super::tcb::{Recovery, flag};
use crate::wire::sequence::SeqNum;

/// See the module's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sampler {
    /// End of the packet that is sampled.
    packet: Option<SeqNum>,
    /// P.delivered, as SND.UNA
    delivered: u32,
    /// P.delivered_time
    delivered_us: u32,
    /// P.sent_time, and that of the packet sampled before.
    sent_us: u32,
    first_sent_us: u32,
    /// P.is_app_limited
    app_limited: bool,
    /// Time of the last ACK.
    acknowledged_us: u32,
    /// The last sample: bytes, microseconds (0: none), and true when the application limited it.
    bytes: u32,
    interval_us: u32,
    is_app_limited: bool,
}

/// Data up to `end` that was sent while `una` was SND.UNA.
struct Sent {
    una: SeqNum,
    end: SeqNum,
    /// Nothing else was in flight.
    alone: bool,
    app_limited: bool,
}

impl Sampler {
    /// Bytes per second, and true when the application limited it; `None`: no sample yet.
    pub(crate) fn latest(&self) -> Option<(u64, bool)> {
        let rate = (self.bytes as u64 * 1_000_000).checked_div(self.interval_us as u64)?;
        Some((rate, self.is_app_limited))
    }

    /// Notes that data was sent.
    fn sent(&mut self, now_us: u32, sent: Sent) {
        let Sent { una, end, alone, app_limited } = sent;
        if self.packet.is_some() {
            return;
        }
        if alone {
            (self.first_sent_us, self.acknowledged_us) = (now_us, now_us);
        } else {
            self.first_sent_us = self.sent_us;
        }
        self.packet = Some(end);
        self.delivered = una.0;
        self.delivered_us = self.acknowledged_us;
        self.sent_us = now_us;
        self.app_limited = app_limited;
    }

    /// Takes the acknowledgment of everything before `una`.
    fn acknowledged(&mut self, now_us: u32, una: SeqNum, min_rtt_us: u32) {
        self.acknowledged_us = now_us;
        if self.packet.take_if(|end| end.at_or_before(una)).is_none() {
            return;
        }
        let bytes = una.0.wrapping_sub(self.delivered);
        let interval_us = now_us.wrapping_sub(self.delivered_us).max(self.sent_us.wrapping_sub(self.first_sent_us));
        if interval_us < min_rtt_us || interval_us == 0 {
            return;
        }
        // Linux: an application-limited sample is shown only if it is the better one.
        let is_better = bytes as u64 * self.interval_us as u64 >= self.bytes as u64 * interval_us as u64;
        if !self.app_limited || is_better {
            (self.bytes, self.interval_us, self.is_app_limited) = (bytes, interval_us, self.app_limited);
        }
    }
}

impl Connection<'_, '_> {
    /// Starts a sample after a turn of sending, before which `flight` bytes were in flight. A connection that never has more
    /// than a segment in flight is not sampled: its rate is a message per round trip.
    #[inline]
    pub(crate) fn sample_sent(&mut self, flight: u32) {
        if self.tcb.flight() > self.tcb.mss() as u32 && !self.is_rate_based() {
            self.reborrow().begin_sample(flight == 0);
        }
    }

    #[inline(never)]
    fn begin_sample(&mut self, alone: bool) {
        if self.tcb.recovery() != Recovery::Open {
            // It would not be known which of the transmissions arrives.
            return;
        }
        let (una, end, now_us) = (self.tcb.snd_una(), self.tcb.snd_nxt(), self.now_us());
        let app_limited = self.tcb.unsent() == 0 && !self.tcb.has(flag::CWND_LIMITED);
        self.rare().rate.sent(now_us, Sent { una, end, alone, app_limited });
    }

    /// Ends the sample when SND.UNA has moved.
    #[inline]
    pub(crate) fn sample_acknowledged(&mut self) {
        if self.tcb.has_rare_stats {
            self.reborrow().end_sample();
        }
    }

    #[inline(never)]
    fn end_sample(&mut self) {
        let (now_us, una, min_rtt_us) = (self.now_us(), self.tcb.snd_una(), self.tcb.min_rtt_us());
        let recovery = self.tcb.recovery();
        let Some(rare) = self.shared.conn_stats.rare_mut(self.tcb) else { return };
        if recovery != Recovery::Open {
            rare.rate.packet = None;
            rare.rate.acknowledged_us = now_us;
            return;
        }
        rare.rate.acknowledged(now_us, una, if min_rtt_us == u32::MAX { 0 } else { min_rtt_us });
    }
}
