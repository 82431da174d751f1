//! Windows: no end sends beyond one, and its right edge stays. Read RFC 9293 §3.8.6, RFC 7323 §2 first.

use crate::finding::Rule;
use crate::flow::{Flow, View};
use crate::segment::SYN;

/// The least time to the first probe of a closed window, in parts of the least timeout.
const PROBE_PARTS: (u64, u64) = (9, 10);

/// What this segment sends, against the window that its sender was offered.
pub(crate) fn check_sent(flow: &mut Flow, view: &View<'_>) {
    let me = &flow.ends[view.me];
    let Some(edge) = me.edge else { return };
    if view.segment.payload_len == 0 || view.segment.has(SYN) {
        return;
    }
    let beyond = view.data_end - edge;
    // RFC 9293 §3.8.6.1: a closed window is probed with a byte of data.
    let probe = view.segment.payload_len == 1 && view.start == edge && me.closed_since.is_some();
    if probe {
        check_probe(flow, view);
    } else if beyond > 0 {
        flow.object(view, Rule::BeyondWindow, format!("{beyond} bytes beyond the window"));
    }
}

fn check_probe(flow: &mut Flow, view: &View<'_>) {
    let me = &flow.ends[view.me];
    let waited = view.nanos.saturating_sub(me.closed_since.unwrap_or(view.nanos));
    if me.local && waited < flow.least_timeout / PROBE_PARTS.1 * PROBE_PARTS.0 && view.end > view.highest_before {
        flow.object(view, Rule::WindowProbe, format!("a probe {} ms after the window closed", waited / 1_000_000));
    }
}

/// The window that this segment offers.
pub(crate) fn check_offered(flow: &mut Flow, view: &View<'_>, ack: i64) {
    let scale = if view.segment.has(SYN) { Some(0) } else { flow.window_scale(view.me) };
    let Some(scale) = scale else { return };
    let offered = ack + (i64::from(view.segment.window) << scale);
    let peer = &mut flow.ends[1 - view.me];
    let Some(before) = peer.edge else {
        peer.edge = Some(offered);
        return;
    };
    peer.edge = Some(before.max(offered));
    // The scale makes edges coarse; less than one unit is no shrinking (RFC 7323 §2.4).
    let lost = before - offered;
    let proven = flow.ends[view.me].local || flow.ends[1 - view.me].acked.is_none_or(|acked| ack > acked);
    if lost >= 1 << scale && proven {
        flow.object(view, Rule::WindowShrunk, format!("the right edge moved left by {lost}"));
    }
}
