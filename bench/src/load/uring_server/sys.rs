//! An io_uring with a safe interface: it owns all memory that the kernel reads and writes.
//!
//! The kernel receives into a ring of buffers in turn; the owner of a completion with a buffer must release it. Bytes to
//! send are static, or copied into a buffer of their connection that is not touched until the send completes. Promises:
//! memory that the kernel may still use is never freed (the ring's buffers live to the end of the process).

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::{BufRingEntry, Fd};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags};

/// Length of the submission ring.
const ENTRIES: u32 = 1024;
/// Length of the completion ring; the kernel keeps further completions outside it.
const COMPLETIONS: u32 = 16 << 10;
/// Number of receive buffers; a power of two.
const BUFFERS: u16 = 1024;
/// Alignment of the ring of buffers: a page.
const PAGE: usize = 4096;
const BUFFER_BYTES: usize = 32 << 10;
/// Distance between buffers, so that their beginnings are in different sets of the cache.
const STRIDE: usize = BUFFER_BYTES + 64;
/// The only group of buffers.
const GROUP: u16 = 0;

/// Kind of a completed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Accept,
    Receive,
    Send,
}

/// A completed request.
#[derive(Debug)]
pub(super) struct Completion {
    pub(super) kind: Kind,
    /// The connection's number; meaningless for `Accept`.
    pub(super) index: usize,
    /// The kernel keeps the request and will complete it again.
    pub(super) goes_on: bool,
    /// All bytes were sent.
    pub(super) is_whole: bool,
    result: i32,
    /// The receive buffer that the kernel has lent with it.
    buffer: Option<u16>,
}

/// The ring; see the module's documentation.
pub(super) struct Ring {
    ring: IoUring,
    /// The kernel's ring of buffers; lives as long as the process.
    entries: *mut BufRingEntry,
    /// All buffers; live as long as the process.
    memory: *mut u8,
    tail: u16,
    /// By connection: the buffer to send from, and the number of bytes that the kernel is sending.
    copies: Vec<(Vec<u8>, Option<usize>)>,
}

