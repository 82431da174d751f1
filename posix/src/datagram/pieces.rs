//! Datagrams in pieces (udp(7), UDP_CORK; send(2), MSG_MORE): the data of several calls leaves as one datagram.
//!
//! The pieces wait here, in the process that has written them, at most one datagram of a socket; the last piece sends
//! them. Promises: the first piece alone determines destination and options, as in Linux; a datagram that grows too
//! long is lost whole. Does not do: joining pieces of several processes that share the socket.

use crate::Posix;
use crate::address::{Parsed, parse};
use crate::channel::Envelope;
use crate::descriptions::{Description, Flag};
use crate::errno::Errno;
use crate::fallback::Fd;
use crate::fd_table::{Descriptor, SocketRef};
use crate::stream::Send;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, TryLockError};

/// An incomplete datagram.
#[derive(Debug)]
pub(crate) struct Unfinished {
    pub(super) envelope: Envelope,
    pub(super) bytes: Vec<u8>,
    is_ipv4: bool,
}

/// One socket's incomplete datagram.
pub(crate) type Waiting = Mutex<Option<Unfinished>>;

/// Result of adding a piece.
pub(super) enum Added {
    /// No datagram is begun: the data is no piece.
    Nothing,
    /// More pieces follow.
    Kept,
    /// It was the last piece.
    Complete(Unfinished),
    /// It does not belong to the datagram, which is unchanged or (EMSGSIZE) lost.
    Refused(Errno),
}

/// One call's part of a datagram.
#[derive(Clone, Copy)]
pub(super) struct Piece<'a> {
    /// The `sockaddr` that came with it.
    pub(super) to: Option<&'a [u8]>,
    pub(super) bytes: &'a [IoSlice<'a>],
    /// It is not the last piece.
    pub(super) more: bool,
}

impl Posix {
    /// Begins a datagram that is sent to `remote` after its last piece.
    pub(super) fn begin_datagram(
        &self,
        description: &Description,
        envelope: Envelope,
        remote: SocketAddr,
        bytes: &[IoSlice<'_>],
    ) -> Result<(), Errno> {
        let mut waiting = self.waiting(description)?;
        *waiting = Some(Unfinished { envelope, bytes: joined(bytes), is_ipv4: remote.is_ipv4() });
        description.mark(Flag::PIECES);
        Ok(())
    }

    /// Adds a piece to the begun datagram, if any. Its address is ignored, except that an AF_INET6 socket checks it
    /// (net/ipv6/udp.c, udpv6_sendmsg).
    pub(super) fn add_piece(&self, description: &Description, piece: Piece<'_>) -> Added {
        if !description.is(Flag::PIECES) {
            return Added::Nothing;
        }
        let mut waiting = match self.waiting(description) {
            Ok(waiting) => waiting,
            Err(error) => return Added::Refused(error),
        };
        let Some(mut unfinished) = waiting.take() else { return Added::Nothing };
        let allowed = !description.is(Flag::INET6) || may_follow(piece.to, unfinished.is_ipv4);
        if !allowed {
            *waiting = Some(unfinished);
            return Added::Refused(Errno::INVAL);
        }
        let len: usize = piece.bytes.iter().map(|bytes| bytes.len()).sum();
        if unfinished.bytes.len().saturating_add(len) > super::payload_max(unfinished.is_ipv4) {
            description.unmark(Flag::PIECES);
            return Added::Refused(Errno::MSGSIZE);
        }
        piece.bytes.iter().for_each(|bytes| unfinished.bytes.extend_from_slice(bytes));
        unfinished.envelope.len = unfinished.bytes.len();
        if piece.more {
            *waiting = Some(unfinished);
            return Added::Kept;
        }
        description.unmark(Flag::PIECES);
        Added::Complete(unfinished)
    }

    /// Removes the last piece, which found no space: the datagram waits for it again.
    pub(super) fn take_piece_back(&self, description: &Description, mut unfinished: Unfinished, len: usize) {
        unfinished.bytes.truncate(unfinished.bytes.len().saturating_sub(len));
        if let Ok(mut waiting) = self.waiting(description) {
            *waiting = Some(unfinished);
            description.mark(Flag::PIECES);
        }
    }

    /// Sends the waiting datagram after UDP_CORK was cleared. Its result is not reported, as in Linux: it is a
    /// datagram.
    pub(crate) fn uncork(&self, fd: Fd, socket: SocketRef) {
        let description = self.descriptions.of(socket);
        description.unmark(Flag::KERNELS_PIECES);
        let piece = Piece { to: None, bytes: &[], more: false };
        if let Added::Complete(unfinished) = self.add_piece(description, piece) {
            let bytes = [IoSlice::new(&unfinished.bytes)];
            self.queue_datagram(Descriptor { fd, socket }, &unfinished.envelope, &bytes, Send::default());
        }
    }

    /// Locks the incomplete datagram, which threads hold for the time of a copy. EAGAIN if it is never released: a
    /// signal handler has interrupted its own thread, or another thread held it during a fork of this process.
    fn waiting<'a>(&self, description: &'a Description) -> Result<MutexGuard<'a, Option<Unfinished>>, Errno> {
        for _ in 0..PATIENCE {
            match description.pieces.try_lock() {
                Ok(waiting) => return Ok(waiting),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => self.kernel.yield_now(),
            }
        }
        Err(Errno::AGAIN)
    }
}

/// Returns true if an AF_INET6 socket accepts a piece with this address after the first one.
fn may_follow(to: Option<&[u8]>, is_ipv4: bool) -> bool {
    match to.map(parse) {
        None => true,
        Some(Parsed::Inet { address, .. }) => is_ipv4 || address.is_ipv6(),
        Some(Parsed::Other) => false,
    }
}

fn joined(bytes: &[IoSlice<'_>]) -> Vec<u8> {
    bytes.iter().flat_map(|piece| piece.iter().copied()).collect()
}

/// Number of yields to the thread that holds the lock.
const PATIENCE: u32 = 10_000;

#[cfg(test)]
mod tests;
