//! `libringway_packetdrill.so`: for the stock packetdrill tool (`packetdrill --so_filename=... script.pkt`), what programs run
//! on: `posix`, a region, a worker.
//!
//! Promises: the library answers every call that packetdrill may make in virtual time; nothing reads a clock, no call waits
//! for ever on the tool's main thread. Blocking calls come from the tool's second thread and sleep until the main thread has
//! caused what they wait for. When such a call ends, the main thread does nothing more until it has returned, so that a
//! script's outcome does not depend on which thread runs first. Descriptors have the process's own numbers, and system
//! settings are read when they may have changed. Does not do: UDP, more than one instance at a time per tool.
//!
//! `session` is the machine (`ringway_sim::machine`) that the tool's two threads share, `calls` has the functions of the table,
//! `convert` reads and writes C's structures, `settings` has what tool and system say.

mod calls;
mod convert;
mod route;
mod session;
mod settings;

use core::ffi::{c_char, c_int, c_long, c_longlong, c_uint, c_ulong, c_void};
use libc::{epoll_event, iovec, loff_t, msghdr, nfds_t, pollfd, size_t, sockaddr, socklen_t, ssize_t, timeval};

type User = *mut c_void;

/// Function table that packetdrill asks us to fill: in its order; every function takes `userdata` first.
#[repr(C)]
pub struct Interface {
    userdata: User,
    free: extern "C" fn(User),
    socket: extern "C" fn(User, c_int, c_int, c_int) -> c_int,
    bind: extern "C" fn(User, c_int, *const sockaddr, socklen_t) -> c_int,
    listen: extern "C" fn(User, c_int, c_int) -> c_int,
    accept: extern "C" fn(User, c_int, *mut sockaddr, *mut socklen_t) -> c_int,
    connect: extern "C" fn(User, c_int, *const sockaddr, socklen_t) -> c_int,
    read: extern "C" fn(User, c_int, *mut c_void, size_t) -> ssize_t,
    readv: extern "C" fn(User, c_int, *const iovec, c_int) -> ssize_t,
    recv: extern "C" fn(User, c_int, *mut c_void, size_t, c_int) -> ssize_t,
    recvfrom: extern "C" fn(User, c_int, *mut c_void, size_t, c_int, *mut sockaddr, *mut socklen_t) -> ssize_t,
    recvmsg: extern "C" fn(User, c_int, *mut msghdr, c_int) -> ssize_t,
    write: extern "C" fn(User, c_int, *const c_void, size_t) -> ssize_t,
    writev: extern "C" fn(User, c_int, *const iovec, c_int) -> ssize_t,
    send: extern "C" fn(User, c_int, *const c_void, size_t, c_int) -> ssize_t,
    sendto: extern "C" fn(User, c_int, *const c_void, size_t, c_int, *const sockaddr, socklen_t) -> ssize_t,
    sendmsg: extern "C" fn(User, c_int, *const msghdr, c_int) -> ssize_t,
    /// Variadic in C; the one further argument travels in a register all the same.
    fcntl: extern "C" fn(User, c_int, c_int, c_long) -> c_int,
    /// Variadic, like `fcntl`.
    ioctl: extern "C" fn(User, c_int, c_ulong, *mut c_void) -> c_int,
    close: extern "C" fn(User, c_int) -> c_int,
    shutdown: extern "C" fn(User, c_int, c_int) -> c_int,
    getsockopt: extern "C" fn(User, c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int,
    setsockopt: extern "C" fn(User, c_int, c_int, c_int, *const c_void, socklen_t) -> c_int,
    poll: extern "C" fn(User, *mut pollfd, nfds_t, c_int) -> c_int,
    netdev_send: extern "C" fn(User, *const c_void, size_t) -> c_int,
    netdev_receive: extern "C" fn(User, *mut c_void, *mut size_t, *mut c_longlong) -> c_int,
    usleep: extern "C" fn(User, c_uint) -> c_int,
    gettimeofday: extern "C" fn(User, *mut timeval, *mut c_void) -> c_int,
    epoll_create: extern "C" fn(User, c_int) -> c_int,
    epoll_ctl: extern "C" fn(User, c_int, c_int, c_int, *mut epoll_event) -> c_int,
    epoll_wait: extern "C" fn(User, c_int, *mut epoll_event, c_int, c_int) -> c_int,
    pipe: extern "C" fn(User, *mut c_int) -> c_int,
    splice: extern "C" fn(User, c_int, *mut loff_t, c_int, *mut loff_t, size_t, c_uint) -> ssize_t,
}

/// Fills `interface`. `flags` is the tool's `--so_flags`: words `local_ip=` and `mtu=`; may be null. When neither these nor
/// the tool's own options nor the script's name an MTU, it is that of the interface tun0, if it exists, or of the route to the
/// peer through it.
///
/// # Safety
/// `flags` is null or a C string; `interface` is valid for writing a whole table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn packetdrill_interface_init(flags: *const c_char, interface: *mut Interface) {
    // SAFETY: the caller's promise.
    let flags = if flags.is_null() { Default::default() } else { unsafe { core::ffi::CStr::from_ptr(flags) }.to_string_lossy() };
    let session = Box::new(session::Session::new(&flags));
    let table = calls::table(Box::into_raw(session).cast());
    // SAFETY: the caller's promise.
    unsafe { interface.write(table) };
}

#[cfg(test)]
mod tests;
