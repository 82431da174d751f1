//! Explicit congestion notification. Read RFC 3168 §6.1, RFC 9768 §3 first.
//!
//! Does not do: count as RFC 9768's ACE field does.

use crate::finding::Rule;
use crate::flow::{Ecn, Flow, View};
use crate::segment::{AE, CWR, ECE, SYN};

const CONGESTION_EXPERIENCED: u8 = 3;

pub(crate) fn check(flow: &mut Flow, view: &View<'_>) {
    if view.segment.has(SYN) {
        if view.ecn != 0 {
            flow.object(view, Rule::EcnControl, format!("ECN field {} on {}", view.ecn, view.segment.flag_names()));
        }
        return;
    }
    match Ecn::of(flow) {
        Ecn::Off => check_off(flow, view),
        Ecn::Classic => check_classic(flow, view),
        Ecn::Accurate | Ecn::Unknown => {}
    }
}

fn check_off(flow: &mut Flow, view: &View<'_>) {
    if view.ecn != 0 {
        flow.object(view, Rule::EcnUnasked, format!("ECN field {}", view.ecn));
    }
    if view.segment.has(ECE | CWR | AE) {
        flow.object(view, Rule::EcnUnasked, view.segment.flag_names());
    }
}

fn check_classic(flow: &mut Flow, view: &View<'_>) {
    let (me, peer) = (view.me, 1 - view.me);
    let segment = view.segment;
    if view.ecn != 0 && segment.payload_len == 0 {
        flow.object(view, Rule::EcnControl, format!("ECN field {} on {}", view.ecn, segment.flag_names()));
    } else if view.ecn != 0 && view.sent_before.is_some() && flow.ends[me].local {
        flow.object(view, Rule::EcnControl, format!("ECN field {} on a retransmission", view.ecn));
    }
    // As a receiver: the first acknowledgment of data that came with CE says so.
    if let (Some(owed), Some(ack)) = (flow.ends[me].owes_echo, view.ack)
        && ack >= owed
    {
        flow.ends[me].owes_echo = None;
        if !segment.has(ECE) && flow.ends[me].local {
            flow.object(view, Rule::EcnEcho, "acknowledges data that came with CE without ECE".into());
        }
    }
    if segment.has(CWR) {
        flow.ends[peer].owes_echo = None;
    }
    if view.ecn == CONGESTION_EXPERIENCED && segment.payload_len > 0 && view.sent_before.is_none() {
        flow.ends[peer].owes_echo.get_or_insert(view.data_end);
    }
}
