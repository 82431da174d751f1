//! The TCP header: bytes to values and back.
//!
//! Read RFC 9293 §3.1, RFC 7323 §2-3, RFC 2018 §2-3 and RFC 7413 §4.1.1 first. Parsing never panics, whatever the
//! bytes are; unknown options are skipped, a malformed option ends the list. The checksum is not
//! looked at here.

pub mod timestamped;

use crate::sequence::SeqNum;

/// Bytes of a header without options.
pub const HEADER_BYTES: usize = 20;
/// Bytes of a header with all the options that it can hold.
pub const HEADER_BYTES_MAX: usize = 60;
/// Where the checksum field is.
pub const CHECKSUM_OFFSET: usize = 16;
/// Where the flags stand in the header.
pub const FLAGS_OFFSET: usize = 13;
/// Bytes of the timestamps option with its padding.
pub const TIMESTAMPS_BYTES: usize = 12;
/// Blocks that one SACK option can hold.
pub const SACK_BLOCKS_MAX: usize = 4;
/// SACK blocks in an option beside timestamps, at most.
pub const SACK_BLOCKS_BESIDE_TIMESTAMPS: usize = 3;

/// RFC 7413 §4.1.1: bytes of the longest cookie.
pub const FAST_OPEN_BYTES_MAX: usize = 16;

/// FIN
pub const FIN: u8 = 0x01;
/// SYN
pub const SYN: u8 = 0x02;
/// RST
pub const RST: u8 = 0x04;
/// PSH
pub const PSH: u8 = 0x08;
/// ACK
pub const ACK: u8 = 0x10;
/// URG
pub const URG: u8 = 0x20;
/// ECE (RFC 3168 §6.1)
pub const ECE: u8 = 0x40;
/// CWR (RFC 3168 §6.1)
pub const CWR: u8 = 0x80;

/// RFC 7323 §3: the timestamps option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// TSval
    pub value: u32,
    /// TSecr
    pub echo: u32,
}

/// RFC 2018 §3: received bytes from `left` up to but not including `right`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlock {
    /// First byte of the block.
    pub left: SeqNum,
    /// The byte after its last.
    pub right: SeqNum,
}

/// RFC 7413 §4.1.1: the Fast Open option, with a cookie or to ask for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FastOpen {
    bytes: [u8; FAST_OPEN_BYTES_MAX],
    len: u8,
    /// As it was before it had a number of its own: kind 254 and the magic number F989 (RFC 6994).
    pub experimental: bool,
}

impl FastOpen {
    /// Asks for a cookie.
    pub fn request(experimental: bool) -> FastOpen {
        FastOpen { experimental, ..FastOpen::default() }
    }

    /// With a cookie, or without one to ask for it; `None`: no cookie has this length.
    pub fn new(cookie: &[u8], experimental: bool) -> Option<FastOpen> {
        let good = cookie.is_empty() || (4..=FAST_OPEN_BYTES_MAX).contains(&cookie.len()) && cookie.len().is_multiple_of(2);
        let mut bytes = [0; FAST_OPEN_BYTES_MAX];
        bytes.get_mut(..cookie.len())?.copy_from_slice(cookie);
        good.then_some(FastOpen { bytes, len: cookie.len() as u8, experimental })
    }

    /// The cookie; empty: one is asked for.
    pub fn cookie(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }

    /// Bytes of the option without padding.
    fn option_len(&self) -> usize {
        (if self.experimental { 4 } else { 2 }) + self.len as usize
    }
}

/// RFC 9768 §3.2.3: bytes of payload received by ECN field, modulo 2^24.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteCounters {
    /// ECT(1), CE, ECT(0).
    counts: [u32; 3],
    /// Number of them that the option has, in its own order.
    fields: u8,
    /// Its kind; 0: there is no such option.
    kind: u8,
}

/// The option that begins with ECT(0).
const COUNTERS_ECT_0_FIRST: u8 = 172;
/// The option that begins with ECT(1).
const COUNTERS_ECT_1_FIRST: u8 = 174;

impl ByteCounters {
    /// All three: ECT(1), CE, ECT(0).
    pub fn all(counts: [u32; 3]) -> ByteCounters {
        ByteCounters { counts, fields: 3, kind: COUNTERS_ECT_1_FIRST }
    }

