//! Read Documentation/networking/af_xdp first. AF_XDP: rings shared with the kernel, in front of its stack.
//!
//! One worker has the queues of an interface for itself: its arena is the packet memory, nothing is copied here (`own`). Several
//! have a socket each on every queue, and a packet comes to the worker whose flow it is (`divided`). Zero copy, native and generic mode are tried in
//! this order. Up to an MTU of 1778 a packet is one frame and, in copy mode, its checksum may be left
//! to the kernel; above, packets are chains of frames and checksums must be complete.
//!
//! Known limits of the mechanism (measured on veth; `advice` says so when it happens): a kernel peer
//! on veth leaves checksums partial, which is recognized here; super-segments of a peer arrive without
//! their segment size and are dropped by the kernel in generic mode, until the peer's offloads are off.

mod divided;
mod frame_accounting;
pub mod offloads;
mod own;
mod queue;
mod ring;
pub mod selftest;
mod sys;

use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use ringway_shm::arena::LARGE_BYTES;
use ringway_shm::{Arena, Burst, Checksum, Duration, Frame, Instant};

use crate::interface::Interface;
use crate::run::{packet_len, take_packet};
use crate::steering::{Attachment, Redirect, SocketMap, XdpMode};
use crate::{Capabilities, Counters, Device, Medium};
use divided::DividedQueues;
use frame_accounting::FrameAccounting;
use offloads::{Journal, Offloads};
use own::OwnQueues;

/// A socket that is bound to no queue: it lives as long as it has an owner, and that is all it is for.
pub(crate) fn unbound_socket() -> io::Result<OwnedFd> {
    sys::open()
}

/// One chunk of UMEM is one large slot; small slots lie several to a chunk behind them.
const CHUNK_BYTES: usize = LARGE_BYTES;
/// The kernel keeps this much in front of a received packet.
const KERNEL_HEADROOM: usize = 256;
/// The largest packet that arrives in one chunk, bytes with headers.
const CHUNK_PACKET_MAX: usize = CHUNK_BYTES - KERNEL_HEADROOM;
/// `struct xsk_tx_metadata`
const METADATA_BYTES: usize = 24;
/// Frames per packet that the kernel takes (MAX_SKB_FRAGS).
const CHAIN_MAX: usize = 17;
const BURST: usize = 64;
const RETRY: Duration = Duration::from_micros(50);

/// The options with which the device is opened.
#[derive(Clone, Debug)]
pub struct XdpOptions {
    /// Only this mode; `None`: native, then generic.
    pub mode: Option<XdpMode>,
    /// Try a zero-copy binding first. Not by default: igb's receives no frame above 1 KiB into chunks of 2 KiB, the kernel's
    /// neither.
    pub zero_copy: bool,
    /// Let the kernel complete checksums where it takes orders about a packet. Not by default: virtio_net of Linux 6.12 takes
    /// them, and sends wrong checksums.
    pub kernel_checksums: bool,
    /// Entries of each ring, a power of two.
    pub ring_entries: u32,
    /// Workers that the interface is divided among: the device is the first one's, [`Xdp::take_parts`] has those of the others.
    pub workers: usize,
    /// Where the offloads that a program switches off are noted; `None`: they stay off if the process is killed.
    pub journal: Option<Arc<dyn Journal>>,
}

impl Default for XdpOptions {
    fn default() -> XdpOptions {
        XdpOptions { mode: None, zero_copy: false, kernel_checksums: false, ring_entries: 2048, workers: 1, journal: None }
    }
}

/// One way to set the sockets up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachMode {
    mode: XdpMode,
    zero_copy: bool,
    /// Packets may be chains of frames.
    chains: bool,
    /// Orders about a packet stand in front of it: the kernel completes checksums.
    metadata: bool,
}

impl fmt::Display for AttachMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = match self.mode {
            XdpMode::Native => "native",
            XdpMode::Generic => "generic",
        };
        let summed = if self.metadata { ", checksums by the kernel" } else { "" };
        write!(f, "{mode}, {}{summed}", if self.zero_copy { "zero-copy" } else { "copy" })
    }
}

