//! Read Documentation/networking/af_xdp first. AF_XDP: rings shared with the kernel, in front of its stack.
//!
//! The arena is the packet memory (UMEM): packets arrive in its frames and leave from them. One socket
//! per receive queue; everything is sent on the first. Zero copy, native and generic mode are tried in
//! this order. Up to an MTU of 1778 a packet is one frame and, in copy mode, its checksum may be left
//! to the kernel; above, packets are chains of frames and checksums must be complete.
//!
//! Known limits of the mechanism (measured on veth; `advice` says so when it happens): a kernel peer
//! on veth leaves checksums partial, which is recognized here; super-segments of a peer arrive without
//! their segment size and are dropped by the kernel in generic mode, until the peer's offloads are off.

mod frame_accounting;
pub mod offloads;
mod queue;
mod ring;
pub mod selftest;
mod sys;

use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use ringway_shm::arena::LARGE_BYTES;
use ringway_shm::{Arena, Burst, Checksum, Duration, Frame, Instant};

use crate::interface::Interface;
use crate::run::{linearize, packet_len, take_packet};
use crate::steering::{Attachment, Redirect, SocketMap, XdpMode};
use crate::{Capabilities, Counters, Device, Medium};
use frame_accounting::FrameAccounting;
use offloads::{Journal, Offloads};
use queue::Queue;

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
    /// Where the offloads that a program switches off are noted; `None`: they stay off if the process is killed.
    pub journal: Option<Arc<dyn Journal>>,
}

