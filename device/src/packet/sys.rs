//! The AF_PACKET socket, its receive ring, and gathered sends.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use ringway_shm::{Burst, Duration, Payload};

use super::priorities::Priorities;
use crate::sys::{check, piece};
use crate::vnet;

const PACKET_RX_RING: i32 = 5;
const PACKET_STATISTICS: i32 = 6;
const PACKET_COPY_THRESH: i32 = 7;
const PACKET_VERSION: i32 = 10;
const PACKET_VNET_HDR: i32 = 15;
const PACKET_FANOUT: i32 = 18;
const PACKET_QDISC_BYPASS: i32 = 20;
const PACKET_FANOUT_DATA: i32 = 22;
const PACKET_IGNORE_OUTGOING: i32 = 23;
const FANOUT_CBPF: u16 = 6;
const FANOUT_EBPF: u16 = 7;
/// The kernel chooses an unused number.
const FANOUT_UNIQUE: u16 = 0x2000;
/// PACKET_IGNORE_OUTGOING of a group: that of its sockets means nothing. Kernels before 6.1 take no notice of it.
const FANOUT_IGNORE_OUTGOING: u16 = 0x4000;
const TPACKET_V2: i32 = 1;
const TP_STATUS_KERNEL: u32 = 0;
const TP_STATUS_USER: u32 = 1;
const TP_STATUS_COPY: u32 = 1 << 1;
const TP_STATUS_VLAN_VALID: u32 = 1 << 4;
const ETH_P_ALL: u16 = 3;

/// The kernel's headers in front of a packet in its slot, generously.
const SLOT_HEADER_BYTES: usize = 128;
const BLOCK_BYTES: usize = 1 << 17;

/// `struct tpacket_req`
#[repr(C)]
struct RingRequest {
    block_size: u32,
    block_count: u32,
    frame_size: u32,
    frame_count: u32,
}

/// `struct tpacket2_hdr`; the status word in front of it is atomic.
#[repr(C)]
#[derive(Clone, Copy)]
struct SlotHeader {
    status: u32,
    len: u32,
    captured: u32,
    mac: u16,
    net: u16,
    seconds: u32,
    nanos: u32,
    vlan_tci: u16,
    vlan_tpid: u16,
    padding: [u8; 4],
}

/// A raw packet socket that receives nothing yet.
pub(super) fn open() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers are passed.
    let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) }).map_err(|error| match error.raw_os_error() {
        Some(libc::EPERM) => {
            io::Error::new(error.kind(), format!("an AF_PACKET socket needs CAP_NET_RAW (run as root): {error}"))
        }
        _ => error,
    })?;
    // SAFETY: the descriptor was made above and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn set(fd: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> io::Result<()> {
    let value: *const i32 = &value;
    // SAFETY: the option is an int, and the pointer is to one.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, value.cast(), size_of::<i32>() as u32) })?;
    Ok(())
}

