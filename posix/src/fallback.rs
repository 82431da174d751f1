//! The kernel as an injected trait, so that this crate also runs against a mock or in the simulator.
//!
//! Plain values and slices in, `Answer` out. An implementation must never call back into this crate (the preload
//! library calls the *next* libc symbol, not its own).

use crate::errno::Answer;
use ringway_shm::{Duration, Instant, PayloadMut};
use std::io::{IoSlice, IoSliceMut};

/// A descriptor number.
pub type Fd = i32;

/// The kernel's signal mask: bit n-1 stands for signal n.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignalMask(pub u64);

/// What exec does with a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExec {
    /// It stays open.
    Keep,
    /// FD_CLOEXEC.
    Close,
}

impl OnExec {
    /// `closes`: the call's flag for close-on-exec is set.
    pub fn of(closes: bool) -> OnExec {
        if closes { OnExec::Close } else { OnExec::Keep }
    }
}

/// Identity of the file that a descriptor refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Device number of the file system (of sockfs for a socket).
    pub device: u64,
    /// Inode number; unique among the live sockets.
    pub inode: u64,
    /// File type bits of `st_mode` (`S_IFMT`).
    pub kind: u32,
}

impl Identity {
    /// Returns true for a socket.
    pub fn is_socket(&self) -> bool {
        self.kind & libc::S_IFMT == libc::S_IFSOCK
    }
}

/// A socket address as the kernel writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawAddress {
    /// The bytes of the `sockaddr`.
    pub bytes: [u8; 128],
    /// Number of valid bytes.
    pub len: usize,
}

impl RawAddress {
    /// The valid bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len.min(self.bytes.len())]
    }
}

/// The libc calls that this crate passes on.
pub trait Kernel: Send + Sync {
    /// `socket(2)`.
    fn socket(&self, domain: i32, kind: i32, protocol: i32) -> Answer<Fd>;
    /// `bind(2)` to the bytes of a `sockaddr`.
    fn bind(&self, fd: Fd, address: &[u8]) -> Answer<()>;
    /// `connect(2)` to the bytes of a `sockaddr`.
    fn connect(&self, fd: Fd, address: &[u8]) -> Answer<()>;
    /// `listen(2)`.
    fn listen(&self, fd: Fd, backlog: i32) -> Answer<()>;
    /// `accept4(2)`; also returns the peer's address.
    fn accept4(&self, fd: Fd, flags: i32) -> Answer<(Fd, RawAddress)>;
    /// `shutdown(2)`.
    fn shutdown(&self, fd: Fd, how: i32) -> Answer<()>;
    /// Returns true if `getpeername(2)` succeeds.
    fn is_connected(&self, fd: Fd) -> bool;
    /// `getsockname(2)`.
    fn local_address(&self, fd: Fd) -> Answer<RawAddress>;
    /// `setsockopt(2)`.
    fn set_option(&self, fd: Fd, level: i32, name: i32, value: &[u8]) -> Answer<()>;
    /// `getsockopt(2)`; returns the length written.
    fn option(&self, fd: Fd, level: i32, name: i32, value: &mut [u8]) -> Answer<usize>;

    /// `close(2)`.
    fn close(&self, fd: Fd) -> Answer<()>;
    /// `fcntl(F_DUPFD)` or `F_DUPFD_CLOEXEC`: the lowest free number not below `minimum`.
    fn duplicate(&self, fd: Fd, minimum: Fd, on_exec: OnExec) -> Answer<Fd>;
    /// `dup3(2)`; `old` and `new` differ.
    fn duplicate_to(&self, old: Fd, new: Fd, on_exec: OnExec) -> Answer<Fd>;
    /// `fcntl(F_GETFD)`: descriptor flags.
    fn descriptor_flags(&self, fd: Fd) -> Answer<i32>;
    /// `fcntl(F_GETFL)`: status flags.
    fn status_flags(&self, fd: Fd) -> Answer<i32>;
    /// `fcntl(F_SETFL)`.
    fn set_status_flags(&self, fd: Fd, flags: i32) -> Answer<()>;
    /// `fcntl(F_SETOWN)`: the process that gets SIGIO and SIGURG.
    fn set_owner(&self, fd: Fd, process: u32) -> Answer<()>;
    /// The fields of `fstat(2)` that this crate needs.
    fn identity(&self, fd: Fd) -> Answer<Identity>;
    /// Calls `visit` with the number of each open descriptor of this process; those that it opens may be among them.
    fn for_each_descriptor(&self, visit: &mut dyn FnMut(Fd)) -> Answer<()>;
    /// Numbers of all open descriptors of this process.
    fn open_descriptors(&self) -> Answer<Vec<Fd>> {
        let mut open = Vec::new();
        self.for_each_descriptor(&mut |fd| open.push(fd))?;
        Ok(open)
    }
    /// `getrlimit(RLIMIT_NOFILE)`: the soft limit.
    fn descriptor_limit(&self) -> u64;

