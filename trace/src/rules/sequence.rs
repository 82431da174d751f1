//! Where bytes stand, and that they stay what they were. Read RFC 9293 §3.4, §3.6, §3.8.5 first.

use crate::finding::Rule;
use crate::flow::{Flow, View};
use crate::segment::{FIN, SYN, URG};

pub(crate) fn check(flow: &mut Flow, view: &mut View<'_>) {
    check_fin(flow, view);
    if view.segment.payload_len > 0 {
        check_content(flow, view);
    } else if flow.ends[view.me].local && !view.segment.has(SYN | FIN) && view.start > view.highest_before {
        let text = format!("{} bytes beyond what it has sent", view.start - view.highest_before);
        flow.object(view, Rule::AckSequence, text);
    }
    check_urgent(flow, view);
}

fn check_fin(flow: &mut Flow, view: &View<'_>) {
    let me = &flow.ends[view.me];
    let has_fin = view.segment.has(FIN);
    match me.fin {
        Some(fin) if view.segment.payload_len > 0 && view.data_end > fin => {
            flow.object(view, Rule::DataAfterFin, format!("{} bytes beyond FIN", view.data_end - fin));
        }
        Some(fin) if has_fin && view.data_end != fin => {
            flow.object(view, Rule::FinMoved, format!("FIN is {} bytes before where it was", fin - view.data_end));
        }
        None if has_fin && me.seen() && view.data_end < view.highest_before => {
            let text = format!("FIN is {} bytes before the end of what was sent", view.highest_before - view.data_end);
            flow.object(view, Rule::DataAfterFin, text);
        }
        _ => {}
    }
}

fn check_content(flow: &mut Flow, view: &mut View<'_>) {
    let me = &mut flow.ends[view.me];
    // A keepalive repeats an acknowledged octet, whose value means nothing (RFC 9293 §3.8.4).
    let keepalive = view.segment.payload_len == 1 && me.acked.is_some_and(|acked| view.data_end <= acked);
    if keepalive {
        return;
    }
    let added = me.sent.add(view.nanos, view.data_start(), i64::from(view.segment.payload_len), view.segment.payload);
    view.sent_before = added.sent_before;
    me.retransmissions += u64::from(added.sent_before.is_some());
    if let Some(at) = added.differs_at {
        let text = format!("the byte at {at} of the stream is not what it was");
        flow.object(view, Rule::Content, text);
    }
}

/// The urgent pointer moves forward only. One that goes as far as its field does says no more than "at least there".
fn check_urgent(flow: &mut Flow, view: &View<'_>) {
    if !view.segment.has(URG) {
        return;
    }
    let point = view.start + i64::from(view.segment.urgent);
    let before = flow.ends[view.me].urgent.replace(point);
    let before = before.filter(|before| point < *before && view.newest);
    if let Some(before) = before {
        flow.ends[view.me].urgent = Some(before);
    }
    if let Some(before) = before.filter(|_| view.segment.urgent != u16::MAX) {
        flow.object(view, Rule::Urgent, format!("the pointer moved back by {}", before - point));
    }
}
