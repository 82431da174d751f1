//! A TAP interface: the stack is the Ethernet neighbor of this machine's kernel.
//!
//! Packets cross with virtio headers: up to 64 KiB with partial checksums, both ways, read straight
//! into frames and written straight from them. The interface goes when the device is dropped. Does
//! not route or forward: addresses on the kernel's side are set with [`crate::interface::set_up`].

mod sys;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ringway_shm::{Arena, Burst, Instant};

use crate::inlet::Inlet;
use crate::interface::Interface;
use crate::sys::{Pieces, Refusal, Rest, read_packet, refusal, write_packet};
use crate::{Capabilities, Counters, Device, Medium, vnet};

/// Packets per `receive`; each is one system call.
const BURST: usize = 64;
/// The largest packet in either direction, bytes with headers.
const PACKET_MAX: u32 = 65_535;
/// A link header with a VLAN tag, which the kernel may add to the largest packet.
const LINK_BYTES_MAX: u32 = 18;
const RECEIVE_MAX: u32 = PACKET_MAX + LINK_BYTES_MAX;

/// One queue of a TAP interface.
pub struct Tap {
    fd: OwnedFd,
    interface: Interface,
    inlet: Inlet,
    /// The kernel's side takes and gives partial checksums and super-segments.
    offloads: bool,
    receive_max: u32,
    pieces: Pieces,
    counters: Counters,
}

impl Tap {
    /// Makes the interface `name` (with `%d` the kernel picks a number).
    ///
    /// # Errors
    /// No /dev/net/tun, no CAP_NET_ADMIN, the name is taken, or the kernel lacks an offload.
    pub fn open(name: &str, arena: &Arena) -> io::Result<Tap> {
        let (fd, name) = sys::open(name, sys::ALL_OFFLOADS)?;
        let interface = Interface::open(&name)?;
        let inlet = Inlet::new(arena, RECEIVE_MAX as usize);
        Ok(Tap {
            fd,
            interface,
            inlet,
            offloads: true,
            receive_max: RECEIVE_MAX,
            pieces: Pieces::default(),
            counters: Counters::default(),
        })
    }

    /// Makes the interface `name` as one that neither cuts nor sums: the kernel gives and takes what a plain wire carries,
    /// packets of one MTU with whole checksums.
    ///
    /// # Errors
    /// As [`Tap::open`].
    pub fn open_plain(name: &str, arena: &Arena) -> io::Result<Tap> {
        let (fd, name) = sys::open(name, 0)?;
        let interface = Interface::open(&name)?;
        let receive_max = u32::from(interface.mtu) + LINK_BYTES_MAX;
        let inlet = Inlet::new(arena, receive_max as usize);
        Ok(Tap { fd, interface, inlet, offloads: false, receive_max, pieces: Pieces::default(), counters: Counters::default() })
    }

    /// The interface on the kernel's side, as it was at the opening.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Reads one packet; `false`: there is none, or no frames for it.
    fn receive_packet(&mut self, burst: &mut Burst) -> io::Result<bool> {
        let Some((head, rest)) = self.inlet.frames(self.receive_max as usize) else { return Ok(false) };
        let mut header = [0; vnet::BYTES];
        self.counters.syscalls += 1;
        let len = match read_packet(self.fd.as_fd(), &mut header, head, &mut Rest::Frames(rest), &mut self.pieces) {
            Ok(count) => count.saturating_sub(vnet::BYTES),
            Err(error) if refusal(&error) == Refusal::Later => return Ok(false),
            Err(error) => return Err(error),
        };
        if self.inlet.deliver(len, burst, |first| vnet::decode(header, first)) {
            self.counters.rx_packets += 1;
            self.counters.rx_bytes += len as u64;
        } else {
            self.counters.rx_dropped += 1;
        }
        Ok(true)
    }
}

impl Device for Tap {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            medium: Medium::Ethernet,
            mtu: self.interface.mtu,
            receives_partial_checksums: self.offloads,
            sends_partial_checksums: self.offloads,
            segmentation_max_bytes: if self.offloads { PACKET_MAX } else { 0 },
            segmentation_max_segments: u32::MAX,
            segments_udp: self.offloads,
            receive_max_bytes: self.receive_max,
            gathers: true,
            copies_multicast: true,
            burst: BURST,
        }
    }

    fn receive(&mut self, _now: Instant, burst: &mut Burst) -> io::Result<usize> {
        let before = burst.packets();
        for _ in 0..BURST {
            if !self.receive_packet(burst)? {
                break;
            }
        }
        Ok(burst.packets() - before)
    }

    fn transmit(&mut self, _now: Instant, burst: &mut Burst) -> io::Result<usize> {
        let mut count = 0;
        let mut result = Ok(());
        while !burst.is_empty() {
            let header = burst.front_packet().next().map_or([0; vnet::BYTES], vnet::encode);
            self.counters.syscalls += 1;
            match write_packet(self.fd.as_fd(), &header, burst.front_packet(), &mut self.pieces) {
                Ok(written) => {
                    self.counters.tx_packets += 1;
                    self.counters.tx_bytes += written.saturating_sub(vnet::BYTES) as u64;
                }
                Err(error) => match refusal(&error) {
                    Refusal::Later => break,
                    Refusal::Packet => self.counters.tx_dropped += 1,
                    Refusal::Link => {
                        self.counters.tx_dropped += 1;
                        result = Err(error);
                    }
                },
            }
            burst.drop_packet();
            count += 1;
        }
        result.map(|()| count)
    }

    fn wait_fds<'a>(&'a self, fds: &mut Vec<BorrowedFd<'a>>) {
        fds.push(self.fd.as_fd());
    }

    /// The descriptor stays readable while packets wait, so there is nothing to check.
    fn arm(&mut self) -> bool {
        false
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
