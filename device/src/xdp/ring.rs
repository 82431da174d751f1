//! Read Documentation/networking/af_xdp first. One ring shared with the kernel, one producer, one consumer.
//!
//! ```text
//!   consumer            producer          indices run freely and wrap at 2^32; entry = index & mask
//!      v                   v
//!  |   |###|###|###|###|###|   |   |      ### is the consumer's, the rest the producer's
//! ```
//! The index that the kernel writes is never trusted to be sane: what it claims is limited to the size.

use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use super::sys::{Entry, Mapping, RingOffset, Which};

struct Ring<T> {
    mapping: Mapping,
    producer: usize,
    consumer: usize,
    flags: usize,
    entries: usize,
    mask: u32,
    entry: PhantomData<T>,
}

impl<T: Entry> Ring<T> {
    fn map(fd: BorrowedFd<'_>, which: Which, offset: &RingOffset, count: u32) -> io::Result<Ring<T>> {
        assert!(count.is_power_of_two(), "ring sizes are powers of two");
        let entries = offset.desc as usize;
        let mapping = Mapping::new(fd, which, entries + count as usize * size_of::<T>())?;
        let (producer, consumer) = (offset.producer as usize, offset.consumer as usize);
        Ok(Ring { mapping, producer, consumer, flags: offset.flags as usize, entries, mask: count - 1, entry: PhantomData })
    }

    #[inline]
    fn place(&self, index: u32) -> usize {
        self.entries + (index & self.mask) as usize * size_of::<T>()
    }

    /// Returns true if the kernel sleeps on this ring.
    #[inline]
    fn needs_wakeup(&self) -> bool {
        self.mapping.word(self.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// The producer's end: fill and transmit.
pub(super) struct Producer<T> {
    ring: Ring<T>,
    next: u32,
}

impl<T: Entry> Producer<T> {
    pub(super) fn map(fd: BorrowedFd<'_>, which: Which, offset: &RingOffset, count: u32) -> io::Result<Producer<T>> {
        Ok(Producer { ring: Ring::map(fd, which, offset, count)?, next: 0 })
    }

    /// Entries that the kernel has not yet taken.
    #[inline]
    pub(super) fn used(&self) -> u32 {
        let consumed = self.ring.mapping.word(self.ring.consumer).load(Ordering::Acquire);
        self.next.wrapping_sub(consumed).min(self.ring.mask + 1)
    }

    /// Entries that can be written.
    #[inline]
    pub(super) fn free(&self) -> u32 {
        self.ring.mask + 1 - self.used()
    }

    /// Writes the next entry; the kernel sees it after `publish`. The caller knows that there is room.
    #[inline]
    pub(super) fn write(&mut self, entry: T) {
        self.ring.mapping.write(self.ring.place(self.next), entry);
        self.next = self.next.wrapping_add(1);
    }

    /// Shows what was written to the kernel.
    #[inline]
    pub(super) fn publish(&self) {
        self.ring.mapping.word(self.ring.producer).store(self.next, Ordering::Release);
    }

    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }
}

/// The consumer's end: receive and completion.
pub(super) struct Consumer<T> {
    ring: Ring<T>,
    next: u32,
}

impl<T: Entry> Consumer<T> {
    pub(super) fn map(fd: BorrowedFd<'_>, which: Which, offset: &RingOffset, count: u32) -> io::Result<Consumer<T>> {
        Ok(Consumer { ring: Ring::map(fd, which, offset, count)?, next: 0 })
    }

    /// Entries that wait.
    #[inline]
    pub(super) fn waiting(&self) -> u32 {
        let produced = self.ring.mapping.word(self.ring.producer).load(Ordering::Acquire);
        produced.wrapping_sub(self.next).min(self.ring.mask + 1)
    }

    /// Reads the next entry; the kernel may reuse its place after `release`. The caller knows that one waits.
    #[inline]
    pub(super) fn read(&mut self) -> T {
        let entry = self.ring.mapping.read(self.ring.place(self.next));
        self.next = self.next.wrapping_add(1);
        entry
    }

    /// Gives what was read back to the kernel.
    #[inline]
    pub(super) fn release(&self) {
        self.ring.mapping.word(self.ring.consumer).store(self.next, Ordering::Release);
    }
}
