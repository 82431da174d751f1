//! Read packet(7) and Documentation/networking/packet_mmap first. One interface, shared with the kernel.
//!
//! Both directions carry virtio headers, so super-segments and partial checksums cross as the kernel
//! has them. Packets arrive in a ring of slots that the kernel fills without a system call of ours
//! and are copied once into frames, or their payload to where it is wanted; those that are larger than a slot
//! (8 KiB of payload, or one MTU if that is more) have a place in a ring too but are read from the socket straight
//! into frames. They leave straight from frames, many per system call. What this device sends does not come back to it.
//! `inbound` tells how the two sizes come apart.
//!
//! Sending around the queueing discipline saves time, but then nothing cuts a super-segment for an interface
//! that does not do it itself: the kernel drops it (ENOBUFS). So packets go around it only where the interface
//! has no queue to jump and cuts segments; when that is switched off later (`ethtool -K tso off`) or its limits
//! become smaller (`ip link set gso_max_size`), the first super-segment that comes back changes the way, and is sent again.
//!
//! Measured on a veth pair (release build, one thread at both ends, 2 vCPU VM), receiving per packet:
//! 66 B 35-170 ns from the ring, 650-1130 ns by recvmmsg; 1514 B 70-540 against 1140-1540 ns. For
//! 60 kB, sending and receiving: 55 us with ring slots of that size (the kernel copies into cold
//! memory first), 25-30 us when read from the socket as here. For requests of 4 and
//! 8 KiB (`ringway bench zc`) it is the other way round: 1 to 27 % more a second from slots that hold them (medians).
//!
//! Without a filter it gets a copy of everything that arrives, and the kernel still acts on it: give
//! it a program of [`steering`](crate::steering) to share the interface. The filter is in place
//! before the first packet can be queued. When the interface goes down, `receive` and `transmit` say
//! ENETDOWN; when it comes up again they work again. VLAN-tagged packets are left to the kernel.

mod inbound;
mod priorities;
mod sys;

use std::io;
use std::os::fd::BorrowedFd;

use ringway_shm::arena::{LARGE_BYTES, SMALL_BYTES};
use ringway_shm::{Arena, Burst, Class, Duration, Frame, Instant, Room, SegmentationKind};

use crate::inlet::Inlet;
use crate::interface::Interface;
use crate::run::give_packet;
use crate::sys::{Pieces, Refusal, Rest, read_packet, refusal};
use crate::{Capabilities, Counters, Device, Medium, Rooms, vnet};
use inbound::Inbound;
pub use priorities::Priorities;
use sys::SendBatch;

/// Packets per call in either direction.
const BURST: usize = 64;
/// The largest packet in either direction, bytes with headers.
const PACKET_MAX: u32 = 65_535;
/// The same as it may arrive: with a link header, and a tag.
const RECEIVE_MAX: usize = PACKET_MAX as usize + 18;
/// An interface whose full queue refuses super-segments is not asked more often whether it cuts them.
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// A packet up to this size is copied to one frame, wherever its payload is wanted.
const ROOM_MIN: usize = LARGE_BYTES - COPY_HEADROOM;
/// Headroom when a packet is copied to a small frame.
const COPY_HEADROOM: usize = 32;

/// The options with which the device is opened.
#[derive(Clone, Copy, Debug)]
pub struct PacketOptions {
    /// Packets that may wait in the ring, 8.5 KiB of kernel memory each at an MTU of 1500; rounded up to
    /// whole blocks. What finds it full is lost, and a peer that has a request under way on each of many
    /// connections then waits for its retransmission timers: the default holds 8192 (69 MiB).
    pub ring_slots: u32,
    /// Packets take their turn in the interface's queueing discipline, between those of the kernel.
    pub queued: bool,
    /// Once many packets have come that are larger than a slot, they arrive at a socket of their own, in whose slots the kernel
    /// puts headers alone: otherwise it copies the first 8 KiB too, which are not read there. Not for a device that is to
    /// share its packets with others (`found`, `join`): the kernel divides the packets of a socket but once.
    pub split_ring: bool,
    /// The place of packets in that discipline.
    pub priorities: Priorities,
}

impl Default for PacketOptions {
    fn default() -> PacketOptions {
        PacketOptions { ring_slots: 8192, queued: false, split_ring: false, priorities: Priorities::default() }
    }
}