impl Default for XdpOptions {
    fn default() -> XdpOptions {
        XdpOptions { mode: None, zero_copy: false, kernel_checksums: false, ring_entries: 2048, journal: None }
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

/// The device; see the module's text.
pub struct Xdp {
    /// Dropped first, so that nothing is redirected to sockets that go away.
    attachment: Option<Attachment>,
    /// Those of the attached program.
    sockets: SocketMap,
    queues: Vec<Queue>,
    offloads: Offloads,
    interface: Interface,
    attach_mode: AttachMode,
    peer_leaves_checksums: bool,
    arena: Arena,
    accounting: FrameAccounting,
    packet: Vec<Frame>,
    retry_at: Option<Instant>,
    counters: Counters,
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
            if options.kernel_checksums && !chains {
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
        let count = interface.receive_queues;
        let sockets = SocketMap::new(count)?;
        let mut accounting = FrameAccounting::new(arena);
        let mut queues = Vec::with_capacity(count as usize);
        for index in 0..count {
            let queue = Queue::open(interface.index, index, entries, attach_mode, arena)?;
            sockets.set(index, queue.fd())?;
            queues.push(queue);
        }
        let offloads = Offloads::before(interface, options.journal.clone())?;
        for queue in &mut queues {
            queue.refill(&mut accounting, arena);
        }
        let mut device = Xdp {
            attachment: None,
            sockets,
            queues,
            offloads,
            interface: interface.clone(),
            attach_mode,
            peer_leaves_checksums: interface.driver == "veth",
            arena: arena.clone(),
            accounting,
            packet: Vec::new(),
            retry_at: None,
            counters: Counters::default(),
        };
        // Last, so that the first packet finds frames; when it fails, `Drop` takes the frames back.
        device.attachment = Some(redirect.attach(interface.index, &device.sockets, attach_mode.mode)?);
        device.offloads.attached();
        Ok(device)
    }

    /// Takes other packets from now on.
    ///
    /// # Errors
    /// The kernel refuses the program; the device goes on as before.
    pub fn take(&self, redirect: Redirect<'_>) -> io::Result<()> {
        let attachment = self.attachment.as_ref().expect("an open device has a program");
        redirect.replace(attachment, &self.sockets)
    }

    /// Closes the device; what is returned has frames that a card may go on writing until another socket has its queue.
    fn retire(mut self) -> Option<FrameAccounting> {
        let nothing = FrameAccounting::new(&self.arena);
        self.mode().1.then(|| std::mem::replace(&mut self.accounting, nothing))
    }

    /// The interface, as it was at the opening.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Where the program runs, and whether packets are moved without a copy.
    pub fn mode(&self) -> (XdpMode, bool) {
        (self.attach_mode.mode, self.queues.iter().all(Queue::is_zero_copy))
    }

    /// Returns the way in which it was opened.
    pub fn attach_mode(&self) -> AttachMode {
        self.attach_mode
    }

    /// Makes the packet in `self.packet` one that the rings take. `None`: it cannot be; otherwise
    /// whether metadata stands in front of it.
    fn prepare(&mut self) -> Option<bool> {
        let len = packet_len(&self.packet);
        if len > usize::from(self.interface.mtu) + Medium::Ethernet.header_bytes() || self.packet.is_empty() {
            return None;
        }
        let frames_max = if self.attach_mode.chains { CHAIN_MAX } else { 1 };
        let short_headroom = self.attach_mode.metadata && self.packet[0].headroom() < METADATA_BYTES;
        let partial = matches!(self.packet[0].checksum(), Checksum::Partial { .. });
        let shared = partial && self.attach_mode.metadata && !self.packet[0].is_exclusive();
        let elsewhere = self.packet.iter().any(|frame| !frame.is_in_area());
        if self.packet.len() > frames_max || short_headroom || shared || elsewhere {
            let linear = linearize(&self.arena, &self.packet)?;
            self.packet.clear();
            self.packet.push(linear);
        }
        match self.packet[0].checksum() {
            Checksum::Partial { .. } if !self.attach_mode.metadata => None,
            Checksum::Partial { start, offset } => {
                order_checksum(&mut self.packet[0], start, offset);
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
        let largest = u32::from(self.interface.mtu) + Medium::Ethernet.header_bytes() as u32;
        Capabilities {
            medium: Medium::Ethernet,
            mtu: self.interface.mtu,
            receives_partial_checksums: self.peer_leaves_checksums,
            sends_partial_checksums: self.attach_mode.metadata,
            segmentation_max_bytes: 0,
            segmentation_max_segments: u32::MAX,
            segments_udp: false,
            receive_max_bytes: largest,
            gathers: self.attach_mode.chains,
            copies_multicast: false,
            burst: BURST,
        }
    }

    fn receive(&mut self, _now: Instant, burst: &mut Burst) -> io::Result<usize> {
        let recognize = self.peer_leaves_checksums;
        let mut mark = |frame: &mut Frame| {
            if recognize {
                recognize_partial(frame);
            }
        };
        let mut count = 0;
        for queue in &mut self.queues {
            queue.reap(&mut self.accounting);
            let (packets, bytes, lost) = queue.receive(&mut self.accounting, &self.arena, burst, &mut mark);
            self.counters.rx_packets += packets as u64;
            self.counters.rx_bytes += bytes as u64;
            self.counters.rx_dropped += lost as u64;
            count += packets;
        }
        Ok(count)
    }

    fn transmit(&mut self, now: Instant, burst: &mut Burst) -> io::Result<usize> {
        let mut count = 0;
        self.queues[0].reap(&mut self.accounting);
        while self.queues[0].has_room(CHAIN_MAX) && take_packet(burst, &mut self.packet) {
            count += 1;
            let len = packet_len(&self.packet) as u64;
            match self.prepare() {
                Some(metadata) => {
                    self.queues[0].queue(&mut self.accounting, &mut self.packet, metadata);
                    self.counters.tx_packets += 1;
                    self.counters.tx_bytes += len;
                }
                None => {
                    self.packet.clear();
                    self.counters.tx_dropped += 1;
                }
            }
        }
        let flushed = self.queues[0].flush();
        self.queues[0].reap(&mut self.accounting);
        let waits = self.queues[0].has_unsent() || !burst.is_empty();
        self.retry_at = waits.then_some(now + RETRY);
        self.counters.syscalls += flushed?;
        Ok(count)
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

    fn poll_timeout(&self) -> Option<Instant> {
        self.retry_at
    }

    fn counters(&self) -> Counters {
        let lost = |queue: &Queue| queue.statistics().map_or(0, |s| s.rx_dropped + s.rx_ring_full);
        Counters { rx_dropped: self.counters.rx_dropped + self.queues.iter().map(lost).sum::<u64>(), ..self.counters }
    }

    fn advice(&self) -> Option<String> {
        // The kernel counts packets that found no frame in both; the rest were too large.
        let too_large = |s: libc::xdp_statistics| s.rx_dropped.saturating_sub(s.rx_fill_ring_empty_descs);
        let dropped: u64 = self.queues.iter().filter_map(|queue| queue.statistics().ok()).map(too_large).sum();
        (dropped > 0 && self.attach_mode.mode == XdpMode::Generic).then(|| {
            format!(
                "{dropped} packets were larger than the MTU of {}: its peer sends super-segments, which AF_XDP cannot take; \
                 turn them off there (ethtool -K PEER tso off gso off) or choose the device \"packet\"",
                self.interface.name
            )
        })
    }
}

impl Drop for Xdp {
    fn drop(&mut self) {
        let zero_copy = self.mode().1;
        self.attachment = None;
        self.queues.clear();
        self.offloads.restore();
        // A card that writes frames by itself may go on for a while: those stay lent for good.
        if !zero_copy {
            self.accounting.take_back_all();
        }
    }
}

#[cfg(test)]
mod tests;
