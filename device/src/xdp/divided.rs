//! Read Documentation/networking/af_xdp, "XDP_SHARED_UMEM bind flag", first. The queues of an interface, divided among several workers.
//!
//! ```text
//!   queue 0  memory, fill and completion ring:     queue 1  memory, ...
//!            all workers', behind a lock
//!            socket of worker 0: its packets  --+           socket of worker 0: its packets  --+--> worker 0
//!            socket of worker 1: its packets  --|--+        socket of worker 1: its packets  --|--+--> worker 1
//! ```
//! A card puts a packet into the queue that it chooses, and the program gives it to the worker whose flow it is, on whichever queue it
//! has come: no packet is passed on, and no number of queues is wanted. The sockets of a queue share memory, so a packet is copied
//! to a frame of the worker's arena, and from one to be sent. Promises: one lock for a burst; a worker that does not read keeps no
//! chunk that another one needs, since the fill ring holds as many as all receive rings together; what finds no frame is lost and counted.
//! Each worker sends on one queue, with chunks of its own. The memory is pinned: 4 MiB for each queue, less where there are more than
//! eight, and 1 MiB for each worker.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ringway_shm::arena::SMALL_BYTES;
use ringway_shm::{Arena, Burst, Checksum, Class, Frame};

use super::queue::{bind, kick};
use super::ring::{Consumer, Producer};
use super::sys::{self, Descriptor, Memory, Which};
use super::{AttachMode, BURST, CHAIN_MAX, CHUNK_BYTES, CHUNK_PACKET_MAX, Queues, Received, too_large};
use crate::interface::Interface;
use crate::run::{give_packet, packet_len};
use crate::steering::SocketMap;

/// Packets that wait for a worker on a queue, at least.
const RECEIVE_ENTRIES_MIN: u32 = 256;
/// Queues that have as many entries as is asked for; more share those.
const FULL_QUEUES: u32 = 8;
/// Chunks that a worker sends from.
const TRANSMIT_ENTRIES: u32 = 512;
/// Headroom of a small frame that a packet is copied to.
const SMALL_HEADROOM: usize = 32;
const CHUNK: u64 = CHUNK_BYTES as u64;

/// What the sockets of one receive queue share.
struct Shared {
    memory: Memory,
    /// Chunks from here on are for sending.
    receive_bytes: u64,
    rings: Mutex<Rings>,
}

struct Rings {
    fill: Producer<u64>,
    completion: Consumer<u64>,
    /// Chunks that are sent, by the place of their worker among those that send on this queue.
    sent: Vec<Vec<u64>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Rings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kernel may receive into these chunks again. `wakes`: the socket by which it is told where it sleeps.
    fn refill(&self, chunks: &mut Vec<u64>, wakes: BorrowedFd<'_>) {
        let mut rings = self.lock();
        // There is room: no more chunks are about than the ring has entries.
        for chunk in chunks.drain(..).filter(|chunk| *chunk < self.receive_bytes) {
            if rings.fill.free() > 0 {
                rings.fill.write(chunk);
            }
        }
        rings.fill.publish();
        if rings.fill.needs_wakeup() {
            sys::kick_receive(wakes);
        }
    }

    /// Moves the chunks of the worker at `place` that the kernel has sent to `free`.
    fn reap(&self, place: usize, free: &mut VecDeque<u64>) {
        let mut rings = self.lock();
        let waiting = rings.completion.waiting();
        for _ in 0..waiting {
            let chunk = rings.completion.read() & !(CHUNK - 1);
            let owner =
                chunk.checked_sub(self.receive_bytes).map(|behind| (behind / CHUNK / u64::from(TRANSMIT_ENTRIES)) as usize);
            if let Some(sent) = owner.and_then(|owner| rings.sent.get_mut(owner)) {
                sent.push(chunk);
            }
        }
        rings.completion.release();
        free.extend(rings.sent[place].drain(..));
    }
}

