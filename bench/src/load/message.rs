//! The bytes of a request and of a reply, the same for every target and every client.
//!
//! ```text
//!   0        4        8                16
//!   | length | wanted | tag            | pattern, the same at an offset of every message |
//! ```
//! `length` counts the whole message, `wanted` is the length of the requested reply, and a reply has
//! the tag of its request. Numbers are little-endian. Promises: no input causes a panic; a reader
//! detects truncated or moved messages and every change of a small one; of a large one it compares
//! samples. Does not do: I/O.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::LazyLock;

use ringway::Content;

/// Bytes before the pattern, and of the smallest message.
pub const HEADER_BYTES: usize = 16;
/// The largest message.
pub const MESSAGE_MAX: u32 = 1 << 30;

/// Period of the pattern, bytes.
const PERIOD: usize = 64 << 10;
/// Longest piece written to a socket at once.
const SLICE_MAX: usize = 128 << 10;
/// Smallest piece sent from [`content`].
const CONTENT_MIN: usize = 4096;
/// Largest message that is compared whole.
const COMPARE_WHOLE_MAX: usize = 4096;
/// In larger messages, the first bytes of every stretch are compared, at fixed offsets, so that a reader of large pieces
/// does the same work.
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
    /// Bytes of the requested reply.
    pub wanted: u32,
    /// Number of the request, repeated in the reply.
    pub tag: u64,
}

/// Error in a stream of messages, which cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corrupt {
    /// An impossible length.
    Length(u32),
    /// Bytes near this offset of the message differ from the pattern.
    Content(u32),
    /// A reply to no request, or not to the next one.
    Tag(u64),
}

impl std::fmt::Display for Corrupt {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Corrupt::Length(length) => write!(formatter, "a message with the impossible length {length}"),
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

/// Messages to send on one connection.
#[derive(Debug, Default)]
pub struct Outbox {
    queue: VecDeque<Item>,
    /// Sent bytes of the first one.
    sent: usize,
    /// Bytes to send.
    waiting: usize,
}

#[derive(Clone, Copy, Debug)]
enum Item {
    Message(Header),
    /// Constant bytes.
    Fixed(&'static [u8]),
}

impl Item {
    fn length(&self) -> usize {
        match self {
            Item::Message(header) => header.length as usize,
            Item::Fixed(bytes) => bytes.len(),
        }
    }

    /// Copies its bytes from `at` on to `to`, as many as fit.
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

    /// Appends constant bytes.
    pub fn push_fixed(&mut self, bytes: &'static [u8]) {
        self.append(Item::Fixed(bytes));
    }

    fn append(&mut self, item: Item) {
        self.waiting += item.length();
        self.queue.push_back(item);
    }

    /// Returns true when everything has been sent.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Number of bytes to send.
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Copies the next bytes to `to`, of several messages if they fit, and returns their number. They stay until `advance`.
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

    /// The next bytes without a copy, in the middle of a large message.
    pub fn next_static(&self) -> Option<&'static [u8]> {
        self.next_in_content().map(|range| &PATTERN[range])
    }

    /// Range of the next bytes in [`content`], as far as they are contiguous there, in the middle of a large message.
    pub fn next_in_content(&self) -> Option<Range<usize>> {
        let Some(Item::Message(header)) = self.queue.front() else { return None };
        let rest = (header.length as usize).checked_sub(self.sent)?;
        let start = self.sent % PERIOD;
        (self.sent >= HEADER_BYTES && rest >= CONTENT_MIN).then(|| start..start + rest.min(SLICE_MAX))
    }

    /// Removes the next `count` bytes, which have been sent.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn advance(&mut self, count: usize) {
        assert!(count <= self.waiting, "more bytes sent than there were to send");
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

/// Finds the messages in the received bytes of one connection.
#[derive(Debug, Default)]
pub struct Inbox {
    header: [u8; HEADER_BYTES],
    /// Received bytes of the present message.
    arrived: usize,
    /// Header of the present message, once complete.
    present: Option<Header>,
}

impl Inbox {
    /// Takes received bytes and calls `each` for every complete message.
    ///
    /// # Errors
    /// The bytes are not messages, or `each` refused one; the stream cannot continue.
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

/// The content of all messages after their headers, for senders without a copy.
pub fn content() -> Content {
    Content::new(PATTERN.clone())
}

/// The content of a message at `offset`: `length` bytes, at most `SLICE_MAX`.
fn pattern(offset: usize, length: usize) -> &'static [u8] {
    let start = offset % PERIOD;
    &PATTERN[start..start + length.min(SLICE_MAX)]
}

/// Returns true when `piece` equals the content of a message of `length` bytes at `offset`, in the compared samples.
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
