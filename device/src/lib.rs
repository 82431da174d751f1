//! Packet I/O: back ends that move bursts of frames between a wire and an arena, and middleware
//! that stands in front of one.
//!
//! A device says what it can do ([`Capabilities`]); the engine's offload step cuts and sums only
//! what the device cannot. A device is called per burst, never per frame.
//!
//! | back end | what it is |
//! |---|---|
//! | [`memory`] | a wire between two ends in one thread; deterministic |
//! | [`tap`] | a TAP interface: the stack is the neighbor of this machine's kernel |
//! | [`packet`] | an interface shared with the kernel through AF_PACKET |
//! | [`xdp`] | an interface shared with the kernel through AF_XDP |
//!
//! [`steering`] shares an interface between a device and the kernel. Middleware: [`offload`] (cuts and sums for a device that cannot), [`impair`] (a bad wire),
//! [`pcap`] (capture files), [`share`] (several workers on one interface). [`probe`] says what a machine offers;
//! [`netlink`] reads and makes the kernel's messages, [`accounting`] says which file a process runs.

pub mod accounting;
pub mod impair;
pub mod interface;
pub mod memory;
pub mod netlink;
pub mod offload;
pub mod packet;
pub mod pcap;
pub mod probe;
pub mod repair;
pub mod share;
pub mod steering;
pub mod tap;
pub mod xdp;

mod checksum;
#[cfg(test)]
mod conformance;
mod inlet;
mod middleware;
mod run;
mod sys;
#[cfg(test)]
mod testing;
mod vnet;

pub use middleware::Middleware;

use std::io;
use std::os::fd::BorrowedFd;

use ringway_shm::{Burst, Duration, Instant, Room};
pub use ringway_wire::classify::Medium;

/// The abilities of a device, which the stack then need not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The format of frames.
    pub medium: Medium,
    /// Largest IP packet that is not cut, bytes.
    pub mtu: u16,
    /// Received packets may carry `Checksum::Partial` or `Checksum::Verified`; `false`: always `Complete`.
    pub receives_partial_checksums: bool,
    /// `transmit` accepts packets with `Checksum::Partial`.
    pub sends_partial_checksums: bool,
    /// Largest packet that `transmit` accepts with `Segmentation`, bytes with headers; 0: none.
    pub segmentation_max_bytes: u32,
    /// Segments that such a packet may have.
    pub segmentation_max_segments: u32,
    /// `transmit` accepts `SegmentationKind::Udp` too.
    pub segments_udp: bool,
    /// Largest packet that `receive` may deliver, bytes with headers.
    pub receive_max_bytes: u32,
    /// `transmit` accepts a packet in several frames.
    pub gathers: bool,
    /// Packets to multicast groups are received here although the kernel may receive them too.
    pub copies_multicast: bool,
    /// Packets per system call that make sense.
    pub burst: usize,
}

/// Counters of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets that were lost on the way in: ring full, no frame, cut off.
    pub rx_dropped: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets that the wire refused.
    pub tx_dropped: u64,
    /// System calls made for packets.
    pub syscalls: u64,
}

/// Finds the memory that a packet's payload is wanted in.
pub trait Rooms {
    /// A packet of `len` bytes waits, which begins with `head`: how many bytes its headers have, and room for exactly the bytes
    /// behind them. `None`: anywhere.
    fn room(&mut self, head: &[u8], len: usize) -> Option<(usize, Room)>;

    /// Returns true if so much has been shown that it should be read before more is: the device stops, and packets stay outside.
    fn are_enough(&self) -> bool {
        false
    }
}

/// A packet back end, or a [`Middleware`] over one.
pub trait Device {
    /// Returns its abilities, which do not change while the device lives.
    fn capabilities(&self) -> Capabilities;

    /// Appends packets that have arrived to `burst`, at most about `Capabilities::burst` of them;
    /// never blocks. Frames are taken from the arena that the device was made with; when it is used
    /// up, packets stay outside or are counted as dropped.
    ///
    /// # Errors
    /// The link is gone or the system refused; the device may be called again.
    fn receive(&mut self, now: Instant, burst: &mut Burst) -> io::Result<usize>;

    /// As `receive`; the payload of a large packet may be read to where `rooms` wants it. Only worth more than `receive` where
    /// a packet's headers can be seen before it is read.
    ///
    /// # Errors
    /// As for `receive`.
    fn receive_to(&mut self, now: Instant, burst: &mut Burst, _rooms: &mut dyn Rooms) -> io::Result<usize> {
        self.receive(now, burst)
    }

    /// Sends packets from the front of `burst`; those that do not fit now stay in it. Never blocks.
    ///
    /// A middleware may hold packets that it has taken; then `poll_timeout` says when to call again,
    /// also with an empty burst.
    ///
    /// # Errors
    /// As for `receive`; packets that the link refused for good are dropped and counted.
    fn transmit(&mut self, now: Instant, burst: &mut Burst) -> io::Result<usize>;

    /// Appends what to wait on (level-triggered: one of them is readable while packets wait), when the worker sleeps.
    /// Without any, nothing arrives unless `transmit` or time makes it.
    fn wait_fds<'a>(&'a self, fds: &mut Vec<BorrowedFd<'a>>);

    /// Called before sleeping on `wait_fds`: asks to be woken. Returns `true` when packets are
    /// there already, so that sleeping would be wrong.
    fn arm(&mut self) -> bool;

    /// So many connections are open, each of which may have something on its way here.
    fn expect(&mut self, _connections: usize) {}

    /// When the packet that is received next arrived, on the wall clock since 1970. `None`: there is none, or it is not noted.
    fn first_arrival(&self) -> Option<Duration> {
        None
    }

    /// When the device itself has something to do next (delayed packets), if ever.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// Returns its counters.
    fn counters(&self) -> Counters;

    /// One line for the operator, when something around the device is set up so that packets are lost.
    fn advice(&self) -> Option<String> {
        None
    }
}

impl Device for Box<dyn Device> {
    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }
    fn receive(&mut self, now: Instant, burst: &mut Burst) -> io::Result<usize> {
        (**self).receive(now, burst)
    }
    fn receive_to(&mut self, now: Instant, burst: &mut Burst, rooms: &mut dyn Rooms) -> io::Result<usize> {
        (**self).receive_to(now, burst, rooms)
    }
    fn transmit(&mut self, now: Instant, burst: &mut Burst) -> io::Result<usize> {
        (**self).transmit(now, burst)
    }
    fn wait_fds<'a>(&'a self, fds: &mut Vec<BorrowedFd<'a>>) {
        (**self).wait_fds(fds);
    }
    fn arm(&mut self) -> bool {
        (**self).arm()
    }
    fn expect(&mut self, connections: usize) {
        (**self).expect(connections);
    }
    fn first_arrival(&self) -> Option<Duration> {
        (**self).first_arrival()
    }
    fn poll_timeout(&self) -> Option<Instant> {
        (**self).poll_timeout()
    }
    fn counters(&self) -> Counters {
        (**self).counters()
    }
    fn advice(&self) -> Option<String> {
        (**self).advice()
    }
}