/// The queues of an interface, as one worker has them.
trait Queues {
    /// Moves packets that have arrived to `burst`; `mark` sees each first frame.
    fn receive(&mut self, burst: &mut Burst, mark: &mut dyn FnMut(&mut Frame)) -> Received;
    /// Looks for memory that was sent.
    fn begin_sending(&mut self);
    /// Returns true if any packet can be queued now.
    fn has_room(&self) -> bool;
    /// Queues a packet, which is left empty; `has_room` said yes. False: it cannot be sent.
    fn send(&mut self, packet: &mut Vec<Frame>) -> bool;
    /// Shows queued packets to the kernel and wakes it. Returns the system calls that this took.
    fn flush(&mut self) -> io::Result<u64>;
    /// Packets wait for the kernel to send them.
    fn has_unsent(&self) -> bool;
    fn wait_fds<'a>(&'a self, fds: &mut Vec<BorrowedFd<'a>>);
    /// As [`Device::arm`].
    fn arm(&mut self) -> bool;
    /// Packets that the kernel had no place for.
    fn dropped(&self) -> u64;
    /// Packets that were larger than the MTU.
    fn too_large(&self) -> u64;
    fn is_zero_copy(&self) -> bool;

    /// What a card may go on writing when the sockets are closed, until another socket has its queue.
    fn retire(&mut self) -> Option<FrameAccounting> {
        None
    }
}

/// What has arrived in one call.
#[derive(Default)]
struct Received {
    packets: usize,
    bytes: usize,
    lost: usize,
}

impl Received {
    fn add(&mut self, (packets, bytes, lost): (usize, usize, usize)) {
        self.packets += packets;
        self.bytes += bytes;
        self.lost += lost;
    }
}

/// The kernel counts packets that found no frame in both; the rest were too large.
fn too_large(statistics: libc::xdp_statistics) -> u64 {
    statistics.rx_dropped.saturating_sub(statistics.rx_fill_ring_empty_descs)
}

/// The interface, and what is attached to it for all workers.
struct Attached {
    /// `None`: a worker has closed its device.
    attachment: Mutex<Option<Attachment>>,
    /// Those of the attached program.
    sockets: SocketMap,
    offloads: Offloads,
    interface: Interface,
    attach_mode: AttachMode,
}

impl Attached {
    /// The kernel has the interface back, so that nothing is redirected to sockets that go away.
    fn detach(&self) {
        self.attachment.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.detach();
        self.offloads.restore();
    }
}

/// The device; see the module's text.
pub struct Xdp {
    queues: Box<dyn Queues>,
    attached: Arc<Attached>,
    packet: Vec<Frame>,
    retry_at: Option<Instant>,
    counters: Counters,
    /// Those of the other workers that were not taken yet.
    parts: Vec<Part>,
}

/// Another worker's device of the same interface, on its way to that worker's thread.
pub struct Part {
    sockets: divided::Sockets,
    attached: Arc<Attached>,
}

impl Part {
    /// The device; frames come from `arena`.
    pub fn open(self, arena: &Arena) -> Xdp {
        Xdp::new(Box::new(DividedQueues::new(self.sockets, arena)), self.attached)
    }
}

impl Xdp {
    /// Opens `interface` with `arena` as packet memory.
    ///
    /// # Errors
    /// No such interface, no capability, another XDP program is attached, or no mode works; the text
    /// says what was tried.
    pub fn open(interface: &str, redirect: Redirect<'_>, options: XdpOptions, arena: &Arena) -> io::Result<Xdp> {
        let interface = Interface::open(interface)?;
        Xdp::open_first(&interface, redirect, &Xdp::attach_modes(&interface, &options), &options, arena)
    }

    /// Opens `interface` in the first of `ways` that works.
    ///
    /// # Errors
    /// As for [`open`](Xdp::open).
    pub fn open_first(
        interface: &Interface,
        redirect: Redirect<'_>,
        attach_modes: &[AttachMode],
        options: &XdpOptions,
        arena: &Arena,
    ) -> io::Result<Xdp> {
        let mut tried = Vec::new();
        for &attach_mode in attach_modes {
            match Xdp::open_as(interface, redirect, attach_mode, options, arena) {
                Ok(device) => return Ok(device),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
                Err(error) => tried.push((attach_mode, error)),
            }
        }
        Err(explain(interface, &tried))
    }

