//! Payload held by the application: received bytes to read in place, frames to write in place.
//!
//! ```text
//!   stack --read_chunk--> Chunk --drop/release--> frame free, window opens
//!                           \----write_chunk----> another connection's send queue, the same frame
//!   arena --reserve-----> Reservation --commit--> send queue, no longer writable
//! ```
//! Promises: both own their frame alone, so the bytes in it do not change under the application, and the application
//! cannot change committed bytes: the stack retransmits them as they were. A dropped chunk gives its bytes back in the
//! worker's next iteration, wherever it is dropped.

use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use ringway_engine::native::{Credit, Returns};
use ringway_shm::arena::SMALL_BYTES;
use ringway_shm::{Arena, Class, Frame};

/// Received bytes, in the frame in which they arrived. While it is held, the window stays closed by as many.
///
/// ```
/// use ringway::{Net, TcpStreamId};
///
/// /// Takes a line from the front, in place.
/// fn line(net: &mut Net, stream: TcpStreamId) -> Option<String> {
///     let mut chunk = stream.read_chunk(net).ok()??;
///     let end = chunk.iter().position(|&byte| byte == b'\n')?;
///     let line = chunk.split_to(end + 1);
///     Some(String::from_utf8_lossy(&line).into_owned())
/// }
/// ```
pub struct Chunk {
    /// `None` only during `into_parts`.
    frame: Option<Frame>,
    credit: Credit,
    returns: Rc<Returns>,
}

impl Chunk {
    #[inline]
    pub(crate) fn new(frame: Frame, credit: Credit, returns: Rc<Returns>) -> Chunk {
        Chunk { frame: Some(frame), credit, returns }
    }

    /// Splits the chunk into frame and credit; the caller must return the credit.
    #[inline]
    pub(crate) fn into_parts(mut self) -> (Frame, Credit) {
        let credit = self.credit;
        (self.credit.bytes, self.credit.frames) = (0, 0);
        (self.frame.take().expect("only this function and drop take it"), credit)
    }

    /// Returns true if a worker with this arena may queue the frame as it is: the frame is exclusive and of that arena.
    #[inline]
    pub(crate) fn is_queueable(&self, arena: &Arena) -> bool {
        self.frame.as_ref().is_some_and(|frame| frame.is_exclusive() && arena.owns(frame))
    }

    /// Returns true if the chunk is of the worker with these returns; its credit means nothing to another.
    #[inline]
    pub(crate) fn is_of(&self, returns: &Rc<Returns>) -> bool {
        Rc::ptr_eq(&self.returns, returns)
    }

    /// Drops the first `count` bytes, which a parser has consumed.
    ///
    /// # Panics
    /// Panics if there are fewer.
    pub fn advance(&mut self, count: usize) {
        self.frame.as_mut().expect("it is whole").pull(count);
    }

    /// Splits off the first `count` bytes as a chunk. Chunks that share a frame are copied when they are sent on.
    ///
    /// # Panics
    /// Panics if there are fewer.
    pub fn split_to(&mut self, count: usize) -> Chunk {
        let frame = self.frame.as_mut().expect("it is whole");
        let mut head = frame.share();
        head.truncate(count);
        frame.pull(count);
        let credit = Credit { bytes: count as u32, frames: 0, ..self.credit };
        // Bytes dropped by `advance` stay in the credit of the rest.
        self.credit.bytes -= count as u32;
        Chunk::new(head, credit, self.returns.clone())
    }
}

impl Deref for Chunk {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.frame.as_ref().map_or(&[], Frame::bytes)
    }
}

impl Drop for Chunk {
    #[inline]
    fn drop(&mut self) {
        if self.credit.bytes > 0 || self.credit.frames > 0 {
            self.returns.push(self.credit);
        }
    }
}

impl std::fmt::Debug for Chunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Chunk({} bytes)", self.len())
    }
}

/// Space in a frame that is sent as it is on commit. Dropping it sends nothing.
///
/// Before it is written it shows the frame's earlier content.
///
/// ```
/// use ringway::{Net, TcpStreamId, WriteError};
///
/// /// Writes a greeting where it leaves.
/// fn greet(net: &mut Net, stream: TcpStreamId) -> Result<(), WriteError> {
///     let mut reservation = stream.reserve(net, 6)?;
///     reservation[..6].copy_from_slice(b"hello\n");
///     stream.commit(net, reservation, 6).map_err(|rejected| rejected.error)
/// }
/// ```
#[derive(Debug)]
pub struct Reservation {
    frame: Frame,
}

impl Reservation {
    #[inline]
    pub(crate) fn new(frame: Frame) -> Reservation {
        Reservation { frame }
    }

    /// Returns the first `len` bytes as a frame of `arena`; a copy if the frame is another's. Without a frame for the
    /// copy, the reservation comes back.
    #[inline]
    pub(crate) fn into_frame_of(self, arena: &Arena, len: usize) -> Result<Frame, Reservation> {
        if arena.owns(&self.frame) { Ok(self.into_frame(len)) } else { self.copy_to(arena, len) }
    }

    #[cold]
    fn copy_to(mut self, arena: &Arena, len: usize) -> Result<Frame, Reservation> {
        self.frame.truncate(len);
        let class = if self.frame.headroom() + len <= SMALL_BYTES { Class::Small } else { Class::Large };
        let Some(mut copy) = arena.alloc(class) else { return Err(self) };
        copy.reserve(self.frame.headroom());
        copy.extend(self.frame.len()).copy_from_slice(self.frame.bytes());
        Ok(copy)
    }

    /// Truncates the reservation to `len` bytes.
    pub(crate) fn cut(self, len: usize) -> Reservation {
        Reservation::new(self.into_frame(len))
    }

    #[inline]
    fn into_frame(self, len: usize) -> Frame {
        let mut frame = self.frame;
        frame.truncate(len);
        frame
    }
}

impl Deref for Reservation {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.frame.bytes()
    }
}

impl DerefMut for Reservation {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.frame.bytes_mut()
    }
}
