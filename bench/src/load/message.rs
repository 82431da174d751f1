//! The bytes of a request and of a reply, the same for every target and every client.
//!
//! ```text
//!   0        4        8                16
//!   | length | wanted | tag            | pattern, as at this offset of every message |
//! ```
//! `length` counts the whole message, `wanted` is the length of the reply that is asked for, and a
//! reply carries the tag of its request. Numbers are little-endian. Promises: no input makes it panic;
//! a reader finds a message that was cut or moved, a small one that was changed, and samples of what was changed in a large
//! one. Does not do: input and output.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::LazyLock;

use ringway::api::Content;

/// Bytes in front of the pattern, and the smallest message.
pub const HEADER_BYTES: usize = 16;
/// The largest message.
pub const MESSAGE_MAX: u32 = 1 << 30;

/// After so many bytes the pattern begins anew.
const PERIOD: usize = 64 << 10;
/// The longest piece that is given to a socket at once.
const SLICE_MAX: usize = 128 << 10;
/// Pieces from this on are sent from [`content`].
const CONTENT_MIN: usize = 4096;
/// Messages up to this are compared whole.
const COMPARE_WHOLE_MAX: usize = 4096;
/// Of larger ones, the first bytes of every stretch are compared, whatever the pieces they come in: who gets large pieces
/// does no less.
const COMPARE_EVERY: usize = 4096;
const COMPARE_BYTES: usize = 64;

static PATTERN: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let one: Vec<u8> = (0..PERIOD as u32).map(|index| (index.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
    one.iter().copied().cycle().take(PERIOD + SLICE_MAX).collect()
});

/// The first bytes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the message with this header.
    pub length: u32,
    /// Bytes of the reply that is asked for.
    pub wanted: u32,
    /// The reply carries the same.
    pub tag: u64,
}

/// Why a stream of messages cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corrupt {
    /// A length that no message has.
    Length(u32),
    /// Other bytes than the pattern's at this offset of the message.
    Content(u32),
    /// A reply that belongs to no request, or not to the next one.
    Tag(u64),
}

impl std::fmt::Display for Corrupt {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Corrupt::Length(length) => write!(formatter, "a message says that it has {length} bytes"),
            Corrupt::Content(offset) => write!(formatter, "wrong bytes near offset {offset} of a message"),
            Corrupt::Tag(tag) => write!(formatter, "a reply to request {tag}, which is not the next one"),
        }
    }
}

impl Header {
    fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.length.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.wanted.to_le_bytes());
        bytes[8..].copy_from_slice(&self.tag.to_le_bytes());
        bytes
    }

    fn decode(bytes: [u8; HEADER_BYTES]) -> Result<Header, Corrupt> {
        let [length, wanted] = [0, 4].map(|at| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")));
        let tag = u64::from_le_bytes(bytes[8..].try_into().expect("eight bytes"));
        let is_length = |length: u32| (HEADER_BYTES as u32..=MESSAGE_MAX).contains(&length);
        match [length, wanted].into_iter().find(|length| !is_length(*length)) {
            Some(wrong) => Err(Corrupt::Length(wrong)),
            None => Ok(Header { length, wanted, tag }),
        }
    }
}

/// What waits to be sent on one connection.
#[derive(Debug, Default)]
pub struct Outbox {
    queue: VecDeque<Item>,
    /// Bytes of the first one that have been sent.
    sent: usize,
    /// Bytes that wait.
    waiting: usize,
}

#[derive(Clone, Copy, Debug)]
enum Item {
    Message(Header),
    /// Bytes that are the same every time.
    Fixed(&'static [u8]),
}

impl Item {
    fn length(&self) -> usize {
        match self {
            Item::Message(header) => header.length as usize,
            Item::Fixed(bytes) => bytes.len(),
        }
    }

    /// Writes its bytes from `at` on to `to`, as many as fit.
    fn copy_to(&self, mut at: usize, to: &mut [u8]) -> usize {
        let mut filled = 0;
        while at < self.length() && filled < to.len() {
            let most = (self.length() - at).min(to.len() - filled);
            let count = match self {
                Item::Message(header) if at < HEADER_BYTES => {
                    let count = most.min(HEADER_BYTES - at);
                    to[filled..filled + count].copy_from_slice(&header.encode()[at..at + count]);
                    count
                }
                Item::Message(_) => {
                    let piece = pattern(at, most);
                    to[filled..filled + piece.len()].copy_from_slice(piece);
                    piece.len()
                }
                Item::Fixed(bytes) => {
                    to[filled..filled + most].copy_from_slice(&bytes[at..at + most]);
                    most
                }
            };
            (filled, at) = (filled + count, at + count);
        }
        filled
    }
}

impl Outbox {
    /// Appends a message.
    pub fn push(&mut self, header: Header) {
        self.append(Item::Message(header));
    }

    /// Appends bytes that are no message.
    pub fn push_fixed(&mut self, bytes: &'static [u8]) {
        self.append(Item::Fixed(bytes));
    }

