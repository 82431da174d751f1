//! When to acknowledge: one decision per connection and turn.
//!
//! Read RFC 9293 §3.8.6.3 and RFC 5681 §4.2 first. At once: out of order, gap filled, FIN, window
//! update, two full segments, and (where configured) the first segments of a connection. Otherwise
//! after a short delay, which data of our own may use up. The delay is a quarter of the round trip
//! within configured bounds.
//!
//! Two full segments may wait as well when they end with PSH on a connection whose peer has acknowledged data of ours: the
//! peer has sent all that it had, and what it waits for is an answer, which acknowledges with it. A request of 4 KiB costs each
//! side a packet less than with the kernel. But PSH ends each write of the peer's program, of a large message too, and a peer
//! whose window is full there waits for this very ACK. So only some of what may be under way waits, at most
//! [`WAITING_BYTES_MAX`], and only while that is mostly worth it (`patience`).
//!
//! The shortest delay is what busy connections on near links have, again and again; it lasts equally
//! long for all, so those wait in a queue instead of the timer wheel. So do ACKs that are due within
//! [`SOON_TICKS`]: there the queue's order is off by a tick at most. A deadline outlives the ACK that it was for: what has
//! to be acknowledged next is often due in the same tick, and finds its place in the queue taken.

use super::connection::Connection;
use super::tcb::flag;

/// ACKs that are due so soon are the queue's.
pub(crate) const SOON_TICKS: u32 = 2;
/// Of what a connection may receive now, one part in so many may wait for its ACK, and no more than so many bytes.
const WAITING_SHARE: u32 = 4;
const WAITING_BYTES_MAX: u32 = 256 << 10;

impl Connection<'_, '_> {
    /// Data was taken, `pushed` by the peer or not: it has to be acknowledged, in this turn or soon. What may wait costs the
    /// turn nothing but its deadline.
    #[inline(always)]
    pub(crate) fn ack_soon(&mut self, pushed: bool) {
        let unacknowledged = self.tcb.rcv_nxt - self.tcb.last_ack_sent;
        let two_full = unacknowledged >= 2 * self.tcb.mss as u32;
        if two_full || self.tcb.has(flag::ACK_NOW | flag::QUICK_ACK) || self.is_quick_start() {
            return self.apart().ack_at_once(two_full && pushed);
        }
        let is_waiting = self.tcb.has(flag::ACK_PENDING);
        self.tcb.set(flag::ACK_PENDING);
        if !is_waiting || self.tcb.ack_deadline == 0 {
            // Also when what came before it in this turn was due: the message ends here.
            self.delay_ack();
        }
    }

    /// What was received is no matter for a delay, unless it is much of a message that `ends` with it: that waits for its answer.
    #[inline(never)]
    fn ack_at_once(&mut self, ends: bool) {
        let is_due = self.tcb.has(flag::ACK_NOW | flag::QUICK_ACK) || self.is_quick_start();
        let unacknowledged = self.tcb.rcv_nxt - self.tcb.last_ack_sent;
        let waits = ends && !is_due && self.is_answer_expected(unacknowledged);
        let is_waiting = self.tcb.has(flag::ACK_PENDING);
        self.tcb.set(flag::ACK_PENDING);
        if !waits {
            self.tcb.ack_deadline = 0;
            self.mark_control();
        } else if !is_waiting || self.tcb.ack_deadline == 0 {
            self.delay_ack();
        }
    }

    /// Whether the peer, which has sent all of its message, will soon have an answer.
    fn is_answer_expected(&mut self, unacknowledged: u32) -> bool {
        let waiting_max = WAITING_BYTES_MAX.min(self.receive_limit() / WAITING_SHARE);
        if self.tcb.bytes_acked == 0 || unacknowledged > waiting_max {
            return false;
        }
        self.shared.tallies.ledger_mut(self.tcb).is_none_or(|ledger| ledger.patience.waits())
    }

    /// The delay of an ACK is over: if it was that of a message, the application does not answer as fast as was expected.
    pub(crate) fn waited_in_vain(&mut self) {
        if self.tcb.rcv_nxt - self.tcb.last_ack_sent >= 2 * self.tcb.mss as u32 {
            self.ledger().patience.was_in_vain();
        }
    }

    /// Begins the delay. A deadline that an ACK has left stands in the queue, or in the wheel at or before its time.
    #[inline(always)]
    fn delay_ack(&mut self) {
        let timing = &self.shared.timing;
        let quarter_us = u64::from(self.tcb.srtt_us / 4);
        let is_shortest = quarter_us <= timing.ack_delay_min_us;
        let deadline = match is_shortest {
            true => self.shared.shortest_delay_ends,
            false => self.deadline(quarter_us.min(timing.ack_delay_max_us)),
        };
        if core::mem::replace(&mut self.tcb.ack_deadline, deadline) == deadline {
            return;
        }
        if is_shortest || deadline.wrapping_sub(self.tick()) <= SOON_TICKS {
            self.shared.delayed.push_back((self.index, deadline));
        } else {
            self.apart().arm();
        }
    }

    /// The peer is still in slow start and lives on our ACKs.
    #[inline(always)]
    fn is_quick_start(&self) -> bool {
        // Bytes have come: where no segments are meant, this is false.
        self.tcb.bytes_received <= u64::from(self.shared.config.quick_start_segments) * u64::from(self.tcb.mss)
            && !self.tcb.delays_acks()
    }

    /// As Linux: who answers what has just come is interactive, and acknowledges with its answers from now on.
    pub(crate) fn end_quick_acks(&mut self) {
        let since_ms = self.tick().wrapping_sub(self.tally().data_received_at);
        if self.tcb.bytes_received > 0 && (since_ms as u64) < self.shared.config.delayed_ack.as_millis() {
            self.tcb.clear(flag::QUICK_ACK);
        }
    }

    /// Whether an ACK is owed that no delay is running for.
    pub(crate) fn owes_ack(&self) -> bool {
        self.tcb.has(flag::ACK_NOW) || (self.tcb.has(flag::ACK_PENDING) && self.tcb.ack_deadline == 0)
    }

    /// The delay that ends at `tick` is over, unless an ACK has gone out since.
    pub(crate) fn end_ack_delay(&mut self, tick: u32) {
        if self.tcb.ack_deadline == tick {
            self.on_delayed_ack();
        }
    }

    /// A segment with SEG.ACK = RCV.NXT is going out.
    #[inline]
    pub(crate) fn ack_sent(&mut self) {
        self.tcb.clear(flag::ACK_NOW | flag::ACK_PENDING);
        self.tcb.last_ack_sent = self.tcb.rcv_nxt;
    }
}
