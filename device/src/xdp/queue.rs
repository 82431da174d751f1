//! One AF_XDP socket on one receive queue: its four rings and the frames in them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use ringway_shm::{Arena, Burst, Class, Frame};

use super::frame_accounting::FrameAccounting;
use super::ring::{Consumer, Producer};
use super::sys::{self, Descriptor, Which};
use super::{AttachMode, BURST, CHUNK_BYTES, METADATA_BYTES};
use crate::inlet::COPY_MAX;

/// Binding again right after another socket has left the queue fails with EBUSY for a while.
const BIND_TRIES: u32 = 200;
const BIND_PAUSE: Duration = Duration::from_millis(10);
/// Packets that a kernel without driver support sends in one call.
const KERNEL_BATCH: u32 = 32;
const COPY_HEADROOM: usize = 32;

pub(super) struct Queue {
    fd: OwnedFd,
    receive: Consumer<Descriptor>,
    transmit: Producer<Descriptor>,
    fill: Producer<u64>,
    completion: Consumer<u64>,
    /// Frames that the fill ring should hold.
    fill_target: u32,
    /// Frames lent for receiving and not yet returned with a packet.
    filled: u32,
    /// The beginning of a packet whose end has not arrived.
    partial: Vec<Frame>,
    /// Its end is awaited only to be thrown away.
    broken: bool,
}

