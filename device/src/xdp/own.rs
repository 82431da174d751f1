//! The queues of an interface that one worker has alone: its arena is the packet memory, so that nothing is copied here.
//!
//! One socket per receive queue; everything is sent on the first. Promises: a frame that the kernel holds is written down
//! ([`FrameAccounting`]), and comes back when the sockets are closed, unless a card writes into frames by itself: those stay lent.

use std::io;
use std::os::fd::BorrowedFd;

use ringway_shm::{Arena, Burst, Checksum, Frame};

use super::frame_accounting::FrameAccounting;
use super::queue::Queue;
use super::{AttachMode, CHAIN_MAX, METADATA_BYTES, Queues, Received, too_large};
use crate::interface::Interface;
use crate::run::linearize;
use crate::steering::SocketMap;

pub(super) struct OwnQueues {
    queues: Vec<Queue>,
    accounting: FrameAccounting,
    arena: Arena,
    attach_mode: AttachMode,
}

impl OwnQueues {
    /// A socket for each queue of `interface`, known to `sockets`, with frames to receive into.
    pub(super) fn open(
        interface: &Interface,
        attach_mode: AttachMode,
        entries: u32,
        sockets: &SocketMap,
        arena: &Arena,
    ) -> io::Result<OwnQueues> {
        let accounting = FrameAccounting::new(arena);
        let mut own = OwnQueues { queues: Vec::new(), accounting, arena: arena.clone(), attach_mode };
        for index in 0..interface.receive_queues {
            let queue = Queue::open(interface.index, index, entries, attach_mode, arena)?;
            sockets.set(index, 0, queue.fd())?;
            own.queues.push(queue);
        }
        for queue in &mut own.queues {
            queue.refill(&mut own.accounting, arena);
        }
        Ok(own)
    }

    /// Makes `packet` one that the rings take. `None`: it cannot be; otherwise whether metadata stands in front of it.
    fn prepare(&self, packet: &mut Vec<Frame>) -> Option<bool> {
        let frames_max = if self.attach_mode.chains { CHAIN_MAX } else { 1 };
        let short_headroom = self.attach_mode.metadata && packet[0].headroom() < METADATA_BYTES;
        let partial = matches!(packet[0].checksum(), Checksum::Partial { .. });
        let shared = partial && self.attach_mode.metadata && !packet[0].is_exclusive();
        let elsewhere = packet.iter().any(|frame| !frame.is_in_area());
        if packet.len() > frames_max || short_headroom || shared || elsewhere {
            let linear = linearize(&self.arena, packet)?;
            packet.clear();
            packet.push(linear);
        }
        match packet[0].checksum() {
            Checksum::Partial { .. } if !self.attach_mode.metadata => None,
            Checksum::Partial { start, offset } => {
                order_checksum(&mut packet[0], start, offset);
                Some(true)
            }
            _ => Some(false),
        }
    }
}

/// Writes `struct xsk_tx_metadata` in front of `frame`: complete the checksum.
fn order_checksum(frame: &mut Frame, start: u16, offset: u16) {
    let metadata = frame.push(METADATA_BYTES);
    metadata.fill(0);
    metadata[..8].copy_from_slice(&u64::from(libc::XDP_TXMD_FLAGS_CHECKSUM).to_ne_bytes());
    metadata[8..10].copy_from_slice(&start.to_ne_bytes());
    metadata[10..12].copy_from_slice(&offset.to_ne_bytes());
    frame.pull(METADATA_BYTES);
}

impl Queues for OwnQueues {
    fn receive(&mut self, burst: &mut Burst, mark: &mut dyn FnMut(&mut Frame)) -> Received {
        let mut received = Received::default();
        for queue in &mut self.queues {
            queue.reap(&mut self.accounting);
            received.add(queue.receive(&mut self.accounting, &self.arena, burst, mark));
        }
        received
    }

    fn begin_sending(&mut self) {
        self.queues[0].reap(&mut self.accounting);
    }

    fn has_room(&self) -> bool {
        self.queues[0].has_room(CHAIN_MAX)
    }

    fn send(&mut self, packet: &mut Vec<Frame>) -> bool {
        let Some(metadata) = self.prepare(packet) else { return false };
        self.queues[0].queue(&mut self.accounting, packet, metadata);
        true
    }

    fn flush(&mut self) -> io::Result<u64> {
        let flushed = self.queues[0].flush();
        self.queues[0].reap(&mut self.accounting);
        flushed
    }

    fn has_unsent(&self) -> bool {
        self.queues[0].has_unsent()
    }

    fn wait_fds<'a>(&'a self, fds: &mut Vec<BorrowedFd<'a>>) {
        fds.extend(self.queues.iter().map(Queue::fd));
    }

    fn arm(&mut self) -> bool {
        for queue in &mut self.queues {
            queue.reap(&mut self.accounting);
        }
        self.queues.iter().any(Queue::is_readable)
    }

    fn dropped(&self) -> u64 {
        self.queues.iter().filter_map(|queue| queue.statistics().ok()).map(|s| s.rx_dropped + s.rx_ring_full).sum()
    }

    fn too_large(&self) -> u64 {
        self.queues.iter().filter_map(|queue| queue.statistics().ok()).map(too_large).sum()
    }

    fn is_zero_copy(&self) -> bool {
        self.queues.iter().all(Queue::is_zero_copy)
    }

    fn retire(&mut self) -> Option<FrameAccounting> {
        let nothing = FrameAccounting::new(&self.arena);
        self.is_zero_copy().then(|| std::mem::replace(&mut self.accounting, nothing))
    }
}

impl Drop for OwnQueues {
    fn drop(&mut self) {
        let zero_copy = self.is_zero_copy();
        self.queues.clear();
        // A card that writes frames by itself may go on for a while: those stay lent for good.
        if !zero_copy {
            self.accounting.take_back_all();
        }
    }
}
