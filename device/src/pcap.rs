//! Read draft-ietf-opsawg-pcap first. Packet capture files: a middleware that writes both directions,
//! and a writer and a reader of the classic format with nanoseconds.
//!
//! Packets are written as they would be on the wire: partial checksums are completed in the copy,
//! super-segments stay whole. A file that cannot be written stops the capture, never the device.

use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;

use ringway_shm::{Burst, Checksum, Duration, Frame, Instant};

use crate::run::take_packet;
use crate::{Capabilities, Counters, Device, Medium};

const MAGIC_NANOS: u32 = 0xa1b2_3c4d;
const MAGIC_MICROS: u32 = 0xa1b2_c3d4;
const LINK_ETHERNET: u32 = 1;
const LINK_RAW_IP: u32 = 101;
const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// Bytes of one packet that are kept at most.
pub const SNAPLEN_MAX: u32 = 262_144;

/// Writes a capture file.
pub struct Writer<W: Write> {
    to: W,
    snaplen: usize,
}

impl<W: Write> Writer<W> {
    /// Begins a file; at most `snaplen` bytes of each packet are kept.
    ///
    /// # Errors
    /// `to` cannot be written.
    pub fn new(mut to: W, medium: Medium, snaplen: u32) -> io::Result<Writer<W>> {
        let link = match medium {
            Medium::Ethernet => LINK_ETHERNET,
            Medium::Ip => LINK_RAW_IP,
        };
        let snaplen = snaplen.clamp(1, SNAPLEN_MAX);
        let mut header = Vec::with_capacity(24);
        header.extend(MAGIC_NANOS.to_le_bytes());
        header.extend(2u16.to_le_bytes());
        header.extend(4u16.to_le_bytes());
        header.extend([0; 8]);
        header.extend(snaplen.to_le_bytes());
        header.extend(link.to_le_bytes());
        to.write_all(&header)?;
        Ok(Writer { to, snaplen: snaplen as usize })
    }

    /// Appends one packet of `original_len` bytes, of which `bytes` are at hand; `nanos` since 1970.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, nanos: u64, bytes: &[u8], original_len: u32) -> io::Result<()> {
        let kept = &bytes[..bytes.len().min(self.snaplen)];
        let mut header = [0; 16];
        header[..4].copy_from_slice(&((nanos / NANOS_PER_SECOND) as u32).to_le_bytes());
        header[4..8].copy_from_slice(&((nanos % NANOS_PER_SECOND) as u32).to_le_bytes());
        header[8..12].copy_from_slice(&(kept.len() as u32).to_le_bytes());
        header[12..].copy_from_slice(&original_len.to_le_bytes());
        self.to.write_all(&header)?;
        self.to.write_all(kept)
    }
}

/// One packet of a capture file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// When, nanoseconds since 1970.
    pub nanos: u64,
    /// The bytes that were kept.
    pub bytes: Vec<u8>,
    /// Bytes that the packet had.
    pub original_len: u32,
}

/// Reads a capture file of either byte order and resolution.
pub struct Reader<R: Read> {
    from: R,
    big_endian: bool,
    nanos_per_tick: u64,
    medium: Medium,
}

impl<R: Read> Reader<R> {
    /// Reads the file's header.
    ///
    /// # Errors
    /// It is no capture file, or of a link type that is neither Ethernet nor raw IP.
    pub fn new(mut from: R) -> io::Result<Reader<R>> {
        let mut header = [0; 24];
        from.read_exact(&mut header)?;
        let magic: [u8; 4] = header[..4].try_into().expect("four bytes");
        let (big_endian, nanos_per_tick) = match (u32::from_le_bytes(magic), u32::from_be_bytes(magic)) {
            (MAGIC_NANOS, _) => (false, 1),
            (MAGIC_MICROS, _) => (false, 1000),
            (_, MAGIC_NANOS) => (true, 1),
            (_, MAGIC_MICROS) => (true, 1000),
            _ => return Err(bad("not a capture file")),
        };
        let mut reader = Reader { from, big_endian, nanos_per_tick, medium: Medium::Ethernet };
        // The upper bits of the word say things about the FCS.
        reader.medium = match reader.word(&header, 20) & 0xffff {
            LINK_ETHERNET => Medium::Ethernet,
            LINK_RAW_IP => Medium::Ip,
            _ => return Err(bad("neither Ethernet nor raw IP")),
        };
        Ok(reader)
    }

    /// What packets look like.
    pub fn medium(&self) -> Medium {
        self.medium
    }

    fn word(&self, bytes: &[u8], at: usize) -> u32 {
        let word = bytes[at..at + 4].try_into().expect("four bytes");
        if self.big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
    }

