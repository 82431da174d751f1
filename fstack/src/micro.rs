//! Micro threads, as F-Stack's programs have them: functions with stacks of their own in one thread of the process. A call that would wait
//! lets others run.
//!
//! `scheduler` says which runs, `watch` what they wait for, `stack` has the stacks; here are the calls, and `exchange` has those that send a
//! request and read its reply. `include/ff_mt.h` is the interface for C; `include/mt_api.h` is F-Stack's for C++, in front of it.

mod exchange;
mod scheduler;
mod stack;
#[cfg(test)]
mod tests;
mod watch;

use std::ptr;
use std::time::Duration;

use libc::{c_int, c_uint, c_void, sockaddr, socklen_t, ssize_t};
use ringway_cabi::{Answer, Errno, Returned, checked, give, set_number};

use crate::waiting::{now, wall_clock};
use scheduler::{Ended, Entry, Handle, Private};
use watch::{READ, WRITE};

/// Bytes that one write(2) takes of what is no socket: a pipe that is writable has room for them (pipe(7), PIPE_BUF).
const PIECE: usize = 4096;

/// When a wait ends that is to take so many milliseconds; below zero: never.
fn until(timeout_ms: c_int) -> Option<Duration> {
    u64::try_from(timeout_ms).ok().map(|span| now() + Duration::from_millis(span))
}

/// Waits for a descriptor.
///
/// # Errors
/// ETIME: the time is over. As epoll_ctl(2).
fn wait_for(fd: c_int, events: u8, until: Option<Duration>) -> Answer<()> {
    match scheduler::wait_for(fd, events, until)? {
        0 => Err(Errno(libc::ETIME)),
        _ => Ok(()),
    }
}

/// F-Stack takes no call without a byte: a program that sends back what it got sees the end of the connection so.
fn not_empty(buffer: *const c_void, len: usize) -> Answer<()> {
    if buffer.is_null() || len == 0 { Err(Errno(libc::EINVAL)) } else { Ok(()) }
}

/// Makes a call that does not wait, again and again until it need not wait. Others get their turn also where it never waits.
fn repeat<T: Returned>(fd: c_int, events: u8, until: Option<Duration>, mut call: impl FnMut() -> T) -> Answer<T> {
    loop {
        match checked(call()) {
            Err(Errno(libc::EINTR)) => {}
            Err(Errno(libc::EAGAIN)) => wait_for(fd, events, until)?,
            answer => {
                scheduler::yield_if_due()?;
                return answer;
            }
        }
    }
}

/// The calls that have no flag for it need a descriptor that does not wait.
fn never_waits(fd: c_int) -> Answer<()> {
    // SAFETY: no memory.
    let flags = checked(unsafe { libc::fcntl(fd, libc::F_GETFL) })?;
    if flags & libc::O_NONBLOCK == 0 {
        // SAFETY: no memory.
        checked(unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) })?;
    }
    Ok(())
}

/// # Safety
/// As read(2).
unsafe fn read(fd: c_int, buffer: *mut c_void, len: usize, until: Option<Duration>) -> Answer<ssize_t> {
    not_empty(buffer, len)?;
    // SAFETY: as the function says.
    match repeat(fd, READ, until, || unsafe { libc::recv(fd, buffer, len, libc::MSG_DONTWAIT) }) {
        Err(Errno(libc::ENOTSOCK)) => {
            wait_for(fd, READ, until)?;
            // SAFETY: as the function says.
            repeat(fd, READ, until, || unsafe { libc::read(fd, buffer, len) })
        }
        answer => answer,
    }
}

