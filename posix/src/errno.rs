//! The only file with errno numbers.
//!
//! All other code uses small enums; this file maps them to the numbers that an unmodified program sees.

use crate::channel::Failure;
use std::fmt;

/// An errno number as libc reports it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

/// Result of this crate's calls.
pub type Answer<T> = Result<T, Errno>;

macro_rules! errno_names {
    ($($(#[$doc:meta])* $name:ident = $number:expr;)*) => {
        impl Errno {
            $($(#[$doc])* pub const $name: Errno = Errno($number);)*

            /// The symbol of errno.h, or `E?` for a number that this crate never produces itself.
            pub fn name(self) -> &'static str {
                match self {
                    $(Errno::$name => concat!("E", stringify!($name)),)*
                    _ => "E?",
                }
            }
        }
    };
}

// One list gives both the constants and their names, so that they cannot diverge.
errno_names! {
    /// Operation not permitted.
    PERM = libc::EPERM;
    /// Interrupted by a signal handler.
    INTR = libc::EINTR;
    /// Input/output error.
    IO = libc::EIO;
    /// Bad file descriptor.
    BADF = libc::EBADF;
    /// Try again: the call would block.
    AGAIN = libc::EAGAIN;
    /// Out of memory (or of chunks, slots).
    NOMEM = libc::ENOMEM;
    /// Permission denied.
    ACCES = libc::EACCES;
    /// Bad address.
    FAULT = libc::EFAULT;
    /// Invalid argument.
    INVAL = libc::EINVAL;
    /// Too many open files in this process.
    MFILE = libc::EMFILE;
    /// Inappropriate ioctl.
    NOTTY = libc::ENOTTY;
    /// A directory.
    ISDIR = libc::EISDIR;
    /// Illegal seek.
    SPIPE = libc::ESPIPE;
    /// Writing to a stream with a shut write side.
    PIPE = libc::EPIPE;
    /// Destination address required.
    DESTADDRREQ = libc::EDESTADDRREQ;
    /// Message too long.
    MSGSIZE = libc::EMSGSIZE;
    /// Option not known for this protocol.
    NOPROTOOPT = libc::ENOPROTOOPT;
    /// Operation not supported on this socket.
    OPNOTSUPP = libc::EOPNOTSUPP;
    /// Address family not supported.
    AFNOSUPPORT = libc::EAFNOSUPPORT;
    /// Address in use.
    ADDRINUSE = libc::EADDRINUSE;
    /// Address cannot be assigned.
    ADDRNOTAVAIL = libc::EADDRNOTAVAIL;
    /// Network is down.
    NETDOWN = libc::ENETDOWN;
    /// Network unreachable.
    NETUNREACH = libc::ENETUNREACH;
    /// The connection was aborted before it was accepted.
    CONNABORTED = libc::ECONNABORTED;
    /// The peer (or the service's death) reset the connection.
    CONNRESET = libc::ECONNRESET;
    /// No buffer space.
    NOBUFS = libc::ENOBUFS;
    /// Already connected.
    ISCONN = libc::EISCONN;
    /// Not connected.
    NOTCONN = libc::ENOTCONN;
    /// Timed out.
    TIMEDOUT = libc::ETIMEDOUT;
    /// Connection refused.
    CONNREFUSED = libc::ECONNREFUSED;
    /// No route to the host.
    HOSTUNREACH = libc::EHOSTUNREACH;
    /// A connect is already under way.
    ALREADY = libc::EALREADY;
    /// The connect goes on in the background.
    INPROGRESS = libc::EINPROGRESS;
    /// Function not implemented.
    NOSYS = libc::ENOSYS;
    /// No such file.
    NOENT = libc::ENOENT;
    /// Not a socket.
    NOTSOCK = libc::ENOTSOCK;
    /// File exists.
    EXIST = libc::EEXIST;
    /// No space for another watch.
    NOSPC = libc::ENOSPC;
    /// Numerical argument out of domain (SO_RCVTIMEO with a bad microsecond part).
    DOM = libc::EDOM;
    /// Too many levels (nested epoll).
    LOOP = libc::ELOOP;
    /// Beyond all numbers of Linux's, and never shown to a program: the kernel has got the socket, and the caller makes its call.
    MOVED = 1 << 16;
}

/// The errno of a socket's failure.
impl From<Failure> for Errno {
    fn from(failure: Failure) -> Errno {
        match failure {
            Failure::Broken => Errno::PIPE,
            Failure::TimedOut => Errno::TIMEDOUT,
            Failure::Refused => Errno::CONNREFUSED,
            Failure::HostUnreachable => Errno::HOSTUNREACH,
            Failure::NetworkUnreachable => Errno::NETUNREACH,
            Failure::ProtocolUnreachable => Errno::NOPROTOOPT,
            Failure::Prohibited | Failure::Denied => Errno::ACCES,
            Failure::Aborted => Errno::CONNABORTED,
            Failure::MessageTooLong => Errno::MSGSIZE,
            // A datagram without a destination.
            Failure::NotConnected => Errno::DESTADDRREQ,
            Failure::Reset | Failure::ServiceGone => Errno::CONNRESET,
            // The kernel goes on with the socket.
            Failure::Guarded | Failure::CgroupProgram | Failure::Rule | Failure::PortWaits | Failure::NotOurs => Errno::CONNRESET,
            // Answers to requests, not failures of a socket.
            Failure::InUse | Failure::NotAvailable | Failure::NoResources | Failure::Invalid | Failure::NotSupported => {
                Errno::CONNRESET
            }
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}({})", self.name(), self.0)
    }
}
