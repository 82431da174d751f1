//! Send buffer tuning: twice the congestion window, up to the send buffer's limit.
//!
//! Read Linux's tcp_sndbuf_expand first. When a connection fills its buffer while the window could take more, the buffer
//! grows to the window in flight and the next one (BBR: two more, so that it can double within a round trip). It does not
//! shrink. So a path with a short queue holds little memory, a long fat one up to the maximum. SO_SNDBUF ends the tuning:
//! that much at once, and no more. While frames are scarce no buffer grows, and one that has its share already is left with
//! that.

use super::connection::Connection;

/// Windows smaller than this many segments are about to grow (Linux: TCP_INIT_CWND).
const SEGMENTS_MIN: u32 = 10;

/// A buffer of fewer bytes has no third that could be free: no ACK would signal it (`is_nearly_full`).
const TOLD_MIN: u32 = 3;

impl Connection<'_, '_> {
    /// Notes that SO_SNDBUF was set, or is the default again.
    pub(crate) fn lock_send_buffer(&mut self, locked: bool) {
        if locked || self.tcb.has_rare_stats {
            self.rare().send_buffer_locked = locked;
        }
    }

    /// Linux's sk_stream_moderate_sndbuf: memory is short, so the buffer shrinks to what is queued. Returns true when it
    /// did.
    pub(crate) fn cut_send_buffer(&mut self) -> bool {
        let queued = self.tcb.send_queued() as u32;
        let locked = self.shared.conn_stats.rare(self.tcb).is_some_and(|rare| rare.send_buffer_locked);
        if locked || queued < TOLD_MIN {
            return false;
        }
        self.tcb.set_send_buffer(self.tcb.send_buffer().min(queued));
        self.stats().clock.writer_waits();
        true
    }

    /// Grows the buffer when an ACK has come while it was nearly full.
    pub(crate) fn tune_send_buffer(&mut self) {
        let locked = self.shared.conn_stats.rare(self.tcb).is_some_and(|rare| rare.send_buffer_locked);
        if locked || self.tcb.flight() >= self.tcb.cwnd() || !self.shared.starved.is_empty() {
            return;
        }
        let windows = if self.is_rate_based() { 3 } else { 2 };
        let window = self.tcb.cwnd().max(SEGMENTS_MIN * u32::from(self.tcb.mss()));
        let wanted = window.saturating_mul(windows).min(self.shared.config.send_buffer_bytes);
        self.tcb.set_send_buffer(self.tcb.send_buffer().max(wanted));
    }
}
