//! A request and its reply: what mt_udpsendrcv, mt_tcpsendrcv and mt_tcpsendrcv_ex do. Connections that are to stay are kept here, by the
//! address that they lead to.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ptr;
use std::time::Duration;

use libc::{c_int, c_void, sockaddr_in, socklen_t};
use ringway_cabi::{Answer, Errno};

use super::watch::{READ, WRITE};
use super::{close, connected, now, read, repeat, until, write_all};

/// Says how long the reply is of which `len` bytes are there: 0 is not known yet, below zero that it is none. `has_ended`: no more will come.
/// It sets `is_known` where the number is the whole reply's.
type Check =
    unsafe extern "C" fn(buffer: *mut c_void, len: c_int, has_ended: bool, context: *mut c_void, is_known: *mut bool) -> c_int;

/// A reply in the caller's memory, or in memory that grows.
#[repr(C)]
pub struct Reply {
    buffer: *mut c_void,
    /// Its size, then the reply's. Of memory that grows: the first guess.
    size: c_int,
    /// Is the memory this library's, made with malloc(3)? The caller frees it then.
    grows: bool,
    check: Option<Check>,
    context: *mut c_void,
}

/// F-Stack's names of what has failed.
#[derive(Clone, Copy)]
enum Failed {
    Socket = -1,
    Send = -2,
    Receive = -3,
    Connect = -4,
    Check = -5,
    Full = -6,
    Closed = -7,
    Arguments = -10,
    Memory = -11,
}

impl Failed {
    /// `self`, for an error whose number the caller finds in errno.
    fn because(self) -> impl FnOnce(Errno) -> Failed {
        move |errno| {
            errno.set();
            self
        }
    }
}

/// MT_TCP_CONN_TYPE
const SHORT: c_int = 1;
const LONG: c_int = 2;
const SHORT_SENDS_ONLY: c_int = 3;
const LONG_SENDS_ONLY: c_int = 4;

/// Connections that are kept, and how long.
const KEPT_MAX: usize = 1024;
const KEPT_FOR: Duration = Duration::from_secs(600);

/// A connection that waits for its next request, and since when.
struct Kept {
    fd: c_int,
    since: Duration,
}

thread_local!(static KEPT: RefCell<HashMap<[u8; 6], Vec<Kept>>> = RefCell::new(HashMap::new()));

fn key(address: &sockaddr_in) -> [u8; 6] {
    let mut key = [0; 6];
    key[..4].copy_from_slice(&address.sin_addr.s_addr.to_ne_bytes());
    key[4..].copy_from_slice(&address.sin_port.to_ne_bytes());
    key
}

/// Does the connection stand, without a byte that was not asked for?
fn is_silent(fd: c_int) -> bool {
    let mut byte = 0_u8;
    // SAFETY: the byte lives until the call returns.
    let got = unsafe { libc::recv(fd, (&raw mut byte).cast(), 1, libc::MSG_PEEK | libc::MSG_DONTWAIT) };
    got < 0 && Errno::last() == Errno(libc::EAGAIN)
}

fn take_kept(address: &sockaddr_in) -> Option<c_int> {
    KEPT.with_borrow_mut(|kept| {
        let mut connections = kept.remove(&key(address))?;
        let found = std::iter::from_fn(|| connections.pop()).find(|kept| {
            is_silent(kept.fd) || {
                close(kept.fd);
                false
            }
        });
        if !connections.is_empty() {
            kept.insert(key(address), connections);
        }
        found.map(|kept| kept.fd)
    })
}

fn keep(address: &sockaddr_in, fd: c_int) {
    KEPT.with_borrow_mut(|kept| {
        let oldest = now().saturating_sub(KEPT_FOR);
        let is_fresh = |kept: &Kept| {
            kept.since >= oldest || {
                close(kept.fd);
                false
            }
        };
        if kept.values().map(Vec::len).sum::<usize>() >= KEPT_MAX {
            kept.values_mut().for_each(|connections| connections.retain(is_fresh));
            kept.retain(|_, connections| !connections.is_empty());
            if kept.values().map(Vec::len).sum::<usize>() >= KEPT_MAX {
                return close(fd);
            }
        }
        kept.entry(key(address)).or_default().push(Kept { fd, since: now() });
    });
}

impl Reply {
    /// More room, where the memory may grow.
    fn grow(&mut self, size: usize) -> Result<(), Failed> {
        if !self.grows {
            return Err(Failed::Full);
        }
        let size = c_int::try_from(size).map_err(|_| Failed::Memory)?;
        // SAFETY: the memory is this library's, from an earlier call, or there is none yet.
        let buffer = unsafe { libc::realloc(self.buffer, size as usize) };
        if buffer.is_null() {
            return Err(Failed::Memory);
        }
        (self.buffer, self.size) = (buffer, size);
        Ok(())
    }

