//! ringway_listen and the calls on a listener.

use libc::{c_int, sockaddr, socklen_t};
use ringway::remote::{Listener, Session, Stream};

use crate::address;
use crate::answer::{borrow, handle, status, take};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_listen(
    session: *const Session,
    local: *const sockaddr,
    len: socklen_t,
    backlog: c_int,
) -> *mut Listener {
    // SAFETY: as the crate says.
    let answer = unsafe { borrow(session).and_then(|session| Ok((session, address::read(local, len)?))) };
    handle(answer.and_then(|(session, local)| Ok(session.listen(local, u32::try_from(backlog).unwrap_or(0))?)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_listener_address(listener: *const Listener, to: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: as the crate says.
    status(unsafe { borrow(listener).and_then(|listener| address::write(listener.local_addr(), to, len)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_listener_set_nonblocking(listener: *const Listener, on: c_int) -> c_int {
    // SAFETY: as the crate says.
    status(unsafe { borrow(listener) }.map(|listener| listener.set_nonblocking(on != 0)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_accept(listener: *const Listener, peer: *mut sockaddr, len: *mut socklen_t) -> *mut Stream {
    // SAFETY: as the crate says.
    let accepted = unsafe { borrow(listener) }.and_then(|listener| Ok(listener.accept()?));
    handle(accepted.and_then(|(stream, from)| {
        // SAFETY: as the crate says.
        unsafe { address::write(from, peer, len) }.map(|()| stream)
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_listener_close(listener: *mut Listener) {
    // SAFETY: as the crate says.
    drop(unsafe { take(listener) });
}