/// Sends or writes all of the bytes; the time is for all of them.
///
/// # Safety
/// As send(2).
unsafe fn write_all(fd: c_int, buffer: *const c_void, len: usize, flags: c_int, until: Option<Duration>) -> Answer<ssize_t> {
    not_empty(buffer, len)?;
    let (mut done, mut is_socket) = (0, true);
    while done < len {
        // SAFETY: as the function says; `done` bytes are behind it.
        let (rest, left) = unsafe { (buffer.byte_add(done), len - done) };
        let written = if is_socket {
            // SAFETY: the same.
            repeat(fd, WRITE, until, || unsafe { libc::send(fd, rest, left, flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) })
        } else {
            wait_for(fd, WRITE, until)?;
            // SAFETY: the same.
            repeat(fd, WRITE, until, || unsafe { libc::write(fd, rest, left.min(PIECE)) })
        };
        match written {
            Err(Errno(libc::ENOTSOCK)) => is_socket = false,
            written => done += written? as usize,
        }
    }
    Ok(len as ssize_t)
}

/// # Safety
/// As connect(2).
unsafe fn connect(fd: c_int, address: *const sockaddr, len: socklen_t, until: Option<Duration>) -> Answer<c_int> {
    never_waits(fd)?;
    // SAFETY: as the function says.
    match checked(unsafe { libc::connect(fd, address, len) }) {
        Err(Errno(libc::EISCONN)) => return Ok(0),
        Err(Errno(libc::EINPROGRESS | libc::EALREADY | libc::EINTR)) => wait_for(fd, WRITE, until)?,
        answer => return answer,
    }
    let (mut error, mut size): (c_int, _) = (0, size_of::<c_int>() as socklen_t);
    // SAFETY: both live until the call returns.
    checked(unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR, (&raw mut error).cast(), &raw mut size) })?;
    if error == 0 { Ok(0) } else { Err(Errno(error)) }
}

