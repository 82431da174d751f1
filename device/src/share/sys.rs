//! Several descriptors to wait on as one: an epoll descriptor, which is readable while one of them is.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::sys::check;

/// The descriptors; they belong to others, and leave when those close them.
pub(super) struct Waits(OwnedFd);

impl Waits {
    pub(super) fn new() -> io::Result<Waits> {
        // SAFETY: no pointers are passed.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the descriptor was made above and belongs to nobody else.
        Ok(Waits(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub(super) fn add(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: the event is a local that outlives the call; both descriptors are open.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &raw mut event) })?;
        Ok(())
    }

    /// Whether something waits at one of them.
    #[cfg(test)]
    pub(super) fn is_ready(&self) -> bool {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one element, as the count says, in a local that outlives the call.
        let ready = check(unsafe { libc::poll(&raw mut poll, 1, 0) });
        ready.is_ok_and(|count| count == 1)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
