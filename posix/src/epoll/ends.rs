//! The two descriptors in a kernel epoll instance that end a wait there for sockets of the stack.

use libc::epoll_event;

use super::{BELL, EDGE_IN};
use crate::Posix;
use crate::errno::Answer;
use crate::fallback::Fd;

/// Descriptors that end a wait in the kernel, besides the program's own.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    /// The service rings it.
    pub(super) wake_fd: Fd,
    /// An eventfd of this process, since only the service can ring the wake descriptor.
    pub(super) nudge: Fd,
}

impl Posix {
    /// Puts the wake descriptor and a nudge of its own into the kernel instance.
    pub(super) fn add_ends(&self, epoll: Fd, wake_fd: Fd) -> Answer<Ends> {
        let nudge = self.park(self.kernel.event_counter()?);
        let ring = epoll_event { events: EDGE_IN, u64: BELL };
        let add = |fd| self.kernel.epoll_control(epoll, libc::EPOLL_CTL_ADD, fd, Some(ring));
        match add(wake_fd).and_then(|()| add(nudge)) {
            Ok(()) => Ok(Ends { wake_fd, nudge }),
            Err(error) => {
                self.discard_internal(nudge);
                Err(error)
            }
        }
    }

    pub(super) fn discard_ends(&self, ends: Ends) {
        self.discard_internal(ends.wake_fd);
        self.discard_internal(ends.nudge);
    }
}
