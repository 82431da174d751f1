//! Calls that make descriptors: a number that the kernel hands out anew names what the kernel says, whatever was there before.
//!
//! Promises: after each of these the table does not hold the new number as a socket of ours. It would if the program had closed the
//! number by a system call of its own, which passes this library by. The check is two loads. Does not do: watch calls that libc makes
//! inside itself (the resolver's, `syslog`), nor those of which the library makes sockets of ours itself (accept, dup).

use crate::c::{errno, set_errno};
use crate::real;
use crate::shim::posix;
use libc::{DIR, FILE, c_char, c_int, c_uint, mode_t, sigset_t};
use ringway_posix::fd_table::Entry;

/// Passes on a number that the kernel has just made.
#[inline]
pub(crate) fn fresh(fd: c_int) -> c_int {
    let known = posix().map_or(Entry::None, |posix| posix.table().lookup(fd));
    if fd >= 0 && matches!(known, Entry::Socket(_) | Entry::Epoll(_)) {
        forget(fd);
    }
    fd
}

/// As [`fresh`], for a call that may find no number free.
#[inline]
pub(crate) fn make(call: impl Fn() -> c_int) -> c_int {
    fresh(with_numbers(call))
}

/// A call that makes descriptors; the library gives up numbers that it keeps and can do without before the program hears EMFILE.
#[inline]
fn with_numbers(call: impl Fn() -> c_int) -> c_int {
    let mut answer = call();
    while answer < 0 && errno().0 == libc::EMFILE && yields_number() {
        answer = call();
    }
    answer
}

#[cold]
fn yields_number() -> bool {
    let yields = posix().is_some_and(|posix| posix.yield_number());
    set_errno(libc::EMFILE);
    yields
}

#[cold]
fn forget(fd: c_int) {
    if let Some(posix) = posix() {
        posix.forget_stale(fd);
    }
}

/// # Safety
/// Two numbers are at `pair`.
unsafe fn fresh_pair(answer: c_int, pair: *const c_int) -> c_int {
    if answer == 0 && posix().is_some() {
        // SAFETY: the caller's promise; the call has written them.
        unsafe {
            fresh(*pair);
            fresh(*pair.add(1));
        }
    }
    answer
}

// The crate's other list of functions that differ in name and signature only: each is libc's, and its answer a fresh number.
macro_rules! makers {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $kind:ty),*);)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
            // SAFETY: the program's own call.
            make(|| unsafe { real::$name($($argument),*) })
        }
    )*};
}

makers! {
    /// open(2). Declared with all arguments that it may have: the same registers carry them.
    fn open(path: *const c_char, flags: c_int, mode: mode_t);
    /// open(2) under its name in programs with 64-bit file offsets.
    fn open64(path: *const c_char, flags: c_int, mode: mode_t);
    /// openat(2).
    fn openat(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t);
    /// openat(2) under its other name.
    fn openat64(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t);
    /// creat(2).
    fn creat(path: *const c_char, mode: mode_t);
    /// creat(2) under its other name.
    fn creat64(path: *const c_char, mode: mode_t);
    /// mkstemp(3).
    fn mkstemp(template: *mut c_char);
    /// mkstemp(3) under its other name.
    fn mkstemp64(template: *mut c_char);
    /// mkostemp(3).
    fn mkostemp(template: *mut c_char, flags: c_int);
    /// mkostemp(3) under its other name.
    fn mkostemp64(template: *mut c_char, flags: c_int);
    /// mkstemps(3).
    fn mkstemps(template: *mut c_char, suffix: c_int);
    /// mkstemps(3) under its other name.
    fn mkstemps64(template: *mut c_char, suffix: c_int);
    /// mkostemps(3).
    fn mkostemps(template: *mut c_char, suffix: c_int, flags: c_int);
    /// mkostemps(3) under its other name.
    fn mkostemps64(template: *mut c_char, suffix: c_int, flags: c_int);
    /// eventfd(2).
    fn eventfd(value: c_uint, flags: c_int);
    /// timerfd_create(2).
    fn timerfd_create(clock: c_int, flags: c_int);
    /// signalfd(2). Of a number that is given, it answers that number.
    fn signalfd(fd: c_int, mask: *const sigset_t, flags: c_int);
    /// inotify_init(2).
    fn inotify_init();
    /// inotify_init1(2).
    fn inotify_init1(flags: c_int);
    /// memfd_create(2).
    fn memfd_create(name: *const c_char, flags: c_uint);
}

/// A stream of a file that has just been opened.
///
/// # Safety
/// It is null or a stream.
unsafe fn fresh_stream(stream: *mut FILE) -> *mut FILE {
    if !stream.is_null() && posix().is_some() {
        // SAFETY: the caller's promise.
        fresh(unsafe { real::fileno(stream) });
    }
    stream
}

/// fopen(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE {
    // SAFETY: the program's own call.
    unsafe { fresh_stream(real::fopen(path, mode)) }
}

/// fopen(3) under its name in programs with 64-bit file offsets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE {
    // SAFETY: the program's own call.
    unsafe { fresh_stream(real::fopen64(path, mode)) }
}

/// tmpfile(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tmpfile() -> *mut FILE {
    // SAFETY: the program's own call.
    unsafe { fresh_stream(real::tmpfile()) }
}

/// tmpfile(3) under its other name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tmpfile64() -> *mut FILE {
    // SAFETY: the program's own call.
    unsafe { fresh_stream(real::tmpfile64()) }
}

/// opendir(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opendir(path: *const c_char) -> *mut DIR {
    // SAFETY: the program's own call.
    let directory = unsafe { real::opendir(path) };
    if !directory.is_null() && posix().is_some() {
        // SAFETY: a directory.
        fresh(unsafe { libc::dirfd(directory) });
    }
    directory
}

/// pipe(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pipe(pair: *mut c_int) -> c_int {
    // SAFETY: the program's own call.
    unsafe { fresh_pair(with_numbers(|| real::pipe(pair)), pair) }
}

/// pipe2(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pipe2(pair: *mut c_int, flags: c_int) -> c_int {
    // SAFETY: the program's own call.
    unsafe { fresh_pair(with_numbers(|| real::pipe2(pair, flags)), pair) }
}

/// socketpair(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn socketpair(domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int {
    // SAFETY: the program's own call.
    unsafe { fresh_pair(with_numbers(|| real::socketpair(domain, kind, protocol, pair)), pair) }
}