/// Sets everything but a filter that must stand before the ring and the binding.
pub(super) fn prepare(fd: BorrowedFd<'_>, send_buffer: i32, receive_buffer: i32) -> io::Result<()> {
    set(fd, libc::SOL_PACKET, PACKET_VERSION, TPACKET_V2)?;
    set(fd, libc::SOL_PACKET, PACKET_VNET_HDR, 1)?;
    set(fd, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
    // Packets that are larger than a slot are queued whole on the socket.
    set(fd, libc::SOL_PACKET, PACKET_COPY_THRESH, 1)?;
    for (forced, polite, bytes) in
        [(libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, send_buffer), (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, receive_buffer)]
    {
        set(fd, libc::SOL_SOCKET, forced, bytes).or_else(|_| set(fd, libc::SOL_SOCKET, polite, bytes))?;
    }
    Ok(())
}

/// Chooses whether packets go past the interface's queueing discipline, straight to its driver.
pub(super) fn set_bypass(fd: BorrowedFd<'_>, direct: bool) -> io::Result<()> {
    set(fd, libc::SOL_PACKET, PACKET_QDISC_BYPASS, i32::from(direct))
}

/// Begins to receive from interface `index`. All protocols, because only those taps come before the
/// traffic-control hook that hides our packets from the kernel.
pub(super) fn bind(fd: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    // SAFETY: a sockaddr_ll is plain numbers, for which zeros are valid.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = ETH_P_ALL.to_be();
    address.sll_ifindex = index as i32;
    // SAFETY: the pointer and length are those of the address above.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size_of::<libc::sockaddr_ll>() as u32) })?;
    Ok(())
}

/// Makes a group of sockets of one interface, with this one as its first, among which `program` chooses; returns its number.
pub(super) fn found_group(fd: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<u16> {
    let group = new_group(fd, FANOUT_EBPF)?;
    set(fd, libc::SOL_PACKET, PACKET_FANOUT_DATA, program.as_raw_fd())?;
    Ok(group)
}

/// Joins the group with this number.
pub(super) fn join_group(fd: BorrowedFd<'_>, group: u16) -> io::Result<()> {
    join(fd, FANOUT_EBPF, group)
}

/// Makes a group with `fd` as its first socket; returns its number. Packets of more than `whole_max` bytes behind the link header
/// arrive at its second socket, those of up to `short_max` at its third, all others at the first; where that socket is not there, the
/// kernel divides the number by how many there are, and takes the first.
pub(super) fn found_division(fd: BorrowedFd<'_>, short_max: u32, whole_max: u32) -> io::Result<u16> {
    let group = new_group(fd, FANOUT_CBPF)?;
    let statement = |code: u32, value: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k: value };
    let larger = |than| libc::sock_filter { jf: 1, ..statement(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K, than) };
    let answer = |socket| statement(libc::BPF_RET | libc::BPF_K, socket);
    let length = statement(libc::BPF_LD | libc::BPF_W | libc::BPF_LEN, 0);
    let program = [length, larger(whole_max), answer(1), larger(short_max), answer(0), answer(2)];
    set_program(fd, libc::SOL_PACKET, PACKET_FANOUT_DATA, &program)?;
    Ok(group)
}

/// Joins such a group, as its next socket.
pub(super) fn join_division(fd: BorrowedFd<'_>, group: u16) -> io::Result<()> {
    join(fd, FANOUT_CBPF, group)
}

fn new_group(fd: BorrowedFd<'_>, kind: u16) -> io::Result<u16> {
    let kind = kind | FANOUT_IGNORE_OUTGOING | FANOUT_UNIQUE;
    set(fd, libc::SOL_PACKET, PACKET_FANOUT, i32::from(kind) << 16)?;
    let mut group = 0i32;
    let mut len = size_of::<i32>() as u32;
    // SAFETY: the option is an int; value and length point to locals of that size.
    let result =
        unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_PACKET, PACKET_FANOUT, (&raw mut group).cast(), &raw mut len) };
    check(result)?;
    Ok(group as u16)
}

fn join(fd: BorrowedFd<'_>, kind: u16, group: u16) -> io::Result<()> {
    set(fd, libc::SOL_PACKET, PACKET_FANOUT, i32::from(kind | FANOUT_IGNORE_OUTGOING) << 16 | i32::from(group))
}

/// Has everything refused, until [`set_filter`].
pub(super) fn refuse_all(fd: BorrowedFd<'_>) -> io::Result<()> {
    let refuse = libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 };
    set_program(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &[refuse])
}

/// `filter`: a loaded program; `None`: everything is taken.
pub(super) fn set_filter(fd: BorrowedFd<'_>, filter: Option<BorrowedFd<'_>>) -> io::Result<()> {
    match filter {
        Some(filter) => set(fd, libc::SOL_SOCKET, libc::SO_ATTACH_BPF, filter.as_raw_fd()),
        None => set(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, 0),
    }
}

/// Sets an option that is a classic BPF program.
fn set_program(fd: BorrowedFd<'_>, level: i32, name: i32, program: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    let len = size_of::<libc::sock_fprog>() as u32;
    // SAFETY: the option is a sock_fprog, which points to as many instructions as it says; the kernel only reads them.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const program).cast(), len) })?;
    Ok(())
}

/// Takes the error that the socket has pending.
pub(super) fn take_error(fd: BorrowedFd<'_>) -> Option<io::Error> {
    let mut error = 0i32;
    let mut len = size_of::<i32>() as u32;
    // SAFETY: the option is an int; value and length point to locals of that size.
    let result =
        unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ERROR, (&raw mut error).cast(), &raw mut len) };
    (result == 0 && error != 0).then(|| io::Error::from_raw_os_error(error))
}

