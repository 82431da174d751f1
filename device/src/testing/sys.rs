//! For tests only: waiting on descriptors.

use std::os::fd::{AsRawFd, BorrowedFd};

/// Waits until one of `fds` is readable, at most `millis`.
pub(super) fn wait_readable(fds: &[BorrowedFd<'_>], millis: i32) -> bool {
    let mut polls: Vec<_> = fds.iter().map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }).collect();
    // SAFETY: as many entries as the count says.
    unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, millis) > 0 }
}
