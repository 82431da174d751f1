//! Acknowledgments. Read RFC 9293 §3.4, §3.10.7.4 (fifth) first.
//!
//! An end that acknowledges what was not seen may have received what the capture lacks. What the other end sends next
//! decides: it goes on behind the number, then the capture lacks packets; it goes on where it was, then the
//! acknowledgment was wrong.

use crate::end::Doubt;
use crate::finding::Rule;
use crate::flow::{Flow, View};
use crate::segment::SYN;

/// Two captures of one moment may swap packets that are this near, nanoseconds.
const SWAP: u64 = 1_000_000;
/// Where the sender's order is unknown, later than this it may be a retransmission.
const TOO_LATE: u64 = 150_000_000;

pub(crate) fn check(flow: &mut Flow, view: &View<'_>, ack: i64) {
    settle(flow, view);
    let local = flow.ends[view.me].local;
    let peer = &mut flow.ends[1 - view.me];
    if peer.seen() && ack > peer.highest && !view.segment.has(SYN) {
        let doubt = Doubt { packet: view.packet, nanos: view.nanos, acknowledged: ack, highest: peer.highest };
        peer.doubt.get_or_insert(doubt);
    }
    let back = peer.acked.map_or(0, |before| before - ack);
    if local && back > 0 && !view.segment.has(SYN) {
        flow.object(view, Rule::AckBackwards, format!("{back} bytes less than before"));
    }
}

/// Settles a doubt about what the sender of this segment was told.
fn settle(flow: &mut Flow, view: &View<'_>) {
    let me = &mut flow.ends[view.me];
    let Some(doubt) = me.doubt.take_if(|doubt| view.end > doubt.highest || view.nanos > doubt.nanos + SWAP) else { return };
    let later = view.nanos.saturating_sub(doubt.nanos);
    if view.start >= doubt.acknowledged {
        flow.incomplete = true;
    } else if view.start <= doubt.highest && view.end > doubt.highest && later <= SWAP {
        // Swapped: it was sent before the acknowledgment.
    } else if view.start == doubt.highest && (me.local || (view.segment.payload_len > 0 && later < TOO_LATE)) {
        let beyond = doubt.acknowledged - doubt.highest;
        let text = format!("{beyond} bytes beyond what was sent");
        flow.object_at((doubt.packet, doubt.nanos, 1 - view.me), Rule::AckUnsent, Rule::AckUnsent.severity(), text);
    } else if view.end > doubt.highest {
        flow.incomplete = true;
    } else {
        me.doubt = Some(doubt);
    }
}
