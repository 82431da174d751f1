//! The system calls of a channel: local sockets and messages with descriptors, process numbers and pidfds, waiting on a word. Thin, owned
//! types in and out; no policy.
//!
//! What is done to descriptors that the program must not touch (the control connection, the doorbell)
//! goes straight to the kernel ([`system_call`]), not by libc's names for it: inside a preloaded program libc's names are
//! ours, and they protect those descriptors.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use libc::c_long;

use ringway_shm::sys::{check, own};
pub use ringway_shm::sys::{event_descriptor, ring, silence};
use ringway_shm::system_call::system_call;

/// Linux 5.14.
const SO_NETNS_COOKIE: libc::c_int = 71;
/// The file system that pidfds are of (Linux 6.9).
const PID_FS_MAGIC: libc::c_long = 0x5049_4446;
/// Linux 4.13 and 6.5.
const SO_PEERGROUPS: libc::c_int = 59;
const SO_PEERPIDFD: libc::c_int = 77;

/// The inode of a descriptor's file.
pub(crate) fn inode_of(fd: BorrowedFd<'_>) -> io::Result<u64> {
    // SAFETY: all-zero is a valid stat buffer.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes into the buffer that we own.
    check(unsafe { libc::fstat(fd.as_raw_fd(), &mut status) })?;
    Ok(status.st_ino)
}

/// An epoll instance that has an event for each ring of the event descriptor `fd`.
pub(crate) fn watch_edges(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: plain numbers.
    let epoll = own(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
    let mut event = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: 0 };
    // SAFETY: the event is a local that outlives the call.
    check(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &mut event) })?;
    Ok(epoll)
}

/// Takes the event of a wake descriptor ([`WakeFd`](crate::attach::WakeFd)); says whether it had rung.
pub fn silence_wake_fd(fd: RawFd) -> bool {
    // An application may have added an eventfd of its own.
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 2];
    // SAFETY: epoll_pwait(2) without waiting and without a signal mask; at most two events into a local of two.
    let got = unsafe { system_call(libc::SYS_epoll_pwait, [fd.into(), &raw mut events as c_long, 2, 0, 0, 8]) };
    got > 0
}

/// Takes the rings of a wake descriptor that is a socket; says whether there was one.
pub fn silence_socket(fd: RawFd) -> bool {
    let mut rings = [0u64; 64];
    // SAFETY: read(2) into a local of that size.
    unsafe { system_call(libc::SYS_read, [fd.into(), &raw mut rings as c_long, size_of_val(&rings) as c_long, 0, 0, 0]) > 0 }
}

/// Two non-blocking sockets: what the first one is written can be read from the second, and nothing the other way.
pub(crate) fn one_way_sockets() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut pair = [-1; 2];
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: two numbers into a local of two.
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) })?;
    let [writer, reader] = pair.map(|fd| own(fd).expect("the kernel has just made it"));
    // SAFETY: plain numbers.
    check(unsafe { libc::shutdown(writer.as_raw_fd(), libc::SHUT_RD) })?;
    Ok((writer, reader))
}

/// The lowest free descriptor number at or above `floor` for the file of `fd`, closed on exec.
pub(crate) fn duplicate_above(fd: BorrowedFd<'_>, floor: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: plain call with an integer argument.
    own(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, floor) })
}

/// Makes the number `to`, which the caller owns, refer to the file of `fd`, closed on exec.
pub(crate) fn replace(fd: &OwnedFd, to: RawFd) -> io::Result<()> {
    let arguments = [fd.as_raw_fd().into(), to.into(), libc::O_CLOEXEC.into(), 0, 0, 0];
    // SAFETY: dup3(2), plain numbers.
    let answer = unsafe { system_call(libc::SYS_dup3, arguments) };
    if answer < 0 { Err(io::Error::from_raw_os_error(-answer as i32)) } else { Ok(()) }
}

