//! The shared-memory link: the in-memory wire between two processes (or threads).
//!
//! Each packet is copied into a ring of bytes and out again into frames of the receiver's arena;
//! 64 KiB segments cross whole with partial checksums. The descriptors of a
//! [`WireEnd`] reach the other process by inheritance or over a Unix
//! socket, which is the caller's business. The other party is not trusted: a broken wire is an error.

use std::io;
use std::os::fd::BorrowedFd;

use ringway_shm::wire::{Broken, Wire, WireEnd};
use ringway_shm::{Arena, Burst, Frame, Instant, Payload};

use crate::inlet::Inlet;
use crate::{Capabilities, Counters, Device, Medium, vnet};

/// The largest packet, bytes with headers.
const PACKET_MAX: usize = 65_535;
/// Packets of one turn that are taken in any case. Smaller than what many connections have under way, so that both ends work
/// at the same time instead of one on the other's whole batch: docs/lab/2026-11-22-small-messages-over-memory.md.
const BURST: usize = 32;
/// Where more small packets wait, half of them are taken in one turn, up to so many packets and bytes.
const BURST_MAX: usize = 128;
const BURST_BYTES_MAX: u32 = 32 << 10;
/// Bytes of ring that hold some of the largest packets.
pub const CAPACITY: u32 = 4 << 20;

/// The abilities that the link claims. Both ends accept more than that from the other.
#[derive(Clone, Copy, Debug)]
pub struct LinkOptions {
    /// Largest IP packet that is not segmented.
    pub mtu: u16,
    /// True if packets leave with only the pseudo-header sum in the checksum field: the wire is memory and corrupts nothing.
    pub partial_checksums: bool,
    /// Largest super-segment that leaves whole, bytes with headers, up to 65,535; 0: everything leaves in segments of the MTU.
    pub segmentation_max_bytes: u32,
}

impl Default for LinkOptions {
    fn default() -> LinkOptions {
        LinkOptions { mtu: 1500, partial_checksums: true, segmentation_max_bytes: PACKET_MAX as u32 }
    }
}

/// One end of the link.
pub struct Link {
    wire: Wire,
    options: LinkOptions,
    inlet: Inlet,
    /// The peer broke the rules; nothing more is received.
    broken: bool,
    counters: Counters,
}

impl Link {
    /// Begins to use `end` with 64 KiB segments, and an MTU of `mtu` for packets that are not segmented.
    ///
    /// # Errors
    /// As [`with`](Self::with).
    pub fn open(end: WireEnd, mtu: u16, arena: &Arena) -> io::Result<Link> {
        Link::with(end, LinkOptions { mtu, ..LinkOptions::default() }, arena)
    }

