//! What the application has given back since the worker last looked: read chunks, and sockets that it has dropped.
//!
//! Both are dropped anywhere, without the worker at hand, so they leave a note here. Promises: a chunk's note is read before
//! that of a socket, so a socket whose bytes were all given back is closed with FIN. When the worker is gone, notes do nothing.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use ringway_stack::SocketId;

use super::Handle;

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

/// Notes of dropped chunks and sockets.
#[derive(Debug, Default)]
pub struct Returns {
    /// There is a dropped socket: one load tells each event's taker that there is none.
    has_dropped: Cell<bool>,
    credits: RefCell<Vec<Credit>>,
    dropped: RefCell<VecDeque<Handle>>,
}

impl Returns {
    /// Leaves the credit of a dropped chunk.
    pub fn push(&self, credit: Credit) {
        self.credits.borrow_mut().push(credit);
    }

    /// Leaves a dropped socket, to be closed.
    pub fn push_dropped(&self, socket: Handle) {
        self.dropped.borrow_mut().push_back(socket);
        self.has_dropped.set(true);
    }

    /// Takes the newest credit.
    #[inline]
    pub(super) fn pop(&self) -> Option<Credit> {
        self.credits.borrow_mut().pop()
    }

    /// Takes the socket that was dropped first.
    pub(super) fn pop_dropped(&self) -> Option<Handle> {
        let mut dropped = self.dropped.borrow_mut();
        let socket = dropped.pop_front();
        self.has_dropped.set(!dropped.is_empty());
        socket
    }

    /// Returns true if there is a dropped socket.
    #[inline]
    pub(super) fn has_dropped(&self) -> bool {
        self.has_dropped.get()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        !self.has_dropped() && self.credits.borrow().is_empty()
    }
}
