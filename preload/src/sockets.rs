//! socket, bind, listen, accept, connect, shutdown, names and options.

use crate::c::{self, number, status};
use crate::real;
use crate::shim::{ours, posix};
use libc::{c_int, c_void, sockaddr, socklen_t};
use ringway_posix::fd_table::Descriptor;
use ringway_posix::{Answer, Errno};

/// socket(2). A TCP socket begins as the kernel's; only `connect` and `listen` decide.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: the program's own call.
    crate::makers::make(|| unsafe { real::socket(domain, kind, protocol) })
}

/// bind(2). Always the kernel's, so that both sides agree on the owner of each port, even to an address that only the stack has;
/// a UDP socket may be the stack's then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    if ours(fd).is_some() {
        return status(Err(Errno::INVAL));
    }
    // SAFETY: the program's own call.
    let bind = || c::checked(unsafe { real::bind(fd, address, len) }).map(drop);
    let answer = match bind() {
        Err(Errno::ADDRINUSE) if posix().is_some_and(|posix| posix.settle_ports()) => bind(),
        answer => answer,
    };
    let may_be_ours = matches!(answer, Ok(()) | Err(Errno::ADDRNOTAVAIL));
    let Some(posix) = posix().filter(|_| may_be_ours) else { return status(answer) };
    // SAFETY: the program's promise about `address` and `len`.
    let Ok(bytes) = (unsafe { c::address(address, len) }) else { return status(answer) };
    let answer = if answer.is_err() { posix.bind_to_own(fd, bytes).unwrap_or(answer) } else { answer };
    status(answer.and_then(|()| posix.bound(fd, bytes)))
}

/// listen(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn listen(fd: c_int, backlog: c_int) -> c_int {
    match posix().and_then(|posix| posix.listen(fd, backlog)) {
        Some(answer) => status(answer),
        // SAFETY: the program's own call.
        None => unsafe { real::listen(fd, backlog) },
    }
}

/// accept(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: the program's own call.
    unsafe { accept_with(fd, address, len, 0).unwrap_or_else(|| real::accept(fd, address, len)) }
}

/// accept4(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
    // SAFETY: the program's own call.
    unsafe { accept_with(fd, address, len, flags).unwrap_or_else(|| real::accept4(fd, address, len, flags)) }
}

unsafe fn accept_with(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> Option<c_int> {
    posix()?.before_kernel();
    let mut has_left = None;
    let answer = loop {
        // A listener that has left may be back by now, as another socket.
        let (posix, socket) = ours(fd).filter(|(_, socket)| has_left != Some(*socket))?;
        // Before a connection is taken that could not be told of. SAFETY: the program's promise about `address` and `len`.
        if let Err(error) = unsafe { c::check_room(address, len) } {
            return Some(number(Err(error)));
        }
        if let Some(answer) = posix.settled(Descriptor { fd, socket }, posix.accept(fd, socket, flags)) {
            break answer;
        }
        has_left = Some(socket);
    };
    Some(number(answer.map(|(new, name)| {
        // SAFETY: the program's promise about `address` and `len`.
        unsafe { c::put_address(&name, address, len) };
        crate::stdio::follow(new);
        new
    })))
}

/// connect(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    if let Some(posix) = posix()
        // SAFETY: the program's promise about `address` and `len`.
        && let Ok(bytes) = unsafe { c::address(address, len) }
        && let Some(answer) = posix.connect(fd, bytes)
    {
        // One of them may be the socket.
        (0..=2).for_each(crate::stdio::follow);
        return status(answer);
    }
    // SAFETY: the program's own call.
    unsafe { real::connect(fd, address, len) }
}

/// shutdown(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shutdown(fd: c_int, how: c_int) -> c_int {
    let answer = ours(fd).and_then(|(posix, socket)| posix.settled(Descriptor { fd, socket }, posix.shutdown(fd, socket, how)));
    // SAFETY: the program's own call.
    answer.map_or_else(|| unsafe { real::shutdown(fd, how) }, status)
}

/// getsockname(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    match ours(fd) {
        // SAFETY: the program's promise about `address` and `len`.
        Some((posix, socket)) => status(unsafe { give_name(posix.local_socket_name(fd, socket), address, len) }),
        // SAFETY: the program's own call.
        None => unsafe { real::getsockname(fd, address, len) },
    }
}

/// getpeername(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    match ours(fd) {
        // SAFETY: the program's promise about `address` and `len`.
        Some((posix, socket)) => status(unsafe { give_name(posix.peer_socket_name(socket), address, len) }),
        // SAFETY: the program's own call.
        None => unsafe { real::getpeername(fd, address, len) },
    }
}

unsafe fn give_name(
    name: Answer<ringway_posix::fallback::RawAddress>,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> Answer<()> {
    let name = name?;
    if address.is_null() {
        return Err(Errno::FAULT);
    }
    // SAFETY: the caller's promise.
    unsafe { c::check_room(address, len) }?;
    // SAFETY: the caller's promise.
    unsafe { c::put_address(&name, address, len) };
    Ok(())
}

/// getsockopt(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int {
    let Some((posix, socket)) = ours(fd) else {
        // SAFETY: the program's own call.
        return unsafe { real::getsockopt(fd, level, name, value, len) };
    };
    if !c::may_be_memory(len.cast(), size_of::<socklen_t>()) {
        return status(Err(Errno::FAULT));
    }
    // SAFETY: not null; the program promises it is valid.
    let room = unsafe { *len };
    if room as c_int <= -1 {
        return status(Err(Errno::INVAL));
    }
    // SAFETY: the program promises `room` bytes at `value`.
    let answer =
        unsafe { c::output(value, room as usize) }.and_then(|out| posix.option(Descriptor { fd, socket }, level, name, out));
    status(answer.map(|written| {
        // SAFETY: as above.
        unsafe { *len = written as socklen_t };
    }))
}

/// setsockopt(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int {
    if let Some((posix, socket)) = ours(fd) {
        if len as c_int <= -1 {
            return status(Err(Errno::INVAL));
        }
        // SAFETY: the program promises `len` bytes at `value`.
        let bytes = unsafe { c::input(value, len as usize) };
        let at = Descriptor { fd, socket };
        // `None`: the kernel's to set, now that the kernel has the connection.
        if let Some(answer) = posix.settled(at, bytes.and_then(|bytes| posix.set_option(at, level, name, bytes))) {
            return status(answer);
        }
    }
    // SAFETY: the program's own call.
    let answer = unsafe { real::setsockopt(fd, level, name, value, len) };
    if let (0, Some(posix)) = (answer, posix()) {
        // SAFETY: the program promises `len` bytes at `value`, and the kernel has just read them.
        if let Ok(bytes) = unsafe { c::input(value, len as usize) } {
            posix.note_option(fd, level, name, bytes);
        }
    }
    answer
}
