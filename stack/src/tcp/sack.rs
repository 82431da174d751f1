//! The sender's scoreboard: the bytes that the peer holds out of order, and the losses that follow from them.
//!
//! Read RFC 2018 §5 and RFC 6675 §2-4 first; `is_lost`, `pipe` and `next_segment` are the RFC's IsLost, SetPipe and NextSeg
//! (rules 1 and 3). The scoreboard is a bounded, sorted list of disjoint blocks; when it is full, further blocks are
//! ignored, which costs retransmissions but no correctness. After a timeout everything below `recover` that is not SACKed
//! counts as lost.

use alloc::vec::Vec;

use super::handover::part::parts;
use super::ranges::Ranges;
use crate::wire::sequence::SeqNum;
use crate::wire::tcp::SackBlock;

/// Maximum number of blocks.
const BLOCKS_MAX: usize = 128;
/// RFC 6675 §2: DupThresh
pub(crate) const DUP_THRESH: u32 = 3;

/// See the module's text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scoreboard {
    blocks: Vec<SackBlock>,
    sacked: u32,
    /// RFC 6675: HighRxt, one past the highest byte retransmitted in this recovery.
    pub(crate) high_rxt: SeqNum,
}

/// Part of the sequence space that a query covers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outstanding {
    pub(crate) una: SeqNum,
    pub(crate) nxt: SeqNum,
    pub(crate) mss: u32,
    /// Everything before this is lost unless SACKed (after a timeout); otherwise `una`.
    pub(crate) lost_before: SeqNum,
}

/// Data that a search for the next retransmission takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Search {
    /// Known to be lost.
    Lost,
    /// Perhaps lost.
    Rescue,
}

impl Scoreboard {
    /// Returns true when no block is known.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Bytes that the peer holds out of order.
    #[inline]
    pub(crate) fn sacked(&self) -> u32 {
        self.sacked
    }

    /// One past the highest byte that the peer holds out of order.
    pub(crate) fn highest(&self) -> Option<SeqNum> {
        self.blocks.last().map(|block| block.right)
    }

    /// Calls `visit` for the pieces of `start..end` that the peer is not known to hold.
    pub(crate) fn for_each_outside(&self, start: SeqNum, end: SeqNum, visit: &mut dyn FnMut(SeqNum, SeqNum)) {
        let mut start = start;
        let at = self.blocks.partition_point(|b| b.right.at_or_before(start));
        for block in self.blocks[at..].iter().take_while(|b| b.left.before(end)) {
            if start.before(block.left) {
                visit(start, block.left);
            }
            start = start.latest(block.right);
        }
        if start.before(end) {
            visit(start, end);
        }
    }

    /// The pieces of an ACK's blocks that are new.
    pub(crate) fn news(&self, una: SeqNum, nxt: SeqNum, blocks: &[SackBlock]) -> Ranges<()> {
        let mut news = Ranges::default();
        for block in blocks.iter().filter(|block| Self::is_valid(una, nxt, block)) {
            self.for_each_outside(block.left, block.right, &mut |start, end| news.add(start, end, ()));
        }
        news
    }

    /// Returns false for invalid blocks and for RFC 2883's reports of duplicates below SND.UNA.
    fn is_valid(una: SeqNum, nxt: SeqNum, block: &SackBlock) -> bool {
        block.left.before(block.right) && block.left.after(una) && block.right.at_or_before(nxt)
    }

