//! Payload in the application's hands: received bytes to read in place, frames to write in place.
//!
//! ```text
//!   stack --read_chunk--> Chunk --drop/release--> frame free, window opens
//!                           \----write_chunk----> another connection's send queue, the same frame
//!   arena --reserve-----> Reservation --commit--> send queue: from then on nobody can write it
//! ```
//! Promises: both own their frame alone, so what they show does not change under the application, and what was committed
//! cannot be changed by it: the stack sends it again, if it must, as it was. A chunk that is dropped anywhere gives its bytes
//! back in the worker's next turn.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use ringway_shm::arena::SMALL_BYTES;
use ringway_shm::{Arena, Class, Frame};
use ringway_stack::SocketId;

/// What a chunk gives back to its socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credit {
    /// The socket's place in the table.
    pub(crate) index: u32,
    /// The stack's name of it: another socket in that place is not meant.
    pub(crate) socket: SocketId,
    /// Bytes that the application has read.
    pub(crate) bytes: u32,
    /// Frames that it no longer holds.
    pub(crate) frames: u32,
}

/// Where chunks that were dropped leave their credits until the next turn.
#[derive(Debug, Default)]
pub(crate) struct Returns(RefCell<Vec<Credit>>);

impl Returns {
    pub(crate) fn push(&self, credit: Credit) {
        self.0.borrow_mut().push(credit);
    }

    /// Takes the last one that was left.
    #[inline]
    pub(crate) fn pop(&self) -> Option<Credit> {
        self.0.borrow_mut().pop()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }
}

/// Received bytes, in the frame in which they arrived. Holding it keeps the window from opening by as much.
pub struct Chunk {
    /// `None` only while it is taken apart.
    frame: Option<Frame>,
    credit: Credit,
    returns: Rc<Returns>,
}

impl Chunk {
    #[inline]
    pub(crate) fn new(frame: Frame, credit: Credit, returns: Rc<Returns>) -> Chunk {
        Chunk { frame: Some(frame), credit, returns }
    }

    /// Takes it apart; the caller sees to the credit.
    #[inline]
    pub(crate) fn into_parts(mut self) -> (Frame, Credit) {
        let credit = self.credit;
        (self.credit.bytes, self.credit.frames) = (0, 0);
        (self.frame.take().expect("only this function and drop take it"), credit)
    }

    /// Whether a worker with this arena may queue the frame as it is: it is the chunk's alone, and that arena's.
    #[inline]
    pub(crate) fn is_queueable(&self, arena: &Arena) -> bool {
        self.frame.as_ref().is_some_and(|frame| frame.is_exclusive() && arena.owns(frame))
    }

    /// Whether it came from the worker that has these returns: its credit means nothing to another.
    #[inline]
    pub(crate) fn is_of(&self, returns: &Rc<Returns>) -> bool {
        Rc::ptr_eq(&self.returns, returns)
    }

    /// Forgets the first `count` bytes: a parser has understood them.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn advance(&mut self, count: usize) {
        self.frame.as_mut().expect("it is whole").pull(count);
    }

    /// Takes the first `count` bytes as a chunk of their own. Chunks that share a frame are copied when they are sent on.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn split_to(&mut self, count: usize) -> Chunk {
        let frame = self.frame.as_mut().expect("it is whole");
        let mut head = frame.share();
        head.truncate(count);
        frame.pull(count);
        let credit = Credit { bytes: count as u32, frames: 0, ..self.credit };
        // What was forgotten before counts with the rest.
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

/// Room in a frame that leaves as it is when it is committed. Dropping it instead sends nothing.
///
/// What it shows before it is written is whatever the frame held last.
#[derive(Debug)]
pub struct Reservation {
    frame: Frame,
}

impl Reservation {
    #[inline]
    pub(crate) fn new(frame: Frame) -> Reservation {
        Reservation { frame }
    }

    /// The first `len` bytes as a frame of `arena`: a copy if they are another's. It comes back if there is no frame for that.
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

    /// Only its first `len` bytes.
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
