//! How much a connection may hold unread: what its application reads in a round trip, twice, up to the receive buffer.
//!
//! Read "Dynamic right-sizing" (Fisk, Feng) and Linux's tcp_rcv_space_adjust first. Everybody is trusted with 128 KiB. Who reads
//! more than its last measure within one round trip gets twice that (and the growth once more, for a sender in slow
//! start); nothing is taken back, since a window that was told must not shrink (RFC 9293 §3.8.6). SO_RCVBUF ends all
//! this: that much at once, and no more. The round trip is measured by the receiver: by timestamps that come back
//! (RFC 7323) with full segments, else by the time in which a whole window arrives. So whose peer has timestamps and sends
//! only small messages has nothing measured, and needs no ledger for it.
//!
//! What is promised stays bounded by the buffer and by the memory that is free, whatever a peer or an
//! application does (`receive_queue`).

use super::connection::{Connection, Shared};
use super::sequence::SeqNum;
use super::tcb::{Tcb, flag};
use crate::wire::tcp::Timestamps;

/// Bytes that are promised before anything was measured; Linux: tcp_rmem.
const TRUST: u32 = 128 << 10;
/// What must have been received before anything is measured: short exchanges need no more than the trust.
const MEASURED_FROM: u64 = 32 << 10;
/// Segments beyond what was measured, for growth (Linux: 16).
const SPARE_SEGMENTS: u32 = 16;

/// See the module's text. Times are microseconds modulo 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReceiveTuning {
    /// Of the path as the receiver sees it; 0: not measured.
    rtt_us: u32,
    /// The timestamp that came back last.
    echo: u32,
    /// The right edge of the window when the running measurement by windows began, and when that was.
    edge: Option<(SeqNum, u32)>,
    /// What had been read when the running measure began, and when that was.
    measure: Option<(SeqNum, u32)>,
    /// Most bytes that were read in a round trip.
    space: u32,
    /// Bytes that may be unread beyond the trust, all told; `u32::MAX`: SO_RCVBUF says.
    limit: u32,
    /// TCP_WINDOW_CLAMP; 0: none.
    clamp: u32,
}

impl ReceiveTuning {
    /// Of TCP_INFO: the round trip, and what was read in one.
    pub(crate) fn figures(&self) -> (u32, u32) {
        (self.rtt_us, self.space)
    }

    /// A measurement. Windows take at least a round trip, so that the least of those is the best.
    fn take(&mut self, sample_us: u32, by_window: bool) {
        let sample_us = sample_us.max(1);
        self.rtt_us = match self.rtt_us {
            0 => sample_us,
            old if by_window => old.min(sample_us),
            old => (old - old / 8).saturating_add(sample_us / 8).max(1),
        };
    }

    /// The application has read everything before `read`.
    fn consumed(&mut self, now_us: u32, read: SeqNum, mss: u32) {
        let Some((from, since_us)) = self.measure else {
            self.measure = Some((read, now_us));
            return;
        };
        if self.rtt_us == 0 || now_us.wrapping_sub(since_us) < self.rtt_us {
            return;
        }
        self.measure = Some((read, now_us));
        let copied = read - from;
        if copied <= self.space {
            return;
        }
        let twice = copied.saturating_mul(2).saturating_add(SPARE_SEGMENTS * mss);
        let grown = copied - self.space;
        // A sender that doubles its rate needs the room before it is measured.
        let ahead = if self.space == 0 { 0 } else { (twice as u64 * grown as u64 / self.space as u64).min(twice as u64) as u32 };
        self.limit = self.limit.max(twice.saturating_add(ahead));
        self.space = copied;
    }
}

impl Connection<'_, '_> {
    /// Bytes that may be unread.
    #[inline]
    pub(crate) fn receive_limit(&self) -> u32 {
        if self.tcb.has_ledger { self.shared.tuned_receive_limit(self.tcb) } else { self.tcb.receive_buffer.min(TRUST) }
    }

    /// SO_RCVBUF was set.
    pub(crate) fn lock_receive_buffer(&mut self) {
        self.ledger().receive.limit = u32::MAX;
    }

    /// TCP_WINDOW_CLAMP was set; 0: none. What was told already stays.
    pub(crate) fn clamp_window(&mut self, bytes: u32) {
        self.ledger().receive.clamp = bytes;
    }

    /// The window of a SYN, which is not scaled (RFC 7323 §2.2).
    pub(crate) fn syn_window(&self) -> u16 {
        self.receive_limit().min(u16::MAX as u32) as u16
    }

    /// Payload in order has come.
    #[inline]
    pub(crate) fn measure_arrival(&mut self, time: Option<Timestamps>, len: u32) {
        if self.tcb.has_ledger || self.begins_to_measure(len) {
            self.apart().measure_receive_rtt(time, len);
        }
    }

    /// Whether `len` bytes in order are the first from which anything can be measured.
    #[inline]
    fn begins_to_measure(&self, len: u32) -> bool {
        let is_measurable = len >= u32::from(self.tcb.mss) || !self.tcb.has(flag::TIMESTAMPS);
        is_measurable && self.tcb.bytes_received >= MEASURED_FROM
    }

    #[inline(never)]
    fn measure_receive_rtt(&mut self, time: Option<Timestamps>, len: u32) {
        let now_us = self.now_us();
        let (nxt, edge) = (self.tcb.rcv_nxt, self.tcb.rcv_adv);
        let is_full = len >= self.tcb.mss as u32;
        let echo = time.filter(|_| self.tcb.has(flag::TIMESTAMPS)).map(|times| times.echo);
        let time = self.timestamp();
        let tuning = &mut self.ledger().receive;
        match (echo, tuning.edge) {
            (Some(echo), _) if echo != tuning.echo && is_full => {
                let elapsed_ms = time.wrapping_sub(echo);
                if echo != 0 && tuning.echo != 0 && elapsed_ms < 1 << 20 {
                    tuning.take(elapsed_ms.max(1) * 1_000, false);
                }
                tuning.echo = echo;
            }
            (Some(_), _) => {}
            (None, Some((until, since_us))) if nxt.at_or_after(until) => {
                tuning.take(now_us.wrapping_sub(since_us), true);
                tuning.edge = Some((edge, now_us));
            }
            (None, Some(_)) => {}
            (None, None) => tuning.edge = Some((edge, now_us)),
        }
    }

    /// The application has read.
    #[inline]
    pub(crate) fn tune_receive_buffer(&mut self) {
        if self.tcb.has_ledger && self.tcb.bytes_received >= MEASURED_FROM {
            self.apart().measure_reading();
        }
    }

    #[inline(never)]
    fn measure_reading(&mut self) {
        let (now_us, read) = (self.now_us(), self.tcb.rcv_nxt - self.tcb.unconsumed);
        let mss = self.tcb.mss as u32;
        self.ledger().receive.consumed(now_us, read, mss);
    }
}

impl Shared {
    /// As [`receive_limit`](Connection::receive_limit), of a connection with a ledger.
    #[inline(never)]
    fn tuned_receive_limit(&self, tcb: &Tcb) -> u32 {
        let receive = self.tallies.ledger(tcb).map(|ledger| (ledger.receive.limit, ledger.receive.clamp));
        let (tuned, clamp) = receive.unwrap_or_default();
        let limit = tcb.receive_buffer.min(tuned.max(TRUST));
        if clamp == 0 { limit } else { limit.min(clamp) }
    }
}