    fn append(&mut self, item: Item) {
        self.waiting += item.length();
        self.queue.push_back(item);
    }

    /// Whether everything has been sent.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Bytes that wait.
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Writes the next bytes to `to`, of several messages if they fit, and returns how many. They stay until `advance`.
    pub fn copy_to(&self, to: &mut [u8]) -> usize {
        let (mut filled, mut at) = (0, self.sent);
        for item in &self.queue {
            filled += item.copy_to(at, &mut to[filled..]);
            if filled == to.len() {
                break;
            }
            at = 0;
        }
        filled
    }

    /// The next bytes to give to a socket: from `scratch`, or without a copy in the middle of a large message.
    pub fn next<'a>(&self, scratch: &'a mut [u8]) -> &'a [u8] {
        match self.queue.front() {
            Some(Item::Message(header)) if self.sent >= HEADER_BYTES && header.length as usize - self.sent >= scratch.len() => {
                pattern(self.sent, header.length as usize - self.sent)
            }
            _ => {
                let count = self.copy_to(scratch);
                &scratch[..count]
            }
        }
    }

    /// The next bytes without a copy: in the middle of a large message.
    pub fn next_static(&self) -> Option<&'static [u8]> {
        self.next_in_content().map(|range| &PATTERN[range])
    }

    /// Where in [`content`] the next bytes stand, as far as it has them in one piece: in the middle of a large message.
    pub fn next_in_content(&self) -> Option<Range<usize>> {
        let Some(Item::Message(header)) = self.queue.front() else { return None };
        let rest = (header.length as usize).checked_sub(self.sent)?;
        let start = self.sent % PERIOD;
        (self.sent >= HEADER_BYTES && rest >= CONTENT_MIN).then(|| start..start + rest.min(SLICE_MAX))
    }

    /// The next `count` bytes have been sent.
    ///
    /// # Panics
    /// When fewer waited.
    pub fn advance(&mut self, count: usize) {
        assert!(count <= self.waiting, "no more is sent than waited");
        self.waiting -= count;
        self.sent += count;
        while let Some(item) = self.queue.front()
            && self.sent >= item.length()
        {
            self.sent -= item.length();
            self.queue.pop_front();
        }
    }
}

/// Finds the messages in what arrives on one connection.
#[derive(Debug, Default)]
pub struct Inbox {
    header: [u8; HEADER_BYTES],
    /// Bytes of the present message that have arrived.
    arrived: usize,
    /// The present message, once its header is there.
    present: Option<Header>,
}

impl Inbox {
    /// Takes bytes that have arrived and calls `each` for every message that is complete.
    ///
    /// # Errors
    /// The bytes are not those of messages, or `each` refused one; nothing more can be read.
    pub fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(Header) -> Result<(), Corrupt>) -> Result<(), Corrupt> {
        while !bytes.is_empty() {
            let header = match self.present {
                Some(header) => header,
                None => {
                    let count = (HEADER_BYTES - self.arrived).min(bytes.len());
                    self.header[self.arrived..self.arrived + count].copy_from_slice(&bytes[..count]);
                    self.arrived += count;
                    bytes = &bytes[count..];
                    if self.arrived < HEADER_BYTES {
                        return Ok(());
                    }
                    let header = Header::decode(self.header)?;
                    self.present = Some(header);
                    header
                }
            };
            let count = (header.length as usize - self.arrived).min(bytes.len());
            let (piece, rest) = bytes.split_at(count);
            if !is_pattern(piece, self.arrived, header.length as usize) {
                return Err(Corrupt::Content(self.arrived as u32));
            }
            self.arrived += count;
            bytes = rest;
            if self.arrived == header.length as usize {
                (self.arrived, self.present) = (0, None);
                each(header)?;
            }
        }
        Ok(())
    }
}

/// What all messages have behind their headers, for those who can send it without a copy.
pub fn content() -> Content {
    Content::new(PATTERN.clone())
}

/// What a message has at `offset`, `length` bytes or as many as there are at once.
fn pattern(offset: usize, length: usize) -> &'static [u8] {
    let start = offset % PERIOD;
    &PATTERN[start..start + length.min(SLICE_MAX)]
}

/// Whether `piece` is what a message of `length` bytes has at `offset`, as far as it is compared.
fn is_pattern(piece: &[u8], offset: usize, length: usize) -> bool {
    let end = offset + piece.len();
    let same = |from: usize, to: usize| piece[from - offset..to - offset] == *pattern(from, to - from);
    if length <= COMPARE_WHOLE_MAX {
        return same(offset, end);
    }
    let stretches = (offset / COMPARE_EVERY..=end / COMPARE_EVERY).map(|stretch| stretch * COMPARE_EVERY);
    stretches.map(|start| (start.max(offset), (start + COMPARE_BYTES).min(end))).all(|(from, to)| from >= to || same(from, to))
}

#[cfg(test)]
mod tests;
