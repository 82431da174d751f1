//! The next definition of every libc function that this library covers.
//!
//! Each is looked up once with `dlsym(RTLD_NEXT)` and kept in an atomic, so that calls from other libraries'
//! constructors (before ours ran), from several threads at once and from signal handlers are fine: `dlsym` of a symbol
//! that exists takes the loader's lock only and allocates nothing. A symbol that this libc lacks answers ENOSYS. Tests put
//! functions of their own in their places (`fake.rs`).
#![expect(clippy::too_many_arguments, reason = "libc's signatures")]

use crate::liburing::Ring;
use crate::ring::Params;
use libc::{DIR, FILE, c_char, c_int, c_uint, c_ulong, c_void, epoll_event, fd_set, iovec, mmsghdr, msghdr, nfds_t};
use libc::{mode_t, off_t, pid_t, pollfd, rlimit, sigaction as sigaction_t, sigset_t, size_t, sockaddr, socklen_t, ssize_t};
use libc::{timespec, timeval};
use std::sync::atomic::{AtomicUsize, Ordering};

/// `sighandler_t` of signal.h.
pub(crate) type Handler = usize;
/// A C array of C strings that ends with NULL.
pub(crate) type Strings = *const *const c_char;

pub(crate) fn find(cache: &AtomicUsize, name: &'static [u8]) -> usize {
    let known = cache.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // SAFETY: `name` ends with NUL, RTLD_NEXT is a valid pseudo handle.
    let mut address = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr().cast()) } as usize;
    if address == 0 {
        address = crate::liburing::look_up(name);
    }
    cache.store(address, Ordering::Relaxed);
    address
}

// The crate's one macro: a hundred functions that differ only in name and signature.
macro_rules! real {
    ($(fn $name:ident($($argument:ident: $kind:ty),* $(,)?) -> $answer:ty;)*) => {
        /// What was looked up, by name; 0: not yet.
        #[allow(non_upper_case_globals, reason = "libc's names")]
        mod addresses {
            $(pub(super) static $name: super::AtomicUsize = super::AtomicUsize::new(0);)*
        }
        $(
        /// The next definition of the libc function of this name; same contract as there.
        #[inline]
        pub(crate) unsafe fn $name($($argument: $kind),*) -> $answer {
            #[cfg(test)]
            if let Some(answer) = crate::fake::call(stringify!($name), &[$($argument as usize),*]) {
                return answer as $answer;
            }
            let address = find(&addresses::$name, concat!(stringify!($name), "\0").as_bytes());
            if address == 0 {
                crate::set_errno(libc::ENOSYS);
                return -1 as _;
            }
            // SAFETY: the loader found this name, and the signature is the one that POSIX or glibc documents for it.
            let function: unsafe extern "C" fn($($kind),*) -> $answer = unsafe { std::mem::transmute(address) };
            // SAFETY: the caller keeps the contract of the libc function.
            unsafe { function($($argument),*) }
        }
        )*
    };
}

/// Before a fork: looks up what the child calls until it has started another program. Else each child looks up the same again, and
/// loses what it found.
pub(crate) fn find_for_children() {
    find(&addresses::execve, b"execve\0");
    find(&addresses::execvpe, b"execvpe\0");
    find(&addresses::pread, b"pread\0");
    find(&addresses::openat, b"openat\0");
    find(&addresses::close, b"close\0");
    find(&addresses::dup2, b"dup2\0");
}