/// Packets that found no room in the ring since the last call.
pub(super) fn lost(fd: BorrowedFd<'_>) -> u32 {
    let mut counts = [0u32; 2];
    let mut len = size_of::<[u32; 2]>() as u32;
    // SAFETY: `struct tpacket_stats` is two numbers; value and length point to locals of that size.
    let result =
        unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_PACKET, PACKET_STATISTICS, (&raw mut counts).cast(), &raw mut len) };
    if result == 0 { counts[1] } else { 0 }
}

/// The receive ring: slots that the kernel fills in order and we give back in order.
pub(super) struct Ring {
    base: NonNull<u8>,
    bytes: usize,
    slot_bytes: usize,
    /// Where the block of the front slot begins.
    block: usize,
    /// Where the front slot begins. Always inside the mapping, with its whole length.
    offset: usize,
}

// SAFETY: the mapping is this value's own, and any thread may use it.
unsafe impl Send for Ring {}

/// A packet in the ring.
pub(super) struct Slot<'a> {
    pub(super) header: [u8; vnet::BYTES],
    /// The bytes that the kernel kept of it.
    pub(super) bytes: &'a [u8],
    /// Bytes that it had.
    pub(super) len: usize,
    /// It came with a VLAN tag.
    pub(super) tagged: bool,
    /// It is larger than the slot and is the next to be read from the socket, whole.
    pub(super) queued: bool,
}