impl Queue {
    /// A bound socket on `queue` of `interface`.
    pub(super) fn open(interface: u32, queue: u32, entries: u32, attach_mode: AttachMode, arena: &Arena) -> io::Result<Queue> {
        let fd = sys::open()?;
        let (start, bytes) = arena.area();
        let metadata = if attach_mode.metadata { METADATA_BYTES as u32 } else { 0 };
        sys::register_memory(fd.as_fd(), start, bytes, CHUNK_BYTES as u32, metadata)?;
        sys::make_memory_rings(fd.as_fd(), entries, entries)?;
        sys::make_rings(fd.as_fd(), entries, entries)?;
        let offsets = sys::offsets(fd.as_fd())?;
        let receive = Consumer::map(fd.as_fd(), Which::Receive, &offsets.rx, entries)?;
        let transmit = Producer::map(fd.as_fd(), Which::Transmit, &offsets.tx, entries)?;
        let fill = Producer::map(fd.as_fd(), Which::Fill, &offsets.fr, entries)?;
        let completion = Consumer::map(fd.as_fd(), Which::Completion, &offsets.cr, entries)?;
        bind(fd.as_fd(), interface, queue, attach_mode)?;
        let fill_target = entries.min(arena.capacity(Class::Large) / 4);
        Ok(Queue { fd, receive, transmit, fill, completion, fill_target, filled: 0, partial: Vec::new(), broken: false })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Packets wait.
    #[inline]
    pub(super) fn is_readable(&self) -> bool {
        self.receive.waiting() > 0
    }

    /// Packets wait for the kernel to send them.
    #[inline]
    pub(super) fn has_unsent(&self) -> bool {
        self.transmit.used() > 0
    }

    /// Moves at most a burst of packets to `burst`; `mark` sees each first frame. Returns packets, bytes,
    /// and packets lost.
    pub(super) fn receive(
        &mut self,
        accounting: &mut FrameAccounting,
        arena: &Arena,
        burst: &mut Burst,
        mark: &mut dyn FnMut(&mut Frame),
    ) -> (usize, usize, usize) {
        let (mut packets, mut bytes, mut lost) = (0, 0, 0);
        let mut waiting = self.receive.waiting();
        while waiting > 0 && packets + lost < BURST {
            waiting -= 1;
            let descriptor = self.receive.read();
            self.filled = self.filled.saturating_sub(1);
            match accounting.take_back(descriptor.addr, descriptor.len) {
                Some(frame) => self.partial.push(frame),
                None => self.broken = true,
            }
            if descriptor.options & libc::XDP_PKT_CONTD != 0 {
                continue;
            }
            if std::mem::take(&mut self.broken) {
                self.partial.clear();
                lost += 1;
                continue;
            }
            bytes += crate::run::packet_len(&self.partial);
            packets += 1;
            self.deliver(accounting, arena, burst, mark);
        }
        self.receive.release();
        self.refill(accounting, arena);
        (packets, bytes, lost)
    }

    /// Moves the packet in `partial` to `burst`: a small one as a copy, so that its frame can be
    /// filled again at once.
    fn deliver(&mut self, accounting: &mut FrameAccounting, arena: &Arena, burst: &mut Burst, mark: &mut dyn FnMut(&mut Frame)) {
        if self.partial.len() == 1
            && self.partial[0].len() <= COPY_MAX
            && let Some(mut small) = arena.alloc(Class::Small)
        {
            let large = self.partial.pop().expect("there is one");
            small.reserve(COPY_HEADROOM);
            small.extend(large.len()).copy_from_slice(large.bytes());
            mark(&mut small);
            burst.push(small);
            self.put_fill(accounting, large);
            return;
        }
        mark(&mut self.partial[0]);
        crate::run::give_packet(burst, &mut self.partial);
    }

    fn put_fill(&mut self, accounting: &mut FrameAccounting, frame: Frame) {
        if self.fill.free() == 0 {
            return;
        }
        let (address, _) = accounting.lend(frame);
        self.fill.write(address & !(CHUNK_BYTES as u64 - 1));
        self.filled += 1;
    }

    /// Gives the kernel frames to receive into.
    pub(super) fn refill(&mut self, accounting: &mut FrameAccounting, arena: &Arena) {
        while self.filled < self.fill_target && self.fill.free() > 0 {
            let Some(frame) = arena.alloc(Class::Large) else { break };
            self.put_fill(accounting, frame);
        }
        self.fill.publish();
        if self.fill.needs_wakeup() && self.fill.used() > 0 {
            sys::kick_receive(self.fd.as_fd());
        }
    }

    /// Takes back frames that were sent.
    pub(super) fn reap(&mut self, accounting: &mut FrameAccounting) {
        let waiting = self.completion.waiting();
        for _ in 0..waiting {
            let address = self.completion.read();
            drop(accounting.take_back(address, 0));
        }
        if waiting > 0 {
            self.completion.release();
        }
    }

    /// Returns true if a packet of `frames` frames can be queued now.
    #[inline]
    pub(super) fn has_room(&self, frames: usize) -> bool {
        self.transmit.free() as usize >= frames
    }

    /// Queues a packet, which is left empty; `has_room` said yes. `metadata`: it stands in front of
    /// the first frame.
    pub(super) fn queue(&mut self, accounting: &mut FrameAccounting, packet: &mut Vec<Frame>, metadata: bool) {
        let last = packet.len() - 1;
        for (index, frame) in packet.drain(..).enumerate() {
            let (addr, len) = accounting.lend(frame);
            let chained = if index < last { libc::XDP_PKT_CONTD } else { 0 };
            let described = if index == 0 && metadata { libc::XDP_TX_METADATA } else { 0 };
            self.transmit.write(Descriptor { addr, len, options: chained | described });
        }
    }

    /// Shows queued packets to the kernel and wakes it. Returns the system calls that this took.
    pub(super) fn flush(&mut self) -> io::Result<u64> {
        self.transmit.publish();
        kick(&self.transmit, self.fd.as_fd())
    }

    pub(super) fn statistics(&self) -> io::Result<libc::xdp_statistics> {
        sys::statistics(self.fd.as_fd())
    }

    pub(super) fn is_zero_copy(&self) -> bool {
        sys::is_zero_copy(self.fd.as_fd())
    }
}

/// Wakes the kernel as long as it takes packets from `transmit`, which is `fd`'s. Returns the system calls that this took.
pub(super) fn kick(transmit: &Producer<Descriptor>, fd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut calls = 0;
    // Kernels up to 6.1 show what they have taken with the next call that takes something.
    let mut unseen = transmit.used().div_ceil(KERNEL_BATCH);
    while transmit.used() > 0 && transmit.needs_wakeup() {
        let before = transmit.used();
        calls += 1;
        match sys::kick_transmit(fd) {
            // EAGAIN: the kernel's budget for one call is used up, or the completion ring is full.
            Err(error) if crate::sys::refusal(&error) == crate::sys::Refusal::Later => {}
            Err(error) => return Err(error),
            Ok(()) => {}
        }
        if transmit.used() == before {
            if unseen == 0 {
                break;
            }
            unseen -= 1;
        }
    }
    Ok(calls)
}

/// Binds as `attach_mode` says, and waits for a socket that is just going away.
pub(super) fn bind(fd: BorrowedFd<'_>, interface: u32, queue: u32, attach_mode: AttachMode) -> io::Result<()> {
    let copy = if attach_mode.zero_copy { libc::XDP_ZEROCOPY } else { libc::XDP_COPY };
    let chains = if attach_mode.chains { libc::XDP_USE_SG } else { 0 };
    let flags = copy | chains | libc::XDP_USE_NEED_WAKEUP;
    let mut tries = 0;
    loop {
        match sys::bind(fd, interface, queue, flags) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && tries < BIND_TRIES => {
                tries += 1;
                std::thread::sleep(BIND_PAUSE);
            }
            result => return result,
        }
    }
}
