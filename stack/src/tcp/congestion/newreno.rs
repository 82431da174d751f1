//! Reno's window rules. Read RFC 5681 §3.1 first.

use super::Window;

/// Congestion avoidance: one MSS per window of acknowledged bytes.
pub(crate) fn on_ack(window: &mut Window, acked: u32) {
    // RFC 5681 (3), by bytes; at least one byte so that a large window still grows.
    let growth = window.mss as u64 * acked as u64 / window.cwnd.max(1) as u64;
    window.cwnd = window.cwnd.saturating_add((growth as u32).max(1));
}

/// RFC 5681 (4): half of the bytes in flight, at least two segments.
pub(crate) fn on_loss(window: &Window, flight: u32) -> u32 {
    (flight / 2).max(2 * window.mss)
}
