//! A middleware that captures both directions of a device to a pcapng file.
//!
//! Packets are written as they would be on the wire: partial checksums are completed in the copy,
//! super-segments stay whole. A file that cannot be written stops the capture, never the device.

use std::io::{self, Write};

use ringway_shm::capture::Direction;
use ringway_shm::{Burst, Checksum, Frame, Instant};

use super::{Interface, Record, SNAPLEN_MAX, Writer};
use crate::Device;
use crate::run::take_packet;

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
    /// Captures what passes through `inner`, which the file calls `name`, to `to`. `start_nanos`: wall-clock time at
    /// `Instant::ZERO`, nanoseconds since 1970.
    ///
    /// # Errors
    /// `to` cannot be written.
    pub fn new(inner: Box<dyn Device>, name: &str, to: Box<dyn Write>, start_nanos: u64) -> io::Result<Pcap> {
        let interface = Interface { name, medium: inner.capabilities().medium };
        let writer = Writer::new(to, &[interface], SNAPLEN_MAX)?;
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
    fn write(&mut self, now: Instant, direction: Direction, count: usize) {
        let nanos = self.start_nanos.saturating_add(now.as_nanos());
        let mut start = 0;
        for &end in self.ends.iter().take(count) {
            let direction = Some(direction);
            if let Err(error) = self.writer.write(&Record { direction, ..Record::whole(nanos, &self.copies[start..end]) }) {
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

impl crate::Middleware for Pcap {
    fn inner(&self) -> &dyn Device {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Device {
        &mut *self.inner
    }

    fn receive(&mut self, now: Instant, burst: &mut Burst) -> io::Result<usize> {
        let mut arriving = std::mem::take(&mut self.arriving);
        let received = self.inner.receive(now, &mut arriving);
        self.copy(&arriving);
        self.write(now, Direction::Received, usize::MAX);
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
        self.write(now, Direction::Sent, before - burst.packets());
        sent
    }
}
