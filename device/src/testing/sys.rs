//! For tests only: waiting on a descriptor.

/// Waits until `fd` is readable, at most `millis`.
pub(crate) fn wait_readable(fd: std::os::fd::BorrowedFd<'_>, millis: i32) -> bool {
    use std::os::fd::AsRawFd;
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one pollfd, and the count says one.
    unsafe { libc::poll(&raw mut poll, 1, millis) == 1 }
}
