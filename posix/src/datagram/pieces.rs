//! Datagrams in pieces (udp(7), UDP_CORK; send(2), MSG_MORE): what several calls send leaves as one datagram.
//!
//! The pieces wait here, in the process that has written them, at most one datagram of a socket; the last one takes them
//! along. Promises: the first piece alone says to whom and how, as in Linux; a datagram that grows too long is lost whole.
//! Does not do: pieces of several processes that share the socket in one datagram.

use crate::Posix;
use crate::address::{Parsed, parse};
use crate::channel::Envelope;
use crate::descriptions::{Description, Flag};
use crate::errno::Errno;
use crate::fallback::Fd;
use crate::fd_table::SocketRef;
use crate::stream::Send;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, TryLockError};

/// A datagram that is not complete.
#[derive(Debug)]
pub(crate) struct Unfinished {
    pub(super) envelope: Envelope,
    pub(super) bytes: Vec<u8>,
    is_ipv4: bool,
}

/// The place where one socket's unfinished datagram waits.
pub(crate) type Waiting = Mutex<Option<Unfinished>>;

/// What has become of a piece.
pub(super) enum Added {
    /// No datagram is begun: this is none of its pieces.
    Nothing,
    /// More is to follow.
    Kept,
    /// It was the last one.
    Complete(Unfinished),
    /// It does not belong to the datagram, which is as it was or (EMSGSIZE) lost.
    Refused(Errno),
}

/// One call's part of a datagram.
#[derive(Clone, Copy)]
pub(super) struct Piece<'a> {
    /// The `sockaddr` that came with it.
    pub(super) to: Option<&'a [u8]>,
    pub(super) bytes: &'a [IoSlice<'a>],
    /// It is not the last one.
    pub(super) more: bool,
}

impl Posix {
    /// Begins a datagram that is sent to `remote` once its last piece is there.
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

    /// Adds a piece to the datagram that is begun, if one is. Whom it is addressed to says nothing any more; an AF_INET6
    /// socket looks at the address all the same (net/ipv6/udp.c, udpv6_sendmsg).
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

    /// The last piece found no room: the datagram waits for it again.
    pub(super) fn take_piece_back(&self, description: &Description, mut unfinished: Unfinished, len: usize) {
        unfinished.bytes.truncate(unfinished.bytes.len().saturating_sub(len));
        if let Ok(mut waiting) = self.waiting(description) {
            *waiting = Some(unfinished);
            description.mark(Flag::PIECES);
        }
    }

    /// UDP_CORK was taken off: what waits leaves. As in Linux nobody hears what becomes of it: it is a datagram.
    pub(crate) fn uncork(&self, fd: Fd, socket: SocketRef) {
        let description = self.descriptions.of(socket);
        description.unmark(Flag::KERNELS_PIECES);
        let piece = Piece { to: None, bytes: &[], more: false };
        if let (Added::Complete(unfinished), Some(channel)) = (self.add_piece(description, piece), self.attached()) {
            let bytes = [IoSlice::new(&unfinished.bytes)];
            self.queue_datagram(channel, fd, socket, &unfinished.envelope, &bytes, Send::default());
        }
    }

    /// Threads hold the place for a copy's time. One that this very thread has interrupted, in a signal handler, and one that
    /// another thread held while this process was forked, never let go.
    fn waiting<'a>(&self, description: &'a Description) -> Result<MutexGuard<'a, Option<Unfinished>>, Errno> {
        for _ in 0..PATIENCE {
            match description.pieces.try_lock() {
                Ok(waiting) => return Ok(waiting),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => self.kernel.give_way(),
            }
        }
        Err(Errno::AGAIN)
    }
}

/// Whether an AF_INET6 socket takes a piece with this address behind the first one.
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

/// How often another thread is let go first.
const PATIENCE: u32 = 10_000;

#[cfg(test)]
mod tests;