/// Gives the processor away for a moment: first a yield, then `micros` of sleep.
pub(crate) fn pause(micros: u32) {
    if micros == 0 {
        // SAFETY: no arguments.
        unsafe { libc::sched_yield() };
    } else {
        let span = libc::timespec { tv_sec: 0, tv_nsec: i64::from(micros) * 1000 };
        // SAFETY: a valid timespec; the remainder is not wanted.
        unsafe { libc::nanosleep(&span, std::ptr::null_mut()) };
    }
}

/// Sleeps while `word` is `value`, until [`wake_all`] or `limit`; may come back for no reason. `false`: the time is over.
pub fn wait_on(word: &std::sync::atomic::AtomicU32, value: u32, limit: Option<ringway_shm::Duration>) -> bool {
    let nanos = limit.map_or(0, |limit| limit.as_nanos());
    let span = libc::timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
    let span: *const libc::timespec = if limit.is_some() { &raw const span } else { std::ptr::null() };
    let operation = c_long::from(libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG);
    // SAFETY: futex(2) reads a word and a timespec that live for as long as the call.
    let answer =
        unsafe { system_call(libc::SYS_futex, [word.as_ptr() as c_long, operation, value.into(), span as c_long, 0, 0]) };
    answer != -c_long::from(libc::ETIMEDOUT)
}

/// Wakes every thread of this process that sleeps in [`wait_on`] on `word`.
pub fn wake_all(word: &std::sync::atomic::AtomicU32) {
    let operation = c_long::from(libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG);
    // SAFETY: futex(2) only compares the address.
    unsafe { system_call(libc::SYS_futex, [word.as_ptr() as c_long, operation, i32::MAX.into(), 0, 0, 0]) };
}

/// The number of this process.
pub(crate) fn process_number() -> u32 {
    // SAFETY: no arguments.
    (unsafe { libc::getpid() }) as u32
}

fn local_address(path: &std::path::Path) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    use std::os::unix::ffi::OsStrExt;
    let bytes = path.as_os_str().as_bytes();
    // SAFETY: all-zero is a valid sockaddr_un.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    if bytes.is_empty() || bytes.len() >= address.sun_path.len() || bytes.contains(&0) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path does not fit a local socket address"));
    }
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    let len = std::mem::offset_of!(libc::sockaddr_un, sun_path) + bytes.len() + 1;
    Ok((address, len as libc::socklen_t))
}

fn message_socket(extra: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    own(unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | extra, 0) })
}

/// A socket of this thread's network namespace, which does nothing.
pub(crate) fn inet_socket() -> io::Result<OwnedFd> {
    let arguments = [libc::AF_INET.into(), (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC).into(), 0, 0, 0, 0];
    // SAFETY: plain numbers.
    let fd = unsafe { system_call(libc::SYS_socket, arguments) };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd as i32));
    }
    // SAFETY: the kernel has just made this descriptor for us; nothing else refers to it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// The cookie of the network namespace that a socket belongs to. Asking takes no lock of the socket's.
///
/// # Errors
/// It is no socket, or the kernel is older than 5.14.
pub fn network_of(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut cookie = 0u64;
    let mut len = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into the local.
    check(unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_NETNS_COOKIE, (&raw mut cookie).cast(), &mut len)
    })?;
    Ok(cookie)
}

/// The cookie of this thread's network namespace.
///
/// # Errors
/// As [`network_of`].
pub fn network_here() -> io::Result<u64> {
    network_of(inet_socket()?.as_fd())
}

/// Connects to the local message socket at `path`.
pub(crate) fn connect_local(path: &std::path::Path) -> io::Result<OwnedFd> {
    let socket = message_socket(0)?;
    let (address, len) = local_address(path)?;
    // SAFETY: the address is a local of the stated length.
    check(unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), len) })?;
    Ok(socket)
}

/// Listens, non-blocking, on a local message socket at `path`, which must not exist yet.
pub(crate) fn listen_local(path: &std::path::Path) -> io::Result<OwnedFd> {
    let socket = message_socket(libc::SOCK_NONBLOCK)?;
    let (address, len) = local_address(path)?;
    // SAFETY: the address is a local of the stated length.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) })?;
    // SAFETY: no pointers.
    check(unsafe { libc::listen(socket.as_raw_fd(), 128) })?;
    Ok(socket)
}

