//! What the application has given back since the last iteration.
//!
//! Chunks are dropped anywhere, without the worker at hand: they leave a note here, which the next iteration reads.

use std::cell::RefCell;

use ringway_stack::SocketId;

/// Resources that a chunk gives back to its socket.
#[derive(Clone, Copy, Debug)]
pub struct Credit {
    /// The socket's index in the table.
    pub index: u32,
    /// The stack's id of the socket; distinguishes it from a later socket at that index.
    pub socket: SocketId,
    /// Bytes that the application has read.
    pub bytes: u32,
    /// Frames that the application no longer holds.
    pub frames: u32,
}

/// Credits of dropped chunks until the next iteration.
#[derive(Debug, Default)]
pub struct Returns(RefCell<Vec<Credit>>);

impl Returns {
    /// Leaves a credit for the next iteration.
    pub fn push(&self, credit: Credit) {
        self.0.borrow_mut().push(credit);
    }

    /// Takes the newest credit.
    #[inline]
    pub(crate) fn pop(&self) -> Option<Credit> {
        self.0.borrow_mut().pop()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }
}
