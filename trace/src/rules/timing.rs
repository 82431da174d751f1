//! When data is repeated. Read RFC 6298 §2, §5, RFC 5681 §3.2, RFC 8985 §7 first.
//!
//! Explained by: duplicate acknowledgments or SACK blocks, a recovery that is under way, a tail loss probe, a
//! closed window, an ICMP error. Otherwise the least timeout must have passed since the last copy.

use crate::finding::Rule;
use crate::flow::{Flow, View};
use crate::segment::{ECE, SYN};

/// Where the sender's order is unknown, copies closer than this may be the network's.
const NETWORK_COPY: u64 = 5_000_000;

/// How long a sign of loss that was captured far from the sender may be under way.
const SIGN_LASTS: u64 = 300_000_000;

pub(crate) fn check(flow: &mut Flow, view: &View<'_>) {
    check_repeated(flow, view);
    let me = &mut flow.ends[view.me];
    if view.nanos < me.signs_until {
        me.recover = me.recover.max(view.end);
    }
    if let Some(ack) = view.ack {
        explain(flow, view, ack);
    }
}

fn check_repeated(flow: &mut Flow, view: &View<'_>) {
    let me = &flow.ends[view.me];
    let Some(before) = view.sent_before else { return };
    let acked = me.acked.unwrap_or(i64::MIN);
    let late = view.data_end <= acked;
    let recovering = acked < me.recover;
    let may_probe_tail = flow.agreed(|syn| syn.sack_permitted) != Some([false, false]) && view.end >= me.highest;
    if late || recovering || may_probe_tail || me.closed_since.is_some() || view.segment.has(SYN) {
        return;
    }
    let waited = view.nanos.saturating_sub(before);
    let least = if me.local { flow.least_timeout / 10 * 9 } else { flow.least_timeout / 2 };
    let network = !me.local && waited < NETWORK_COPY;
    if waited < least && !network {
        let text = format!("repeated after {} ms without a sign of loss", waited / 1_000_000);
        flow.object(view, Rule::RetransmitTimeout, text);
    }
    let me = &mut flow.ends[view.me];
    if !network {
        me.recover = me.highest;
    }
}

/// This segment tells the other end of a loss.
fn explain(flow: &mut Flow, view: &View<'_>, ack: i64) {
    let segment = view.segment;
    let near = flow.ends[view.me].local;
    let sender = &mut flow.ends[1 - view.me];
    let same = sender.acked == Some(ack) && segment.len() == 0 && sender.highest > ack;
    let duplicate = same && sender.last_window == segment.window;
    let partial_open = segment.has(SYN) && ack < sender.highest;
    if duplicate || partial_open || !segment.options.sack.is_empty() || segment.has(ECE) {
        sender.recover = sender.recover.max(sender.highest);
        if !sender.local || near {
            sender.signs_until = view.nanos + SIGN_LASTS;
        }
    }
}
