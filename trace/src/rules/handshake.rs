//! SYN, SYN-ACK, RST. Read RFC 9293 §3.5, §3.10.7.2, RFC 6298 §2.1, §5.7 first.

use crate::end::Syn;
use crate::finding::Rule;
use crate::flow::{Flow, View};
use crate::segment::{ACK, SYN};

/// The least time to the first repetition of a SYN, nanoseconds.
const SYN_TIMEOUT: u64 = 1_000_000_000;
/// Where the sender's order is unknown, copies closer than this may be the network's.
const NETWORK_COPY: u64 = 5_000_000;

/// A packet that leaves this soon after an answer of ARP or ND may have waited for it.
const HELD: u64 = 20_000_000;

pub(crate) fn check(flow: &mut Flow, view: &View<'_>) {
    let (me, peer) = (view.me, 1 - view.me);
    let mut syn = Syn::new(view.segment, view.nanos);
    // It may have waited for the neighbor's address, and left with its own repetition.
    syn.held = flow.resolved_at.is_some_and(|at| view.nanos.saturating_sub(at) < HELD);
    if view.segment.has(ACK) {
        check_syn_ack(flow, view);
    }
    if let Some(other) = &mut flow.ends[peer].syn {
        other.asked = other.asked.saturating_add(1);
    }
    match &mut flow.ends[me].syn {
        None => flow.ends[me].syn = Some(syn),
        Some(earlier) => {
            let waited = view.nanos.saturating_sub(earlier.last_sent);
            let same_kind = earlier.has_ack == syn.has_ack;
            let asked = earlier.asked > 0 || earlier.held;
            earlier.merge(&syn);
            // A copy of the SYN that the network made asks too; it is seen only where the answer comes from.
            let elsewhere = syn.has_ack && (flow.ends[peer].local || !flow.ends[me].local);
            check_timeout(flow, view, waited, asked || elsewhere || !same_kind);
        }
    }
}

fn check_timeout(flow: &mut Flow, view: &View<'_>, waited: u64, explained: bool) {
    let local = flow.ends[view.me].local;
    let least = if local { SYN_TIMEOUT / 20 * 19 } else { SYN_TIMEOUT / 2 };
    let network = !local && waited < NETWORK_COPY;
    if waited < least && !explained && !network {
        flow.object(view, Rule::SynTimeout, format!("repeated after {} ms", waited / 1_000_000));
    }
}

fn check_syn_ack(flow: &mut Flow, view: &View<'_>) {
    let (me, peer) = (view.me, 1 - view.me);
    let options = &view.segment.options;
    let opened_itself = flow.ends[me].syn.as_ref().is_some_and(|syn| !syn.has_ack);
    let Some(offered) = &flow.ends[peer].syn else { return };
    if offered.has_ack || opened_itself {
        return;
    }
    let extra = [
        (options.window_scale.is_some() && offered.window_scale.is_none(), "window scale"),
        (options.timestamps.is_some() && !offered.timestamps, "timestamps"),
        (options.sack_permitted && !offered.sack_permitted, "SACK permitted"),
    ];
    for (_, name) in extra.into_iter().filter(|(is_extra, _)| *is_extra) {
        flow.object(view, Rule::SynAckOption, format!("{name}, which the SYN did not offer"));
    }
    let highest = flow.ends[peer].highest;
    if let Some(ack) = view.ack.filter(|ack| !(1..=highest).contains(ack)) {
        flow.object(view, Rule::SynAckNumber, format!("acknowledges {ack} from the SYN, not 1"));
    }
}

/// Segments of a sender that has given up.
pub(crate) fn check_flags(flow: &mut Flow, view: &View<'_>) {
    if flow.ends[view.me].reset && view.newest && !view.segment.has(SYN) {
        flow.object(view, Rule::AfterReset, format!("{} after it sent RST", view.segment.flag_names()));
    }
}
