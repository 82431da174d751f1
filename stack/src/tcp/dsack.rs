//! Duplicates reported by their receiver. Read RFC 2883 §4-5 first.
//!
//! The first SACK block of an ACK may name bytes that have arrived twice. The sender learns from it that a retransmission
//! was unnecessary: RACK waits longer, a tail loss probe was not needed.

use crate::stats::Counter;
use crate::wire::tcp::SackBlock;

use super::connection::Connection;
use super::segment::Segment;
use super::tcb::flag;
use crate::wire::sequence::SeqNum;

/// RFC 2883 §4: returns the first block if it reports duplicates: it lies below `ack` or in the second block.
fn duplicate_block(blocks: &[SackBlock], ack: SeqNum) -> Option<SackBlock> {
    let first = blocks.first().copied().filter(|block| block.left.before(block.right))?;
    let contained = blocks.get(1).is_some_and(|b| b.left.at_or_before(first.left) && first.right.at_or_before(b.right));
    (first.right.at_or_before(ack) || contained).then_some(first)
}

impl Connection<'_, '_> {
    /// RFC 2883 §4: `left..right` has arrived again; the next ACK reports it.
    pub(crate) fn report_duplicate(&mut self, left: SeqNum, right: SeqNum, counter: Counter) {
        if !self.tcb.has(flag::SACK) || !left.before(right) {
            return;
        }
        self.on_duplicate(left);
        let duplicate = &mut self.demand_cold().duplicate;
        match duplicate {
            None => {
                *duplicate = Some(SackBlock { left, right });
                self.env.counters.count(counter);
            }
            // A range that touches the pending one is reported with it.
            Some(d) if d.left.at_or_before(right) && left.at_or_before(d.right) => {
                *d = SackBlock { left: d.left.earliest(left), right: d.right.latest(right) };
            }
            // §4.2.2: the block names the first duplicate, and there is one block.
            Some(_) => {}
        }
    }

    /// Clears the report after an ACK with it has gone out.
    pub(crate) fn duplicate_reported(&mut self) {
        if self.cold().is_some_and(|cold| cold.duplicate.take().is_some()) {
            self.shared.cold.release_if_quiet(self.env.arena, self.tcb);
        }
    }

    /// Takes the peer's report of a range received twice.
    pub(crate) fn take_dsack(&mut self, segment: &Segment) -> Option<SackBlock> {
        let blocks = segment.header.options.sack();
        if blocks.is_empty() || !self.tcb.has(flag::SACK) {
            return None;
        }
        let block = duplicate_block(blocks, segment.acknowledgment())?;
        let oldest = self.tcb.snd_una() - self.tcb.max_window().max(1);
        if block.left.before(oldest) || block.right.after(self.tcb.snd_nxt()) {
            return None;
        }
        let is_old = block.right.at_or_before(segment.acknowledgment());
        self.env.counters.count(if is_old { Counter::TcpDsackRecv } else { Counter::TcpDsackOfoRecv });
        let segments = (block.right - block.left).div_ceil(self.tcb.mss() as u32);
        let rare = self.rare();
        rare.duplicates = rare.duplicates.wrapping_add(segments);
        if self.uses_rack() {
            let nxt = self.tcb.snd_nxt();
            self.demand_cold().rack.on_dsack(nxt);
        }
        self.undo_if_all_reported(block);
        Some(block)
    }
}
