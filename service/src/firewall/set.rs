//! Sets and maps of nf_tables: what a key that is known in part can find in them.
//!
//! Promises: a set whose members may change without a sign (timeouts, rules that add to it), or that is too big to be kept,
//! says "maybe". Does not do: objects in maps (counters, quotas).

use super::expression::Verdict;
use super::packet::{BYTES, Bits, Truth};
use super::wire::{Element, SetHead};

/// NFT_SET_*
const INTERVAL: u32 = 0x4;
const TIMEOUT: u32 = 0x10;
const EVAL: u32 = 0x20;
/// NFT_SET_ELEM_*
const INTERVAL_END: u32 = 0x1;
const CATCHALL: u32 = 0x2;

/// The value of a map for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Data {
    /// It is a set.
    Nothing,
    Value(Vec<u8>),
    Verdict(Verdict),
}

/// Keys from `low` to `high`, each part of them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    low: Vec<u8>,
    high: Vec<u8>,
    data: Data,
}

/// A set or map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Set {
    /// Lengths of the parts of a key, in registers: a multiple of four each.
    parts: Vec<usize>,
    key_len: usize,
    /// It is a map of verdicts.
    pub(super) decides: bool,
    /// Why it may have other members than those that are known.
    doubt: Option<&'static str>,
    entries: Vec<Entry>,
    /// For keys that nothing else fits.
    otherwise: Option<Data>,
}

/// The result of a look-up.
pub(super) enum Found<'a> {
    Nothing,
    This(&'a Data),
    /// One of these, or nothing.
    Perhaps(Vec<&'a Data>),
    /// Something that is not known.
    Doubt(&'static str),
}

impl Set {
    /// Puts together what the kernel lists. `None` for `elements`: they are too many.
    pub(super) fn new(head: &SetHead, elements: Option<Vec<Element>>) -> Set {
        let key_len = head.key_len as usize;
        let parts: Vec<usize> = head.parts.iter().map(|len| (*len as usize).next_multiple_of(4)).collect();
        let parts = if parts.is_empty() { vec![key_len] } else { parts };
        let mut set = Set { parts, key_len, decides: head.decides, ..Set::default() };
        let Some(elements) = elements else {
            set.doubt = Some("a large set");
            return set;
        };
        let changes = head.flags & (TIMEOUT | EVAL) != 0 || elements.iter().any(|element| element.is_conditional);
        if changes || key_len > BYTES || set.parts.iter().sum::<usize>() != key_len {
            set.doubt = Some("a set that changes");
        }
        set.fill(head.flags, elements);
        set
    }

    fn fill(&mut self, flags: u32, mut elements: Vec<Element>) {
        let is_tree = flags & INTERVAL != 0 && self.parts.len() == 1;
        if let Some(at) = elements.iter().position(|element| element.flags & CATCHALL != 0) {
            self.otherwise = Some(elements.remove(at).data);
        }
        if elements.iter().any(|element| element.key.len() != self.key_len) {
            self.doubt = Some("a set with other keys");
            return;
        }
        if !is_tree {
            let entry = |element: Element| Entry {
                high: element.end.filter(|end| end.len() == element.key.len()).unwrap_or_else(|| element.key.clone()),
                low: element.key,
                data: element.data,
            };
            self.entries = elements.into_iter().map(entry).collect();
            return;
        }
        // Where one ends and the next begins, the beginning counts.
        let is_end = |element: &Element| element.flags & INTERVAL_END != 0;
        elements.sort_by(|one, other| one.key.cmp(&other.key).then(is_end(other).cmp(&is_end(one))));
        let mut open: Option<Entry> = None;
        for element in elements {
            if let Some(mut entry) = open.take() {
                entry.high = before(&element.key);
                self.entries.push(entry);
            }
            if !is_end(&element) {
                open = Some(Entry { low: element.key, high: vec![0xff; self.key_len], data: element.data });
            }
        }
        self.entries.extend(open);
    }

    /// Returns the values in it.
    pub(super) fn data_mut(&mut self) -> impl Iterator<Item = &mut Data> {
        self.entries.iter_mut().map(|entry| &mut entry.data).chain(&mut self.otherwise)
    }

    /// Returns the number of steps of a look-up.
    pub(super) fn steps(&self) -> usize {
        self.entries.len()
    }

    /// Looks up the key at `at`.
    pub(super) fn find(&self, bits: &Bits, at: usize) -> Found<'_> {
        if let Some(doubt) = self.doubt {
            return Found::Doubt(doubt);
        }
        if at + self.key_len > BYTES {
            return Found::Doubt("a key that is too long");
        }
        let mut possible = Vec::new();
        for entry in &self.entries {
            match self.fits(entry, bits, at) {
                Truth::Yes => return Found::This(&entry.data),
                // Sets that are not maps give nothing that is worth to be told twice.
                Truth::Maybe if possible.last() != Some(&&entry.data) => possible.push(&entry.data),
                Truth::Maybe | Truth::No => {}
            }
        }
        match &self.otherwise {
            Some(data) if possible.is_empty() => Found::This(data),
            Some(data) => {
                possible.push(data);
                Found::Perhaps(possible)
            }
            None if possible.is_empty() => Found::Nothing,
            None => Found::Perhaps(possible),
        }
    }

    fn fits(&self, entry: &Entry, bits: &Bits, at: usize) -> Truth {
        let (mut start, mut fits) = (0, Truth::Yes);
        for len in &self.parts {
            let part = start..start + len;
            match bits.is_between(at + start, &entry.low[part.clone()], &entry.high[part]) {
                Truth::No => return Truth::No,
                Truth::Maybe => fits = Truth::Maybe,
                Truth::Yes => {}
            }
            start += len;
        }
        fits
    }
}

/// The number before this one, in network order; before zero: none, which is as good as zero for an interval that is empty.
fn before(key: &[u8]) -> Vec<u8> {
    let mut before = key.to_vec();
    for byte in before.iter_mut().rev() {
        let borrows = *byte == 0;
        *byte = byte.wrapping_sub(1);
        if !borrows {
            return before;
        }
    }
    key.to_vec()
}
