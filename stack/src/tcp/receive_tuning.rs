//! Limit of unread data: twice what the application reads in a round trip, up to the receive buffer.
//!
//! Read "Dynamic right-sizing" (Fisk, Feng) and Linux's tcp_rcv_space_adjust first. Each connection starts with 128 KiB.
//! When the application reads more than its last measure within one round trip, the limit becomes twice that (plus the
//! growth once more, for a sender in slow start). It is never reduced, since an advertised window must not shrink
//! (RFC 9293 §3.8.6). SO_RCVBUF ends the tuning: that much at once, and no more. The receiver measures the round trip: by
//! echoed timestamps (RFC 7323) of full segments, otherwise by the time in which a whole window arrives. When the peer has
//! timestamps and sends only small messages, nothing is measured, and no rare statistics are needed.
//!
//! The advertised window stays bounded by the buffer and by the free memory, whatever a peer or an application does
//! (`receive_queue`).

use super::connection::{Connection, Shared};
use super::handover::{Rebase, part::parts};
use super::tcb::{Tcb, flag};
use crate::wire::sequence::SeqNum;

/// Bytes allowed before anything was measured; Linux: tcp_rmem.
const TRUST: u32 = 128 << 10;
/// Number of bytes received before measuring starts: short exchanges need no more than `TRUST`.
const MEASURED_FROM: u64 = 32 << 10;
/// Segments added to the measured amount, for growth (Linux: 16).
const SPARE_SEGMENTS: u32 = 16;

/// See the module's text. Times are microseconds modulo 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReceiveTuning {
    /// Round trip of the path, measured by the receiver; 0: not measured.
    rtt_us: u32,
    /// The last echoed timestamp.
    echo: u32,
    /// Right edge of the window at the start of the running measurement by windows, and its time.
    edge: Option<(SeqNum, u32)>,
    /// End of the data read at the start of the running measurement of reading, and its time.
    measure: Option<(SeqNum, u32)>,
    /// Most bytes read in a round trip.
    space: u32,
    /// Limit of unread bytes, when it is above `TRUST`; `u32::MAX`: SO_RCVBUF decides.
    limit: u32,
    /// TCP_WINDOW_CLAMP; 0: none.
    clamp: u32,
}

/// What a sample of the round trip comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sample {
    /// An echoed timestamp.
    Echo,
    /// A window of data that has arrived.
    Window,
}

impl ReceiveTuning {
    /// Values for TCP_INFO: the round trip, and the bytes read in one.
    pub(crate) fn figures(&self) -> (u32, u32) {
        (self.rtt_us, self.space)
    }

    /// Takes a sample of the round trip. Windows take at least a round trip, so the smallest of those is the best.
    fn take(&mut self, sample_us: u32, sample: Sample) {
        let sample_us = sample_us.max(1);
        self.rtt_us = match self.rtt_us {
            0 => sample_us,
            old if sample == Sample::Window => old.min(sample_us),
            old => (old - old / 8).saturating_add(sample_us / 8).max(1),
        };
    }

    /// Notes that the application has read everything before `read`.
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
        // A sender that doubles its rate needs the space before it is measured.
        let ahead = if self.space == 0 { 0 } else { (twice as u64 * grown as u64 / self.space as u64).min(twice as u64) as u32 };
        self.limit = self.limit.max(twice.saturating_add(ahead));
        self.space = copied;
    }
}

impl ReceiveTuning {
    /// Moves its times to another clock.
    pub(crate) fn rebase(&mut self, by: Rebase) {
        if self.echo != 0 {
            self.echo = by.timestamp(self.echo);
        }
        self.edge = self.edge.map(|(edge, at)| (edge, by.us(at)));
        self.measure = self.measure.map(|(end, at)| (end, by.us(at)));
    }
}

parts!(ReceiveTuning { rtt_us, echo, edge, measure, space, limit, clamp });

