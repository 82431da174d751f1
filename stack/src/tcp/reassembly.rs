//! Out-of-order data: a short sorted list of intervals, and the SACK blocks that report it.
//!
//! Read RFC 9293 §3.10.7.4 (seventh) and RFC 2018 §4 first. The list is bounded; data that would need one interval more is
//! refused, and the peer retransmits it. Intervals neither touch nor overlap.

use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::Range;

use ringway_shm::{Arena, FrameQueue};

use super::handover::Gap;
use super::segment::{bytes_of, memory, split, trim_front, truncate};
use crate::wire::sequence::SeqNum;
use crate::wire::tcp::{Options, SackBlock};

/// Maximum number of intervals. A path of 1 Gbit/s and 20 ms that loses one packet in ten leaves some three hundred gaps.
pub(crate) const INTERVALS_MAX: usize = 512;

#[derive(Debug)]
struct Interval {
    start: SeqNum,
    end: SeqNum,
    frames: FrameQueue,
    /// Insertion count when the interval last grew; the newest is reported first.
    stamp: u32,
    /// RCV.NXT at that time.
    rcv_nxt: SeqNum,
}

/// Result of the insertion of data that is out of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Insertion {
    /// At least a part of it was new.
    Taken,
    /// All of it was held already.
    Held,
    /// The list is full.
    Refused,
}

/// An interval to be reported to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Untold {
    pub(crate) block: SackBlock,
    /// RCV.NXT when the interval last grew.
    pub(crate) rcv_nxt: SeqNum,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    intervals: Vec<Interval>,
    stamp: u32,
    /// Value of `stamp` at the last report of intervals, and at the one before.
    told: u32,
    told_before: u32,
    /// Sequence number of the peer's FIN, when it arrived before the data in front of it.
    pub(crate) fin: Option<SeqNum>,
}

