//! For tests only: a network namespace of the calling thread's own.

/// Moves the calling thread to a new network namespace, which goes with the thread and its
/// descriptors. `false`: not permitted here.
pub(crate) fn enter_new_namespace() -> bool {
    // SAFETY: no pointers are passed; only this thread changes its namespace.
    unsafe { libc::unshare(libc::CLONE_NEWNET) == 0 }
}

/// Waits until `fd` is readable, at most `millis`.
pub(crate) fn wait_readable(fd: std::os::fd::BorrowedFd<'_>, millis: i32) -> bool {
    use std::os::fd::AsRawFd;
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one pollfd, and the count says one.
    unsafe { libc::poll(&raw mut poll, 1, millis) == 1 }
}