    /// The ways that [`open`](Xdp::open) tries, best first.
    pub fn attach_modes(interface: &Interface, options: &XdpOptions) -> Vec<AttachMode> {
        let chains = usize::from(interface.mtu) + Medium::Ethernet.header_bytes() > CHUNK_PACKET_MAX;
        let modes: &[XdpMode] = match &options.mode {
            Some(mode) => std::slice::from_ref(mode),
            None => &[XdpMode::Native, XdpMode::Generic],
        };
        let mut attach_modes = Vec::new();
        for &mode in modes {
            if options.zero_copy && mode == XdpMode::Native {
                attach_modes.push(AttachMode { mode, zero_copy: true, chains, metadata: false });
            }
            // What is written in front of a packet is written into the packet memory of one worker.
            if options.kernel_checksums && !chains && options.workers <= 1 {
                attach_modes.push(AttachMode { mode, zero_copy: false, chains, metadata: true });
            }
            // Kernels before 6.8 know no metadata.
            attach_modes.push(AttachMode { mode, zero_copy: false, chains, metadata: false });
        }
        attach_modes
    }

    /// Opens `interface` in this way alone.
    ///
    /// # Errors
    /// As for [`open`](Xdp::open), or the journal cannot be written.
    pub fn open_as(
        interface: &Interface,
        redirect: Redirect<'_>,
        attach_mode: AttachMode,
        options: &XdpOptions,
        arena: &Arena,
    ) -> io::Result<Xdp> {
        let entries = options.ring_entries.clamp(64, 1 << 16).next_power_of_two();
        let workers = options.workers.max(1);
        let sockets = SocketMap::new(interface.receive_queues, workers)?;
        let (queues, others): (Box<dyn Queues>, Vec<divided::Sockets>) = if workers == 1 {
            (Box::new(OwnQueues::open(interface, attach_mode, entries, &sockets, arena)?), Vec::new())
        } else {
            let mut all = divided::open(interface, attach_mode, entries, &sockets, workers)?;
            let others = all.split_off(1);
            let first = all.pop().expect("there are several workers");
            (Box::new(DividedQueues::new(first, arena)), others)
        };
        let offloads = Offloads::before(interface, options.journal.clone())?;
        let mut attached =
            Attached { attachment: Mutex::default(), sockets, offloads, interface: interface.clone(), attach_mode };
        // Last, so that the first packet finds frames.
        attached.attachment = Mutex::new(Some(redirect.attach(interface.index, &attached.sockets, attach_mode.mode)?));
        attached.offloads.attached();
        let mut device = Xdp::new(queues, Arc::new(attached));
        let part = |sockets| Part { sockets, attached: device.attached.clone() };
        device.parts = others.into_iter().map(part).collect();
        Ok(device)
    }

    fn new(queues: Box<dyn Queues>, attached: Arc<Attached>) -> Xdp {
        Xdp { queues, attached, packet: Vec::new(), retry_at: None, counters: Counters::default(), parts: Vec::new() }
    }

    /// The devices of the other workers, by worker; none the next time.
    pub fn take_parts(&mut self) -> Vec<Part> {
        std::mem::take(&mut self.parts)
    }

    /// Takes other packets from now on.
    ///
    /// # Errors
    /// The kernel refuses the program; the device goes on as before.
    pub fn take(&self, redirect: Redirect<'_>) -> io::Result<()> {
        let attachment = self.attached.attachment.lock().unwrap_or_else(PoisonError::into_inner);
        let attachment = attachment.as_ref().ok_or_else(|| io::Error::other("another worker has closed the interface"))?;
        redirect.replace(attachment, &self.attached.sockets)
    }

    /// Closes the device; what is returned has frames that a card may go on writing until another socket has its queue.
    fn retire(mut self) -> Option<FrameAccounting> {
        self.queues.retire()
    }

    /// The interface, as it was at the opening.
    pub fn interface(&self) -> &Interface {
        &self.attached.interface
    }

    /// Where the program runs, and whether packets are moved without a copy.
    pub fn mode(&self) -> (XdpMode, bool) {
        (self.attached.attach_mode.mode, self.queues.is_zero_copy())
    }

    /// Returns the way in which it was opened.
    pub fn attach_mode(&self) -> AttachMode {
        self.attached.attach_mode
    }

    /// A kernel peer on veth leaves checksums to a card that is not there.
    fn leaves_checksums(&self) -> bool {
        self.attached.interface.driver == "veth"
    }

    /// Largest packet, bytes with headers.
    fn largest(&self) -> usize {
        usize::from(self.attached.interface.mtu) + Medium::Ethernet.header_bytes()
    }
}

fn explain(interface: &Interface, tried: &[(AttachMode, io::Error)]) -> io::Error {
    let list: Vec<String> = tried.iter().map(|(attach_mode, error)| format!("{attach_mode}: {error}")).collect();
    let kind = tried.last().map_or(io::ErrorKind::Unsupported, |(_, error)| error.kind());
    io::Error::new(
        kind,
        format!("AF_XDP does not work on {} (driver {:?}): {}", interface.name, interface.driver, list.join("; ")),
    )
}