/// The device; see the module's text.
pub struct Packet {
    inbound: Inbound,
    batch: SendBatch,
    interface: Interface,
    /// Packets go around the queueing discipline.
    direct: bool,
    /// When the interface was last asked whether it cuts segments.
    asked: Option<Instant>,
    arena: Arena,
    copy: Vec<Frame>,
    inlet: Inlet,
    pieces: Pieces,
    /// The error that the socket reported and `receive` has not yet returned.
    failure: Option<io::Error>,
    /// A packet has arrived since the last `arm`: what woke the worker was no error.
    fed: bool,
    counters: Counters,
}

impl Packet {
    /// Opens `interface`. `filter`: a loaded socket-filter program that says which packets are ours;
    /// `None`: all of them.
    ///
    /// # Errors
    /// No such interface, no CAP_NET_RAW, or no memory for the ring.
    pub fn open(interface: &str, filter: Option<BorrowedFd<'_>>, options: PacketOptions, arena: &Arena) -> io::Result<Packet> {
        let interface = Interface::open(interface)?;
        let direct = interface.tcp_segmentation && !options.queued;
        let inbound = Inbound::open(&interface, filter, direct, options)?;
        Ok(Packet {
            inbound,
            batch: SendBatch::new(BURST, options.priorities),
            interface,
            direct,
            asked: None,
            arena: arena.clone(),
            copy: Vec::new(),
            inlet: Inlet::new(arena, RECEIVE_MAX),
            pieces: Pieces::default(),
            failure: None,
            fed: false,
            counters: Counters::default(),
        })
    }

    /// The interface, as it was at the opening.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Shares what arrives at the interface with the devices that [`join`](Packet::join) the group whose number this returns:
    /// `program` says for each packet whose it is, this one being number 0.
    ///
    /// # Errors
    /// It is in a group already, or the kernel has no PACKET_FANOUT.
    pub(crate) fn found(&self, program: BorrowedFd<'_>) -> io::Result<u16> {
        sys::found_group(self.inbound.fd(), program)
    }

    /// Joins the group of a device of the same interface, as the next number.
    ///
    /// # Errors
    /// There is no such group, or it is another interface's.
    pub(crate) fn join(&self, group: u16) -> io::Result<()> {
        sys::join_group(self.inbound.fd(), group)
    }

    /// Copies the packet at the front of the ring to `burst`. `false`: the arena is used up, and the
    /// packet stays in the ring.
    fn take(&mut self, burst: &mut Burst, rooms: Option<&mut dyn Rooms>) -> bool {
        let Some(slot) = self.inbound.front() else { return true };
        if slot.queued {
            let tagged = slot.tagged;
            let room = rooms.filter(|_| !tagged).and_then(|rooms| rooms.room(slot.bytes, slot.len));
            self.inbound.count_large();
            return match room.filter(|(headers, _)| *headers <= SMALL_BYTES - COPY_HEADROOM) {
                Some((headers, payload)) => self.take_to(burst, headers, payload),
                None => self.take_queued(burst, tagged),
            };
        }
        let whole = slot.bytes.len() == slot.len && !slot.bytes.is_empty() && !slot.tagged;
        if !whole {
            self.counters.rx_dropped += 1;
            return true;
        }
        if slot.len > ROOM_MIN
            && let Some((headers, payload)) = rooms.and_then(|rooms| rooms.room(slot.bytes, slot.len))
            && let Some((head, payload)) = copy_to(&self.arena, slot.bytes, headers, payload)
        {
            self.copy.extend([head, payload]);
        } else if !copy_in(&self.arena, slot.bytes, &mut self.copy) {
            self.copy.clear();
            return false;
        }
        if vnet::decode(slot.header, &mut self.copy[0]) {
            self.counters.rx_packets += 1;
            self.counters.rx_bytes += slot.len as u64;
            give_packet(burst, &mut self.copy);
        } else {
            self.counters.rx_dropped += 1;
            self.copy.clear();
        }
        true
    }

