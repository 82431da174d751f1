//! A frame: a view of bytes in one slot of the arena, returned to it on drop. 16 bytes.
//!
//! A packet is a run of frames; all but the last say [`continues`](Frame::continues). The first one
//! holds all headers and carries what virtio_net_hdr would say: checksum state and segmentation.
//! Several frames may share a slot (a queued payload and its copies on the way to the wire); only a
//! sole owner may write.
//!
//! A frame may stand for memory of an application, which writes to it whenever it likes ([`is_foreign`](Frame::is_foreign)).
//! Such frames hold payload and are never the first one of a packet: headers are read where only this process writes.
//! [`bytes`](Frame::bytes) is for what is this process's own; [`payload`](Frame::payload) is for what may be either.

use core::ptr::NonNull;
use core::slice;

use crate::arena::{FLAG_CHECKSUM_PARTIAL, FLAG_CHECKSUM_VERIFIED, FLAG_FOREIGN, FLAG_QUEUED, Inner, SlotMeta};
use crate::payload::Payload;

/// In [`Frame::view`].
const CONTINUES: u64 = 1 << 63;
const OFFSET_SHIFT: u32 = 16;
/// One byte of offset. Offset and length together never exceed a slot, nor a slot 65,535 bytes: adding to one part of a view
/// never carries into the next.
const OFFSET_ONE: u64 = 1 << OFFSET_SHIFT;
const SLOT_SHIFT: u32 = 32;
const SLOT_MASK: u32 = u32::MAX >> 1;

/// State of a packet's transport checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// The field is as on the wire; a receiver must verify it.
    Complete,
    /// The field holds the folded pseudo-header sum; a sender that needs the real one sums from `start`
    /// (counted from the frame's first byte) to the packet's end and stores at `start + offset`.
    Partial {
        /// First byte to sum, from the start of the frame.
        start: u16,
        /// Where the checksum field is, from `start`.
        offset: u16,
    },
    /// The device verified it.
    Verified,
}

/// What kind of super-segment a packet is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SegmentationKind {
    /// An ordinary packet.
    #[default]
    None,
    /// TCP over IPv4.
    TcpIpv4,
    /// TCP over IPv6.
    TcpIpv6,
    /// UDP, UDP_SEGMENT style.
    Udp,
}

/// How a packet larger than the link is to be cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segmentation {
    /// What it is cut into.
    pub kind: SegmentationKind,
    /// Payload bytes of each piece.
    pub size: u16,
}

/// A view of bytes in one slot; see the module's text.
///
/// Two words, so that a frame is handed on in two registers. With a field for each part of the view the compiler moves it
/// through memory, and a load that spans several younger stores waits until all stores before it have found their cache
/// lines, those to cold memory too.
///
/// ```text
///   view:  63          62..32   31..16   15..0
///          continues   slot     offset   len
/// ```
pub struct Frame {
    arena: NonNull<Inner>,
    view: u64,
}

const _: () = assert!(size_of::<Frame>() == 16);

impl Frame {
    /// The caller hands over one counted owner of the arena and one reference to the slot, which is the arena's.
    #[inline]
    pub(crate) fn from_parts(arena: NonNull<Inner>, slot: u32, offset: u16, len: u16) -> Frame {
        Frame { arena, view: u64::from(slot) << SLOT_SHIFT | u64::from(offset) << OFFSET_SHIFT | u64::from(len) }
    }

    #[inline]
    fn offset(&self) -> u16 {
        (self.view >> OFFSET_SHIFT) as u16
    }

    #[inline]
    pub(crate) fn inner(&self) -> &Inner {
        // SAFETY: a frame counts as an owner of its arena.
        unsafe { self.arena.as_ref() }
    }

    #[inline]
    pub(crate) fn arena_pointer(&self) -> NonNull<Inner> {
        self.arena
    }

    #[inline]
    pub(crate) fn slot(&self) -> u32 {
        (self.view >> SLOT_SHIFT) as u32 & SLOT_MASK
    }

    #[inline]
    pub(crate) fn meta(&self) -> &SlotMeta {
        // SAFETY: a frame is made of a slot of its arena (`from_parts`), and keeps it: there is bookkeeping for each.
        unsafe { self.inner().meta.get_unchecked(self.slot() as usize) }
    }

