//! Delayed acknowledgments. Read RFC 9293 §3.8.6.3, RFC 5681 §4.2 first.
//!
//! Only of a receiver whose packets were captured where it stands: elsewhere the way takes time too. Warnings
//! only: what was captured may not have reached its TCP.

use crate::finding::Rule;
use crate::flow::{Flow, View};
use crate::rules::size;

/// MUST be less than half a second; and what a busy machine may add.
const DELAY_MAX: u64 = 550_000_000;
/// Full segments that one acknowledgment may cover.
const FULL_SEGMENTS_MAX: u32 = 2;

pub(crate) fn check(flow: &mut Flow, view: &View<'_>, ack: i64) {
    acknowledges(flow, view, ack);
    arrives(flow, view);
}

/// This segment acknowledges what its sender has received.
fn acknowledges(flow: &mut Flow, view: &View<'_>, ack: i64) {
    let (me, peer) = (view.me, 1 - view.me);
    let moves = flow.ends[peer].acked.is_none_or(|before| ack > before);
    let Some(since) = flow.ends[me].owes_ack_since.filter(|_| moves && flow.ends[me].local) else { return };
    let waited = view.nanos.saturating_sub(since);
    if waited > DELAY_MAX {
        flow.object(view, Rule::DelayedAck, format!("{} ms after the data", waited / 1_000_000));
    }
    let full = flow.ends[me].full_segments;
    if full > FULL_SEGMENTS_MAX && flow.ends[peer].super_segments == 0 {
        flow.object(view, Rule::StretchAck, format!("{full} full segments with one acknowledgment"));
    }
    let all = flow.ends[peer].sent.contiguous().is_none_or(|end| ack >= end);
    flow.ends[me].owes_ack_since = if all { None } else { Some(view.nanos) };
    flow.ends[me].full_segments = 0;
}

/// This segment brings data to the other end.
fn arrives(flow: &mut Flow, view: &View<'_>) {
    let (me, peer) = (view.me, 1 - view.me);
    let in_order = view.segment.payload_len > 0
        && flow.ends[me].sent.contiguous() == Some(view.data_end)
        && view.sent_before.is_none()
        && flow.ends[me].edge.is_some_and(|edge| view.data_end <= edge);
    if !in_order || !flow.ends[peer].local {
        return;
    }
    let full = size::limit(flow, me).is_some_and(|mss| view.segment.payload_len + view.segment.options_len >= mss);
    let receiver = &mut flow.ends[peer];
    receiver.owes_ack_since.get_or_insert(view.nanos);
    receiver.full_segments += u32::from(full);
}