/// A kernel peer on veth leaves TCP checksums to a card that is not there: the field holds the folded
/// pseudo-header sum. Marks such a packet as partial.
fn recognize_partial(frame: &mut Frame) {
    let bytes = frame.bytes();
    let Some((tcp, addresses, protocol, tcp_len)) = transport(bytes) else { return };
    if protocol != 6 || bytes.len() < tcp + 20 {
        return;
    }
    let pseudo = crate::checksum::fold(crate::checksum::pseudo(&bytes[addresses], protocol, tcp_len as u32));
    if bytes[tcp + 16..tcp + 18] == pseudo.to_be_bytes() {
        frame.set_checksum(Checksum::Partial { start: tcp as u16, offset: 16 });
    }
}

/// Where the transport header starts, where both addresses are, the protocol, and the transport length.
fn transport(bytes: &[u8]) -> Option<(usize, std::ops::Range<usize>, u8, usize)> {
    let word = |at: usize| usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
    match bytes.get(12..14)? {
        [0x08, 0x00] if bytes.len() >= 34 && word(20) & 0x3fff == 0 => {
            let header = usize::from(bytes[14] & 0xf) * 4;
            Some((14 + header, 26..34, bytes[23], word(16).checked_sub(header)?))
        }
        [0x86, 0xdd] if bytes.len() >= 54 => Some((54, 22..54, bytes[20], word(18))),
        _ => None,
    }
}

impl Device for Xdp {
    fn capabilities(&self) -> Capabilities {
        let AttachMode { chains, metadata, .. } = self.attached.attach_mode;
        Capabilities {
            medium: Medium::Ethernet,
            mtu: self.attached.interface.mtu,
            receives_partial_checksums: self.leaves_checksums(),
            sends_partial_checksums: metadata,
            segmentation_max_bytes: 0,
            segmentation_max_segments: u32::MAX,
            segments_udp: false,
            receive_max_bytes: self.largest() as u32,
            gathers: chains,
            copies_multicast: false,
            burst: BURST,
        }
    }

    fn receive(&mut self, _now: Instant, burst: &mut Burst) -> io::Result<usize> {
        let recognize = self.leaves_checksums();
        let mut mark = |frame: &mut Frame| {
            if recognize {
                recognize_partial(frame);
            }
        };
        let Received { packets, bytes, lost } = self.queues.receive(burst, &mut mark);
        self.counters.rx_packets += packets as u64;
        self.counters.rx_bytes += bytes as u64;
        self.counters.rx_dropped += lost as u64;
        Ok(packets)
    }

    fn transmit(&mut self, now: Instant, burst: &mut Burst) -> io::Result<usize> {
        let mut count = 0;
        self.queues.begin_sending();
        while self.queues.has_room() && take_packet(burst, &mut self.packet) {
            count += 1;
            let len = packet_len(&self.packet);
            if len <= self.largest() && self.queues.send(&mut self.packet) {
                self.counters.tx_packets += 1;
                self.counters.tx_bytes += len as u64;
            } else {
                self.packet.clear();
                self.counters.tx_dropped += 1;
            }
        }
        let flushed = self.queues.flush();
        let waits = self.queues.has_unsent() || !burst.is_empty();
        self.retry_at = waits.then_some(now + RETRY);
        self.counters.syscalls += flushed?;
        Ok(count)
    }

    fn wait_fds<'a>(&'a self, fds: &mut Vec<BorrowedFd<'a>>) {
        self.queues.wait_fds(fds);
    }

    fn arm(&mut self) -> bool {
        self.queues.arm()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.retry_at
    }

    fn counters(&self) -> Counters {
        Counters { rx_dropped: self.counters.rx_dropped + self.queues.dropped(), ..self.counters }
    }

    fn advice(&self) -> Option<String> {
        let dropped = self.queues.too_large();
        (dropped > 0 && self.attached.attach_mode.mode == XdpMode::Generic).then(|| {
            format!(
                "{dropped} packets were larger than the MTU of {}: its peer sends super-segments, which AF_XDP cannot take; \
                 turn them off there (ethtool -K PEER tso off gso off) or choose the device \"packet\"",
                self.attached.interface.name
            )
        })
    }
}

impl Drop for Xdp {
    fn drop(&mut self) {
        self.attached.detach();
    }
}

#[cfg(test)]
mod tests;