    /// Bytes that arrived marked CE, when the option says so.
    pub fn ce(&self) -> Option<u32> {
        (self.fields >= 2).then_some(self.counts[1])
    }

    /// The count of ECT(1) (0), CE (1) or ECT(0) (2), when the option says it.
    pub fn count(&self, place: usize) -> Option<u32> {
        (0..self.fields as usize).any(|field| ByteCounters::place(self.kind, field) == place).then(|| self.counts[place])
    }

    /// True if a node on the path has cleared them: no count of ECT begins at zero (§3.2.3.2.4).
    pub fn is_cleared(&self) -> bool {
        self.fields > 0 && self.counts == [0; 3]
    }

    /// Bytes of the option with its padding.
    pub fn len(&self) -> usize {
        if self.kind == 0 { 0 } else { (2 + 3 * self.fields as usize).next_multiple_of(4) }
    }

    /// Returns true when there is no such option.
    pub fn is_empty(&self) -> bool {
        self.kind == 0
    }

    /// The count at a place of the option.
    fn place(kind: u8, field: usize) -> usize {
        if kind == COUNTERS_ECT_0_FIRST { 2 - field } else { field }
    }

    fn parse(kind: u8, value: &[u8]) -> ByteCounters {
        let mut counters = ByteCounters { counts: [0; 3], fields: (value.len() / 3).min(3) as u8, kind };
        for (field, count) in value.chunks_exact(3).take(3).enumerate() {
            counters.counts[ByteCounters::place(kind, field)] = u32::from_be_bytes([0, count[0], count[1], count[2]]);
        }
        counters
    }

    fn emit(&self, bytes: &mut [u8]) {
        bytes.fill(1);
        bytes[0] = self.kind;
        bytes[1] = 2 + 3 * self.fields;
        for field in 0..self.fields as usize {
            let count = self.counts[ByteCounters::place(self.kind, field)];
            bytes[2 + 3 * field..5 + 3 * field].copy_from_slice(&count.to_be_bytes()[1..]);
        }
    }
}

/// The options that are understood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// RFC 9293 §3.7.1, bytes.
    pub maximum_segment_size: Option<u16>,
    /// RFC 7323 §2, the shift as sent.
    pub window_scale: Option<u8>,
    /// RFC 2018 §2
    pub sack_permitted: bool,
    /// RFC 7323 §3
    pub timestamps: Option<Timestamps>,
    /// RFC 7413 §4.1.1, in SYNs only.
    pub fast_open: Option<FastOpen>,
    counters: ByteCounters,
    sack: [SackBlock; SACK_BLOCKS_MAX],
    sack_count: u8,
}

/// A header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Host order.
    pub source_port: u16,
    /// Host order.
    pub destination_port: u16,
    /// SEG.SEQ
    pub sequence: SeqNum,
    /// SEG.ACK
    pub acknowledgment: SeqNum,
    /// [`FIN`] ... [`CWR`]
    pub flags: u8,
    /// AE, the bit before CWR (RFC 9768 §3.1).
    pub ae: bool,
    /// As in the header, not scaled.
    pub window: u16,
    /// SEG.UP
    pub urgent: u16,
    /// Options.
    pub options: Options,
}

impl Options {
    /// The options of a SYN.
    pub fn of_syn(mss: u16, window_scale: Option<u8>, sack_permitted: bool, timestamps: Option<Timestamps>) -> Options {
        Options { maximum_segment_size: Some(mss), window_scale, sack_permitted, timestamps, ..Options::default() }
    }

    /// RFC 9768 §3.2.3
    #[inline]
    pub fn counters(&self) -> Option<ByteCounters> {
        (self.counters.kind != 0).then_some(self.counters)
    }

    /// Adds as many byte counters as fit in `room` bytes and beside the other options: all, two or none.
    pub fn add_counters(&mut self, counters: ByteCounters, room: usize) {
        let fields = match room.min((HEADER_BYTES_MAX - HEADER_BYTES).saturating_sub(self.len())) {
            12.. => 3,
            8.. => 2,
            _ => return,
        };
        self.counters = ByteCounters { fields: counters.fields.min(fields), ..counters };
    }

    /// The SACK blocks in the order of the option.
    #[inline]
    pub fn sack(&self) -> &[SackBlock] {
        &self.sack[..self.sack_count as usize]
    }

