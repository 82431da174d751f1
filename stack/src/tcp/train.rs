//! PSH: where the sender's data ends for now, and where a train of segments does.
//!
//! Read RFC 9293 §3.9.1.2 (MUST-60, MUST-61) first. A segment carries PSH when nothing was queued behind it, and keeps it when it
//! is sent again. Where configured, the last segment of each train carries it too: receivers that coalesce
//! segments then deliver the train at once. Trains are as long as Linux makes super-segments: what is
//! sent in a millisecond at the pace of the connection, but at most half a congestion window.

use super::connection::Connection;
use super::output::Plan;
use super::send_queue::is_pushed;

/// Segments left of the train that is being sent in this turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Train {
    left: u32,
    /// The train has more than one segment.
    long: bool,
}

/// Bytes of a train at most: what one packet of IP holds.
const TRAIN_BYTES_MAX: u64 = 65_536;

impl Connection<'_, '_> {
    /// Whether the data ends with this segment, or did when it was sent first.
    pub(crate) fn ends_data(&self, plan: &Plan) -> bool {
        let end = plan.sequence + plan.len;
        plan.len > 0 && (end == self.tcb.snd_end || plan.again && is_pushed(self.env.arena, self.find(Some(plan)), end))
    }

    /// Counts a planned segment. Whether it ends a train of several.
    pub(crate) fn ends_train(&self, plan: &Plan, train: &mut Train) -> bool {
        let least = self.shared.config.push_trains as u32;
        if least == 0 || plan.again || plan.probe || plan.len != plan.segment {
            return false;
        }
        if train.left == 0 {
            train.left = self.train_segments(least).min(self.sendable_segments(plan)).max(1);
            train.long = train.left > 1;
        }
        train.left -= 1;
        train.left == 0 && train.long
    }

    /// Full segments that windows let out from this one on.
    fn sendable_segments(&self, plan: &Plan) -> u32 {
        let tcb = &*self.tcb;
        let offered = tcb.snd_wnd.saturating_sub(plan.sequence - tcb.snd_una);
        let room = tcb.cwnd.saturating_sub(self.pipe());
        tcb.unsent().min(offered).min(room) / tcb.mss as u32
    }

    /// Linux's tcp_tso_autosize and tcp_cwnd_test.
    fn train_segments(&self, least: u32) -> u32 {
        let tcb = &*self.tcb;
        let mss = tcb.mss as u64;
        let percent = if tcb.cwnd < tcb.ssthresh / 2 { 200 } else { 120 };
        let rate = tcb.cwnd.max(tcb.flight()) as u64 * percent * 10_000 / tcb.srtt_us.max(1) as u64;
        // Near peers get longer trains.
        let near = TRAIN_BYTES_MAX.checked_shr(tcb.min_rtt_us() >> 9).unwrap_or(0);
        let paced = ((rate >> 10) + near).min(TRAIN_BYTES_MAX) / mss;
        let half = (tcb.cwnd as u64 / mss / 2).max(1);
        paced.max(least as u64).min(half) as u32
    }
}
