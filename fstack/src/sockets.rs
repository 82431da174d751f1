//! Descriptors, from socket to close. None of them blocks unless the program says so: in F-Stack no call can wait.

use std::sync::Mutex;

use libc::{c_int, c_ulong, c_void, sockaddr, socklen_t};
use ringway_cabi::{Answer, Errno, bind_without_port, call, checked, give, share_port};

use crate::{kqueue, run};

/// `pcblddr_func_t`: chooses the source address of a connection.
type SourceSelector = extern "C" fn(family: u16, remote: *mut c_void, port: u16, source: *mut c_void) -> c_int;

static SELECTOR: Mutex<Option<SourceSelector>> = Mutex::new(None);

#[unsafe(no_mangle)]
pub extern "C" fn ff_socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    call!(libc::socket(domain, kind | libc::SOCK_NONBLOCK, protocol))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    give(share_port(fd).and_then(|()| checked(call!(libc::bind(fd, address, len)))))
}

#[unsafe(no_mangle)]
pub extern "C" fn ff_listen(fd: c_int, backlog: c_int) -> c_int {
    call!(libc::listen(fd, backlog))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_accept(fd: c_int, peer: *mut sockaddr, len: *mut socklen_t) -> c_int {
    call!(ff_accept4(fd, peer, len, 0))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_accept4(fd: c_int, peer: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
    let new = call!(libc::accept4(fd, peer, len, flags | libc::SOCK_NONBLOCK));
    run::note_work(new >= 0);
    new
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_connect(fd: c_int, remote: *const sockaddr, len: socklen_t) -> c_int {
    let selector = *lock(&SELECTOR);
    let chosen = selector.map_or(Ok(()), |selector| call!(choose_source(fd, remote, len, selector)));
    give(chosen.and_then(|()| checked(call!(libc::connect(fd, remote, len)))))
}

#[unsafe(no_mangle)]
pub extern "C" fn ff_regist_pcblddr_fun(selector: Option<SourceSelector>) {
    *lock(&SELECTOR) = selector;
}

/// Binds a socket to the address that the program's function has chosen, if it has.
unsafe fn choose_source(fd: c_int, remote: *const sockaddr, len: socklen_t, selector: SourceSelector) -> Answer<()> {
    // SAFETY: a structure of all zeros is one.
    let mut local: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    if remote.is_null() || len as usize > size_of_val(&local) {
        return Err(Errno(libc::EINVAL));
    }
    let to: *mut libc::sockaddr_storage = &raw mut local;
    // SAFETY: the caller's address has `len` bytes, and the copy has room for them.
    unsafe { remote.cast::<u8>().copy_to_nonoverlapping(to.cast(), len as usize) };
    let family = local.ss_family;
    // The copy is the remote address for the program's function, and its field for the answer is another one.
    let (place, size, bytes) = match c_int::from(family) {
        libc::AF_INET if len as usize >= size_of::<libc::sockaddr_in>() => (4, 4, size_of::<libc::sockaddr_in>()),
        libc::AF_INET6 if len as usize >= size_of::<libc::sockaddr_in6>() => (8, 16, size_of::<libc::sockaddr_in6>()),
        _ => return Ok(()),
    };
    let mut source = [0_u8; 16];
    // SAFETY: the port stands behind the family in both kinds of address; the places are inside the copy.
    let answer = unsafe {
        let port = to.cast::<u16>().add(1).read();
        selector(family, to.cast::<u8>().add(place).cast(), port, source.as_mut_ptr().cast())
    };
    if answer != 0 || source[..size].iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    // SAFETY: the places are inside the copy; it lives until the call returns.
    unsafe {
        to.cast::<u16>().add(1).write(0);
        source.as_ptr().copy_to_nonoverlapping(to.cast::<u8>().add(place), size);
        bind_without_port(fd)?;
        checked(libc::bind(fd, to.cast(), bytes as socklen_t))?;
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn ff_close(fd: c_int) -> c_int {
    kqueue::forget(fd);
    call!(libc::close(fd))
}

#[unsafe(no_mangle)]
pub extern "C" fn ff_shutdown(fd: c_int, how: c_int) -> c_int {
    call!(libc::shutdown(fd, how))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_getsockname(fd: c_int, name: *mut sockaddr, len: *mut socklen_t) -> c_int {
    call!(libc::getsockname(fd, name, len))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_getpeername(fd: c_int, name: *mut sockaddr, len: *mut socklen_t) -> c_int {
    call!(libc::getpeername(fd, name, len))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int {
    call!(libc::getsockopt(fd, level, name, value, len))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int {
    call!(libc::setsockopt(fd, level, name, value, len))
}

/// The header has an ellipsis; on the machines that Ringway runs on, an argument is passed alike with and without.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    call!(libc::fcntl(fd, command, argument))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    call!(libc::ioctl(fd, request as _, argument))
}

#[unsafe(no_mangle)]
pub extern "C" fn ff_dup(fd: c_int) -> c_int {
    call!(libc::dup(fd))
}

#[unsafe(no_mangle)]
pub extern "C" fn ff_dup2(old: c_int, new: c_int) -> c_int {
    if old != new {
        kqueue::forget(new);
    }
    call!(libc::dup2(old, new))
}

#[unsafe(no_mangle)]
pub extern "C" fn ff_fdisused(fd: c_int) -> c_int {
    c_int::from(call!(libc::fcntl(fd, libc::F_GETFD)) >= 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn ff_getmaxfd() -> c_int {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    match call!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit)) {
        0 => limit.rlim_cur.min(c_int::MAX as u64) as c_int,
        _ => 0,
    }
}

// FreeBSD's own numbers for ioctl and options are not translated, and there is no netgraph.

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_ioctl_freebsd(_: c_int, _: c_ulong, _: *mut c_void) -> c_int {
    give(Err(Errno(libc::EOPNOTSUPP)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_setsockopt_freebsd(_: c_int, _: c_int, _: c_int, _: *const c_void, _: socklen_t) -> c_int {
    give(Err(Errno(libc::EOPNOTSUPP)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_getsockopt_freebsd(_: c_int, _: c_int, _: c_int, _: *mut c_void, _: *mut socklen_t) -> c_int {
    give(Err(Errno(libc::EOPNOTSUPP)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_ngctl(_: c_int, _: *mut c_void) -> c_int {
    give(Err(Errno(libc::EOPNOTSUPP)))
}

/// Takes a lock even after a panic: the value behind it is whole after every statement.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
