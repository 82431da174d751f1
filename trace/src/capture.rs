//! Capture files: pcap and pcapng, either byte order, any resolution. Read draft-ietf-opsawg-pcap and
//! draft-ietf-opsawg-pcapng first.
//!
//! `pcap-parser` does the formats; here packets get their number, time and link type. A file that ends inside
//! a packet is read to there and called truncated: a capture that was cut off is still worth reading.

use std::fmt;
use std::io::Read;

use pcap_parser::{Block, OptionCode, PcapBlockOwned, PcapError, PcapNGOption, create_reader};

use crate::checker::{Checker, Options, Report};

/// Which way a packet went at the machine that captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It arrived.
    Received,
    /// It left.
    Sent,
}

/// One packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Counted from one, over all interfaces, as other tools count.
    pub number: u64,
    /// When, nanoseconds since 1970.
    pub nanos: u64,
    /// LINKTYPE_*
    pub link_type: u32,
    /// What was kept of it.
    pub bytes: &'a [u8],
    /// Bytes that it had.
    pub original_len: u32,
    /// Which way it went, if the file says so.
    pub direction: Option<Direction>,
    /// The file's comments to it.
    pub comments: &'a [&'a str],
}

impl<'a> Packet<'a> {
    /// A packet of which the file says nothing more; `kept`: its bytes, and how many it had.
    pub fn bare(number: u64, nanos: u64, link_type: u32, kept: (&'a [u8], u32)) -> Packet<'a> {
        let (bytes, original_len) = kept;
        Packet { number, nanos, link_type, bytes, original_len, direction: None, comments: &[] }
    }
}

/// How a file ended, and what it says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// It ends inside a block.
    pub truncated: bool,
    /// Packets that the capturing side says it lost.
    pub dropped: u64,
}

/// Why a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// It is neither pcap nor pcapng.
    NotACapture,
    /// A block makes no sense, after this many packets.
    Damaged(u64),
    /// The system would not read.
    Io(String),
}

impl fmt::Display for ReadError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::NotACapture => write!(to, "neither pcap nor pcapng"),
            ReadError::Damaged(packets) => write!(to, "damaged after packet {packets}"),
            ReadError::Io(text) => write!(to, "{text}"),
        }
    }
}

impl std::error::Error for ReadError {}

/// Largest block that is read; a larger one is damage.
const BLOCK_BYTES_MAX: usize = 1 << 20;
/// Interfaces of a section that are remembered.
const INTERFACES_MAX: usize = 4096;
const NANOS_PER_SECOND: u128 = 1_000_000_000;
const EPB_FLAGS: OptionCode = OptionCode(2);

/// What a section says of an interface.
#[derive(Clone, Copy)]
struct Interface {
    link_type: u32,
    /// Ticks a second.
    resolution: u64,
    /// Seconds to add.
    offset: i64,
}

impl Interface {
    fn nanos(&self, ticks: u64) -> u64 {
        let nanos = u128::from(ticks) * NANOS_PER_SECOND / u128::from(self.resolution.max(1));
        let shifted = nanos as i128 + i128::from(self.offset) * NANOS_PER_SECOND as i128;
        u64::try_from(shifted).unwrap_or(0)
    }
}

/// What is known while a file is read.
#[derive(Default)]
struct State {
    interfaces: Vec<Interface>,
    legacy: Option<(u32, u64)>,
    number: u64,
    dropped: u64,
}