/// A worker's socket on one receive queue.
struct Socket {
    fd: OwnedFd,
    receive: Consumer<Descriptor>,
    transmit: Producer<Descriptor>,
    shared: Arc<Shared>,
}

/// A worker's sockets on all queues, on their way to its thread.
pub(super) struct Sockets {
    sockets: Vec<Socket>,
    /// The queue that it sends on, and its place among those that do.
    sends_on: (usize, usize),
    attach_mode: AttachMode,
}

/// How many of what there is on a queue.
#[derive(Clone, Copy)]
struct Sizes {
    /// Entries of a worker's receive ring.
    receive: u32,
    /// Chunks to receive into, of all.
    fill: u32,
    /// Workers that send on it.
    senders: u32,
}

impl Sizes {
    /// Of `queue`, one of so many, for so many workers.
    fn new(entries: u32, workers: u32, (queue, queues): (u32, u32)) -> Sizes {
        let shares = workers.next_power_of_two();
        let entries_here = entries / queues.div_ceil(FULL_QUEUES).next_power_of_two();
        let receive = (entries_here / shares).max(RECEIVE_ENTRIES_MIN).min(entries);
        Sizes { receive, fill: receive * shares, senders: (workers + queues - 1 - queue) / queues }
    }

    /// Entries of the completion ring.
    fn completion(self) -> u32 {
        self.senders.max(1).next_power_of_two() * TRANSMIT_ENTRIES
    }

    fn chunks(self) -> u32 {
        self.fill + self.senders * TRANSMIT_ENTRIES
    }
}

/// Sockets for `workers` workers on each queue of `interface`, known to `map`.
pub(super) fn open(
    interface: &Interface,
    attach_mode: AttachMode,
    entries: u32,
    map: &SocketMap,
    workers: usize,
) -> io::Result<Vec<Sockets>> {
    let queues = interface.receive_queues;
    let sends_on = |worker| (worker % queues as usize, worker / queues as usize);
    let empty = |worker| Sockets { sockets: Vec::new(), sends_on: sends_on(worker), attach_mode };
    let mut all: Vec<Sockets> = (0..workers).map(empty).collect();
    for queue in 0..queues {
        let sizes = Sizes::new(entries, workers as u32, (queue, queues));
        let memory = Memory::new(sizes.chunks() as usize * CHUNK_BYTES)?;
        let first = sys::open()?;
        memory.register(first.as_fd(), CHUNK_BYTES as u32)?;
        sys::make_memory_rings(first.as_fd(), sizes.fill, sizes.completion())?;
        sys::make_rings(first.as_fd(), sizes.receive, TRANSMIT_ENTRIES)?;
        bind(first.as_fd(), interface.index, queue, attach_mode)?;
        let shared = Arc::new(share(memory, first.as_fd(), sizes)?);
        let mut fds = vec![first];
        for _ in 1..workers {
            let fd = sys::open()?;
            sys::make_rings(fd.as_fd(), sizes.receive, TRANSMIT_ENTRIES)?;
            sys::bind_beside(fd.as_fd(), interface.index, queue, fds[0].as_fd())?;
            fds.push(fd);
        }
        for (worker, (fd, one)) in fds.into_iter().zip(&mut all).enumerate() {
            map.set(queue, worker, fd.as_fd())?;
            one.sockets.push(socket(fd, shared.clone(), sizes)?);
        }
    }
    Ok(all)
}

