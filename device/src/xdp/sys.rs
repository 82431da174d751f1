//! The AF_XDP socket: options, mappings of its rings, binding, wake-ups.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use ringway_shm::Payload;

use crate::sys::check;

const XDP_MAX_TX_SKB_BUDGET: i32 = 9;
/// Packets that one wake-up sends in copy mode.
const TX_BUDGET: u32 = 256;

pub(super) use libc::{xdp_desc as Descriptor, xdp_mmap_offsets as Offsets, xdp_ring_offset as RingOffset};

/// Which of a socket's rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Receive,
    Transmit,
    Fill,
    Completion,
}

/// A new AF_XDP socket.
pub(super) fn open() -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let fd = check(unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) }).map_err(|error| {
        let help = match error.raw_os_error() {
            Some(libc::EPERM) => "an AF_XDP socket needs CAP_NET_RAW (run as root)",
            Some(libc::EAFNOSUPPORT) => "the kernel has no AF_XDP (CONFIG_XDP_SOCKETS)",
            _ => return error,
        };
        io::Error::new(error.kind(), format!("{help}: {error}"))
    })?;
    // SAFETY: the descriptor was made above and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn set<T>(fd: BorrowedFd<'_>, name: i32, value: &T) -> io::Result<()> {
    let (pointer, len) = (std::ptr::from_ref(value).cast(), size_of::<T>() as u32);
    // SAFETY: pointer and length are those of `value`, whose type is the one that the option takes.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_XDP, name, pointer, len) })?;
    Ok(())
}

fn get<T>(fd: BorrowedFd<'_>, name: i32) -> io::Result<T> {
    // SAFETY: this file asks only for structures of numbers, for which zeros are valid.
    let mut value: T = unsafe { zeroed() };
    let mut len = size_of::<T>() as u32;
    // SAFETY: pointer and length are those of `value`; the kernel writes at most that much.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, name, (&raw mut value).cast(), &raw mut len) })?;
    Ok(value)
}

/// Registers `bytes` bytes at `start` as packet memory in chunks of `chunk` bytes. `metadata`: bytes
/// in front of every packet to be sent that hold orders about it; 0: none.
pub(super) fn register_memory(fd: BorrowedFd<'_>, start: *mut u8, bytes: usize, chunk: u32, metadata: u32) -> io::Result<()> {
    let flags = if metadata > 0 { libc::XDP_UMEM_TX_METADATA_LEN } else { 0 };
    let len = (bytes / chunk as usize * chunk as usize) as u64;
    let request =
        libc::xdp_umem_reg { addr: start as u64, len, chunk_size: chunk, headroom: 0, flags, tx_metadata_len: metadata };
    set(fd, libc::XDP_UMEM_REG, &request)
}

/// Asks for the rings that packet memory has once for each queue; counts are powers of two.
pub(super) fn make_memory_rings(fd: BorrowedFd<'_>, fill: u32, completion: u32) -> io::Result<()> {
    set(fd, libc::XDP_UMEM_FILL_RING, &fill)?;
    set(fd, libc::XDP_UMEM_COMPLETION_RING, &completion)
}

/// Asks for the rings that each socket has; counts are powers of two.
pub(super) fn make_rings(fd: BorrowedFd<'_>, receive: u32, transmit: u32) -> io::Result<()> {
    set(fd, libc::XDP_RX_RING, &receive)?;
    set(fd, libc::XDP_TX_RING, &transmit)?;
    if set(fd, XDP_MAX_TX_SKB_BUDGET, &TX_BUDGET).is_err() {
        // Older kernels send 32 packets per wake-up; the socket works all the same.
    }
    Ok(())
}

pub(super) fn offsets(fd: BorrowedFd<'_>) -> io::Result<Offsets> {
    get(fd, libc::XDP_MMAP_OFFSETS)
}

pub(super) fn statistics(fd: BorrowedFd<'_>) -> io::Result<libc::xdp_statistics> {
    get(fd, libc::XDP_STATISTICS)
}

/// Returns true if the driver moves packets without a copy.
pub(super) fn is_zero_copy(fd: BorrowedFd<'_>) -> bool {
    get::<libc::xdp_options>(fd, libc::XDP_OPTIONS).is_ok_and(|options| options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
}

pub(super) fn bind(fd: BorrowedFd<'_>, interface: u32, queue: u32, flags: u16) -> io::Result<()> {
    bind_to(fd, interface, queue, flags, 0)
}

/// Binds to a queue that `other` is bound to, whose packet memory both use from then on.
pub(super) fn bind_beside(fd: BorrowedFd<'_>, interface: u32, queue: u32, other: BorrowedFd<'_>) -> io::Result<()> {
    bind_to(fd, interface, queue, libc::XDP_SHARED_UMEM, other.as_raw_fd() as u32)
}

fn bind_to(fd: BorrowedFd<'_>, interface: u32, queue: u32, flags: u16, other: u32) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: interface,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: other,
    };
    // SAFETY: pointer and length are those of `address`.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size_of::<libc::sockaddr_xdp>() as u32) })?;
    Ok(())
}

