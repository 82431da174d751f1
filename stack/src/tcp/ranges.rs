//! Sorted, disjoint ranges of sequence space, each with a value: lost data, retransmitted data.
//!
//! Ranges that touch and have the same value are merged. There are never more of them than segments in flight.

use alloc::vec::Vec;

use super::handover::DecodeError;
use super::handover::part::Part;
use crate::wire::sequence::SeqNum;

/// From `start` up to but not including `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range<T> {
    pub(crate) start: SeqNum,
    pub(crate) end: SeqNum,
    pub(crate) value: T,
}

/// See the module's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ranges<T> {
    list: Vec<Range<T>>,
    bytes: u32,
}

impl<T> Default for Ranges<T> {
    fn default() -> Ranges<T> {
        Ranges { list: Vec::new(), bytes: 0 }
    }
}

impl<T: Copy + PartialEq> Ranges<T> {
    /// Returns true when there is no range.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Bytes in all ranges.
    #[inline]
    pub(crate) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// The range with the lowest numbers.
    pub(crate) fn first(&self) -> Option<Range<T>> {
        self.list.first().copied()
    }

    /// The range with the highest numbers.
    pub(crate) fn last(&self) -> Option<Range<T>> {
        self.list.last().copied()
    }

    /// Number of ranges.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// The range that contains `sequence`.
    pub(crate) fn find(&self, sequence: SeqNum) -> Option<Range<T>> {
        let at = self.list.partition_point(|r| r.end.at_or_before(sequence));
        self.list.get(at).filter(|range| range.start.at_or_before(sequence)).copied()
    }

    /// All ranges in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Range<T>> {
        self.list.iter()
    }

    /// Removes all ranges.
    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.bytes = 0;
    }

    /// Gives `start..end` this value; earlier values are replaced.
    pub(crate) fn add(&mut self, start: SeqNum, end: SeqNum, value: T) {
        if !start.before(end) {
            return;
        }
        self.remove(start, end);
        self.bytes += end - start;
        let at = self.list.partition_point(|r| r.start.before(start));
        self.list.insert(at, Range { start, end, value });
        self.merge(at + 1);
        self.merge(at);
    }

    /// Merges the range at `at` with the one in front of it if they touch and have the same value.
    fn merge(&mut self, at: usize) {
        if at == 0 || at >= self.list.len() {
            return;
        }
        let (front, back) = (self.list[at - 1], self.list[at]);
        if front.end == back.start && front.value == back.value {
            self.list[at - 1].end = back.end;
            self.list.remove(at);
        }
    }

    /// Removes `start..end`.
    pub(crate) fn remove(&mut self, start: SeqNum, end: SeqNum) {
        let mut at = self.list.partition_point(|r| r.end.at_or_before(start));
        while let Some(range) = self.list.get(at).copied() {
            if !range.start.before(end) {
                break;
            }
            let (left, right) = (range.start.latest(start), range.end.earliest(end));
            self.bytes -= right - left;
            self.list.remove(at);
            if right.before(range.end) {
                self.list.insert(at, Range { start: right, ..range });
            }
            if range.start.before(left) {
                self.list.insert(at, Range { end: left, ..range });
                at += 1;
            }
        }
    }

    /// Removes the ranges for which `keep` returns false.
    pub(crate) fn retain(&mut self, keep: &mut dyn FnMut(&Range<T>) -> bool) {
        self.list.retain(|range| keep(range));
        self.bytes = self.list.iter().map(|range| range.end - range.start).sum();
    }

    /// Removes everything before `una`.
    pub(crate) fn acknowledge(&mut self, una: SeqNum) {
        if let Some(first) = self.list.first()
            && first.start.before(una)
        {
            self.remove(first.start, una);
        }
    }

    /// Calls `visit` for the pieces of `start..end` that are in no range.
    pub(crate) fn for_each_outside(&self, start: SeqNum, end: SeqNum, visit: &mut dyn FnMut(SeqNum, SeqNum)) {
        let mut start = start;
        let at = self.list.partition_point(|r| r.end.at_or_before(start));
        for range in self.list[at..].iter().take_while(|r| r.start.before(end)) {
            if start.before(range.start) {
                visit(start, range.start);
            }
            start = start.latest(range.end);
        }
        if start.before(end) {
            visit(start, end);
        }
    }

    /// Calls `visit` for the pieces of ranges that lie in `start..end`.
    pub(crate) fn for_each_inside(&self, start: SeqNum, end: SeqNum, visit: &mut dyn FnMut(Range<T>)) {
        let at = self.list.partition_point(|r| r.end.at_or_before(start));
        for range in self.list[at..].iter().take_while(|r| r.start.before(end)) {
            visit(Range { start: range.start.latest(start), end: range.end.earliest(end), value: range.value });
        }
    }
}

impl<T: Copy + PartialEq> Ranges<T> {
    /// Changes all values by `change`, which keeps equal ones equal and different ones different.
    pub(crate) fn change_values(&mut self, change: impl Fn(T) -> T) {
        self.list.iter_mut().for_each(|range| range.value = change(range.value));
    }

    /// Returns true when the ranges are sorted, disjoint, and in `start..end`, and no more than `most`.
    pub(crate) fn is_sound(&self, start: SeqNum, end: SeqNum, most: usize) -> bool {
        let mut from = 0;
        let is_next = |range: &Range<T>| {
            let (left, right) = (range.start - start, range.end - start);
            let fits = from <= left && left < right && right <= end - start;
            from = right;
            fits
        };
        self.list.len() <= most && self.list.iter().all(is_next)
    }
}

impl<T: Part + Copy> Part for Range<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.start.put(out);
        self.end.put(out);
        self.value.put(out);
    }

    fn take(input: &mut &[u8]) -> Result<Range<T>, DecodeError> {
        Ok(Range { start: Part::take(input)?, end: Part::take(input)?, value: Part::take(input)? })
    }
}

impl<T: Part + Copy> Part for Ranges<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.list.put(out);
    }

    fn take(input: &mut &[u8]) -> Result<Ranges<T>, DecodeError> {
        let list: Vec<Range<T>> = Part::take(input)?;
        let bytes = list.iter().fold(0, |sum: u32, range| sum.wrapping_add(range.end - range.start));
        Ok(Ranges { list, bytes })
    }
}

#[cfg(test)]
mod tests;
