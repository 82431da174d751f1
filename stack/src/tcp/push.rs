//! PSH: marks the present end of the sender's data, and the end of each push.
//!
//! Read RFC 9293 §3.9.1.2 (MUST-60, MUST-61) first. A segment carries PSH when nothing was queued behind it, and keeps it
//! when it is retransmitted. If configured, the last segment of each push carries it too: receivers that coalesce segments
//! then deliver the push at once. A push is as long as a super-segment in Linux: what is sent in a millisecond at the
//! connection's pace, but at most half a congestion window.

use super::connection::Connection;
use super::output::Plan;
use super::send_queue::is_pushed;

/// Segments left of the push that is being sent in this turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PushGroup {
    left: u32,
    /// The push has more than one segment.
    long: bool,
}

/// Maximum bytes of a push: what one IP packet holds.
const PUSH_GROUP_BYTES_MAX: u64 = 65_536;

impl Connection<'_, '_> {
    /// Returns true when the data ends with this segment, or did when it was first sent.
    pub(crate) fn ends_data(&self, plan: &Plan) -> bool {
        let end = plan.sequence + plan.len;
        plan.len > 0 && (end == self.tcb.snd_end() || plan.again && is_pushed(self.env.arena, self.find(Some(plan)), end))
    }

    /// Counts a planned segment. Returns true when it ends a push of several.
    pub(crate) fn ends_push_group(&self, plan: &Plan, group: &mut PushGroup) -> bool {
        let least = self.shared.config.push_trains as u32;
        if least == 0 || plan.again || plan.probe || plan.len != plan.segment {
            return false;
        }
        if group.left == 0 {
            group.left = self.push_group_segments(least).min(self.sendable_segments(plan)).max(1);
            group.long = group.left > 1;
        }
        group.left -= 1;
        group.left == 0 && group.long
    }

    /// Number of full segments that the windows allow from this one on.
    fn sendable_segments(&self, plan: &Plan) -> u32 {
        let tcb = &*self.tcb;
        let offered = tcb.snd_wnd().saturating_sub(plan.sequence - tcb.snd_una());
        let room = tcb.cwnd().saturating_sub(self.pipe());
        tcb.unsent().min(offered).min(room) / tcb.mss() as u32
    }

    /// Linux's tcp_tso_autosize and tcp_cwnd_test.
    fn push_group_segments(&self, least: u32) -> u32 {
        let tcb = &*self.tcb;
        let mss = tcb.mss() as u64;
        let percent = if tcb.cwnd() < tcb.ssthresh() / 2 { 200 } else { 120 };
        let rate = tcb.cwnd().max(tcb.flight()) as u64 * percent * 10_000 / tcb.srtt_us().max(1) as u64;
        // Near peers get longer pushes.
        let near = PUSH_GROUP_BYTES_MAX.checked_shr(tcb.min_rtt_us() >> 9).unwrap_or(0);
        let paced = ((rate >> 10) + near).min(PUSH_GROUP_BYTES_MAX) / mss;
        let half = (tcb.cwnd() as u64 / mss / 2).max(1);
        paced.max(least as u64).min(half) as u32
    }
}