/// Tells the kernel that the transmit ring has packets.
pub(super) fn kick_transmit(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no buffer and no address are passed.
    let result = unsafe { libc::sendto(fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Tells the kernel that the fill ring has frames. An error says that there was nothing to do.
pub(super) fn kick_receive(fd: BorrowedFd<'_>) {
    // SAFETY: no buffer and no address are passed.
    unsafe {
        libc::recvfrom(fd.as_raw_fd(), std::ptr::null_mut(), 0, libc::MSG_DONTWAIT, std::ptr::null_mut(), std::ptr::null_mut())
    };
}

/// Packet memory that several threads use, each the chunks that a ring has given it.
pub(super) struct Memory {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory is the process's. What `read` and `write` copy is plain bytes, and a chunk is in one ring or with one thread at a
// time (`divided`), so no two threads are at the same bytes.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// `bytes` zero bytes, from a page's beginning on.
    pub(super) fn new(bytes: usize) -> io::Result<Memory> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh mapping at an address that the kernel chooses.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("memory was mapped at zero"))?;
        Ok(Memory { base, bytes })
    }

    /// Registers it with a socket, in chunks of `chunk` bytes.
    pub(super) fn register(&self, fd: BorrowedFd<'_>, chunk: u32) -> io::Result<()> {
        register_memory(fd, self.base.as_ptr(), self.bytes, chunk, 0)
    }

    /// Copies what stands at `at`. False: not all of it lies in the memory.
    pub(super) fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let Some(at) = self.inside(at, into.len()) else { return false };
        // SAFETY: `inside` has checked the place; the bytes are with this thread (see above) and `into` is no part of them.
        unsafe { std::ptr::copy_nonoverlapping(self.base.as_ptr().add(at), into.as_mut_ptr(), into.len()) };
        true
    }

    /// Copies `bytes` to `at`.
    ///
    /// # Panics
    /// When they do not fit there.
    pub(super) fn write(&self, at: u64, bytes: Payload<'_>) {
        let at = self.inside(at, bytes.len()).expect("the chunk is one of this memory");
        // SAFETY: as in `read`; a payload may be another process's memory and change while it is copied, as bytes may.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.as_ptr().add(at), bytes.len()) };
    }

    fn inside(&self, at: u64, len: usize) -> Option<usize> {
        let at = usize::try_from(at).ok()?;
        at.checked_add(len).filter(|end| *end <= self.bytes).map(|_| at)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length. The kernel holds the pages of a registered memory until its sockets are gone.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// The mapped memory of one ring.
pub(super) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory is the process's, and only the owner of the value is at it on this side.
unsafe impl Send for Mapping {}

impl Mapping {
    pub(super) fn new(fd: BorrowedFd<'_>, which: Which, bytes: usize) -> io::Result<Mapping> {
        let offset = match which {
            Which::Receive => libc::XDP_PGOFF_RX_RING,
            Which::Transmit => libc::XDP_PGOFF_TX_RING,
            Which::Fill => libc::XDP_UMEM_PGOFF_FILL_RING as i64,
            Which::Completion => libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64,
        };
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
        // SAFETY: a fresh shared mapping of the socket's ring; the kernel checks the size.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, fd.as_raw_fd(), offset) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("a ring was mapped at zero"))?;
        Ok(Mapping { base, bytes })
    }

    #[inline]
    fn at<T>(&self, offset: usize) -> NonNull<T> {
        assert!(offset + size_of::<T>() <= self.bytes && offset.is_multiple_of(align_of::<T>()), "inside the ring");
        // SAFETY: the assertion keeps the place inside the mapping.
        unsafe { self.base.add(offset).cast() }
    }

    /// The index or flag word at `offset`, which both sides access atomically.
    #[inline]
    pub(super) fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: inside the mapping and aligned; every value is valid.
        unsafe { self.at::<AtomicU32>(offset).as_ref() }
    }

    /// Reads an entry. The ring's indices say that the kernel does not write it now; if it did, the
    /// value would be wrong, not invalid.
    #[inline]
    pub(super) fn read<T: Entry>(&self, offset: usize) -> T {
        // SAFETY: inside the mapping and aligned; entries are plain numbers.
        unsafe { self.at::<T>(offset).read_volatile() }
    }

    /// Writes an entry that the ring's indices say is ours.
    #[inline]
    pub(super) fn write<T: Entry>(&self, offset: usize, value: T) {
        // SAFETY: inside the mapping and aligned.
        unsafe { self.at::<T>(offset).write_volatile(value) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; no reference into it outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// The entries of rings: plain numbers.
pub(super) trait Entry: Copy {}

impl Entry for u64 {}
impl Entry for Descriptor {}