    /// Bytes of the view.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.view as u16)
    }

    /// Whether the view is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the view starts in its slot.
    #[inline]
    pub fn headroom(&self) -> usize {
        usize::from(self.offset())
    }

    /// Bytes of the slot behind the view.
    #[inline]
    pub fn tailroom(&self) -> usize {
        self.inner().slot_bytes(self.slot()) - self.headroom() - self.len()
    }

    /// Whether no other frame or queue shares the slot, so that it may be written. Bytes that are not the arena's to write
    /// (see [`extent`](crate::extent)) are never exclusive, so nothing lends them mutably.
    #[inline]
    pub fn is_exclusive(&self) -> bool {
        self.meta().is_exclusive()
    }

    /// Whether no other frame or queue refers to the slot, read-only or not.
    #[inline]
    pub fn is_alone(&self) -> bool {
        self.meta().refs.get() == 1
    }

    /// Whether another process may write to the bytes at any time, so that they are to be had as [`payload`](Self::payload) only.
    #[inline]
    pub fn is_foreign(&self) -> bool {
        self.meta().flags.get() & FLAG_FOREIGN != 0
    }

    /// The bytes, whosever memory they are.
    #[inline]
    pub fn payload(&self) -> Payload<'_> {
        // SAFETY: offset + len never exceeds the slot, whose memory stays while a frame is left. This process writes to a slot
        // through its only frame and `&mut self`.
        unsafe {
            let start = self.inner().slot_pointer(self.slot()).add(self.headroom());
            Payload::new(NonNull::new_unchecked(start), self.len())
        }
    }

    /// The bytes, which are this process's own.
    ///
    /// # Panics
    /// When the frame [is foreign](Self::is_foreign): our own mistake.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: offset + len never exceeds the slot, which no other process writes to; a slot that is being written has one
        // owner, and that owner lends its bytes mutably only through `&mut self`.
        unsafe { slice::from_raw_parts(self.inner().own_pointer(self.slot()).add(self.headroom()), self.len()) }
    }

    /// The bytes, to be written.
    ///
    /// # Panics
    /// When the slot is shared, or not the arena's to write.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        assert!(self.is_exclusive(), "a shared slot is read-only");
        // SAFETY: as in `bytes`; the assertion says that nothing else refers to this slot, and that it is not foreign.
        unsafe { slice::from_raw_parts_mut(self.inner().slot_pointer(self.slot()).add(self.headroom()), self.len()) }
    }

    /// Takes `count` bytes off the front.
    ///
    /// # Panics
    /// When there are fewer.
    #[inline]
    pub fn pull(&mut self, count: usize) {
        assert!(count <= self.len(), "pull beyond the end");
        self.view = self.view + count as u64 * OFFSET_ONE - count as u64;
    }

    /// Puts `count` bytes in front and returns them to be written.
    ///
    /// # Panics
    /// When there is no such headroom, or the slot is shared.
    #[inline]
    pub fn push(&mut self, count: usize) -> &mut [u8] {
        assert!(count <= self.headroom(), "push beyond the headroom");
        self.view = self.view + count as u64 - count as u64 * OFFSET_ONE;
        &mut self.bytes_mut()[..count]
    }

    /// Puts `count` bytes behind and returns them to be written.
    ///
    /// # Panics
    /// When there is no such tailroom, or the slot is shared.
    #[inline]
    pub fn extend(&mut self, count: usize) -> &mut [u8] {
        assert!(count <= self.tailroom(), "extend beyond the tailroom");
        let old = self.len();
        self.grow(count);
        &mut self.bytes_mut()[old..]
    }

    /// Puts `count` bytes behind that the caller has found room for.
    #[inline]
    pub(crate) fn grow(&mut self, count: usize) {
        self.view += count as u64;
    }

    /// Memory behind the frame, bytes: its whole slot.
    #[inline]
    pub fn memory(&self) -> usize {
        self.inner().slot_bytes(self.slot())
    }

    /// Shortens the view to `len` bytes; longer lengths change nothing.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        if len < self.len() {
            self.view = self.view - self.len() as u64 + len as u64;
        }
    }

    /// Moves an empty view so that `headroom` bytes precede it.
    ///
    /// # Panics
    /// When the view is not empty or the slot is smaller.
    #[inline]
    pub fn reserve(&mut self, headroom: usize) {
        assert!(self.is_empty() && headroom <= self.inner().slot_bytes(self.slot()), "reserve on an empty frame");
        self.view = ((self.view >> SLOT_SHIFT) << SLOT_SHIFT) | (headroom as u64 * OFFSET_ONE);
    }

    /// Another frame over the same bytes. Both are read-only until one is dropped.
    #[inline]
    pub fn share(&self) -> Frame {
        let meta = self.meta();
        meta.refs.set(meta.refs.get() + 1);
        self.inner().owners.set(self.inner().owners.get() + 1);
        Frame { arena: self.arena, view: self.view & !CONTINUES }
    }

    /// Whether the packet goes on in the next frame of the run.
    #[inline]
    pub fn continues(&self) -> bool {
        self.view & CONTINUES != 0
    }

    /// Says whether the packet goes on in the next frame of the run.
    #[inline]
    pub fn set_continues(&mut self, continues: bool) {
        self.view = if continues { self.view | CONTINUES } else { self.view & !CONTINUES };
    }

    /// State of the transport checksum.
    #[inline]
    pub fn checksum(&self) -> Checksum {
        let meta = self.meta();
        let flags = meta.flags.get();
        if flags & FLAG_CHECKSUM_VERIFIED != 0 {
            Checksum::Verified
        } else if flags & FLAG_CHECKSUM_PARTIAL != 0 {
            let start = meta.checksum_start.get().wrapping_sub(self.offset());
            Checksum::Partial { start, offset: meta.checksum_offset.get() }
        } else {
            Checksum::Complete
        }
    }

    /// Sets the state of the transport checksum.
    #[inline]
    pub fn set_checksum(&mut self, checksum: Checksum) {
        let meta = self.meta();
        let flags = meta.flags.get() & !(FLAG_CHECKSUM_PARTIAL | FLAG_CHECKSUM_VERIFIED);
        match checksum {
            Checksum::Complete => meta.flags.set(flags),
            Checksum::Verified => meta.flags.set(flags | FLAG_CHECKSUM_VERIFIED),
            Checksum::Partial { start, offset } => {
                // Kept from the start of the slot, so that push and pull leave it true.
                meta.checksum_start.set(start.wrapping_add(self.offset()));
                meta.checksum_offset.set(offset);
                meta.flags.set(flags | FLAG_CHECKSUM_PARTIAL);
            }
        }
    }

    /// How the packet is to be cut.
    #[inline]
    pub fn segmentation(&self) -> Segmentation {
        Segmentation { kind: self.meta().segmentation.get(), size: self.meta().segment_size.get() }
    }

    /// Sets how the packet is to be cut.
    #[inline]
    pub fn set_segmentation(&mut self, segmentation: Segmentation) {
        self.meta().segmentation.set(segmentation.kind);
        self.meta().segment_size.set(segmentation.size);
    }

    /// Whether its bytes lie in the arena's [`area`](crate::Arena::area), and not elsewhere.
    #[inline]
    pub fn is_in_area(&self) -> bool {
        self.slot() < self.inner().slots
    }

    /// Lends the frame to a device ring: its address in the arena's area and its length. The slot
    /// stays taken until [`Arena::from_device`](crate::Arena::from_device) takes it back.
    ///
    /// # Panics
    /// When its bytes are not in the area.
    pub fn into_device(self) -> (u64, u32) {
        assert!(self.is_in_area(), "only bytes of the arena's own can be lent");
        let meta = self.meta();
        debug_assert!(meta.flags.get() & FLAG_QUEUED == 0 || meta.refs.get() > 1);
        meta.loans.set(meta.loans.get() + 1);
        let address = (self.inner().slot_offset(self.slot()) + self.headroom()) as u64;
        let len = self.len() as u32;
        core::mem::forget(self);
        (address, len)
    }
}

impl Drop for Frame {
    #[inline]
    fn drop(&mut self) {
        let meta = self.meta();
        let refs = meta.refs.get() - 1;
        meta.refs.set(refs);
        if refs == 0 {
            self.inner().put_free_slot(self.slot(), meta);
        }
        // SAFETY: this frame was a counted owner and is gone after this line.
        unsafe { Inner::release_owner(self.arena) }
    }
}

impl core::fmt::Debug for Frame {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Frame(slot {}, {}+{})", self.slot(), self.offset(), self.len())
    }
}