    /// These options with other SACK blocks.
    pub fn with_sack(mut self, blocks: impl Iterator<Item = SackBlock>) -> Options {
        self.sack_count = 0;
        blocks.for_each(|block| self.push_sack(block));
        self
    }

    /// Adds a SACK block; a fifth one is forgotten.
    pub fn push_sack(&mut self, block: SackBlock) {
        if (self.sack_count as usize) < SACK_BLOCKS_MAX {
            self.sack[self.sack_count as usize] = block;
            self.sack_count += 1;
        }
    }

    /// Number of blocks that fit beside the other options.
    pub fn sack_room(&self) -> usize {
        let others = self.len();
        Options::sack_blocks_in((HEADER_BYTES_MAX - HEADER_BYTES).saturating_sub(others))
    }

    /// Number of blocks that fit into `bytes` bytes.
    pub fn sack_blocks_in(bytes: usize) -> usize {
        (bytes.saturating_sub(4) / 8).min(SACK_BLOCKS_MAX)
    }

    /// Bytes of the option with so many blocks, padded.
    #[inline]
    pub fn sack_bytes_of(blocks: usize) -> usize {
        if blocks == 0 { 0 } else { 4 + 8 * blocks }
    }

    /// Removes the last SACK block.
    pub fn pop_sack(&mut self) {
        self.sack_count = self.sack_count.saturating_sub(1);
    }

    /// Bytes that the options take, padded to a multiple of 4.
    pub fn len(&self) -> usize {
        let mut len = 0;
        len += if self.maximum_segment_size.is_some() { 4 } else { 0 };
        len += if self.window_scale.is_some() { 4 } else { 0 };
        len += if self.timestamps.is_some() { TIMESTAMPS_BYTES } else { 0 };
        // RFC 7323 appendix A: SACK-permitted takes the place of the timestamps' padding.
        len += if self.sack_permitted && self.timestamps.is_none() { 4 } else { 0 };
        len += self.counters.len();
        len += Options::sack_bytes_of(self.sack_count as usize);
        len + self.fast_open.map_or(0, |option| option.option_len().next_multiple_of(4))
    }

    /// Returns true when no option is set.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn parse(bytes: &[u8]) -> Options {
        let mut options = Options::default();
        // RFC 7323 appendix A: the layout that every data segment of a long connection has.
        if let [1, 1, 8, 10, value @ .., _, _, _, _] = bytes
            && value.len() == 4
        {
            options.timestamps = Some(Timestamps { value: read_u32(bytes, 4), echo: read_u32(bytes, 8) });
            return options;
        }
        let mut at = 0;
        while at < bytes.len() {
            match bytes[at] {
                0 => break,
                1 => at += 1,
                kind => {
                    let len = bytes.get(at + 1).map_or(0, |&len| len as usize);
                    if len < 2 || at + len > bytes.len() {
                        break;
                    }
                    options.parse_one(kind, &bytes[at + 2..at + len]);
                    at += len;
                }
            }
        }
        options
    }

    fn parse_one(&mut self, kind: u8, value: &[u8]) {
        match (kind, value.len()) {
            (2, 2) => self.maximum_segment_size = Some(read_u16(value, 0)),
            (3, 1) => self.window_scale = Some(value[0]),
            (4, 0) => self.sack_permitted = true,
            (5, len) if len % 8 == 0 => {
                for block in value.chunks_exact(8) {
                    self.push_sack(SackBlock { left: SeqNum(read_u32(block, 0)), right: SeqNum(read_u32(block, 4)) });
                }
            }
            (8, 8) => self.timestamps = Some(Timestamps { value: read_u32(value, 0), echo: read_u32(value, 4) }),
            (34, _) => self.fast_open = FastOpen::new(value, false),
            (254, 2..) if value[..2] == FAST_OPEN_MAGIC => self.fast_open = FastOpen::new(&value[2..], true),
            (COUNTERS_ECT_0_FIRST | COUNTERS_ECT_1_FIRST, _) => self.counters = ByteCounters::parse(kind, value),
            _ => {}
        }
    }

    /// Writes the options in Linux's order: MSS, timestamps, byte counters, SACK-permitted, window scale, SACK, Fast Open.
    fn emit(&self, bytes: &mut [u8]) {
        let mut at = 0;
        if let Some(size) = self.maximum_segment_size {
            bytes[at..at + 2].copy_from_slice(&[2, 4]);
            bytes[at + 2..at + 4].copy_from_slice(&size.to_be_bytes());
            at += 4;
        }
        if let Some(timestamps) = self.timestamps {
            let lead = if self.sack_permitted { [4, 2, 8, 10] } else { [1, 1, 8, 10] };
            bytes[at..at + 4].copy_from_slice(&lead);
            bytes[at + 4..at + 8].copy_from_slice(&timestamps.value.to_be_bytes());
            bytes[at + 8..at + 12].copy_from_slice(&timestamps.echo.to_be_bytes());
            at += TIMESTAMPS_BYTES;
        }
        if self.counters.kind != 0 {
            self.counters.emit(&mut bytes[at..at + self.counters.len()]);
            at += self.counters.len();
        }
        if self.sack_permitted && self.timestamps.is_none() {
            bytes[at..at + 4].copy_from_slice(&[1, 1, 4, 2]);
            at += 4;
        }
        if let Some(shift) = self.window_scale {
            bytes[at..at + 4].copy_from_slice(&[1, 3, 3, shift]);
            at += 4;
        }
        if self.sack_count > 0 {
            bytes[at..at + 4].copy_from_slice(&[1, 1, 5, 2 + 8 * self.sack_count]);
            at += 4;
            for block in self.sack() {
                bytes[at..at + 4].copy_from_slice(&block.left.0.to_be_bytes());
                bytes[at + 4..at + 8].copy_from_slice(&block.right.0.to_be_bytes());
                at += 8;
            }
        }
        if let Some(option) = &self.fast_open {
            option.emit(&mut bytes[at..]);
        }
    }
}

