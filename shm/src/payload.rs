//! Bytes that another process may change at any instant: they are copied, summed or shown to the kernel, and never borrowed.
//!
//! Frames stand for memory of applications too ([`extent`](crate::extent)): send chunks that leave in place, and receive chunks
//! that packets are read to. A `&[u8]` over such bytes would tell the compiler that they keep still, which nothing guarantees,
//! and code that reads twice could be cheated between the two reads. So there are two types with a pointer and a length:
//! [`Payload`] to read and [`PayloadMut`] to write, with [`Room`] for a frame that is still to be filled. They work for all
//! memory; [`Frame::bytes`] is for memory of the process's own, and panics for other.
//!
//! Promises: a copy is made of bytes that are read once, a sum too; code that decides by a byte has it by value. The two are
//! as small and as fast as slices. Does not promise that the bytes of two calls are the same: code that needs this copies first.

use alloc::vec::Vec;
use core::marker::PhantomData;
use core::ops::Range;
use core::ptr::{self, NonNull};

use crate::frame::Frame;
use crate::sum;

/// Bytes that are copied at once where they cannot be shown.
const PIECE: usize = 2048;

/// Bytes to be read; see the module's text.
#[derive(Clone, Copy)]
pub struct Payload<'a> {
    start: NonNull<u8>,
    len: usize,
    memory: PhantomData<&'a Frame>,
}

impl<'a> Payload<'a> {
    /// # Safety
    /// The memory is mapped and may be read for `len` bytes from `start` on while `'a` lasts; other processes may write to it.
    #[inline(always)]
    pub(crate) unsafe fn new(start: NonNull<u8>, len: usize) -> Payload<'a> {
        Payload { start, len, memory: PhantomData }
    }

    /// Bytes.
    #[inline(always)]
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Where they are, for a system call that reads [`len`](Self::len) bytes.
    #[inline(always)]
    pub fn as_ptr(self) -> *const u8 {
        self.start.as_ptr()
    }

    /// A part of them.
    ///
    /// # Panics
    /// When they do not contain it.
    #[inline]
    pub fn slice(self, part: Range<usize>) -> Payload<'a> {
        assert!(part.start <= part.end && part.end <= self.len, "a part of the payload");
        // SAFETY: the part is inside, as asserted.
        unsafe { Payload::new(self.start.add(part.start), part.end - part.start) }
    }

    /// Two parts, of which the first has `count` bytes.
    ///
    /// # Panics
    /// When there are fewer.
    #[inline]
    pub fn split_at(self, count: usize) -> (Payload<'a>, Payload<'a>) {
        (self.slice(0..count), self.slice(count..self.len))
    }

    /// The first byte as it is now.
    #[inline]
    pub fn first(self) -> Option<u8> {
        // SAFETY: there is a byte, which can be read.
        (self.len > 0).then(|| unsafe { self.start.read_volatile() })
    }

    /// Copies them to `to`, which is as long.
    ///
    /// # Panics
    /// When the lengths differ.
    #[inline(always)]
    pub fn copy_to(self, to: &mut [u8]) {
        assert!(to.len() == self.len, "a copy is as long as its source");
        // SAFETY: both are of that length. `to` is borrowed mutably, so no frame stands for it, and they are apart.
        unsafe { ptr::copy_nonoverlapping(self.start.as_ptr(), to.as_mut_ptr(), self.len) }
    }

    /// Shows `visit` a copy of all, piece by piece.
    pub fn for_each_copy(self, mut visit: impl FnMut(&[u8])) {
        let mut copy = [0; PIECE];
        let mut rest = self;
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(rest.len.min(PIECE));
            let copy = &mut copy[..piece.len];
            piece.copy_to(copy);
            visit(copy);
            rest = behind;
        }
    }

    /// Appends a copy to `to`.
    pub fn append_to(self, to: &mut Vec<u8>) {
        let old = to.len();
        to.resize(old + self.len, 0);
        self.copy_to(&mut to[old..]);
    }

    /// A copy.
    pub fn to_vec(self) -> Vec<u8> {
        let mut copy = Vec::new();
        self.append_to(&mut copy);
        copy
    }

    /// Their one's-complement sum, as [`sum::sum`].
    #[inline]
    pub fn sum(self) -> u16 {
        // SAFETY: they can be read.
        unsafe { sum::sum_raw(self.start.as_ptr(), self.len) }
    }
}