impl Ring {
    /// Makes and maps a ring of about `slots` slots for packets of `packet_bytes`.
    pub(super) fn map(fd: BorrowedFd<'_>, slots: u32, packet_bytes: usize) -> io::Result<Ring> {
        let slot_bytes = (packet_bytes + SLOT_HEADER_BYTES).next_multiple_of(64).min(BLOCK_BYTES);
        let slots_per_block = BLOCK_BYTES / slot_bytes;
        let blocks = (slots as usize).clamp(1, 1 << 16).div_ceil(slots_per_block);
        let request = RingRequest {
            block_size: BLOCK_BYTES as u32,
            block_count: blocks as u32,
            frame_size: slot_bytes as u32,
            frame_count: (blocks * slots_per_block) as u32,
        };
        let (pointer, len) = ((&raw const request).cast(), size_of::<RingRequest>() as u32);
        // SAFETY: the pointer and length are those of the request above.
        check(unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_PACKET, PACKET_RX_RING, pointer, len) })?;
        let bytes = blocks * BLOCK_BYTES;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh shared mapping of the socket's ring, of exactly the size that was asked for.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("the ring was mapped at zero"))?;
        Ok(Ring { base, bytes, slot_bytes, block: 0, offset: 0 })
    }

    fn slot(&self) -> NonNull<u8> {
        // SAFETY: `offset` is inside the mapping.
        unsafe { self.base.add(self.offset) }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: the status word is the first of the slot, aligned to 16 bytes, and shared with the
        // kernel, so that it is only ever read and written atomically.
        unsafe { self.slot().cast::<AtomicU32>().as_ref() }
    }

    /// Returns true if there is a packet.
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        self.status().load(Ordering::Acquire) & TP_STATUS_USER != 0
    }

    /// The next packet, when there is one.
    #[inline]
    pub(super) fn front(&self) -> Option<Slot<'_>> {
        let status = self.status().load(Ordering::Acquire);
        if status & TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the slot starts with this header; the kernel does not write a slot that is ours.
        let header: SlotHeader = unsafe { self.slot().cast().read() };
        let mac = (header.mac as usize).clamp(vnet::BYTES, self.slot_bytes);
        let captured = (header.captured as usize).min(self.slot_bytes - mac);
        // SAFETY: mac + captured was limited to the slot; it is ours until `release`, which needs `&mut`.
        let bytes = unsafe { std::slice::from_raw_parts(self.slot().add(mac).as_ptr(), captured) };
        let mut vnet_header = [0; vnet::BYTES];
        // SAFETY: the virtio header stands right in front of the packet, and `mac` is at least its size.
        vnet_header
            .copy_from_slice(unsafe { std::slice::from_raw_parts(self.slot().add(mac - vnet::BYTES).as_ptr(), vnet::BYTES) });
        let (tagged, queued) = (status & TP_STATUS_VLAN_VALID != 0, status & TP_STATUS_COPY != 0);
        Some(Slot { header: vnet_header, bytes, len: header.len as usize, tagged, queued })
    }

    /// When the next packet arrived, on the wall clock since 1970.
    pub(super) fn first_arrival(&self) -> Option<Duration> {
        if !self.is_ready() {
            return None;
        }
        // SAFETY: the slot starts with this header; the kernel does not write a slot that is ours.
        let header: SlotHeader = unsafe { self.slot().cast().read() };
        Some(Duration::from_secs(header.seconds.into()) + Duration::from_nanos(header.nanos.into()))
    }

    /// Gives the front slot back to the kernel.
    #[inline]
    pub(super) fn release(&mut self) {
        self.status().store(TP_STATUS_KERNEL, Ordering::Release);
        self.offset += self.slot_bytes;
        if self.offset + self.slot_bytes > self.block + BLOCK_BYTES {
            // No slot straddles two blocks.
            self.block = (self.block + BLOCK_BYTES) % self.bytes;
            self.offset = self.block;
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `map` with this length, and no slot is borrowed any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// Room for a batch of packets to be sent, kept between calls.
pub(super) struct SendBatch {
    packets: usize,
    priorities: Priorities,
    /// The socket's.
    priority: u8,
    headers: Vec<[u8; vnet::BYTES]>,
    pieces: Vec<libc::iovec>,
    /// Where each packet's pieces begin.
    starts: Vec<usize>,
    messages: Vec<libc::mmsghdr>,
}

impl SendBatch {
    /// For a socket whose priority nothing has changed yet.
    pub(super) fn new(packets: usize, priorities: Priorities) -> SendBatch {
        SendBatch {
            packets,
            priorities,
            priority: 0,
            headers: Vec::with_capacity(packets),
            pieces: Vec::with_capacity(packets * 4),
            starts: Vec::with_capacity(packets),
            messages: Vec::with_capacity(packets),
        }
    }

    /// Sends packets of one priority from the front of `burst` in one system call. Returns how many packets and bytes
    /// went; they are still in the burst.
    pub(super) fn send(&mut self, fd: BorrowedFd<'_>, burst: &Burst) -> io::Result<(usize, usize)> {
        let priority = self.gather(burst);
        if priority != self.priority {
            set(fd, libc::SOL_SOCKET, libc::SO_PRIORITY, i32::from(priority))?;
            self.priority = priority;
        }
        // SAFETY: every message points to pieces of this batch, which point to its headers and to bytes
        // of `burst`; none of them changes or moves until the call is over.
        let sent = check(unsafe {
            libc::sendmmsg(fd.as_raw_fd(), self.messages.as_mut_ptr(), self.messages.len() as u32, libc::MSG_DONTWAIT)
        })? as usize;
        let bytes = self.messages[..sent].iter().map(|message| (message.msg_len as usize).saturating_sub(vnet::BYTES)).sum();
        Ok((sent, bytes))
    }

    /// Returns the priority of what is gathered.
    fn gather(&mut self, burst: &Burst) -> u8 {
        self.headers.clear();
        self.pieces.clear();
        self.starts.clear();
        self.messages.clear();
        let (mut first, mut priority) = (true, 0);
        for frame in burst.iter() {
            if first {
                let own = self.priorities.of(frame.payload());
                let is_other = own != priority && !self.headers.is_empty();
                if is_other || self.headers.len() == self.packets {
                    break;
                }
                priority = own;
                self.starts.push(self.pieces.len());
                self.headers.push(vnet::encode(frame));
                // `headers` never grows past its capacity, so it does not move.
                self.pieces.push(piece(Payload::from(&self.headers[self.headers.len() - 1])));
            }
            self.pieces.push(piece(frame.payload()));
            first = !frame.continues();
        }
        for (index, &start) in self.starts.iter().enumerate() {
            let end = self.starts.get(index + 1).copied().unwrap_or(self.pieces.len());
            // SAFETY: a mmsghdr is pointers and numbers, for which zeros are valid.
            let mut message: libc::mmsghdr = unsafe { zeroed() };
            message.msg_hdr.msg_iov = self.pieces[start..].as_mut_ptr();
            message.msg_hdr.msg_iovlen = end - start;
            self.messages.push(message);
        }
        priority
    }
}