impl FastOpen {
    fn emit(&self, bytes: &mut [u8]) {
        let len = self.option_len();
        let cookie_at = len - self.len as usize;
        bytes[0..2].copy_from_slice(&[if self.experimental { 254 } else { 34 }, len as u8]);
        bytes[2..cookie_at].copy_from_slice(&FAST_OPEN_MAGIC[..cookie_at - 2]);
        bytes[cookie_at..len].copy_from_slice(self.cookie());
        bytes[len..len.next_multiple_of(4)].fill(1);
    }
}

const FAST_OPEN_MAGIC: [u8; 2] = [0xf9, 0x89];

impl Header {
    /// The header at the start of `bytes` and its length; `None` when it is cut off or its length
    /// field is impossible.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Option<(Header, usize)> {
        let fixed: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
        let len = (fixed[12] >> 4) as usize * 4;
        if len < HEADER_BYTES || len > bytes.len() {
            return None;
        }
        let header = Header {
            source_port: read_u16(fixed, 0),
            destination_port: read_u16(fixed, 2),
            sequence: SeqNum(read_u32(fixed, 4)),
            acknowledgment: SeqNum(read_u32(fixed, 8)),
            flags: fixed[FLAGS_OFFSET],
            ae: fixed[12] & 1 != 0,
            window: read_u16(fixed, 14),
            urgent: read_u16(fixed, 18),
            options: Options::parse(&bytes[HEADER_BYTES..len]),
        };
        Some((header, len))
    }

    /// Bytes of the header with its options.
    #[inline]
    pub fn len(&self) -> usize {
        HEADER_BYTES + self.options.len()
    }

    /// A header is never empty.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Writes the header with a zero checksum.
    ///
    /// # Panics
    /// When `bytes` is not exactly [`len`](Header::len) long.
    #[inline]
    pub fn emit(&self, bytes: &mut [u8]) {
        let len = self.len();
        assert_eq!(bytes.len(), len, "room for exactly the header");
        bytes[0..2].copy_from_slice(&self.source_port.to_be_bytes());
        bytes[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.sequence.0.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.acknowledgment.0.to_be_bytes());
        bytes[12] = ((len as u8 / 4) << 4) | self.ae as u8;
        bytes[FLAGS_OFFSET] = self.flags;
        bytes[14..16].copy_from_slice(&self.window.to_be_bytes());
        bytes[16..18].copy_from_slice(&[0, 0]);
        bytes[18..20].copy_from_slice(&self.urgent.to_be_bytes());
        self.options.emit(&mut bytes[HEADER_BYTES..]);
    }
}

#[inline]
fn read_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[inline]
fn read_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests;