/// The memory and rings behind `first`, with all chunks where they begin.
fn share(memory: Memory, first: BorrowedFd<'_>, sizes: Sizes) -> io::Result<Shared> {
    let offsets = sys::offsets(first)?;
    let mut fill = Producer::map(first, Which::Fill, &offsets.fr, sizes.fill)?;
    let completion = Consumer::map(first, Which::Completion, &offsets.cr, sizes.completion())?;
    (0..sizes.fill).for_each(|chunk| fill.write(u64::from(chunk) * CHUNK));
    fill.publish();
    let receive_bytes = u64::from(sizes.fill) * CHUNK;
    let first_of = |sender| receive_bytes + u64::from(sender * TRANSMIT_ENTRIES) * CHUNK;
    let chunks = |sender| (0..TRANSMIT_ENTRIES).map(|chunk| first_of(sender) + u64::from(chunk) * CHUNK).collect();
    let sent = (0..sizes.senders).map(chunks).collect();
    Ok(Shared { memory, receive_bytes, rings: Mutex::new(Rings { fill, completion, sent }) })
}

fn socket(fd: OwnedFd, shared: Arc<Shared>, sizes: Sizes) -> io::Result<Socket> {
    let offsets = sys::offsets(fd.as_fd())?;
    let receive = Consumer::map(fd.as_fd(), Which::Receive, &offsets.rx, sizes.receive)?;
    let transmit = Producer::map(fd.as_fd(), Which::Transmit, &offsets.tx, TRANSMIT_ENTRIES)?;
    Ok(Socket { fd, receive, transmit, shared })
}

/// The same in the worker's thread, with the frames that packets are copied to.
pub(super) struct DividedQueues {
    /// With the beginning of a packet whose end has not arrived, each.
    queues: Vec<(Socket, Arriving)>,
    sends_on: (usize, usize),
    attach_mode: AttachMode,
    arena: Arena,
    /// Chunks to send from.
    free: VecDeque<u64>,
    /// Chunks that were read, at the end of a burst.
    read: Vec<u64>,
}

/// A packet that arrives in pieces.
#[derive(Default)]
struct Arriving {
    frames: Vec<Frame>,
    /// Its end is awaited only to be thrown away.
    is_broken: bool,
}

impl DividedQueues {
    pub(super) fn new(sockets: Sockets, arena: &Arena) -> DividedQueues {
        let Sockets { sockets, sends_on, attach_mode } = sockets;
        let queues = sockets.into_iter().map(|socket| (socket, Arriving::default())).collect();
        DividedQueues { queues, sends_on, attach_mode, arena: arena.clone(), free: VecDeque::new(), read: Vec::new() }
    }

    fn sender(&self) -> &Socket {
        &self.queues[self.sends_on.0].0
    }
}

/// A frame with a copy of the packet's piece at `at`; `None`: the arena is used up, or the piece is nowhere.
fn copy(arena: &Arena, memory: &Memory, at: u64, len: usize) -> Option<Frame> {
    let is_small = len <= SMALL_BYTES - SMALL_HEADROOM;
    let small = if is_small { arena.alloc(Class::Small) } else { None };
    let mut frame = match small {
        Some(mut frame) => {
            frame.reserve(SMALL_HEADROOM);
            frame
        }
        None => arena.alloc(Class::Large)?,
    };
    (len <= frame.tailroom() && memory.read(at, frame.extend(len))).then_some(frame)
}

impl Socket {
    /// Moves at most a burst of packets to `burst`, and the chunks that they were in to `read`.
    fn take(
        &mut self,
        arriving: &mut Arriving,
        arena: &Arena,
        read: &mut Vec<u64>,
        give: &mut dyn FnMut(&mut Vec<Frame>),
    ) -> u64 {
        let (mut packets, mut lost) = (0, 0);
        let mut waiting = self.receive.waiting();
        while waiting > 0 && packets < BURST {
            waiting -= 1;
            let Descriptor { addr, len, options } = self.receive.read();
            match copy(arena, &self.shared.memory, addr, len as usize) {
                Some(frame) => arriving.frames.push(frame),
                None => arriving.is_broken = true,
            }
            read.push(addr & !(CHUNK - 1));
            if options & libc::XDP_PKT_CONTD != 0 {
                continue;
            }
            packets += 1;
            if std::mem::take(&mut arriving.is_broken) {
                arriving.frames.clear();
                lost += 1;
            } else {
                give(&mut arriving.frames);
            }
        }
        self.receive.release();
        lost
    }
}