/// Memory that keeps still may be read like other.
impl<'a, T: AsRef<[u8]> + ?Sized> From<&'a T> for Payload<'a> {
    #[inline(always)]
    fn from(bytes: &'a T) -> Payload<'a> {
        let bytes = bytes.as_ref();
        // SAFETY: they are borrowed for 'a.
        unsafe { Payload::new(NonNull::from(bytes).cast(), bytes.len()) }
    }
}

impl core::fmt::Debug for Payload<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Payload({} bytes)", self.len)
    }
}

/// Bytes to be written, whatever is there now; see the module's text.
pub struct PayloadMut<'a> {
    start: NonNull<u8>,
    len: usize,
    memory: PhantomData<&'a mut Frame>,
}

impl<'a> PayloadMut<'a> {
    /// # Safety
    /// The memory is mapped and may be written for `len` bytes from `start` on while `'a` lasts, no reference to it is used
    /// meanwhile, and no [`Payload`] of this process is over it.
    #[inline]
    pub unsafe fn new(start: NonNull<u8>, len: usize) -> PayloadMut<'a> {
        PayloadMut { start, len, memory: PhantomData }
    }

    /// Bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where they are, for a system call that writes at most [`len`](Self::len) bytes.
    #[inline]
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Copies `bytes` to byte `at` and those behind it.
    ///
    /// # Panics
    /// When they do not fit there.
    #[inline]
    pub fn write<'b>(&mut self, at: usize, bytes: impl Into<Payload<'b>>) {
        let bytes = bytes.into();
        assert!(at <= self.len && bytes.len() <= self.len - at, "room for the bytes");
        // SAFETY: the target is inside, as asserted, and no payload is over it.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(at), bytes.len()) }
    }
}

impl<'a> From<&'a mut [u8]> for PayloadMut<'a> {
    #[inline]
    fn from(bytes: &'a mut [u8]) -> PayloadMut<'a> {
        let len = bytes.len();
        // SAFETY: they are borrowed mutably for 'a.
        unsafe { PayloadMut::new(NonNull::from(bytes).cast(), len) }
    }
}

/// A frame that a packet's payload is to be read to. It may be memory of the payload's reader, so until it is a
/// [frame](Self::into_frame) its bytes can only be written.
#[derive(Debug)]
pub struct Room(Frame);

impl Room {
    /// # Safety
    /// The bytes may be written, and no other frame is over them.
    #[cfg(any(test, all(target_os = "linux", not(loom))))]
    pub unsafe fn over(frame: Frame) -> Room {
        Room(frame)
    }

    /// The bytes of `frame`, which has no other reference.
    ///
    /// # Panics
    /// If it has, or its bytes are read-only.
    pub fn of(frame: Frame) -> Room {
        assert!(frame.is_exclusive(), "a shared slot is read-only");
        Room(frame)
    }

    /// Bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes, to be written.
    #[inline]
    pub fn payload_mut(&mut self) -> PayloadMut<'_> {
        let bytes = self.0.payload();
        let start = NonNull::new(bytes.as_ptr().cast_mut()).expect("memory has an address");
        // SAFETY: the maker of the room promised that the bytes may be written and that this frame is their only one; it is
        // borrowed mutably, so no payload of it is left.
        unsafe { PayloadMut::new(start, bytes.len()) }
    }

    /// It is filled.
    #[inline]
    pub fn into_frame(self) -> Frame {
        self.0
    }
}

#[cfg(test)]
mod tests;