    /// Reads the reply. Returns the number of bytes that came behind it.
    ///
    /// # Safety
    /// As the crate says.
    unsafe fn receive(&mut self, fd: c_int, until: Option<Duration>) -> Result<usize, Failed> {
        let check = self.check.ok_or(Failed::Arguments)?;
        let (mut have, mut whole) = (0, None);
        if self.grows {
            self.buffer = ptr::null_mut();
            self.grow(self.size.max(1) as usize)?;
        }
        loop {
            if have == self.size {
                self.grow(whole.unwrap_or(have as usize * 2).max(have as usize + 1))?;
            }
            // SAFETY: the memory has so much room behind what it has; as the function says.
            let got = unsafe { read(fd, self.buffer.byte_add(have as usize), (self.size - have) as usize, until) };
            let got = got.map_err(Failed::Receive.because())?;
            have += got as c_int;
            let has_ended = got == 0;
            if !has_ended && whole.is_some_and(|whole| (have as usize) < whole) {
                continue;
            }
            if has_ended && have == 0 {
                return Err(Failed::Closed);
            }
            let mut is_known = false;
            // SAFETY: as the function says.
            let len = unsafe { check(self.buffer, have, has_ended, self.context, &raw mut is_known) };
            whole = usize::try_from(len).ok().filter(|len| is_known && *len > 0);
            match len {
                ..0 => return Err(Failed::Check),
                len if len > 0 && len <= have => {
                    self.size = len;
                    return Ok((have - len) as usize);
                }
                _ if has_ended => {
                    self.size = have;
                    return Err(Failed::Closed);
                }
                _ => {}
            }
        }
    }
}

/// Sends a request over TCP and reads its reply, over a connection that stays or one of its own.
///
/// # Safety
/// As the crate says.
unsafe fn exchange(
    address: &sockaddr_in,
    (request, len): (*const c_void, usize),
    reply: Option<&mut Reply>,
    (keeps, until): (Keeps, Option<Duration>),
) -> Result<(), Failed> {
    let kept = if keeps == Keeps::Yes { take_kept(address) } else { None };
    let fd = kept.map_or_else(|| connected(address, until).map_err(Failed::Connect.because()), Ok)?;
    // SAFETY: as the function says.
    let done = unsafe {
        let sent = write_all(fd, request, len, 0, until).map_err(Failed::Send.because());
        sent.and_then(|_| reply.map_or(Ok(0), |reply| reply.receive(fd, until)))
    };
    // Bytes behind a reply belong to no request.
    if matches!(done, Ok(0)) && keeps == Keeps::Yes {
        keep(address, fd)
    } else {
        close(fd)
    }
    done.map(|_| ())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeps {
    Yes,
    No,
}

fn code(done: Result<(), Failed>) -> c_int {
    done.map_or_else(|failed| failed as c_int, |()| 0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_mt_tcp_exchange(
    to: *const sockaddr_in,
    request: *const c_void,
    len: c_int,
    reply: *mut Reply,
    timeout_ms: c_int,
    kind: c_int,
) -> c_int {
    // SAFETY: as the crate says.
    let (to, reply) = unsafe { (to.as_ref(), reply.as_mut()) };
    let (keeps, reads) = match kind {
        SHORT => (Keeps::No, true),
        LONG => (Keeps::Yes, true),
        SHORT_SENDS_ONLY => (Keeps::No, false),
        LONG_SENDS_ONLY => (Keeps::Yes, false),
        _ => return Failed::Arguments as c_int,
    };
    let reply = reply.filter(|reply| reads && (reply.grows || (!reply.buffer.is_null() && reply.size > 0)));
    match to {
        Some(to) if !request.is_null() && len > 0 && reply.is_some() == reads => {
            // SAFETY: as the crate says.
            code(unsafe { exchange(to, (request, len as usize), reply, (keeps, until(timeout_ms))) })
        }
        _ => Failed::Arguments as c_int,
    }
}

/// A datagram and its answer. Returns the answer's length.
///
/// # Safety
/// As the crate says.
unsafe fn ask(
    fd: c_int,
    to: &sockaddr_in,
    (request, len): (*const c_void, usize),
    (buffer, size): (*mut c_void, usize),
    until: Option<Duration>,
) -> Result<usize, Failed> {
    // SAFETY: as the function says; only the answer of the address that was asked counts.
    unsafe {
        let joined = || libc::connect(fd, ptr::from_ref(to).cast(), size_of_val(to) as socklen_t);
        repeat(fd, WRITE, until, joined).map_err(Failed::Send.because())?;
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        repeat(fd, WRITE, until, || libc::send(fd, request, len, flags)).map_err(Failed::Send.because())?;
        let got: Answer<_> = repeat(fd, READ, until, || libc::recv(fd, buffer, size, libc::MSG_DONTWAIT));
        got.map(|got| got as usize).map_err(Failed::Receive.because())
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_mt_udp_exchange(
    to: *const sockaddr_in,
    request: *const c_void,
    len: c_int,
    buffer: *mut c_void,
    size: *mut c_int,
    timeout_ms: c_int,
) -> c_int {
    // SAFETY: as the crate says.
    let (Some(to), Some(size)) = (unsafe { to.as_ref() }, unsafe { size.as_mut() }) else { return Failed::Arguments as c_int };
    if request.is_null() || buffer.is_null() || len < 1 || *size < 1 {
        return Failed::Arguments as c_int;
    }
    // SAFETY: no memory.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Failed::Socket as c_int;
    }
    // SAFETY: as the crate says.
    let answer = unsafe { ask(fd, to, (request, len as usize), (buffer, *size as usize), until(timeout_ms)) };
    let errno = Errno::last();
    close(fd);
    errno.set();
    code(answer.map(|len| *size = len as c_int))
}