real! {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE;
    fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE;
    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE;
    fn tmpfile() -> *mut FILE;
    fn tmpfile64() -> *mut FILE;
    fn opendir(path: *const c_char) -> *mut DIR;
    fn mkstemp(template: *mut c_char) -> c_int;
    fn mkstemp64(template: *mut c_char) -> c_int;
    fn mkostemp(template: *mut c_char, flags: c_int) -> c_int;
    fn mkostemp64(template: *mut c_char, flags: c_int) -> c_int;
    fn mkstemps(template: *mut c_char, suffix: c_int) -> c_int;
    fn mkstemps64(template: *mut c_char, suffix: c_int) -> c_int;
    fn mkostemps(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int;
    fn mkostemps64(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int;
    fn fileno(stream: *mut FILE) -> c_int;
    fn bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    fn listen(fd: c_int, backlog: c_int) -> c_int;
    fn accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    fn accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int;
    fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    fn shutdown(fd: c_int, how: c_int) -> c_int;
    fn getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    fn getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int;
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int;

    fn read(fd: c_int, bytes: *mut c_void, len: size_t) -> ssize_t;
    fn __read_chk(fd: c_int, bytes: *mut c_void, len: size_t, room: size_t) -> ssize_t;
    fn readv(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t;
    fn pread(fd: c_int, bytes: *mut c_void, len: size_t, offset: off_t) -> ssize_t;
    fn preadv2(fd: c_int, pieces: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
    fn write(fd: c_int, bytes: *const c_void, len: size_t) -> ssize_t;
    fn writev(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t;
    fn pwritev2(fd: c_int, pieces: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
    fn recv(fd: c_int, bytes: *mut c_void, len: size_t, flags: c_int) -> ssize_t;
    fn __recv_chk(fd: c_int, bytes: *mut c_void, len: size_t, room: size_t, flags: c_int) -> ssize_t;
    fn recvfrom(fd: c_int, bytes: *mut c_void, len: size_t, flags: c_int, address: *mut sockaddr, address_len: *mut socklen_t) -> ssize_t;
    fn __recvfrom_chk(fd: c_int, bytes: *mut c_void, len: size_t, room: size_t, flags: c_int, address: *mut sockaddr, address_len: *mut socklen_t) -> ssize_t;
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    fn recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int;
    fn send(fd: c_int, bytes: *const c_void, len: size_t, flags: c_int) -> ssize_t;
    fn sendto(fd: c_int, bytes: *const c_void, len: size_t, flags: c_int, address: *const sockaddr, address_len: socklen_t) -> ssize_t;
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    fn sendfile(out: c_int, input: c_int, offset: *mut off_t, count: size_t) -> ssize_t;
    fn splice(input: c_int, input_offset: *mut i64, out: c_int, out_offset: *mut i64, len: size_t, flags: c_uint) -> ssize_t;

    fn close(fd: c_int) -> c_int;
    fn unshare(flags: c_int) -> c_int;
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    fn fclose(stream: *mut libc::FILE) -> c_int;
    fn dup(fd: c_int) -> c_int;
    fn dup2(old: c_int, new: c_int) -> c_int;
    fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int;
    fn fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int;
    fn fcntl64(fd: c_int, command: c_int, argument: c_ulong) -> c_int;
    fn ioctl(fd: c_int, request: c_ulong, argument: c_ulong) -> c_int;

    fn poll(set: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int;
    fn ppoll(set: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    fn select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int;
    fn pselect(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    fn epoll_create(size: c_int) -> c_int;
    fn epoll_create1(flags: c_int) -> c_int;
    fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int;
    fn epoll_wait(epoll: c_int, events: *mut epoll_event, room: c_int, timeout: c_int) -> c_int;
    fn epoll_pwait(epoll: c_int, events: *mut epoll_event, room: c_int, timeout: c_int, mask: *const sigset_t) -> c_int;
    fn epoll_pwait2(epoll: c_int, events: *mut epoll_event, room: c_int, timeout: *const timespec, mask: *const sigset_t) -> c_int;

    fn execve(path: *const c_char, arguments: Strings, environment: Strings) -> c_int;
    fn execvpe(file: *const c_char, arguments: Strings, environment: Strings) -> c_int;
    fn fexecve(fd: c_int, arguments: Strings, environment: Strings) -> c_int;
    fn execveat(directory: c_int, path: *const c_char, arguments: Strings, environment: Strings, flags: c_int) -> c_int;
    fn posix_spawn(child: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Strings, environment: Strings) -> c_int;
    fn posix_spawnp(child: *mut pid_t, file: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Strings, environment: Strings) -> c_int;
    fn chroot(path: *const c_char) -> c_int;
    fn setuid(uid: c_uint) -> c_int;
    fn setreuid(real: c_uint, effective: c_uint) -> c_int;
    fn setresuid(real: c_uint, effective: c_uint, saved: c_uint) -> c_int;
    fn prctl(option: c_int, second: c_ulong, third: c_ulong, fourth: c_ulong, fifth: c_ulong) -> c_int;
    fn setrlimit(resource: c_int, limit: *const rlimit) -> c_int;
    fn sigaction(signal: c_int, new: *const sigaction_t, old: *mut sigaction_t) -> c_int;
    fn signal(signal: c_int, handler: Handler) -> Handler;
    fn sysv_signal(signal: c_int, handler: Handler) -> Handler;
    fn siginterrupt(signal: c_int, interrupt: c_int) -> c_int;
    fn fork() -> pid_t;
    fn vdprintf(fd: c_int, format: *const c_char, arguments: *mut c_void) -> c_int;
    fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, arguments: *mut c_void) -> c_int;
    fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn openat(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn openat64(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn creat(path: *const c_char, mode: mode_t) -> c_int;
    fn creat64(path: *const c_char, mode: mode_t) -> c_int;
    fn eventfd(value: c_uint, flags: c_int) -> c_int;
    fn timerfd_create(clock: c_int, flags: c_int) -> c_int;
    fn signalfd(fd: c_int, mask: *const sigset_t, flags: c_int) -> c_int;
    fn inotify_init() -> c_int;
    fn inotify_init1(flags: c_int) -> c_int;
    fn memfd_create(name: *const c_char, flags: c_uint) -> c_int;
    fn pipe(pair: *mut c_int) -> c_int;
    fn pipe2(pair: *mut c_int, flags: c_int) -> c_int;
    fn socketpair(domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int;
    fn system(command: *const c_char) -> c_int;
    fn popen(command: *const c_char, mode: *const c_char) -> usize;

    fn io_uring_queue_init(entries: c_uint, ring: *mut Ring, flags: c_uint) -> c_int;
    fn io_uring_queue_init_params(entries: c_uint, ring: *mut Ring, params: *mut Params) -> c_int;
    fn io_uring_queue_init_mem(entries: c_uint, ring: *mut Ring, params: *mut Params, memory: *mut c_void, len: size_t) -> c_int;
    fn io_uring_submit(ring: *mut Ring) -> c_int;
    fn io_uring_submit_and_wait(ring: *mut Ring, count: c_uint) -> c_int;
    fn io_uring_submit_and_wait_timeout(ring: *mut Ring, completion: *mut c_void, count: c_uint, time: *mut c_void, mask: *const sigset_t) -> c_int;
    fn io_uring_submit_and_wait_min_timeout(ring: *mut Ring, completion: *mut c_void, count: c_uint, time: *mut c_void, least: c_uint, mask: *const sigset_t) -> c_int;
    fn io_uring_submit_and_wait_reg(ring: *mut Ring, completion: *mut c_void, count: c_uint, place: c_int) -> c_int;
    fn io_uring_submit_and_get_events(ring: *mut Ring) -> c_int;
    fn io_uring_register_files(ring: *mut Ring, numbers: *const c_int, count: c_uint) -> c_int;
    fn io_uring_register_files_tags(ring: *mut Ring, numbers: *const c_int, tags: *const c_void, count: c_uint) -> c_int;
    fn io_uring_register_files_update(ring: *mut Ring, offset: c_uint, numbers: *const c_int, count: c_uint) -> c_int;
    fn io_uring_register_files_update_tag(ring: *mut Ring, offset: c_uint, numbers: *const c_int, tags: *const c_void, count: c_uint) -> c_int;
    fn io_uring_enter(fd: c_uint, to_submit: c_uint, least: c_uint, flags: c_uint, mask: *mut sigset_t) -> c_int;
    fn io_uring_enter2(fd: c_uint, to_submit: c_uint, least: c_uint, flags: c_uint, argument: *mut c_void, len: size_t) -> c_int;
    fn io_uring_register(fd: c_uint, operation: c_uint, argument: *const c_void, count: c_uint) -> c_int;
}