/// Accepts one connection, non-blocking.
pub(crate) fn accept_local(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: the peer's address is not asked for.
    own(unsafe {
        libc::accept4(socket.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut(), libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK)
    })
}

/// Process, user and group of the peer of a local socket, as the kernel noted them at connect.
pub(crate) fn peer_credentials(socket: BorrowedFd<'_>) -> io::Result<(u32, u32, u32)> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into the local.
    check(unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut credentials).cast(), &mut len)
    })?;
    Ok((credentials.pid as u32, credentials.uid, credentials.gid))
}

/// The process that connected a local socket, as a pidfd. ENOPROTOOPT before Linux 6.5.
pub(crate) fn peer_pidfd(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut pidfd: RawFd = -1;
    let mut len = size_of::<RawFd>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into the local.
    check(unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_PEERPIDFD, (&raw mut pidfd).cast(), &mut len) })?;
    own(pidfd)
}

/// The supplementary groups of the process that connected a local socket, as they were then.
pub(crate) fn peer_groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut groups = vec![0u32; 32];
    loop {
        let mut len = size_of_val(&groups[..]) as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes into the vector.
        let answer = check(unsafe {
            libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_PEERGROUPS, groups.as_mut_ptr().cast(), &mut len)
        });
        match answer {
            // Too small: `len` says how many bytes there are.
            Err(error) if error.raw_os_error() == Some(libc::ERANGE) => groups.resize(len as usize / size_of::<u32>(), 0),
            answer => {
                answer?;
                groups.truncate(len as usize / size_of::<u32>());
                return Ok(groups);
            }
        }
    }
}

/// A descriptor that becomes readable when the process dies; makes no call of libc's, so it may be used after fork.
pub(crate) fn open_process(number: u32) -> io::Result<OwnedFd> {
    // SAFETY: plain numbers.
    let fd = unsafe { system_call(libc::SYS_pidfd_open, [number.into(), 0, 0, 0, 0, 0]) };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd as i32));
    }
    own(fd as RawFd)
}

/// The inode of this process's PID namespace; 0: there is no /proc to tell.
pub(crate) fn process_namespace() -> u32 {
    // SAFETY: all-zero is a valid stat.
    let mut seen: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: a constant path, and a local that the kernel writes.
    let answer = unsafe { libc::stat(c"/proc/self/ns/pid".as_ptr(), &mut seen) };
    if answer == 0 { seen.st_ino as u32 } else { 0 }
}

/// The inode of a pidfd, which is one for each process; `None`: this kernel has no pidfs (Linux 6.9).
pub(crate) fn pidfs_inode(pidfd: BorrowedFd<'_>) -> io::Result<Option<u64>> {
    // SAFETY: all-zero is a valid statfs, and a valid stat.
    let (mut system, mut file): (libc::statfs, libc::stat) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    // SAFETY: a local that the kernel writes.
    check(unsafe { libc::fstatfs(pidfd.as_raw_fd(), &mut system) })?;
    // SAFETY: a local that the kernel writes.
    check(unsafe { libc::fstat(pidfd.as_raw_fd(), &mut file) })?;
    Ok((system.f_type == PID_FS_MAGIC).then_some(file.st_ino))
}

/// Descriptors in one message, at most.
pub(crate) const DESCRIPTORS_MAX: usize = 4;
/// Descriptors that one message may bring: as many as the kernel allows, so that none is closed in the kernel's
/// hands, in a thread that must not wait.
const DESCRIPTORS_TAKEN: usize = 253;
const CONTROL_WORDS: usize = 16;
const CONTROL_WORDS_TAKEN: usize = DESCRIPTORS_TAKEN / 2 + 8;