    /// Reads the packet that the front of the ring stands for from the socket, its payload to the frame that it is wanted
    /// in. `false`: the arena is used up, and it stays there.
    fn take_to(&mut self, burst: &mut Burst, headers: usize, mut payload: Room) -> bool {
        let Some(mut head) = self.arena.alloc(Class::Small) else { return false };
        head.reserve(COPY_HEADROOM);
        head.extend(headers);
        let expected = headers + payload.len();
        let mut header = [0; vnet::BYTES];
        self.counters.syscalls += 1;
        let rest = Rest::Room(&mut payload);
        let to = Scattered { header: &mut header, head: &mut head, rest };
        let len = read_next(self.inbound.front_fd(), to, &mut self.pieces, &mut self.failure);
        if len == expected && vnet::decode(header, &mut head) {
            self.counters.rx_packets += 1;
            self.counters.rx_bytes += len as u64;
            head.set_continues(true);
            burst.push(head);
            burst.push(payload.into_frame());
        } else {
            self.counters.rx_dropped += 1;
        }
        true
    }

    /// Reads the packet that the front of the ring stands for from the socket. `false`: the arena is
    /// used up, and it stays there.
    fn take_queued(&mut self, burst: &mut Burst, tagged: bool) -> bool {
        let Some((head, rest)) = self.inlet.frames(RECEIVE_MAX) else { return false };
        let mut header = [0; vnet::BYTES];
        self.counters.syscalls += 1;
        let rest = Rest::Frames(rest);
        let to = Scattered { header: &mut header, head, rest };
        let len = read_next(self.inbound.front_fd(), to, &mut self.pieces, &mut self.failure);
        if len > 0 && !tagged && self.inlet.deliver(len, burst, |first| vnet::decode(header, first)) {
            self.counters.rx_packets += 1;
            self.counters.rx_bytes += len as u64;
        } else {
            self.counters.rx_dropped += 1;
        }
        true
    }

    /// Returns true if the super-segment at the front of `burst`, which the link has refused, was dropped because nothing cuts it.
    /// If so, everything goes through the queueing discipline from now on, where the kernel cuts.
    fn must_cut(&mut self, now: Instant, burst: &Burst) -> io::Result<bool> {
        let whole = burst.front_packet().next().is_some_and(|first| first.segmentation().kind != SegmentationKind::None);
        let recently = self.asked.is_some_and(|asked| now < asked + ASK_AGAIN);
        if !self.direct || !whole || recently {
            return Ok(false);
        }
        self.asked = Some(now);
        if Interface::cuts_segments(&self.interface.name, burst.front_len()) {
            return Ok(false);
        }
        self.direct = false;
        sys::set_bypass(self.inbound.fd(), false)?;
        Ok(true)
    }

    /// Takes what is in the ring to `burst`, payload to where `rooms` wants it.
    fn take_all(&mut self, burst: &mut Burst, mut rooms: Option<&mut dyn Rooms>) -> io::Result<usize> {
        let before = burst.packets();
        self.inbound.divide();
        for _ in 0..BURST {
            let enough = rooms.as_ref().is_some_and(|rooms| rooms.are_enough());
            if enough || !self.inbound.choose() || !self.take(burst, rooms.as_mut().map(|rooms| &mut **rooms as &mut dyn Rooms)) {
                break;
            }
            self.inbound.release();
        }
        let count = burst.packets() - before;
        self.fed |= count > 0;
        match self.failure.take() {
            Some(error) if count == 0 => Err(error),
            _ => Ok(count),
        }
    }
}

/// Where the parts of a packet go.
struct Scattered<'a> {
    header: &'a mut [u8; vnet::BYTES],
    head: &'a mut Frame,
    rest: Rest<'a>,
}

/// Reads the next packet of the socket and says how many bytes it has; none: it could not be read.
fn read_next(fd: BorrowedFd<'_>, to: Scattered<'_>, pieces: &mut Pieces, failure: &mut Option<io::Error>) -> usize {
    let Scattered { header, head, mut rest } = to;
    let mut read = read_packet(fd, header, head, &mut rest, pieces);
    if let Err(error) = read {
        // An error of the link comes first and once; the packet is behind it.
        *failure = Some(error);
        read = read_packet(fd, header, head, &mut rest, pieces);
    }
    read.map_or(0, |count| count.saturating_sub(vnet::BYTES))
}

