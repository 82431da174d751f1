//! How much a connection may queue: twice what the congestion window lets be under way, up to the send buffer's limit.
//!
//! Read Linux's tcp_sndbuf_expand first. Whoever fills its buffer while the window could take more gets room for the window
//! that is under way and for the next one (BBR: for two more, so that it can double within a round trip); nothing is taken
//! back. A path with a short queue so holds little memory, a long fat one up to the maximum. SO_SNDBUF ends all this: that
//! much at once, and no more. While frames are short nobody is given more, and who has its share already is left with that.

use super::connection::Connection;
use crate::config::CongestionControl;

/// Windows smaller than this many segments are about to grow (Linux: TCP_INIT_CWND).
const SEGMENTS_MIN: u32 = 10;

/// A buffer of fewer bytes has no third that could be free: no ACK would tell of it (`is_nearly_full`).
const TOLD_MIN: u32 = 3;

impl Connection<'_, '_> {
    /// SO_SNDBUF was set, or is the default again.
    pub(crate) fn lock_send_buffer(&mut self, locked: bool) {
        if locked || self.tcb.has_ledger {
            self.ledger().send_buffer_locked = locked;
        }
    }

    /// As Linux's sk_stream_moderate_sndbuf: memory is short, so what is queued is all there is room for. Whether it is so.
    pub(crate) fn cut_send_buffer(&mut self) -> bool {
        let queued = self.tcb.send_queued() as u32;
        let locked = self.shared.tallies.ledger(self.tcb).is_some_and(|ledger| ledger.send_buffer_locked);
        if locked || queued < TOLD_MIN {
            return false;
        }
        self.tcb.send_buffer = self.tcb.send_buffer.min(queued);
        self.tally().clock.writer_waits();
        true
    }

    /// An ACK has come while the buffer was nearly full.
    pub(crate) fn tune_send_buffer(&mut self) {
        let locked = self.shared.tallies.ledger(self.tcb).is_some_and(|ledger| ledger.send_buffer_locked);
        if locked || self.tcb.flight() >= self.tcb.cwnd || !self.shared.starved.is_empty() {
            return;
        }
        let windows = if self.tcb.congestion == CongestionControl::Bbr { 3 } else { 2 };
        let window = self.tcb.cwnd.max(SEGMENTS_MIN * u32::from(self.tcb.mss));
        let wanted = window.saturating_mul(windows).min(self.shared.config.send_buffer_bytes);
        self.tcb.send_buffer = self.tcb.send_buffer.max(wanted);
    }
}