    /// Removes all blocks.
    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
        self.sacked = 0;
    }

    /// Takes the blocks of an ACK. Returns true when they report anything new.
    pub(crate) fn update(&mut self, una: SeqNum, nxt: SeqNum, blocks: &[SackBlock]) -> bool {
        let before = self.sacked;
        for block in blocks {
            if Self::is_valid(una, nxt, block) {
                self.insert(*block);
            }
        }
        self.sacked = self.blocks.iter().map(|b| b.right - b.left).sum();
        self.sacked > before
    }

    fn insert(&mut self, block: SackBlock) {
        let SackBlock { mut left, mut right } = block;
        let at = self.blocks.iter().position(|b| b.right.at_or_after(left)).unwrap_or(self.blocks.len());
        while let Some(next) = self.blocks.get(at) {
            if next.left.after(right) {
                break;
            }
            left = left.earliest(next.left);
            right = right.latest(next.right);
            self.blocks.remove(at);
        }
        if self.blocks.len() < BLOCKS_MAX {
            self.blocks.insert(at, SackBlock { left, right });
        }
    }

    /// Drops what lies before `una`.
    pub(crate) fn acknowledge(&mut self, una: SeqNum) {
        self.high_rxt = self.high_rxt.latest(una);
        if self.blocks.is_empty() {
            return;
        }
        self.blocks.retain(|b| b.right.after(una));
        if let Some(first) = self.blocks.first_mut() {
            first.left = first.left.latest(una);
        }
        self.sacked = self.blocks.iter().map(|b| b.right - b.left).sum();
    }

    /// IsLost of a byte with `above` SACKed bytes in `blocks` blocks after it.
    fn is_lost(above: u32, blocks: usize, mss: u32) -> bool {
        blocks as u32 >= DUP_THRESH || above > (DUP_THRESH - 1) * mss
    }

    /// Returns true when the first unacknowledged byte is lost (RFC 6675 §5, step 2).
    pub(crate) fn is_first_lost(&self, mss: u32) -> bool {
        Self::is_lost(self.sacked, self.blocks.len(), mss)
    }

    /// Calls `visit` for every range that is not SACKed, in order.
    fn for_each_gap(&self, out: &Outstanding, visit: &mut dyn FnMut(Gap) -> bool) {
        let mut above = self.sacked;
        let mut start = out.una;
        for (n, block) in self.blocks.iter().enumerate() {
            let lost = Self::is_lost(above, self.blocks.len() - n, out.mss);
            if start.before(block.left) && !split(out, Gap { start, end: block.left, lost }, visit) {
                return;
            }
            start = start.latest(block.right);
            above -= block.right - block.left;
        }
        if start.before(out.nxt) {
            split(out, Gap { start, end: out.nxt, lost: false }, visit);
        }
    }

    /// RFC 6675 SetPipe: estimate of the bytes in flight.
    pub(crate) fn pipe(&self, out: &Outstanding) -> u32 {
        let mut pipe = 0;
        self.for_each_gap(out, &mut |Gap { start, end, lost }| {
            if !lost {
                pipe += end - start;
            }
            if start.before(self.high_rxt) {
                pipe += self.high_rxt.earliest(end) - start;
            }
            true
        });
        pipe
    }

    /// RFC 6675 NextSeg, rule 1, or rule 3 for a rescue (also data not known to be lost): the next range
    /// to retransmit, as start and end.
    pub(crate) fn next_segment(&self, out: &Outstanding, search: Search) -> Option<(SeqNum, SeqNum)> {
        let highest = self.blocks.last().map_or(out.lost_before, |b| b.right.latest(out.lost_before));
        let mut found = None;
        self.for_each_gap(out, &mut |Gap { start, end, lost }| {
            let start = start.latest(self.high_rxt);
            if start.before(end) && start.before(highest) && (lost || search == Search::Rescue) {
                found = Some((start, end));
            }
            found.is_none()
        });
        found
    }
}

/// A range that is not SACKed.
#[derive(Clone, Copy)]
struct Gap {
    start: SeqNum,
    end: SeqNum,
    lost: bool,
}

/// Visits one gap, split where `lost_before` ends.
fn split(out: &Outstanding, gap: Gap, visit: &mut dyn FnMut(Gap) -> bool) -> bool {
    if gap.lost || !gap.start.before(out.lost_before) {
        return visit(gap);
    }
    let cut = gap.end.earliest(out.lost_before);
    visit(Gap { end: cut, lost: true, ..gap }) && (cut == gap.end || visit(Gap { start: cut, ..gap }))
}

impl Scoreboard {
    /// Returns true when the blocks are sorted, disjoint, and in `una..nxt`, and their sum is right.
    pub(crate) fn is_sound(&self, una: SeqNum, nxt: SeqNum) -> bool {
        let (mut from, mut sum) = (0, 0);
        let is_next = |block: &SackBlock| {
            let (left, right) = (block.left - una, block.right - una);
            let fits = from <= left && left < right && right <= nxt - una;
            (from, sum) = (right, if fits { sum + (right - left) } else { sum });
            fits
        };
        self.blocks.len() <= BLOCKS_MAX && self.blocks.iter().all(is_next) && self.sacked == sum
    }
}

parts!(Scoreboard { blocks, sacked, high_rxt });

#[cfg(test)]
mod tests;