/// Reads a capture and gives each packet to `visit`.
///
/// # Errors
/// [`ReadError`]; packets before the damage have been visited.
pub fn read(from: impl Read + Send, visit: &mut dyn FnMut(&Packet<'_>)) -> Result<Ending, ReadError> {
    let mut reader = match create_reader(BLOCK_BYTES_MAX, Whole(from)) {
        Ok(reader) => reader,
        Err(PcapError::ReadError) => return Err(ReadError::Io("it cannot be read".into())),
        Err(_) => return Err(ReadError::NotACapture),
    };
    let mut state = State::default();
    let mut refills = 0;
    loop {
        let used = match reader.next() {
            Ok((used, block)) => {
                state.block(&block, visit);
                used
            }
            Err(PcapError::Eof) => return Ok(Ending { truncated: false, dropped: state.dropped }),
            Err(PcapError::UnexpectedEof) => return Ok(Ending { truncated: true, dropped: state.dropped }),
            // Once more when the file has ended, so that the reader sees that it has.
            Err(PcapError::Incomplete(_)) if refills < 3 => {
                refills += 1;
                match reader.refill() {
                    Ok(()) => continue,
                    Err(_) => return Err(ReadError::Io("it cannot be read".into())),
                }
            }
            Err(PcapError::ReadError) => return Err(ReadError::Io("it cannot be read".into())),
            Err(_) => return Err(ReadError::Damaged(state.number)),
        };
        if used == 0 {
            return Err(ReadError::Damaged(state.number));
        }
        refills = 0;
        reader.consume(used);
    }
}

/// Reads a capture and checks all of it.
///
/// # Errors
/// [`ReadError`]
pub fn check(from: impl Read + Send, options: Options) -> Result<Report, ReadError> {
    let mut checker = Checker::new(options);
    let ending = read(from, &mut |packet| checker.packet(packet))?;
    Ok(checker.finish(ending))
}

impl State {
    fn block(&mut self, block: &PcapBlockOwned<'_>, visit: &mut dyn FnMut(&Packet<'_>)) {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                // The upper bits of the word say things about the FCS.
                let link_type = header.network.0 as u32 & 0xffff;
                self.legacy = Some((link_type, if header.is_nanosecond_precision() { 1 } else { 1000 }));
            }
            PcapBlockOwned::Legacy(record) => {
                let Some((link_type, scale)) = self.legacy else { return };
                let nanos = u64::from(record.ts_sec) * NANOS_PER_SECOND as u64 + u64::from(record.ts_usec) * scale;
                let bytes = unpadded(record.data, record.caplen, record.origlen);
                let number = self.next_number();
                visit(&Packet::bare(number, nanos, link_type, (bytes, record.origlen)));
            }
            PcapBlockOwned::NG(block) => self.pcapng(block, visit),
        }
    }

    fn pcapng(&mut self, block: &Block<'_>, visit: &mut dyn FnMut(&Packet<'_>)) {
        match block {
            Block::SectionHeader(_) => self.interfaces.clear(),
            Block::InterfaceDescription(interface) if self.interfaces.len() < INTERFACES_MAX => {
                self.interfaces.push(Interface {
                    link_type: interface.linktype.0 as u32,
                    resolution: interface.ts_resolution().unwrap_or(1_000_000),
                    offset: interface.ts_offset(),
                });
            }
            Block::EnhancedPacket(packet) => {
                let Some(interface) = self.interfaces.get(packet.if_id as usize).copied() else { return };
                let nanos = interface.nanos(u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low));
                let bytes = unpadded(packet.data, packet.caplen, packet.origlen);
                let number = self.next_number();
                let texts = packet.options.iter().filter(|option| option.code == OptionCode::Comment);
                let comments: Vec<&str> = texts.filter_map(|option| option.as_str().ok()).collect();
                let direction = packet.options.iter().find(|option| option.code == EPB_FLAGS).and_then(direction);
                let bare = Packet::bare(number, nanos, interface.link_type, (bytes, packet.origlen));
                visit(&Packet { direction, comments: &comments, ..bare });
            }
            Block::SimplePacket(packet) => {
                // It has no time: rules about time do not fire when nothing passes.
                let Some(interface) = self.interfaces.first().copied() else { return };
                let bytes = unpadded(packet.data, packet.origlen, packet.origlen);
                let number = self.next_number();
                visit(&Packet::bare(number, 0, interface.link_type, (bytes, packet.origlen)));
            }
            Block::InterfaceStatistics(statistics) => {
                let values = [statistics.isb_ifdrop(), statistics.isb_osdrop()];
                let sum = values.into_iter().flatten().flatten().fold(0_u64, u64::saturating_add);
                self.dropped = self.dropped.saturating_add(sum);
            }
            _ => {}
        }
    }

    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }
}

/// The low two bits of epb_flags.
fn direction(option: &PcapNGOption<'_>) -> Option<Direction> {
    match option.as_bytes().ok()?.first()? & 3 {
        1 => Some(Direction::Received),
        2 => Some(Direction::Sent),
        _ => None,
    }
}

/// The `kept` bytes of a packet that had `original`: pcapng pads data to whole words.
fn unpadded(data: &[u8], kept: u32, original: u32) -> &[u8] {
    &data[..data.len().min(kept as usize).min(original as usize)]
}

/// Fills the buffer as far as the source goes: a pipe's short reads are no ends.
struct Whole<R>(R);

impl<R: Read> Read for Whole<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.0.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

#[cfg(test)]
mod tests;