    /// `readv(2)`.
    fn read(&self, fd: Fd, pieces: &mut [IoSliceMut<'_>]) -> Answer<usize>;
    /// `writev(2)`.
    fn write(&self, fd: Fd, pieces: &[IoSlice<'_>]) -> Answer<usize>;
    /// `pread(2)`.
    fn read_at(&self, fd: Fd, bytes: PayloadMut<'_>, offset: i64) -> Answer<usize>;
    /// `lseek(2)` relative to the current position.
    fn seek_by(&self, fd: Fd, distance: i64) -> Answer<i64>;
    /// `ioctl(FIONREAD)` on a kernel descriptor.
    fn bytes_readable(&self, fd: Fd) -> Answer<i32>;

    /// `ppoll(2)`; `None` waits for ever. Returns the number of entries with events.
    fn poll(&self, set: &mut [libc::pollfd], timeout: Option<Duration>, mask: Option<SignalMask>) -> Answer<usize>;
    /// `eventfd2(0, EFD_NONBLOCK | EFD_CLOEXEC)`.
    fn event_counter(&self) -> Answer<Fd>;
    /// Adds one to an eventfd (a full counter is fine).
    fn raise_event(&self, fd: Fd);
    /// `epoll_create1(2)`.
    fn epoll_create(&self, flags: i32) -> Answer<Fd>;
    /// `epoll_ctl(2)`.
    fn epoll_control(&self, epoll: Fd, operation: i32, fd: Fd, event: Option<libc::epoll_event>) -> Answer<()>;
    /// `epoll_pwait2(2)`; `None` waits for ever. Returns the number of entries written.
    fn epoll_wait(
        &self,
        epoll: Fd,
        events: &mut [libc::epoll_event],
        timeout: Option<Duration>,
        mask: Option<SignalMask>,
    ) -> Answer<usize>;

    /// The data words of everything that an epoll instance watches (/proc/PID/fdinfo).
    fn watched_words(&self, epoll: Fd) -> Answer<Vec<u64>>;

    /// CLOCK_MONOTONIC.
    fn now(&self) -> Instant;
    /// CLOCK_REALTIME, since 1970.
    fn wall_clock(&self) -> Duration;
    /// `sched_yield(2)`: other tasks may have the processor before the caller goes on.
    fn yield_now(&self);
    /// Sleeps for about `span` (used only without a wait context).
    fn pause(&self, span: Duration);
    /// Returns true if this process has more than one thread. Reads /proc.
    fn has_other_threads(&self) -> bool;
    /// `getpid(2)`.
    fn process_id(&self) -> u32;
    /// Sends SIGPIPE to the calling thread.
    fn raise_broken_pipe(&self);
    /// Returns true if interrupted calls may be restarted (every handler so far was installed with SA_RESTART).
    fn restarts_after_signal(&self) -> bool;
    /// Writes one line to the program's standard error.
    fn say(&self, line: &str);
}

/// The data words in an epoll instance's text in /proc (fs/eventpoll.c, ep_show_fdinfo): `tfd: N events: X data: X
/// ...`.
pub fn words_of_epoll(told: &str) -> Vec<u64> {
    let word = |line: &str| u64::from_str_radix(line.split("data:").nth(1)?.split_whitespace().next()?, 16).ok();
    told.lines().filter(|line| line.starts_with("tfd:")).filter_map(word).collect()
}
