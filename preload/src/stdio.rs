//! C streams over sockets: glibc's stdio reads and writes inside itself, where no other library sees it.
//!
//! Promises: `fdopen` of a socket of ours gives a stream that reads and writes through this library, and so do `stdin`,
//! `stdout` and `stderr` where a socket of ours has become descriptor 0, 1 or 2 (inetd, shells). `fileno` says the
//! descriptor of each. So does a stream that is made of a TCP socket before `connect` or `listen` has decided. What it does not
//! do: `dprintf`, which is in `print`.

use crate::{c, io, real, shim};
use libc::{FILE, c_char, c_int, c_void, off64_t, size_t, ssize_t};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// `cookie_io_functions_t` of stdio.h; a cookie is the descriptor's number.
#[repr(C)]
struct Functions {
    read: unsafe extern "C" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    write: unsafe extern "C" fn(*mut c_void, *const c_char, size_t) -> ssize_t,
    seek: Option<unsafe extern "C" fn(*mut c_void, *mut off64_t, c_int) -> c_int>,
    close: unsafe extern "C" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
    static mut stdin: *mut FILE;
    static mut stdout: *mut FILE;
    static mut stderr: *mut FILE;
}

/// Streams of ours by address, and their descriptors.
static STREAMS: Mutex<Vec<(usize, c_int)>> = Mutex::new(Vec::new());
/// Has there been one at all? Most programs never have.
static ANY: AtomicBool = AtomicBool::new(false);

/// Acts on the streams while no other thread forks: a child could never get a lock that another thread had.
fn with_streams<T>(act: impl FnOnce(&mut Vec<(usize, c_int)>) -> T) -> T {
    let _inside = shim::posix().map(|posix| posix.enter_fork_gate());
    act(&mut STREAMS.lock().unwrap_or_else(PoisonError::into_inner))
}

unsafe extern "C" fn read_cookie(cookie: *mut c_void, bytes: *mut c_char, len: size_t) -> ssize_t {
    // SAFETY: stdio passes its own buffer.
    unsafe { io::read(cookie as usize as c_int, bytes.cast(), len) }
}

/// stdio takes less than all for an error, and 0 for "nothing written".
unsafe extern "C" fn write_cookie(cookie: *mut c_void, bytes: *const c_char, len: size_t) -> ssize_t {
    // SAFETY: stdio passes its own buffer.
    unsafe { io::write(cookie as usize as c_int, bytes.cast(), len) }.max(0)
}

unsafe extern "C" fn close_cookie(cookie: *mut c_void) -> c_int {
    let fd = cookie as usize as c_int;
    with_streams(|streams| streams.retain(|(_, known)| *known != fd));
    // SAFETY: the stream owned the descriptor.
    unsafe { crate::files::close(fd) }
}

/// A stream whose bytes pass through this library; null when there is no memory.
fn open(fd: c_int, mode: *const c_char) -> *mut FILE {
    let functions = Functions { read: read_cookie, write: write_cookie, seek: None, close: close_cookie };
    // SAFETY: the functions live as long as the library, which is never unloaded; `mode` is the caller's C string.
    let stream = unsafe { fopencookie(ptr::without_provenance_mut(fd as usize), mode, functions) };
    if !stream.is_null() {
        with_streams(|streams| {
            streams.retain(|(address, _)| *address != stream as usize);
            streams.push((stream as usize, fd));
        });
        ANY.store(true, Ordering::Release);
    }
    stream
}

/// The descriptor of a stream of ours.
fn descriptor_of(stream: *mut FILE) -> Option<c_int> {
    with_streams(|streams| streams.iter().find(|(address, _)| *address == stream as usize).map(|(_, fd)| *fd))
}

/// Do the stream's bytes pass through this library?
pub(crate) fn is_ours(stream: *mut FILE) -> bool {
    ANY.load(Ordering::Acquire) && descriptor_of(stream).is_some()
}

/// fdopen(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    let may_be_ours = shim::ours(fd).is_some() || shim::posix().is_some_and(|posix| posix.is_undecided(fd));
    if may_be_ours && !mode.is_null() {
        return open(fd, mode);
    }
    // SAFETY: the program's own call.
    unsafe { real::fdopen(fd, mode) }
}

/// fileno(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fileno(stream: *mut FILE) -> c_int {
    match ANY.load(Ordering::Acquire).then(|| descriptor_of(stream)).flatten() {
        Some(fd) => fd,
        // SAFETY: the program's own call.
        None => unsafe { real::fileno(stream) },
    }
}

/// fileno(3) without the stream's lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fileno_unlocked(stream: *mut FILE) -> c_int {
    // SAFETY: the same contract; a stream's number needs no lock.
    unsafe { fileno(stream) }
}

/// Where a socket of ours has become descriptor 0, 1 or 2, the standard stream of that number goes through this library
/// from now on, also when the descriptor becomes something else again.
pub(crate) fn follow(fd: c_int) {
    let (standard, mode) = match fd {
        0 => (&raw mut stdin, c"r"),
        1 => (&raw mut stdout, c"w"),
        2 => (&raw mut stderr, c"w"),
        _ => return,
    };
    if shim::ours(fd).is_none() {
        return;
    }
    // SAFETY: glibc's variables, which C programs may set; nothing else does while descriptors 0 to 2 are replaced.
    let old = unsafe { standard.read() };
    if descriptor_of(old).is_some() {
        return;
    }
    let errno = c::errno();
    let new = open(fd, mode.as_ptr());
    if !new.is_null() {
        if fd == 2 {
            // SAFETY: a fresh stream; as the standard says, errors are not buffered.
            unsafe { libc::setvbuf(new, ptr::null_mut(), libc::_IONBF, 0) };
        }
        // SAFETY: as above.
        unsafe { standard.write(new) };
    }
    c::set_errno(errno.0);
}
