//! SACK blocks. Read RFC 2018 §3, §4, RFC 2883 §4 first.

use crate::finding::Rule;
use crate::flow::{Flow, View};

pub(crate) fn check(flow: &mut Flow, view: &View<'_>, ack: i64) {
    let blocks = &view.segment.options.sack;
    if blocks.is_empty() {
        return;
    }
    let peer = 1 - view.me;
    if flow.agreed(|_| ()).is_some() && flow.ends[peer].syn.as_ref().is_some_and(|syn| !syn.sack_permitted) {
        flow.object(view, Rule::SackUnasked, "the other end has not permitted it".into());
    }
    let place = |(left, right): &(u32, u32)| {
        let mut positions = flow.ends[peer].positions;
        (positions.of(*left), positions.of(*right))
    };
    let placed: Vec<(i64, i64)> = blocks.iter().map(place).collect();
    if let Some(text) = mistake(&placed, ack) {
        flow.object(view, Rule::SackForm, text);
    }
    let highest = flow.ends[peer].highest;
    if flow.ends[peer].seen()
        && let Some((_, right)) = placed.iter().find(|(_, right)| *right > highest)
    {
        flow.object(view, Rule::SackUnsent, format!("{} bytes beyond what was sent", right - highest));
    }
}

/// What is wrong with blocks above the acknowledgment `ack`.
fn mistake(blocks: &[(i64, i64)], ack: i64) -> Option<String> {
    if let Some((left, right)) = blocks.iter().find(|(left, right)| left >= right) {
        return Some(format!("block {left}..{right} is empty"));
    }
    let (first, rest) = blocks.split_first()?;
    // RFC 2883 §4: the first block may tell of a duplicate.
    let inside = |(left, right): &(i64, i64)| *left <= first.0 && first.1 <= *right;
    let is_duplicate = first.0 < ack || rest.iter().any(inside);
    let plain = if is_duplicate { rest } else { blocks };
    if let Some((left, right)) = plain.iter().find(|(left, _)| *left <= ack) {
        return Some(format!("block {left}..{right} is not above the acknowledgment {ack}"));
    }
    for (at, a) in plain.iter().enumerate() {
        if let Some(b) = plain[at + 1..].iter().find(|b| a.0 < b.1 && b.0 < a.1) {
            return Some(format!("blocks {}..{} and {}..{} overlap", a.0, a.1, b.0, b.1));
        }
    }
    None
}
