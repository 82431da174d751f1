//! The machine's interface: raw IP packets that the caller delivers, and a list of those that were sent.
//!
//! Promises: each packet is one segment, as scripts name them. Does not do: checksums of TCP; scripts do not look at them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use ringway_device::{Capabilities, Counters, Device, Medium};
use ringway_shm::{Arena, Burst, Instant};

/// A packet that the machine has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Time of sending.
    pub at: Instant,
    /// From the first byte of the IP header.
    pub bytes: Vec<u8>,
}

/// Bytes of a delivered packet in one frame.
const PIECE: usize = 1_800;
/// Packets per call.
const BURST: usize = 64;

/// The caller's end of the wire.
#[derive(Clone, Default)]
pub(super) struct Line(Rc<RefCell<Ends>>);

#[derive(Default)]
struct Ends {
    inbox: Burst,
    sent: VecDeque<Sent>,
    /// The first frames of a packet whose last frame is still to come.
    begun: Vec<u8>,
}

impl Line {
    /// Puts a packet into frames of the worker, which takes it in its next iteration.
    pub(super) fn deliver(&self, arena: &Arena, packet: &[u8]) {
        let mut ends = self.0.borrow_mut();
        let mut rest = packet;
        while !rest.is_empty() {
            let piece = rest.len().min(PIECE);
            let Some(mut frame) = arena.alloc_from(&rest[..piece]) else { return };
            rest = &rest[piece..];
            frame.set_continues(!rest.is_empty());
            ends.inbox.push(frame);
        }
    }

    /// Takes the packet that was sent first.
    pub(super) fn next_sent(&self) -> Option<Sent> {
        self.0.borrow_mut().sent.pop_front()
    }
}

/// The worker's end of the wire.
pub(super) struct Wire(Line);

impl Wire {
    pub(super) fn new(line: &Line) -> Wire {
        Wire(line.clone())
    }
}

impl Device for Wire {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            medium: Medium::Ip,
            mtu: u16::MAX,
            receives_partial_checksums: false,
            sends_partial_checksums: true,
            segmentation_max_bytes: u16::MAX.into(),
            segmentation_max_segments: 1,
            segments_udp: false,
            receive_max_bytes: u16::MAX.into(),
            gathers: true,
            copies_multicast: true,
            burst: BURST,
        }
    }

    fn receive(&mut self, _now: Instant, burst: &mut Burst) -> io::Result<usize> {
        let inbox = &mut self.0.0.borrow_mut().inbox;
        let packets = inbox.packets();
        while let Some(frame) = inbox.pop() {
            burst.push(frame);
        }
        Ok(packets)
    }

    fn transmit(&mut self, now: Instant, burst: &mut Burst) -> io::Result<usize> {
        let ends = &mut *self.0.0.borrow_mut();
        let packets = burst.packets();
        while let Some(frame) = burst.pop() {
            frame.payload().append_to(&mut ends.begun);
            if !frame.continues() {
                ends.sent.push_back(Sent { at: now, bytes: std::mem::take(&mut ends.begun) });
            }
        }
        Ok(packets)
    }

    fn wait_fds<'a>(&'a self, _fds: &mut Vec<BorrowedFd<'a>>) {}

    fn arm(&mut self) -> bool {
        !self.0.0.borrow().inbox.is_empty()
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}