impl Ring {
    /// Creates a ring with its buffers.
    ///
    /// # Errors
    /// The system has no io_uring, an old version of it, or forbids it.
    pub(super) fn new() -> io::Result<Ring> {
        let mut modern = IoUring::builder();
        modern.setup_cqsize(COMPLETIONS).setup_single_issuer().setup_defer_taskrun();
        let ring = match modern.build(ENTRIES) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                IoUring::builder().setup_cqsize(COMPLETIONS).build(ENTRIES)?
            }
            other => other?,
        };
        let entries = allocate(usize::from(BUFFERS) * size_of::<BufRingEntry>()).cast::<BufRingEntry>();
        let memory = allocate(usize::from(BUFFERS) * STRIDE);
        // SAFETY: the memory was allocated for that many entries and is never freed.
        unsafe { ring.submitter().register_buf_ring_with_flags(entries as u64, BUFFERS, GROUP, 0)? };
        let mut ring = Ring { ring, entries, memory, tail: 0, copies: Vec::new() };
        (0..BUFFERS).for_each(|buffer| ring.lend(buffer));
        Ok(ring)
    }

    /// Submits a multishot accept on a listener.
    pub(super) fn accept(&mut self, listener: BorrowedFd<'_>) -> io::Result<()> {
        let flags = SocketFlags::CLOEXEC.bits() as i32;
        self.push(&opcode::AcceptMulti::new(Fd(listener.as_raw_fd())).flags(flags).build(), Kind::Accept, 0)
    }

    /// Submits a multishot receive on a connection.
    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>, index: usize) -> io::Result<()> {
        self.push(&opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP).build(), Kind::Receive, index)
    }

    /// Sends all these bytes and returns their number. A connection has one send at a time.
    pub(super) fn send_static(&mut self, socket: BorrowedFd<'_>, index: usize, bytes: &'static [u8]) -> io::Result<usize> {
        self.copy_of(index).1 = Some(bytes.len());
        self.send(socket, index, bytes.as_ptr(), bytes.len())
    }

    /// Sends the bytes that `fill` puts into the connection's buffer, and returns their number.
    pub(super) fn send_copy(
        &mut self,
        socket: BorrowedFd<'_>,
        index: usize,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> io::Result<usize> {
        let (buffer, sending) = self.copy_of(index);
        fill(buffer);
        *sending = Some(buffer.len());
        let (start, length) = (buffer.as_ptr(), buffer.len());
        self.send(socket, index, start, length)
    }

    /// The buffer of a connection without a send in progress.
    fn copy_of(&mut self, index: usize) -> &mut (Vec<u8>, Option<usize>) {
        if self.copies.len() <= index {
            self.copies.resize_with(index + 1, Default::default);
        }
        let copy = &mut self.copies[index];
        assert!(copy.1.is_none(), "a connection has one send at a time");
        copy
    }

    fn send(&mut self, socket: BorrowedFd<'_>, index: usize, start: *const u8, length: usize) -> io::Result<usize> {
        let flags = (SendFlags::NOSIGNAL.bits() | RecvFlags::WAITALL.bits()) as i32;
        let size = u32::try_from(length).expect("pieces are small");
        self.push(&opcode::Send::new(Fd(socket.as_raw_fd()), start, size).flags(flags).build(), Kind::Send, index)?;
        Ok(length)
    }

    fn push(&mut self, entry: &squeue::Entry, kind: Kind, index: usize) -> io::Result<()> {
        let entry = entry.clone().user_data((index as u64) << 2 | kind as u64);
        loop {
            // SAFETY: what the entry points to lives until its completion: static bytes, a connection's buffer that is not
            // touched while it sends and never freed before, or nothing. Received bytes go to the registered buffers.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return Ok(());
            }
            self.ring.submit()?;
        }
    }

    /// Submits all requests, waits for completions and takes them.
    ///
    /// # Blocking
    /// Until a request completes.
    pub(super) fn wait(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        match self.ring.submit_and_wait(1) {
            // EBUSY: completions must be taken first.
            Err(error) if !matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ResourceBusy) => return Err(error),
            _ => {}
        }
        for entry in self.ring.completion() {
            let (data, flags, result) = (entry.user_data(), entry.flags(), entry.result());
            let kind = [Kind::Accept, Kind::Receive, Kind::Send][(data & 3) as usize];
            let index = (data >> 2) as usize;
            let wanted = if kind == Kind::Send { self.copies[index].1.take() } else { None };
            completions.push(Completion {
                kind,
                index,
                goes_on: cqueue::more(flags),
                is_whole: wanted.is_some_and(|wanted| usize::try_from(result) == Ok(wanted)),
                result,
                buffer: cqueue::buffer_select(flags),
            });
        }
        Ok(())
    }

    /// The accepted connection.
    pub(super) fn accepted(&self, completion: Completion) -> Result<OwnedFd, Errno> {
        assert!(completion.kind == Kind::Accept);
        if completion.result < 0 {
            return Err(Errno::from_raw_os_error(-completion.result));
        }
        // SAFETY: the kernel has made this descriptor for us, and the completion that says so is used up.
        Ok(unsafe { OwnedFd::from_raw_fd(completion.result) })
    }

    /// The received bytes; empty at the end of the stream.
    pub(super) fn bytes(&self, completion: &Completion) -> Result<&[u8], Errno> {
        if completion.result < 0 {
            return Err(Errno::from_raw_os_error(-completion.result));
        }
        let Some(buffer) = completion.buffer else { return Ok(&[]) };
        let length = (completion.result as usize).min(BUFFER_BYTES);
        // SAFETY: the kernel has lent us this buffer with the completion and does not write to it until it is given back, for
        // which the completion is used up.
        Ok(unsafe { std::slice::from_raw_parts(self.memory.add(usize::from(buffer) * STRIDE), length) })
    }

    /// Returns a completion's buffer to the kernel.
    pub(super) fn release(&mut self, completion: Completion) {
        if let Some(buffer) = completion.buffer {
            self.lend(buffer);
        }
    }

    fn lend(&mut self, buffer: u16) {
        assert!(buffer < BUFFERS);
        let slot = usize::from(self.tail & (BUFFERS - 1));
        // SAFETY: the slot is inside the ring, and the kernel does not read it before the tail has passed it. The tail is a
        // 16-bit word of the ring that only this process writes.
        unsafe {
            let entry = &mut *self.entries.add(slot);
            entry.set_addr(self.memory.add(usize::from(buffer) * STRIDE) as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(buffer);
            self.tail = self.tail.wrapping_add(1);
            let tail = BufRingEntry::tail(self.entries).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The kernel may still read these buffers: leak them.
        std::mem::forget(std::mem::take(&mut self.copies));
    }
}

/// Allocates zeroed, page-aligned memory that is never freed.
fn allocate(bytes: usize) -> *mut u8 {
    let layout = Layout::from_size_align(bytes, PAGE).expect("a size of ours");
    // SAFETY: the size is not zero.
    let memory = unsafe { alloc_zeroed(layout) };
    if memory.is_null() {
        handle_alloc_error(layout);
    }
    memory
}