impl Reassembly {
    /// Returns true when nothing is held.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.intervals.is_empty() && self.fin.is_none()
    }

    /// Frees everything.
    pub(crate) fn clear(&mut self, arena: &Arena) {
        for interval in &mut self.intervals {
            interval.frames.clear(arena);
        }
        self.intervals.clear();
        self.fin = None;
    }

    /// The first range within `len` bytes from `start` that is held already.
    pub(crate) fn held(&self, start: SeqNum, len: u32) -> Option<SackBlock> {
        let at = self.intervals.partition_point(|i| i.end.at_or_before(start));
        let interval = self.intervals.get(at).filter(|i| i.start.before(start + len))?;
        Some(SackBlock { left: interval.start.latest(start), right: interval.end.earliest(start + len) })
    }

    /// Takes the bytes of `range`, behind `rcv_nxt`. Bytes held already are dropped from the new data: an
    /// overlapping segment cannot change earlier data.
    pub(crate) fn insert(&mut self, arena: &Arena, rcv_nxt: SeqNum, range: Range<SeqNum>, mut frames: FrameQueue) -> Insertion {
        let Range { mut start, mut end } = range;
        self.stamp = self.stamp.wrapping_add(1);
        // The first interval that ends at or after our start: it may overlap, touch or follow.
        let mut at = self.intervals.partition_point(|i| i.end.before(start));
        if let Some(previous) = self.intervals.get_mut(at)
            && previous.start.at_or_before(start)
        {
            let overlap = (previous.end - start).min(end - start);
            trim_front(arena, &mut frames, overlap as usize);
            start += overlap;
            if start == end {
                (previous.stamp, previous.rcv_nxt) = (self.stamp, rcv_nxt);
                return Insertion::Held;
            }
            // Touches: the previous interval grows.
            let mut merged = self.intervals.remove(at);
            merged.frames.append(arena, &mut frames);
            frames = merged.frames;
            start = merged.start;
        }
        // Merge with intervals that the new data covers, and with the next one.
        while let Some(next) = self.intervals.get_mut(at) {
            if next.start.after(end) {
                break;
            }
            if next.end.at_or_before(end) {
                let mut covered = self.intervals.remove(at);
                let (head, len) = ((covered.start - start) as usize, (covered.end - covered.start) as usize);
                let mut rest = split(arena, &mut frames, head);
                frames.append(arena, &mut covered.frames);
                match &mut rest {
                    Some(rest) => {
                        trim_front(arena, rest, len);
                        frames.append(arena, rest);
                    }
                    // No frame was free: the peer retransmits the data behind.
                    None => end = covered.end,
                }
                continue;
            }
            truncate(arena, &mut frames, (next.start - start) as usize);
            end = next.end;
            let mut next = self.intervals.remove(at);
            frames.append(arena, &mut next.frames);
        }
        if self.intervals.len() >= INTERVALS_MAX {
            frames.clear(arena);
            return Insertion::Refused;
        }
        at = at.min(self.intervals.len());
        self.intervals.insert(at, Interval { start, end, frames, stamp: self.stamp, rcv_nxt });
        Insertion::Taken
    }

    /// Removes the data that begins at or before `rcv_nxt` and is now in order. Returns its frames, without bytes received
    /// already, and their length.
    pub(crate) fn take(&mut self, arena: &Arena, rcv_nxt: SeqNum) -> Option<(FrameQueue, u32)> {
        loop {
            if !self.intervals.first()?.start.at_or_before(rcv_nxt) {
                return None;
            }
            let mut interval = self.intervals.remove(0);
            if interval.end.at_or_before(rcv_nxt) {
                interval.frames.clear(arena);
                continue;
            }
            trim_front(arena, &mut interval.frames, (rcv_nxt - interval.start) as usize);
            return Some((interval.frames, interval.end - rcv_nxt));
        }
    }

    /// RFC 2018 §8: drops the interval farthest from RCV.NXT. Returns its memory, bytes.
    pub(crate) fn drop_last(&mut self, arena: &Arena) -> Option<u32> {
        let mut last = self.intervals.pop()?;
        let freed = memory(arena, &last.frames);
        last.frames.clear(arena);
        Some(freed)
    }

    /// Copies what is held, for another stack.
    pub(crate) fn export(&self, arena: &Arena) -> Vec<Gap> {
        let gap = |interval: &Interval| Gap {
            start: interval.start.0,
            data: bytes_of(arena, &interval.frames),
            age: self.age(interval),
            rcv_nxt: interval.rcv_nxt.0,
        };
        self.intervals.iter().map(gap).collect()
    }

    /// Insertions since the last report of intervals, and since the one before.
    pub(crate) fn told_ages(&self) -> (u32, u32) {
        let age = |told: u32| if self.intervals.is_empty() { 0 } else { self.stamp.wrapping_sub(told) };
        (age(self.told), age(self.told_before))
    }

    /// Goes on with those counts, while nothing is held.
    pub(crate) fn resume(&mut self, told_ages: (u32, u32)) {
        self.told = self.stamp.wrapping_sub(told_ages.0);
        self.told_before = self.stamp.wrapping_sub(told_ages.1);
    }

    /// Holds an interval of another stack behind all others.
    pub(crate) fn hold(&mut self, gap: &Gap, frames: FrameQueue) {
        let start = SeqNum(gap.start);
        let (stamp, rcv_nxt) = (self.stamp.wrapping_sub(gap.age), SeqNum(gap.rcv_nxt));
        debug_assert!(self.intervals.last().is_none_or(|last| last.end.before(start)), "intervals are sorted and apart");
        self.intervals.push(Interval { start, end: start + gap.data.len() as u32, frames, stamp, rcv_nxt });
    }

    /// Number of intervals held.
    pub(crate) fn intervals(&self) -> usize {
        self.intervals.len()
    }

    /// Intervals that have not been reported twice since they grew: an ACK may be lost.
    fn untold(&self) -> impl Iterator<Item = &Interval> {
        let since = self.stamp.wrapping_sub(self.told_before);
        self.intervals.iter().filter(move |interval| self.age(interval) < since)
    }

    /// Number of those intervals.
    pub(crate) fn untold_count(&self) -> usize {
        self.untold().count()
    }

    /// Those of them that a report of the `most` youngest leaves out, in the order in which they grew.
    pub(crate) fn untold_before(&self, most: usize) -> Vec<Untold> {
        let mut untold: Vec<&Interval> = self.untold().collect();
        untold.sort_unstable_by_key(|interval| Reverse(self.age(interval)));
        untold.truncate(untold.len().saturating_sub(most));
        let told = |i: &Interval| Untold { block: SackBlock { left: i.start, right: i.end }, rcv_nxt: i.rcv_nxt };
        untold.into_iter().map(told).collect()
    }

    /// Notes that all intervals have been reported.
    pub(crate) fn all_told(&mut self) {
        self.told_before = core::mem::replace(&mut self.told, self.stamp);
    }

    /// RFC 2018 §4: writes as many blocks as fit, up to `most`, the most recently grown first.
    pub(crate) fn report(&self, options: &mut Options, most: usize) {
        let mut last = None;
        // A report of duplicates may be in front.
        let room = options.with_sack(core::iter::empty()).sack_room().min(most);
        for _ in options.sack().len()..room {
            // The youngest interval that is older than the one reported last.
            let older = self.intervals.iter().filter(|&i| last.is_none_or(|l| self.age(i) > l));
            let Some(interval) = older.min_by_key(|&i| self.age(i)) else { break };
            last = Some(self.age(interval));
            options.push_sack(SackBlock { left: interval.start, right: interval.end });
        }
    }

    /// Number of insertions since the interval grew.
    fn age(&self, interval: &Interval) -> u32 {
        self.stamp.wrapping_sub(interval.stamp)
    }
}

#[cfg(test)]
mod tests;
