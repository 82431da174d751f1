//! ringway_version and ringway_strerror: what a program asks without a session.

use std::ffi::{CStr, c_char};

use libc::{c_int, c_uint};

/// The number that a part of the version has in Cargo.toml.
const fn part(digits: &str) -> c_uint {
    let (digits, mut value, mut at) = (digits.as_bytes(), 0, 0);
    while at < digits.len() {
        value = value * 10 + (digits[at] - b'0') as c_uint;
        at += 1;
    }
    value
}

const VERSION: c_uint = part(env!("CARGO_PKG_VERSION_MAJOR")) * 10_000
    + part(env!("CARGO_PKG_VERSION_MINOR")) * 100
    + part(env!("CARGO_PKG_VERSION_PATCH"));

#[unsafe(no_mangle)]
pub extern "C" fn ringway_version() -> c_uint {
    VERSION
}

#[unsafe(no_mangle)]
pub extern "C" fn ringway_strerror(error: c_int) -> *const c_char {
    text(error.checked_abs().unwrap_or(error)).as_ptr()
}

/// The constant text of an errno number. strerror(3) may reuse its buffer, and strerror_r(3) needs one of the caller's.
fn text(errno: c_int) -> &'static CStr {
    match errno {
        0 => c"Success",
        libc::EPERM => c"Operation not permitted: the firewall of this machine refuses it",
        libc::ENOENT => c"No such file or directory, or RINGWAY_SOCKET is not set",
        libc::EINTR => c"Interrupted system call",
        libc::EIO => c"Input/output error",
        libc::EAGAIN => c"Resource temporarily unavailable: the call would block",
        libc::ENOMEM => c"Cannot allocate memory",
        libc::EACCES => c"Permission denied",
        libc::EFAULT => c"Bad address: a handle or a pointer is null",
        libc::EINVAL => c"Invalid argument",
        libc::ENFILE => c"Too many open sockets in the session",
        libc::EMFILE => c"Too many open files",
        libc::EPIPE => c"Broken pipe: the stream is shut for writing",
        libc::EPROTO => c"Protocol error: the service answers what this library does not know",
        libc::EDESTADDRREQ => c"Destination address required",
        libc::EMSGSIZE => c"Message too long",
        libc::ENOPROTOOPT => c"Protocol not available, or no such option",
        libc::EOPNOTSUPP => c"Operation not supported",
        libc::EAFNOSUPPORT => c"Address family not supported: sockaddr_in or sockaddr_in6",
        libc::EADDRINUSE => c"Address already in use",
        libc::EADDRNOTAVAIL => c"Cannot assign requested address: Ringway does not serve it",
        libc::ENETUNREACH => c"Network is unreachable: no interface of Ringway leads there",
        libc::ECONNABORTED => c"Connection aborted",
        libc::ECONNRESET => c"Connection reset by the peer or by the end of the service",
        libc::ENOBUFS => c"No buffer space available",
        libc::EISCONN => c"Already connected",
        libc::ENOTCONN => c"Not connected",
        libc::ETIMEDOUT => c"Connection timed out",
        libc::ECONNREFUSED => c"Connection refused, by the peer or by the service",
        libc::EHOSTUNREACH => c"No route to host",
        _ => c"Unknown error",
    }
}
