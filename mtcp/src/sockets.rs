//! Sockets, from socket to close.

use libc::{c_int, c_void, sockaddr, socklen_t};

use crate::context::Context;
use ringway_cabi::{Errno, call, checked, give, share_port};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_socket(context: *const Context, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    let made = call!(Context::at(context)).and_then(|context| {
        let id = context.new_id()?;
        Ok(id.keep(checked(call!(libc::socket(domain, kind, protocol)))?))
    });
    give(made)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_pipe(context: *const Context, ids: *mut c_int) -> c_int {
    give(call!(Context::at(context)).and_then(|context| {
        if ids.is_null() {
            return Err(Errno(libc::EFAULT));
        }
        let (reads, writes) = (context.new_id()?, context.new_id()?);
        let mut ends = [0; 2];
        // A pipe would raise SIGPIPE.
        checked(call!(libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, ends.as_mut_ptr())))?;
        for (end, unused) in ends.into_iter().zip([libc::SHUT_WR, libc::SHUT_RD]) {
            call!(libc::shutdown(end, unused));
        }
        let ends = [reads.keep(ends[0]), writes.keep(ends[1])];
        call!(ids.cast::<[c_int; 2]>().write(ends));
        Ok(0)
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_bind(context: *const Context, id: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    give(call!(Context::fd(context, id)).and_then(|fd| {
        share_port(fd)?;
        checked(call!(libc::bind(fd, address, len)))
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_listen(context: *const Context, id: c_int, backlog: c_int) -> c_int {
    give(call!(Context::fd(context, id)).and_then(|fd| checked(call!(libc::listen(fd, backlog)))))
}

/// The id first: without one the connection stays in the queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_accept(context: *const Context, id: c_int, peer: *mut sockaddr, len: *mut socklen_t) -> c_int {
    give(call!(Context::at(context)).and_then(|context| {
        let listener = context.descriptor(id)?;
        let new = context.new_id()?;
        Ok(new.keep(checked(call!(libc::accept(listener, peer, len)))?))
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_connect(context: *const Context, id: c_int, remote: *const sockaddr, len: socklen_t) -> c_int {
    give(call!(Context::at(context)).and_then(|context| {
        let fd = context.descriptor(id)?;
        if let Some(sources) = context.sources().as_mut() {
            call!(sources.bind(fd, remote, len))?;
        }
        checked(call!(libc::connect(fd, remote, len)))
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_close(context: *const Context, id: c_int) -> c_int {
    let taken = call!(Context::at(context)).and_then(|context| context.take(id));
    give(taken.and_then(|fd| checked(call!(libc::close(fd)))))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_abort(context: *const Context, id: c_int) -> c_int {
    let taken = call!(Context::at(context)).and_then(|context| context.take(id));
    give(taken.and_then(|fd| {
        let now = libc::linger { l_onoff: 1, l_linger: 0 };
        let size = size_of::<libc::linger>() as socklen_t;
        // Only sockets have it; a pipe is closed.
        call!(libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, (&raw const now).cast(), size));
        checked(call!(libc::close(fd)))
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_getsockname(context: *const Context, id: c_int, name: *mut sockaddr, len: *mut socklen_t) -> c_int {
    give(call!(Context::fd(context, id)).and_then(|fd| checked(call!(libc::getsockname(fd, name, len)))))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_getpeername(context: *const Context, id: c_int, name: *mut sockaddr, len: *mut socklen_t) -> c_int {
    give(call!(Context::fd(context, id)).and_then(|fd| checked(call!(libc::getpeername(fd, name, len)))))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_getsockopt(
    context: *const Context,
    id: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    give(call!(Context::fd(context, id)).and_then(|fd| checked(call!(libc::getsockopt(fd, level, name, value, len)))))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_setsockopt(
    context: *const Context,
    id: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    give(call!(Context::fd(context, id)).and_then(|fd| checked(call!(libc::setsockopt(fd, level, name, value, len)))))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_setsock_nonblock(context: *const Context, id: c_int) -> c_int {
    give(call!(Context::fd(context, id)).and_then(|fd| {
        let flags = checked(call!(libc::fcntl(fd, libc::F_GETFL)))?;
        checked(call!(libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK)))
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_socket_ioctl(context: *const Context, id: c_int, request: c_int, argument: *mut c_void) -> c_int {
    // The numbers of ioctl(2) have 32 bits; those with the highest one set are negative as an int.
    let request = libc::c_ulong::from(request as u32);
    give(call!(Context::fd(context, id)).and_then(|fd| checked(call!(libc::ioctl(fd, request as _, argument)))))
}
