//! Calls of a machine's program that may have to wait, and the results of all calls.

use std::net::SocketAddr;

use ringway_shm::Duration;

/// A call that may have to wait.
#[derive(Clone, Debug)]
pub enum Call {
    /// accept(2)
    Accept {
        /// The listener.
        fd: i32,
        /// SOCK_NONBLOCK and the like.
        flags: i32,
    },
    /// connect(2)
    Connect {
        /// The socket.
        fd: i32,
        /// The peer.
        to: SocketAddr,
    },
    /// read(2) and all recv calls.
    Receive {
        /// The socket or pipe.
        fd: i32,
        /// Maximum number of bytes.
        count: usize,
        /// MSG_PEEK and the like.
        flags: i32,
    },
    /// write(2) and all send calls.
    Send {
        /// The socket or pipe.
        fd: i32,
        /// The bytes.
        bytes: Vec<u8>,
        /// MSG_DONTWAIT and the like.
        flags: i32,
    },
    /// sendto(2) or sendmsg(2) with MSG_FASTOPEN.
    SendFast {
        /// The socket.
        fd: i32,
        /// The peer; `None`: an address of no family.
        to: Option<SocketAddr>,
        /// The bytes.
        bytes: Vec<u8>,
        /// MSG_DONTWAIT and the like.
        flags: i32,
    },
    /// poll(2)
    Poll {
        /// Descriptors and the events wanted.
        set: Vec<(i32, i16)>,
        /// Longest wait; `None`: any time.
        timeout: Option<Duration>,
    },
    /// splice(2) between a pipe and a socket.
    Splice {
        /// Source of the bytes.
        from: i32,
        /// Destination of the bytes.
        to: i32,
        /// Maximum number of bytes.
        count: usize,
        /// SPLICE_F_NONBLOCK and the like.
        flags: u32,
    },
    /// close(2), which waits with SO_LINGER.
    Close {
        /// The descriptor.
        fd: i32,
    },
    /// epoll_wait(2)
    EpollWait {
        /// The instance.
        fd: i32,
        /// Maximum number of events.
        count: usize,
        /// Longest wait; `None`: any time.
        timeout: Option<Duration>,
    },
}

/// Result of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The return value; -1 with an error.
    pub value: i64,
    /// errno; 0 without an error.
    pub errno: i32,
    /// Bytes received, or an option's value.
    pub bytes: Vec<u8>,
    /// TCP_CM_INQ, if enabled: number of bytes that can be received next.
    pub inq: Option<i32>,
    /// Address of the accepted peer.
    pub peer: Option<SocketAddr>,
    /// poll: reported events of each entry.
    pub reported: Vec<i16>,
    /// epoll_wait: events and data.
    pub events: Vec<(u32, u64)>,
}

impl Answer {
    /// Success.
    pub fn value(value: i64) -> Answer {
        Answer { value, ..Answer::default() }
    }

    /// Failure with this errno.
    pub fn error(errno: i32) -> Answer {
        Answer { value: -1, errno, ..Answer::default() }
    }
}

/// State of a call that was begun.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// It has returned.
    Done(Answer),
    /// It waits.
    Waits(Waiting),
}

/// A call that waits, for [`Machine::go_on`](super::Machine::go_on).
#[derive(Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Number of the thread that makes the call.
    pub(super) thread: usize,
    /// True for accept(2), whose result is a descriptor.
    pub(super) makes_descriptor: bool,
}
