//! Descriptors of ours in SCM_RIGHTS messages over AF_UNIX sockets of the kernel.
//!
//! Promises: a connection that was passed on lives until its receiver has closed it, whatever becomes of the sender meanwhile: a
//! reference is in flight from before the message is sent until the receiver holds the socket itself.

use crate::Posix;
use crate::fallback::Fd;
use crate::fd_table::SocketRef;

/// What one message takes with it.
#[derive(Debug, Default)]
pub struct Passage {
    /// Sockets with a reference in flight.
    noted: Vec<SocketRef>,
    /// Sockets for which none could be noted: this process holds them until it ends.
    kept: Vec<SocketRef>,
}

impl Posix {
    /// Before the message is sent: `fd` is among its descriptors.
    pub fn before_passing(&self, fd: Fd, passage: &mut Passage) {
        let (Some(channel), Some(socket)) = (self.attached(), self.table.socket(fd)) else { return };
        self.name_for_travel(channel, socket, fd);
        if channel.pass(socket) {
            passage.noted.push(socket);
        } else {
            self.descriptions.of(socket).refer();
            passage.kept.push(socket);
        }
    }

    /// The message was not sent.
    pub fn undo_passing(&self, passage: Passage) {
        let Some(channel) = self.attached() else { return };
        passage.noted.into_iter().for_each(|socket| channel.arrive(socket));
        for socket in passage.kept {
            self.release_reference(socket);
        }
    }

    /// A descriptor has come in a message: as [`adopt`](Posix::adopt), and it is in flight no more.
    pub fn receive_passed(&self, fd: Fd) {
        if let (true, Some(channel), Some(socket)) = (self.adopt(fd), self.attached(), self.table.socket(fd)) {
            channel.arrive(socket);
        }
    }
}

#[cfg(test)]
mod tests;
