//! Timing of ACKs: one decision per connection and pass of the stack.
//!
//! Read RFC 9293 §3.8.6.3 and RFC 5681 §4.2 first. An ACK goes at once for an out-of-order segment, a filled gap, a FIN, a
//! window update, two full segments and (where configured) the first segments of a connection. Otherwise it goes after a
//! short delay, in which data of our own may carry it. The delay is a quarter of the round trip within configured bounds.
//!
//! Two full segments may wait as well when they end with PSH and the peer has acknowledged data of ours: the peer has sent
//! its whole message and waits for an answer, which carries the ACK. A request of 4 KiB then costs each side a packet less
//! than with the kernel. But PSH ends each write of the peer's program, in a large message too, and a peer with a window
//! that is full at that point waits for this very ACK. So only a part of the window waits, at most [`WAITING_BYTES_MAX`],
//! and only while the delay is mostly useful (`patience`).
//!
//! Busy connections on near links use the shortest delay again and again. It is equally long for all, so those connections
//! wait in a queue instead of the timer wheel. So do ACKs that are due within [`SOON_TICKS`]: the queue's order is off by a
//! tick at most. A deadline outlives its ACK: the next ACK is often due in the same tick and finds its queue entry already
//! there.

use super::connection::Connection;
use super::tcb::flag;

/// ACKs that are due within this many ticks wait in the queue.
pub(crate) const SOON_TICKS: u32 = 2;
/// Part of the receive window (one in this many), and number of bytes, that may wait for its ACK at most.
const WAITING_SHARE: u32 = 4;
const WAITING_BYTES_MAX: u32 = 256 << 10;

impl Connection<'_, '_> {
    /// Schedules the ACK of data that was taken, with or without PSH: now or soon. An ACK that waits costs only its
    /// deadline.
    #[inline(always)]
    pub(crate) fn ack_soon(&mut self, pushed: bool) {
        let unacknowledged = self.tcb.unacknowledged();
        let two_full = unacknowledged >= 2 * self.tcb.mss() as u32;
        if two_full || self.tcb.has(flag::ACK_NOW | flag::QUICK_ACK) || self.is_quick_start() {
            return self.reborrow().ack_at_once(two_full && pushed);
        }
        let is_waiting = self.tcb.has(flag::ACK_PENDING);
        self.tcb.set(flag::ACK_PENDING);
        if !is_waiting || self.tcb.ack_deadline() == 0 {
            // Also when data before it in this pass was due: the message ends here.
            self.delay_ack();
        }
    }

    /// Acknowledges without delay, unless the data is a large message that `ends` with it: that waits for its answer.
    #[inline(never)]
    fn ack_at_once(&mut self, ends: bool) {
        let is_due = self.tcb.has(flag::ACK_NOW | flag::QUICK_ACK) || self.is_quick_start();
        let unacknowledged = self.tcb.unacknowledged();
        let waits = ends && !is_due && self.is_answer_expected(unacknowledged);
        let is_waiting = self.tcb.has(flag::ACK_PENDING);
        self.tcb.set(flag::ACK_PENDING);
        if !waits {
            self.tcb.stop_ack_delay();
            self.mark_control();
        } else if !is_waiting || self.tcb.ack_deadline() == 0 {
            self.delay_ack();
        }
    }

    /// Returns true when the peer, which has sent its whole message, will soon get an answer.
    fn is_answer_expected(&mut self, unacknowledged: u32) -> bool {
        let waiting_max = WAITING_BYTES_MAX.min(self.receive_limit() / WAITING_SHARE);
        if self.tcb.bytes_acked() == 0 || unacknowledged > waiting_max {
            return false;
        }
        self.shared.conn_stats.rare_mut(self.tcb).is_none_or(|rare| rare.interactive.waits())
    }

    /// Notes that an ACK's delay has expired. After a whole message, the application does not answer as fast as expected.
    pub(crate) fn waited_in_vain(&mut self) {
        if self.tcb.unacknowledged() >= 2 * self.tcb.mss() as u32 {
            self.rare().interactive.was_in_vain();
        }
    }

    /// Starts the delay. A deadline left by an earlier ACK is in the queue, or in the wheel at or before its time.
    #[inline(always)]
    fn delay_ack(&mut self) {
        let timing = &self.shared.timing;
        let quarter_us = u64::from(self.tcb.srtt_us() / 4);
        let is_shortest = quarter_us <= timing.ack_delay_min_us;
        let deadline = match is_shortest {
            true => self.shared.shortest_delay_ends,
            false => self.deadline(quarter_us.min(timing.ack_delay_max_us)),
        };
        if !self.tcb.start_ack_delay(deadline) {
            return;
        }
        if is_shortest || deadline.wrapping_sub(self.tick()) <= SOON_TICKS {
            self.shared.delayed.push_back((self.index, deadline));
        } else {
            self.reborrow().arm();
        }
    }

    /// Returns true while the peer is still in slow start and depends on our ACKs.
    #[inline(always)]
    fn is_quick_start(&self) -> bool {
        // Bytes have come: when the configured number of segments is 0, this is false.
        self.tcb.bytes_received() <= u64::from(self.shared.config.quick_start_segments) * u64::from(self.tcb.mss())
            && !self.tcb.delays_acks()
    }

    /// Linux: a connection that answers what has just come is interactive; from now on its ACKs go with its answers.
    pub(crate) fn end_quick_acks(&mut self) {
        let since_ms = self.tick().wrapping_sub(self.stats().data_received_at);
        if self.tcb.bytes_received() > 0 && (since_ms as u64) < self.shared.config.delayed_ack.as_millis() {
            self.tcb.clear(flag::QUICK_ACK);
        }
    }

    /// Returns true when an ACK is owed and no delay is running for it.
    pub(crate) fn owes_ack(&self) -> bool {
        self.tcb.has(flag::ACK_NOW) || (self.tcb.has(flag::ACK_PENDING) && self.tcb.ack_deadline() == 0)
    }

    /// Ends the delay that expires at `tick`, unless an ACK has gone out since.
    pub(crate) fn end_ack_delay(&mut self, tick: u32) {
        if self.tcb.ack_deadline() == tick {
            self.on_delayed_ack();
        }
    }

    /// Notes that a segment with SEG.ACK = RCV.NXT is going out.
    #[inline]
    pub(crate) fn ack_sent(&mut self) {
        self.tcb.clear(flag::ACK_NOW | flag::ACK_PENDING);
        self.tcb.acknowledge_received();
    }
}