    /// Begins to use `end`.
    ///
    /// # Errors
    /// The memory is not what `end` says, or its rings are smaller than four of the largest packets.
    pub fn with(end: WireEnd, mut options: LinkOptions, arena: &Arena) -> io::Result<Link> {
        options.segmentation_max_bytes = options.segmentation_max_bytes.min(PACKET_MAX as u32);
        if (end.capacity as usize) < 4 * PACKET_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the rings of a link must hold four 64 KiB packets"));
        }
        Ok(Link {
            wire: Wire::open(end)?,
            options,
            inlet: Inlet::new(arena, PACKET_MAX),
            broken: false,
            counters: Counters::default(),
        })
    }

    /// Receives one packet; `false`: there is none, or no frames for it.
    fn receive_packet(&mut self, burst: &mut Burst) -> Result<bool, Broken> {
        let Some(record) = self.wire.front()? else { return Ok(false) };
        let len = record.checked_sub(vnet::BYTES).filter(|&len| len > 0 && len <= PACKET_MAX).ok_or(Broken)?;
        if let Some(mut small) = self.inlet.small(len) {
            self.wire.copy(vnet::BYTES, small.bytes_mut());
            let is_good = vnet::decode(self.header(), &mut small);
            if is_good {
                burst.push(small);
            }
            self.finish(record, is_good.then_some(len));
            return Ok(true);
        }
        let Some((head, rest)) = self.inlet.frames(len) else { return Ok(false) };
        let mut at = vnet::BYTES;
        for frame in std::iter::once(head).chain(rest.iter_mut().rev()) {
            if at == record {
                break;
            }
            let count = frame.len().min(record - at);
            self.wire.copy(at, &mut frame.bytes_mut()[..count]);
            at += count;
        }
        let header = self.header();
        let is_good = self.inlet.deliver(len, burst, |first| vnet::decode(header, first));
        self.finish(record, is_good.then_some(len));
        Ok(true)
    }

    /// Returns the header of the next record's packet.
    #[inline]
    fn header(&self) -> [u8; vnet::BYTES] {
        let mut header = [0; vnet::BYTES];
        self.wire.copy(0, &mut header);
        header
    }

    /// Gives the room of a record back. `len`: bytes of its packet, if that was good.
    #[inline]
    fn finish(&mut self, record: usize, len: Option<usize>) {
        if let Some(len) = len {
            self.counters.rx_packets += 1;
            self.counters.rx_bytes += len as u64;
        } else {
            self.counters.rx_dropped += 1;
        }
        self.wire.release(record);
    }

    /// Sends the first packet of `burst`, of `len` bytes; `false`: there is no room.
    #[inline]
    fn send(&mut self, burst: &Burst, len: usize) -> bool {
        let Some(first) = burst.front() else { return false };
        let header = vnet::encode(first);
        if !first.continues() {
            return self.wire.send(vnet::BYTES + len, [Payload::from(&header), first.payload()].into_iter());
        }
        self.wire.send(vnet::BYTES + len, std::iter::once(Payload::from(&header)).chain(burst.front_packet().map(Frame::payload)))
    }
}

impl Device for Link {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            medium: Medium::Ethernet,
            mtu: self.options.mtu,
            receives_partial_checksums: true,
            sends_partial_checksums: self.options.partial_checksums,
            segmentation_max_bytes: self.options.segmentation_max_bytes,
            segmentation_max_segments: u32::MAX,
            segments_udp: self.options.segmentation_max_bytes > 0,
            receive_max_bytes: PACKET_MAX as u32,
            gathers: true,
            copies_multicast: true,
            burst: BURST_MAX,
        }
    }

    fn receive(&mut self, _now: Instant, burst: &mut Burst) -> io::Result<usize> {
        let before = burst.packets();
        let waiting = self.wire.look();
        for count in 0..BURST_MAX {
            let taken = waiting.saturating_sub(self.wire.waiting());
            if count >= BURST && taken >= BURST_BYTES_MAX.min(waiting / 2) {
                break;
            }
            match self.receive_packet(burst) {
                Ok(true) => {}
                Ok(false) => break,
                Err(Broken) => {
                    self.broken = true;
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "the other end broke the link"));
                }
            }
        }
        Ok(burst.packets() - before)
    }

    fn transmit(&mut self, _now: Instant, burst: &mut Burst) -> io::Result<usize> {
        let mut count = 0;
        while !burst.is_empty() {
            let len = burst.front_len();
            if len == 0 || len > PACKET_MAX {
                self.counters.tx_dropped += 1;
            } else {
                if !self.send(burst, len) {
                    break;
                }
                self.counters.tx_packets += 1;
                self.counters.tx_bytes += len as u64;
            }
            burst.drop_packet();
            count += 1;
        }
        self.counters.syscalls += u64::from(self.wire.flush());
        Ok(count)
    }

    fn wait_fds<'a>(&'a self, fds: &mut Vec<BorrowedFd<'a>>) {
        fds.push(self.wire.wake_fd());
    }

    fn arm(&mut self) -> bool {
        self.wire.arm();
        !self.broken && self.wire.front() != Ok(None)
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

#[cfg(test)]
mod tests;