impl Queues for DividedQueues {
    fn receive(&mut self, burst: &mut Burst, mark: &mut dyn FnMut(&mut Frame)) -> Received {
        let mut received = Received::default();
        for (socket, arriving) in &mut self.queues {
            let (mut packets, mut bytes) = (0, 0);
            let lost = socket.take(arriving, &self.arena, &mut self.read, &mut |frames| {
                packets += 1;
                bytes += packet_len(frames);
                mark(&mut frames[0]);
                give_packet(burst, frames);
            });
            received.add((packets, bytes, lost as usize));
            if !self.read.is_empty() {
                socket.shared.refill(&mut self.read, socket.fd.as_fd());
            }
        }
        received
    }

    fn begin_sending(&mut self) {
        let (queue, place) = self.sends_on;
        self.queues[queue].0.shared.reap(place, &mut self.free);
    }

    fn has_room(&self) -> bool {
        self.free.len() >= CHAIN_MAX && self.sender().transmit.free() as usize >= CHAIN_MAX
    }

    fn send(&mut self, packet: &mut Vec<Frame>) -> bool {
        let len = packet_len(packet);
        let chunks_max = if self.attach_mode.chains { CHAIN_MAX } else { 1 };
        // A chunk holds more than a frame, so that no packet needs more chunks here than frames alone.
        let chunks = len.div_ceil(CHUNK_PACKET_MAX);
        if matches!(packet[0].checksum(), Checksum::Partial { .. }) || chunks > chunks_max {
            return false;
        }
        let socket = &mut self.queues[self.sends_on.0].0;
        let (mut left, mut at, mut filled) = (len, 0, CHUNK_PACKET_MAX);
        for frame in packet.drain(..) {
            let mut bytes = frame.payload();
            while !bytes.is_empty() {
                if filled == CHUNK_PACKET_MAX {
                    at = self.free.pop_front().expect("`has_room` said yes");
                    let now = left.min(CHUNK_PACKET_MAX);
                    left -= now;
                    let options = if left > 0 { libc::XDP_PKT_CONTD } else { 0 };
                    socket.transmit.write(Descriptor { addr: at, len: now as u32, options });
                    filled = 0;
                }
                let (now, later) = bytes.split_at(bytes.len().min(CHUNK_PACKET_MAX - filled));
                socket.shared.memory.write(at + filled as u64, now);
                filled += now.len();
                bytes = later;
            }
        }
        true
    }

    fn flush(&mut self) -> io::Result<u64> {
        let socket = self.sender();
        socket.transmit.publish();
        let flushed = kick(&socket.transmit, socket.fd.as_fd());
        self.begin_sending();
        flushed
    }

    fn has_unsent(&self) -> bool {
        self.sender().transmit.used() > 0
    }

    fn wait_fds<'a>(&'a self, fds: &mut Vec<BorrowedFd<'a>>) {
        fds.extend(self.queues.iter().map(|(socket, _)| socket.fd.as_fd()));
    }

    fn arm(&mut self) -> bool {
        self.queues.iter().any(|(socket, _)| socket.receive.waiting() > 0)
    }

    fn dropped(&self) -> u64 {
        self.statistics().map(|s| s.rx_dropped + s.rx_ring_full).sum()
    }

    fn too_large(&self) -> u64 {
        self.statistics().map(too_large).sum()
    }

    fn is_zero_copy(&self) -> bool {
        self.queues.iter().all(|(socket, _)| sys::is_zero_copy(socket.fd.as_fd()))
    }
}

impl DividedQueues {
    fn statistics(&self) -> impl Iterator<Item = libc::xdp_statistics> {
        self.queues.iter().filter_map(|(socket, _)| sys::statistics(socket.fd.as_fd()).ok())
    }
}

#[cfg(test)]
mod tests;