/// Sends one message with descriptors; all or nothing. Never raises SIGPIPE.
pub(crate) fn send_message(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    assert!(fds.len() <= DESCRIPTORS_MAX, "no message carries that many descriptors");
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = [0u64; CONTROL_WORDS];
    // SAFETY: all-zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    if !fds.is_empty() {
        let payload = std::mem::size_of_val(fds) as u32;
        message.msg_control = control.as_mut_ptr().cast();
        // SAFETY: pure arithmetic.
        message.msg_controllen = unsafe { libc::CMSG_SPACE(payload) } as usize;
        // SAFETY: the control buffer is large enough for DESCRIPTORS_MAX and aligned by its u64s.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(&message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(payload) as usize;
            let data = libc::CMSG_DATA(header).cast::<RawFd>();
            for (at, fd) in fds.iter().enumerate() {
                data.add(at).write_unaligned(fd.as_raw_fd());
            }
        }
    }
    loop {
        // SAFETY: every pointer in `message` refers to a live local or to `bytes`.
        let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL) };
        if sent >= 0 {
            return if sent as usize == bytes.len() { Ok(()) } else { Err(io::Error::other("a message was cut")) };
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// What came with one message.
pub(crate) struct Received {
    /// Bytes of the message, which may be more than the buffer held.
    pub(crate) bytes: usize,
    /// The descriptors, in order; all of them closed on exec.
    pub(crate) fds: Vec<OwnedFd>,
    /// Descriptors were lost because there were more than a message can have.
    pub(crate) cut: bool,
}

/// Receives one message. Zero bytes: the peer has closed.
pub(crate) fn receive_message(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Received> {
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = [0u64; CONTROL_WORDS_TAKEN];
    // SAFETY: all-zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    // SAFETY: pure arithmetic.
    message.msg_controllen = unsafe { libc::CMSG_SPACE((DESCRIPTORS_TAKEN * size_of::<RawFd>()) as u32) } as usize;
    let bytes = loop {
        // SAFETY: every pointer in `message` refers to a live local or to `buffer`.
        let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC | libc::MSG_TRUNC) };
        if got >= 0 {
            break got as usize;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    };
    let fds = passed_descriptors(&message);
    Ok(Received { bytes, fds, cut: message.msg_flags & libc::MSG_CTRUNC != 0 })
}

fn passed_descriptors(message: &libc::msghdr) -> Vec<OwnedFd> {
    let mut fds = Vec::new();
    // SAFETY: the kernel filled the control buffer and set its length; the CMSG macros stay in it.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let payload = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(header).cast::<RawFd>();
                for at in 0..payload / size_of::<RawFd>() {
                    fds.push(OwnedFd::from_raw_fd(data.add(at).read_unaligned()));
                }
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    fds
}

/// Whether the peer of the socket `fd` is gone. A descriptor that is not open counts as gone.
pub(crate) fn is_hung_up(fd: RawFd) -> bool {
    let mut entry = libc::pollfd { fd, events: libc::POLLRDHUP, revents: 0 };
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: ppoll(2) of one entry, without waiting and without a signal mask (whose size does not count then).
    let count = unsafe { system_call(libc::SYS_ppoll, [&raw mut entry as c_long, 1, &raw const now as c_long, 0, 8, 0]) };
    count > 0 && entry.revents & (libc::POLLHUP | libc::POLLRDHUP | libc::POLLERR | libc::POLLNVAL) != 0
}

/// Lends a descriptor number that the caller keeps open during the call.
pub fn with_fd<T>(fd: RawFd, f: impl FnOnce(BorrowedFd<'_>) -> T) -> T {
    // SAFETY: the caller keeps it open while `f` runs; -1 never gets here, since it was opened.
    f(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Closes a descriptor number that the caller owns.
pub(crate) fn close(fd: RawFd) {
    // SAFETY: close(2); the caller gives its ownership up, and there is nothing to do about an error.
    unsafe { system_call(libc::SYS_close, [fd.into(), 0, 0, 0, 0, 0]) };
}