    /// The next packet; `None` at the end.
    ///
    /// # Errors
    /// The file ends inside a packet or lies about a length.
    pub fn read(&mut self) -> io::Result<Option<Record>> {
        let mut header = [0; 16];
        match self.from.read(&mut header)? {
            0 => return Ok(None),
            count => self.from.read_exact(&mut header[count..])?,
        }
        let kept = self.word(&header, 8);
        if kept > SNAPLEN_MAX {
            return Err(bad("a packet is longer than a capture file allows"));
        }
        let mut bytes = vec![0; kept as usize];
        self.from.read_exact(&mut bytes)?;
        let nanos = u64::from(self.word(&header, 0)) * NANOS_PER_SECOND + u64::from(self.word(&header, 4)) * self.nanos_per_tick;
        Ok(Some(Record { nanos, bytes, original_len: self.word(&header, 12) }))
    }
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The middleware; see the module's text.
pub struct Pcap {
    inner: Box<dyn Device>,
    writer: Writer<Box<dyn Write>>,
    /// Wall-clock time at `Instant::ZERO`, nanoseconds since 1970.
    start_nanos: u64,
    failure: Option<io::Error>,
    arriving: Burst,
    packet: Vec<Frame>,
    /// The packets of a burst one after the other, and where each ends.
    copies: Vec<u8>,
    ends: Vec<usize>,
}

impl Pcap {
    /// Captures what passes through `inner` to `to`. `start_nanos`: wall-clock time at `Instant::ZERO`,
    /// nanoseconds since 1970.
    ///
    /// # Errors
    /// `to` cannot be written.
    pub fn new(inner: Box<dyn Device>, to: Box<dyn Write>, start_nanos: u64) -> io::Result<Pcap> {
        let writer = Writer::new(to, inner.capabilities().medium, SNAPLEN_MAX)?;
        Ok(Pcap {
            inner,
            writer,
            start_nanos,
            failure: None,
            arriving: Burst::default(),
            packet: Vec::new(),
            copies: Vec::new(),
            ends: Vec::new(),
        })
    }

    /// Why the capture has stopped, if it has.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    /// Copies all packets of `burst`.
    fn copy(&mut self, burst: &Burst) {
        self.copies.clear();
        self.ends.clear();
        if self.failure.is_some() {
            return;
        }
        let mut start = 0;
        let mut checksum = Checksum::Complete;
        let mut first = true;
        for frame in burst.iter() {
            if first {
                checksum = frame.checksum();
            }
            frame.payload().append_to(&mut self.copies);
            first = !frame.continues();
            if first {
                complete(&mut self.copies[start..], checksum);
                start = self.copies.len();
                self.ends.push(start);
            }
        }
    }

    /// Writes the first `count` of the copied packets.
    fn write(&mut self, now: Instant, count: usize) {
        let nanos = self.start_nanos.saturating_add(now.as_nanos());
        let mut start = 0;
        for &end in self.ends.iter().take(count) {
            let bytes = &self.copies[start..end];
            if let Err(error) = self.writer.write(nanos, bytes, bytes.len() as u32) {
                self.failure = Some(error);
                return;
            }
            start = end;
        }
    }
}

/// Completes a partial checksum in the bytes of a whole packet.
fn complete(bytes: &mut [u8], checksum: Checksum) {
    let Checksum::Partial { start, offset } = checksum else { return };
    let (start, field) = (usize::from(start), usize::from(start) + usize::from(offset));
    if field + 2 <= bytes.len() {
        let sum = !crate::checksum::fold(crate::checksum::add(0, &bytes[start..]));
        bytes[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

impl Device for Pcap {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn receive(&mut self, now: Instant, burst: &mut Burst) -> io::Result<usize> {
        let mut arriving = std::mem::take(&mut self.arriving);
        let received = self.inner.receive(now, &mut arriving);
        self.copy(&arriving);
        self.write(now, usize::MAX);
        while take_packet(&mut arriving, &mut self.packet) {
            crate::run::give_packet(burst, &mut self.packet);
        }
        self.arriving = arriving;
        received
    }

    fn transmit(&mut self, now: Instant, burst: &mut Burst) -> io::Result<usize> {
        self.copy(burst);
        let before = burst.packets();
        let sent = self.inner.transmit(now, burst);
        self.write(now, before - burst.packets());
        sent
    }

    fn wait_fds<'a>(&'a self, fds: &mut Vec<BorrowedFd<'a>>) {
        self.inner.wait_fds(fds);
    }

    fn expect(&mut self, connections: usize) {
        self.inner.expect(connections);
    }

    fn arm(&mut self) -> bool {
        self.inner.arm()
    }

    fn first_arrival(&self) -> Option<Duration> {
        self.inner.first_arrival()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.inner.poll_timeout()
    }

    fn advice(&self) -> Option<String> {
        self.inner.advice()
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}

#[cfg(test)]
mod tests;