impl Connection<'_, '_> {
    /// Maximum number of unread bytes.
    #[inline]
    pub(crate) fn receive_limit(&self) -> u32 {
        if self.tcb.has_rare_stats { self.shared.tuned_receive_limit(self.tcb) } else { self.tcb.receive_buffer().min(TRUST) }
    }

    /// Ends the tuning: SO_RCVBUF was set.
    pub(crate) fn lock_receive_buffer(&mut self) {
        self.rare().receive.limit = u32::MAX;
    }

    /// Sets TCP_WINDOW_CLAMP; 0: none. A window advertised before stays.
    pub(crate) fn clamp_window(&mut self, bytes: u32) {
        self.rare().receive.clamp = bytes;
    }

    /// Window of a SYN, which is not scaled (RFC 7323 §2.2).
    pub(crate) fn syn_window(&self) -> u16 {
        self.receive_limit().min(u16::MAX as u32) as u16
    }

    /// Measures the round trip when `len` bytes in order have arrived; `echo` is their timestamp's echo, on a connection with
    /// timestamps.
    #[inline(always)]
    pub(crate) fn measure_arrival(&mut self, echo: Option<u32>, len: u32) {
        if self.tcb.has_rare_stats || self.begins_to_measure(echo.is_some(), len) {
            self.reborrow().measure_receive_rtt(echo, len);
        }
    }

    /// Returns true when `len` bytes in order are the first that allow a measurement.
    #[inline(always)]
    fn begins_to_measure(&self, has_echo: bool, len: u32) -> bool {
        let is_measurable = len >= u32::from(self.tcb.mss()) || !(has_echo || self.tcb.has(flag::TIMESTAMPS));
        is_measurable && self.tcb.bytes_received() >= MEASURED_FROM
    }

    #[inline(never)]
    fn measure_receive_rtt(&mut self, echo: Option<u32>, len: u32) {
        let now_us = self.now_us();
        let (nxt, edge) = (self.tcb.rcv_nxt(), self.tcb.rcv_adv());
        let is_full = len >= self.tcb.mss() as u32;
        let time = self.timestamp();
        let tuning = &mut self.rare().receive;
        match (echo, tuning.edge) {
            (Some(echo), _) if echo != tuning.echo && is_full => {
                let elapsed_ms = time.wrapping_sub(echo);
                if echo != 0 && tuning.echo != 0 && elapsed_ms < 1 << 20 {
                    tuning.take(elapsed_ms.max(1) * 1_000, Sample::Echo);
                }
                tuning.echo = echo;
            }
            (Some(_), _) => {}
            (None, Some((until, since_us))) if nxt.at_or_after(until) => {
                tuning.take(now_us.wrapping_sub(since_us), Sample::Window);
                tuning.edge = Some((edge, now_us));
            }
            (None, Some(_)) => {}
            (None, None) => tuning.edge = Some((edge, now_us)),
        }
    }

    /// Measures reading after the application has read.
    #[inline]
    pub(crate) fn tune_receive_buffer(&mut self) {
        if self.tcb.has_rare_stats && self.tcb.bytes_received() >= MEASURED_FROM {
            self.reborrow().measure_reading();
        }
    }

    #[inline(never)]
    fn measure_reading(&mut self) {
        let (now_us, read) = (self.now_us(), self.tcb.rcv_nxt() - self.tcb.unconsumed());
        let mss = self.tcb.mss() as u32;
        self.rare().receive.consumed(now_us, read, mss);
    }
}

impl Shared {
    /// Like [`receive_limit`](Connection::receive_limit), for a connection with rare statistics.
    #[inline(never)]
    fn tuned_receive_limit(&self, tcb: &Tcb) -> u32 {
        let receive = self.conn_stats.rare(tcb).map(|rare| (rare.receive.limit, rare.receive.clamp));
        let (tuned, clamp) = receive.unwrap_or_default();
        let limit = tcb.receive_buffer().min(tuned.max(TRUST));
        if clamp == 0 { limit } else { limit.min(clamp) }
    }
}
