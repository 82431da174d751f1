//! Timestamps. Read RFC 7323 §3, §4 first.

use crate::finding::Rule;
use crate::flow::{Flow, View};
use crate::segment::{ACK, SYN};

pub(crate) fn check(flow: &mut Flow, view: &View<'_>) {
    let segment = view.segment;
    let agreed = flow.agreed(|syn| syn.timestamps);
    match (segment.options.timestamps, agreed) {
        (None, Some([true, true])) if !segment.has(SYN) => {
            flow.object(view, Rule::TimestampMissing, format!("none on {}", segment.flag_names()));
        }
        (Some(_), Some([a, b])) if !(segment.has(SYN) || a && b) => {
            flow.object(view, Rule::TimestampUnasked, "the SYNs did not agree on them".into());
        }
        (Some((value, echo)), _) => {
            check_value(flow, view, value);
            if segment.has(ACK) {
                check_echo(flow, view, echo);
            }
        }
        _ => {}
    }
}

fn check_value(flow: &mut Flow, view: &View<'_>, value: u32) {
    let Some(latest) = flow.ends[view.me].clock.latest() else { return };
    let back = latest.wrapping_sub(value) as i32;
    if back > 0 && view.newest {
        flow.object(view, Rule::TimestampBackwards, format!("TSval {value} after {latest}"));
    }
}

fn check_echo(flow: &mut Flow, view: &View<'_>, echo: u32) {
    let peer = &flow.ends[1 - view.me];
    // What was sent before the capture began is not known.
    let from_start = peer.syn.as_ref().is_some_and(|syn| syn.timestamps);
    if from_start && !peer.clock.knows(echo) {
        flow.object(view, Rule::TimestampEcho, format!("TSecr {echo} was never sent"));
    }
}
