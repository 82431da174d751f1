//! An in-memory wire: two ends in one thread, each with an arena of its own or the same one.
//!
//! Promises: deterministic, in order, loses nothing but what does not fit the receiver's queue or
//! arena (both counted). The wire claims and enforces exactly the capabilities that it was made
//! with, so that a stack can be tried with and without offloads. Does not know time: put
//! [`Impair`](crate::impair::Impair) in front for that. [`link`] is the same between two processes.

pub mod link;

use std::cell::RefCell;
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use ringway_shm::{Arena, Burst, Checksum, Frame, Instant, Room, SegmentationKind};

use crate::run::{copy_packet, give_packet, packet_len};
use crate::{Capabilities, Counters, Device, Medium, Rooms};

/// The properties of the wire.
#[derive(Clone, Copy, Debug)]
pub struct MemoryOptions {
    /// The format of frames.
    pub medium: Medium,
    /// Largest IP packet that is not cut, bytes.
    pub mtu: u16,
    /// True if packets may cross with only the pseudo-header sum in the checksum field.
    pub partial_checksums: bool,
    /// Largest super-segment that crosses whole, bytes with headers; 0: none.
    pub segmentation_max_bytes: u32,
    /// True if a packet may consist of several frames.
    pub gathers: bool,
    /// Packets that wait at the receiving end at most; more stay with the sender.
    pub queue_packets: usize,
    /// Packets per `receive` or `transmit`.
    pub burst: usize,
}

impl Default for MemoryOptions {
    fn default() -> MemoryOptions {
        MemoryOptions {
            medium: Medium::Ethernet,
            mtu: 1500,
            partial_checksums: false,
            segmentation_max_bytes: 0,
            gathers: true,
            queue_packets: 1024,
            burst: 64,
        }
    }
}

impl MemoryOptions {
    /// A wire that carries 64 KiB segments with partial checksums.
    pub fn offloading() -> MemoryOptions {
        MemoryOptions { partial_checksums: true, segmentation_max_bytes: 65_535, ..MemoryOptions::default() }
    }
}

/// The packets that wait at one end.
#[derive(Default)]
struct Inbox {
    burst: Burst,
    dropped: u64,
}

/// Wants payload nowhere else.
struct Nowhere;

impl Rooms for Nowhere {
    fn room(&mut self, _head: &[u8], _len: usize) -> Option<(usize, Room)> {
        None
    }
}

/// As a device that reads the payload of a packet to where it is wanted.
fn move_payload(packet: &mut Vec<Frame>, rooms: &mut dyn Rooms) {
    let Some((headers, mut payload)) = rooms.room(packet[0].bytes(), packet_len(packet)) else { return };
    let (mut skip, mut at) = (headers, 0);
    for frame in packet.iter() {
        let bytes = frame.payload().slice(skip.min(frame.len())..frame.len());
        skip -= frame.len() - bytes.len();
        payload.payload_mut().write(at, bytes);
        at += bytes.len();
    }
    packet.truncate(1);
    packet[0].truncate(headers);
    packet.push(payload.into_frame());
}

/// One end of the wire.
pub struct Memory {
    options: MemoryOptions,
    inbox: Rc<RefCell<Inbox>>,
    peer: Rc<RefCell<Inbox>>,
    peer_arena: Arena,
    same_arena: bool,
    packet: Vec<Frame>,
    counters: Counters,
}

/// Both ends of a new wire; the first delivers into frames of `left`, the second of `right`.
pub fn pair(left: &Arena, right: &Arena, options: MemoryOptions) -> (Memory, Memory) {
    let inboxes = [Rc::new(RefCell::new(Inbox::default())), Rc::new(RefCell::new(Inbox::default()))];
    let same_arena = left.area().0 == right.area().0;
    let end = |mine: usize, peer_arena: &Arena| Memory {
        options,
        inbox: inboxes[mine].clone(),
        peer: inboxes[1 - mine].clone(),
        peer_arena: peer_arena.clone(),
        same_arena,
        packet: Vec::new(),
        counters: Counters::default(),
    };
    (end(0, right), end(1, left))
}

