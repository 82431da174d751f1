//! Lines of the library's on standard error.
//!
//! Promises: in one write, without libc's buffers and without memory from the heap; none where descriptor 2 is a connection, whose peer would read
//! it (inetd), nor where its reader has gone, since the program would end by SIGPIPE. Does not do: look, where a filter of system calls
//! may forbid it.

use crate::real;
use libc::{c_int, c_long, iovec, pollfd, timespec};
use ringway_shm::system_call::system_call;

/// Writes a line of these parts.
pub(crate) fn say<const PARTS: usize>(parts: [&[u8]; PARTS]) {
    let is_confined = crate::shim::posix().is_some_and(|posix| posix.is_confined());
    if !is_confined && (is_connection() || has_no_reader()) {
        return;
    }
    let vector = parts.map(|part| iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
    // SAFETY: slices that live on. If standard error is closed, the line is lost.
    unsafe { real::writev(libc::STDERR_FILENO, vector.as_ptr(), vector.len() as c_int) };
}

/// journald reads from a socket too, of another family.
fn is_connection() -> bool {
    let (mut domain, mut len): (c_int, c_int) = (0, size_of::<c_int>() as c_int);
    let [fd, level, name] = [libc::STDERR_FILENO, libc::SOL_SOCKET, libc::SO_DOMAIN].map(c_long::from);
    let (value, room) = ((&raw mut domain) as c_long, (&raw mut len) as c_long);
    // SAFETY: locals.
    let answer = unsafe { system_call(libc::SYS_getsockopt, [fd, level, name, value, room, 0]) };
    answer == 0 && matches!(domain, libc::AF_INET | libc::AF_INET6)
}

fn has_no_reader() -> bool {
    let mut entry = pollfd { fd: libc::STDERR_FILENO, events: 0, revents: 0 };
    let now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: locals.
    let found = unsafe { system_call(libc::SYS_ppoll, [(&raw mut entry) as c_long, 1, (&raw const now) as c_long, 0, 8, 0]) };
    found > 0 && entry.revents & (libc::POLLERR | libc::POLLNVAL) != 0
}
