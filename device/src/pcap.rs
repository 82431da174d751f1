//! Capture files in pcapng, and a middleware that writes one. Read draft-ietf-opsawg-pcapng first.
//!
//! The only writer of capture files. A file names its interfaces and says of each packet which way it went and, if it was
//! dropped, why. Times are nanoseconds, words little-endian. Does not do: reading (crate `trace`), buffering.
//!
//! ```text
//! block: type | total length | body, in whole words | total length again
//! section header, one interface description per interface, then enhanced packets, at the end interface statistics
//! option at the end of a body: code (u16) | length (u16) | value, padded to whole words; the last one is zero
//! ```

use std::io::{self, Write};

use ringway_shm::capture::Direction;

use crate::Medium;

mod middleware;

pub use middleware::Pcap;

/// Bytes of one packet that are kept at most.
pub const SNAPLEN_MAX: u32 = 262_144;
/// Longest text of an option, bytes; the rest is cut.
const TEXT_BYTES_MAX: usize = 1023;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const VERSION_1_0: u32 = 1;
const UNKNOWN_LENGTH: u64 = u64::MAX;
const LINKTYPE_ETHERNET: u32 = 1;
const LINKTYPE_RAW: u32 = 101;

const COMMENT: u16 = 1;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const NANOSECONDS: u8 = 9;
const EPB_FLAGS: u16 = 2;
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;
const ISB_OSDROP: u16 = 7;

/// An interface of a capture file; packets name it by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface<'a> {
    /// Its name.
    pub name: &'a str,
    /// The first header of its packets.
    pub medium: Medium,
}

/// One packet for a capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// When, nanoseconds since 1970.
    pub nanos: u64,
    /// Index of the interface.
    pub interface: u32,
    /// Which way; `None`: unknown.
    pub direction: Option<Direction>,
    /// Why the packet was dropped, if it was.
    pub drop_reason: Option<&'a str>,
    /// What else there is to say of it.
    pub comment: Option<&'a str>,
    /// The bytes at hand.
    pub bytes: &'a [u8],
    /// Bytes that the packet has.
    pub original_len: u32,
}

impl<'a> Record<'a> {
    /// Returns the record of a whole packet of the first interface, of unknown direction.
    pub fn whole(nanos: u64, bytes: &'a [u8]) -> Record<'a> {
        Record { nanos, interface: 0, direction: None, drop_reason: None, comment: None, bytes, original_len: bytes.len() as u32 }
    }
}

/// Writes a capture file, one `write_all` per call.
pub struct Writer<W: Write> {
    to: W,
    snaplen: usize,
    /// The block that is being made.
    block: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a file with these interfaces; at most `snaplen` bytes of each packet are kept.
    ///
    /// # Errors
    /// `to` cannot be written.
    pub fn new(to: W, interfaces: &[Interface<'_>], snaplen: u32) -> io::Result<Writer<W>> {
        let snaplen = snaplen.clamp(1, SNAPLEN_MAX);
        let mut writer = Writer { to, snaplen: snaplen as usize, block: Vec::new() };
        let [low, high] = halves(UNKNOWN_LENGTH);
        writer.begin(SECTION_HEADER, &[BYTE_ORDER, VERSION_1_0, low, high]);
        writer.text(SHB_USERAPPL, concat!("ringway ", env!("CARGO_PKG_VERSION")));
        writer.end()?;
        for interface in interfaces {
            let link_type = match interface.medium {
                Medium::Ethernet => LINKTYPE_ETHERNET,
                Medium::Ip => LINKTYPE_RAW,
            };
            writer.begin(INTERFACE_DESCRIPTION, &[link_type, snaplen]);
            writer.text(IF_NAME, interface.name);
            writer.option(IF_TSRESOL, &[NANOSECONDS]);
            writer.end()?;
        }
        Ok(writer)
    }

    /// Appends one packet.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, packet: &Record<'_>) -> io::Result<()> {
        let kept = &packet.bytes[..packet.bytes.len().min(self.snaplen)];
        let [low, high] = halves(packet.nanos);
        self.begin(ENHANCED_PACKET, &[packet.interface, high, low, kept.len() as u32, packet.original_len]);
        self.padded(kept);
        for comment in [packet.drop_reason, packet.comment].into_iter().flatten() {
            self.text(COMMENT, comment);
        }
        if let Some(direction) = packet.direction {
            let flags = if direction == Direction::Received { INBOUND } else { OUTBOUND };
            self.option(EPB_FLAGS, &flags.to_le_bytes());
        }
        self.end()
    }

    /// Appends the number of packets that passed but are not in the file; they count for `interface`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_lost(&mut self, nanos: u64, interface: u32, packets: u64) -> io::Result<()> {
        let [low, high] = halves(nanos);
        self.begin(INTERFACE_STATISTICS, &[interface, high, low]);
        self.option(ISB_OSDROP, &packets.to_le_bytes());
        self.end()
    }

    /// Passes on what `to` has buffered.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    /// Begins a block; `end` fills in its length.
    fn begin(&mut self, kind: u32, words: &[u32]) {
        self.block.clear();
        for word in [kind, 0].iter().chain(words) {
            self.block.extend(word.to_le_bytes());
        }
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.block.extend(bytes);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    /// Appends an option; `value` has at most 65535 bytes.
    fn option(&mut self, code: u16, value: &[u8]) {
        self.block.extend(code.to_le_bytes());
        self.block.extend((value.len() as u16).to_le_bytes());
        self.padded(value);
    }

    fn text(&mut self, code: u16, text: &str) {
        let end = (0..=text.len().min(TEXT_BYTES_MAX)).rev().find(|&end| text.is_char_boundary(end));
        self.option(code, &text.as_bytes()[..end.unwrap_or(0)]);
    }

    /// Ends the options, completes the block's length and writes the block.
    fn end(&mut self) -> io::Result<()> {
        self.block.extend([0; 4]);
        let len = (self.block.len() as u32 + 4).to_le_bytes();
        self.block[4..8].copy_from_slice(&len);
        self.block.extend(len);
        self.to.write_all(&self.block)
    }
}

/// Returns the lower and the upper word.
fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

#[cfg(test)]
mod tests;