impl Memory {
    /// Packets that wait to be received at this end.
    pub fn waiting(&self) -> usize {
        self.inbox.borrow().burst.packets()
    }

    fn take_all(&mut self, burst: &mut Burst, rooms: &mut dyn Rooms) -> usize {
        let mut inbox = self.inbox.borrow_mut();
        let mut count = 0;
        while count < self.options.burst && crate::run::take_packet(&mut inbox.burst, &mut self.packet) {
            self.counters.rx_packets += 1;
            self.counters.rx_bytes += packet_len(&self.packet) as u64;
            move_payload(&mut self.packet, rooms);
            give_packet(burst, &mut self.packet);
            count += 1;
        }
        count
    }

    /// Returns true if the wire carries this packet at all.
    fn carries(&self) -> bool {
        let first = &self.packet[0];
        let len = packet_len(&self.packet);
        let link = self.options.medium.header_bytes();
        let fits = match first.segmentation().kind {
            SegmentationKind::None => len <= self.options.mtu as usize + link,
            _ => len <= self.options.segmentation_max_bytes as usize,
        };
        let summed = self.options.partial_checksums || !matches!(first.checksum(), Checksum::Partial { .. });
        fits && summed && (self.options.gathers || self.packet.len() == 1)
    }

    /// Puts `packet` into the peer's inbox: the frames themselves if nothing shares them and both
    /// ends use one arena, copies otherwise. `false`: the peer's arena is used up.
    fn deliver(&mut self) -> bool {
        let mut peer = self.peer.borrow_mut();
        if self.same_arena && self.packet.iter().all(Frame::is_exclusive) {
            give_packet(&mut peer.burst, &mut self.packet);
            return true;
        }
        match copy_packet(&self.peer_arena, &self.packet) {
            Some(mut copy) => {
                give_packet(&mut peer.burst, &mut copy);
                true
            }
            None => {
                peer.dropped += 1;
                false
            }
        }
    }
}

impl Device for Memory {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            medium: self.options.medium,
            mtu: self.options.mtu,
            receives_partial_checksums: self.options.partial_checksums,
            sends_partial_checksums: self.options.partial_checksums,
            segmentation_max_bytes: self.options.segmentation_max_bytes,
            segmentation_max_segments: u32::MAX,
            segments_udp: self.options.segmentation_max_bytes > 0,
            receive_max_bytes: self.options.segmentation_max_bytes.max(self.options.mtu as u32 + 14),
            gathers: self.options.gathers,
            copies_multicast: true,
            burst: self.options.burst,
        }
    }

    fn receive(&mut self, _now: Instant, burst: &mut Burst) -> io::Result<usize> {
        Ok(self.take_all(burst, &mut Nowhere))
    }

    fn receive_to(&mut self, _now: Instant, burst: &mut Burst, rooms: &mut dyn Rooms) -> io::Result<usize> {
        Ok(self.take_all(burst, rooms))
    }

    fn transmit(&mut self, _now: Instant, burst: &mut Burst) -> io::Result<usize> {
        let mut count = 0;
        while count < self.options.burst && self.peer.borrow().burst.packets() < self.options.queue_packets {
            if !crate::run::take_packet(burst, &mut self.packet) {
                break;
            }
            let len = packet_len(&self.packet) as u64;
            if !self.carries() {
                self.counters.tx_dropped += 1;
            } else {
                self.deliver();
                self.counters.tx_packets += 1;
                self.counters.tx_bytes += len;
            }
            self.packet.clear();
            count += 1;
        }
        Ok(count)
    }

    fn wait_fds<'a>(&'a self, _fds: &mut Vec<BorrowedFd<'a>>) {}

    fn arm(&mut self) -> bool {
        !self.inbox.borrow().burst.is_empty()
    }

    fn counters(&self) -> Counters {
        Counters { rx_dropped: self.inbox.borrow().dropped, ..self.counters }
    }
}

#[cfg(test)]
mod tests;