/// Copies the headers of a packet to a small frame and what is behind them to `payload`, where it is wanted. `None`: there
/// is no small frame, or it is too small.
fn copy_to(arena: &Arena, packet: &[u8], headers: usize, mut payload: Room) -> Option<(Frame, Frame)> {
    if headers > SMALL_BYTES - COPY_HEADROOM || packet.len() != headers + payload.len() {
        return None;
    }
    let mut head = arena.alloc(Class::Small)?;
    head.reserve(COPY_HEADROOM);
    head.extend(headers).copy_from_slice(&packet[..headers]);
    payload.payload_mut().write(0, &packet[headers..]);
    Some((head, payload.into_frame()))
}

/// Copies `bytes` to new frames in `copy`. `false`: the arena is used up.
fn copy_in(arena: &Arena, bytes: &[u8], copy: &mut Vec<Frame>) -> bool {
    if bytes.len() <= crate::inlet::COPY_MAX
        && let Some(mut small) = arena.alloc(Class::Small)
    {
        small.reserve(COPY_HEADROOM);
        small.extend(bytes.len()).copy_from_slice(bytes);
        copy.push(small);
        return true;
    }
    let mut left = bytes;
    while !left.is_empty() {
        let Some(mut frame) = arena.alloc(Class::Large) else { return false };
        if !copy.is_empty() {
            frame.reserve(0);
        }
        let count = left.len().min(frame.tailroom());
        frame.extend(count).copy_from_slice(&left[..count]);
        left = &left[count..];
        copy.push(frame);
    }
    true
}

impl Device for Packet {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            medium: Medium::Ethernet,
            mtu: self.interface.mtu,
            receives_partial_checksums: true,
            sends_partial_checksums: true,
            segmentation_max_bytes: PACKET_MAX.min(self.interface.segmentation_max_bytes),
            segmentation_max_segments: self.interface.segmentation_max_segments,
            // What goes past the queueing discipline is not cut for an interface that cannot.
            segments_udp: self.interface.udp_segmentation || !self.direct,
            receive_max_bytes: PACKET_MAX + 14,
            gathers: true,
            copies_multicast: true,
            burst: BURST,
        }
    }

    fn receive(&mut self, _now: Instant, burst: &mut Burst) -> io::Result<usize> {
        self.take_all(burst, None)
    }

    fn receive_to(&mut self, _now: Instant, burst: &mut Burst, rooms: &mut dyn Rooms) -> io::Result<usize> {
        self.take_all(burst, Some(rooms))
    }

    fn transmit(&mut self, now: Instant, burst: &mut Burst) -> io::Result<usize> {
        let mut count = 0;
        let mut result = Ok(());
        while !burst.is_empty() {
            self.counters.syscalls += 1;
            let sent = match self.batch.send(self.inbound.fd(), burst) {
                Ok((packets, bytes)) => {
                    self.counters.tx_packets += packets as u64;
                    self.counters.tx_bytes += bytes as u64;
                    packets
                }
                // ENOBUFS here means that the link has eaten the packet: its queue was full, or nothing would cut it.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) && self.must_cut(now, burst)? => 0,
                Err(error) if refusal(&error) == Refusal::Later && error.raw_os_error() != Some(libc::ENOBUFS) => break,
                Err(error) => {
                    self.counters.tx_dropped += 1;
                    if refusal(&error) == Refusal::Link {
                        result = Err(error);
                    }
                    1
                }
            };
            for _ in 0..sent {
                burst.drop_packet();
            }
            count += sent;
        }
        result.map(|()| count)
    }

    fn wait_fds<'a>(&'a self, fds: &mut Vec<BorrowedFd<'a>>) {
        self.inbound.wait_fds(fds);
    }

    /// Takes the socket's error, if any, so that a descriptor in error does not keep the worker awake. Not asked for while
    /// packets come: an error then ends the next wait at once, and is taken after it.
    fn arm(&mut self) -> bool {
        if self.inbound.is_ready() {
            return true;
        }
        if !std::mem::take(&mut self.fed) && self.failure.is_none() {
            self.failure = self.inbound.take_error();
        }
        self.failure.is_some()
    }

    fn expect(&mut self, connections: usize) {
        self.inbound.expect(connections);
    }

    fn first_arrival(&self) -> Option<Duration> {
        self.inbound.first_arrival()
    }

    fn counters(&self) -> Counters {
        Counters { rx_dropped: self.counters.rx_dropped + self.inbound.lost(), ..self.counters }
    }
}

#[cfg(test)]
mod tests;