/// Connects a new TCP socket without a pause before small packets.
fn connected(address: &libc::sockaddr_in, until: Option<Duration>) -> Answer<c_int> {
    // SAFETY: no memory.
    let fd = checked(unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the address lives until the call returns.
    let connects = unsafe { connect(fd, ptr::from_ref(address).cast(), size_of_val(address) as socklen_t, until) };
    let ready = connects.and_then(|_| set_number(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1));
    if ready.is_err() {
        close(fd);
    }
    ready.map(|()| fd)
}

fn close(fd: c_int) {
    // SAFETY: the descriptor is this library's own.
    unsafe { libc::close(fd) };
}

#[unsafe(no_mangle)]
pub extern "C" fn ff_mt_init() -> c_int {
    give(scheduler::init().map(|()| 0))
}

#[unsafe(no_mangle)]
pub extern "C" fn ff_mt_set_stack_size(bytes: c_uint) -> c_int {
    give(scheduler::set_stack_bytes(bytes as usize).map(|()| 0))
}

fn started(entry: Option<Entry>, argument: *mut c_void, private: Private) -> *mut c_void {
    let handle = entry.ok_or(Errno(libc::EINVAL)).and_then(|entry| scheduler::start(entry, argument, private));
    match handle {
        Ok(handle) => handle.to_pointer(),
        Err(errno) => {
            errno.set();
            ptr::null_mut()
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn ff_mt_start(entry: Option<Entry>, argument: *mut c_void) -> *mut c_void {
    started(entry, argument, Private::Own)
}

#[unsafe(no_mangle)]
pub extern "C" fn ff_mt_start_below(entry: Option<Entry>, argument: *mut c_void) -> *mut c_void {
    started(entry, argument, Private::Starters)
}

#[unsafe(no_mangle)]
pub extern "C" fn ff_mt_self() -> *mut c_void {
    scheduler::running().map_or(ptr::null_mut(), Handle::to_pointer)
}

#[unsafe(no_mangle)]
pub extern "C" fn ff_mt_yield() {
    give(scheduler::yields().map(|()| 0));
}

#[unsafe(no_mangle)]
pub extern "C" fn ff_mt_sleep(ms: c_int) {
    give(scheduler::sleep(until(ms)).map(|()| 0));
}

#[unsafe(no_mangle)]
pub extern "C" fn ff_mt_wait(timeout_ms: c_int) -> c_int {
    give(scheduler::wait_for_wakeup(until(timeout_ms)).and_then(|ended| match ended {
        Ended::TimedOut => Err(Errno(libc::ETIME)),
        _ => Ok(0),
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn ff_mt_wake(thread: *mut c_void) -> c_int {
    let handle = Handle::from_pointer(thread).ok_or(Errno(libc::ESRCH));
    give(handle.and_then(scheduler::wake).and_then(|lives| if lives { Ok(0) } else { Err(Errno(libc::ESRCH)) }))
}

#[unsafe(no_mangle)]
pub extern "C" fn ff_mt_wait_events(fd: c_int, events: c_int, timeout_ms: c_int) -> c_int {
    let wanted = (events & c_int::from(READ | WRITE)) as u8;
    let wanted = if wanted == 0 { Err(Errno(libc::EINVAL)) } else { Ok(wanted) };
    give(wanted.and_then(|wanted| scheduler::wait_for(fd, wanted, until(timeout_ms))).map(c_int::from))
}

#[unsafe(no_mangle)]
pub extern "C" fn ff_mt_set_private(data: *mut c_void) {
    give(scheduler::set_private(data).map(|()| 0));
}

#[unsafe(no_mangle)]
pub extern "C" fn ff_mt_get_private() -> *mut c_void {
    scheduler::private().unwrap_or(ptr::null_mut())
}

/// Since 1970, as gettimeofday(2).
#[unsafe(no_mangle)]
pub extern "C" fn ff_mt_time_ms() -> u64 {
    wall_clock().as_millis() as u64
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_mt_read(fd: c_int, buffer: *mut c_void, len: usize, timeout_ms: c_int) -> ssize_t {
    // SAFETY: as the crate says.
    give(unsafe { read(fd, buffer, len, until(timeout_ms)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_mt_write(fd: c_int, buffer: *const c_void, len: usize, timeout_ms: c_int) -> ssize_t {
    // SAFETY: as the crate says.
    give(unsafe { write_all(fd, buffer, len, 0, until(timeout_ms)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_mt_recv(fd: c_int, buffer: *mut c_void, len: usize, flags: c_int, timeout_ms: c_int) -> ssize_t {
    // SAFETY: as the crate says.
    let call = || unsafe { libc::recv(fd, buffer, len, flags | libc::MSG_DONTWAIT) };
    give(not_empty(buffer, len).and_then(|()| repeat(fd, READ, until(timeout_ms), call)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_mt_send(fd: c_int, buffer: *const c_void, len: usize, flags: c_int, timeout_ms: c_int) -> ssize_t {
    // SAFETY: as the crate says.
    give(unsafe { write_all(fd, buffer, len, flags, until(timeout_ms)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_mt_recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    len: usize,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
    timeout_ms: c_int,
) -> ssize_t {
    // SAFETY: as the crate says.
    let call = || unsafe { libc::recvfrom(fd, buffer, len, flags | libc::MSG_DONTWAIT, from, from_len) };
    give(not_empty(buffer, len).and_then(|()| repeat(fd, READ, until(timeout_ms), call)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_mt_sendto(
    fd: c_int,
    buffer: *const c_void,
    len: usize,
    flags: c_int,
    to: *const sockaddr,
    to_len: socklen_t,
    timeout_ms: c_int,
) -> ssize_t {
    let flags = flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: as the crate says.
    let call = || unsafe { libc::sendto(fd, buffer, len, flags, to, to_len) };
    give(not_empty(buffer, len).and_then(|()| repeat(fd, WRITE, until(timeout_ms), call)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_mt_connect(fd: c_int, address: *const sockaddr, len: socklen_t, timeout_ms: c_int) -> c_int {
    // SAFETY: as the crate says.
    give(unsafe { connect(fd, address, len, until(timeout_ms)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_mt_accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, timeout_ms: c_int) -> c_int {
    // SAFETY: as the crate says.
    let call = || unsafe { libc::accept(fd, address, len) };
    give(never_waits(fd).and_then(|()| repeat(fd, READ, until(timeout_ms), call)))
}
