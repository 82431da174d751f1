//! epoll(7) for the ids of a context.

use std::cell::RefCell;

use libc::{c_char, c_int, epoll_event};

use crate::context::Context;
use ringway_cabi::{Errno, call, checked, give};

/// `struct mtcp_epoll_event`. Linux packs its own on some machines; this one is not packed.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Event {
    events: u32,
    data: u64,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_epoll_create(context: *const Context, size: c_int) -> c_int {
    if size <= 0 {
        return give(Err(Errno(libc::EINVAL)));
    }
    call!(mtcp_epoll_create1(context, 0))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_epoll_create1(context: *const Context, flags: c_int) -> c_int {
    give(call!(Context::at(context)).and_then(|context| {
        let id = context.new_id()?;
        Ok(id.keep(checked(call!(libc::epoll_create1(flags)))?))
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_epoll_ctl(
    context: *const Context,
    epoll: c_int,
    operation: c_int,
    id: c_int,
    event: *const Event,
) -> c_int {
    give(call!(Context::at(context)).and_then(|context| {
        let (epoll, fd) = (context.descriptor(epoll)?, context.descriptor(id)?);
        let event = call!(event.as_ref()).map(|event| epoll_event { events: event.events, u64: event.data });
        if event.is_none() && operation != libc::EPOLL_CTL_DEL {
            return Err(Errno(libc::EFAULT));
        }
        let mut event = event.unwrap_or(epoll_event { events: 0, u64: 0 });
        checked(call!(libc::epoll_ctl(epoll, operation, fd, &raw mut event)))
    }))
}

/// The kernel's events are written into the caller's memory, where they take no more room than mTCP's, and spread from the last to the first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_epoll_wait(
    context: *const Context,
    epoll: c_int,
    events: *mut Event,
    max: c_int,
    timeout_ms: c_int,
) -> c_int {
    const { assert!(size_of::<epoll_event>() <= size_of::<Event>()) };
    give(call!(Context::fd(context, epoll)).and_then(|fd| {
        let packed: *mut epoll_event = events.cast();
        let count = checked(call!(libc::epoll_wait(fd, packed, max, timeout_ms)))?;
        for index in (0..count as usize).rev() {
            // SAFETY: the kernel has written so many events; an event is written at or behind the end of those that are still packed.
            unsafe {
                let event = packed.add(index).read_unaligned();
                events.add(index).write(Event { events: event.events, data: event.u64 });
            }
        }
        Ok(count)
    }))
}

const NAMES: [(u32, &str); 13] = [
    (libc::EPOLLIN as u32, "MTCP_EPOLLIN"),
    (libc::EPOLLPRI as u32, "MTCP_EPOLLPRI"),
    (libc::EPOLLOUT as u32, "MTCP_EPOLLOUT"),
    (libc::EPOLLERR as u32, "MTCP_EPOLLERR"),
    (libc::EPOLLHUP as u32, "MTCP_EPOLLHUP"),
    (libc::EPOLLRDNORM as u32, "MTCP_EPOLLRDNORM"),
    (libc::EPOLLRDBAND as u32, "MTCP_EPOLLRDBAND"),
    (libc::EPOLLWRNORM as u32, "MTCP_EPOLLWRNORM"),
    (libc::EPOLLWRBAND as u32, "MTCP_EPOLLWRBAND"),
    (libc::EPOLLMSG as u32, "MTCP_EPOLLMSG"),
    (libc::EPOLLRDHUP as u32, "MTCP_EPOLLRDHUP"),
    (libc::EPOLLONESHOT as u32, "MTCP_EPOLLONESHOT"),
    (libc::EPOLLET as u32, "MTCP_EPOLLET"),
];

#[unsafe(no_mangle)]
pub extern "C" fn EventToString(event: u32) -> *mut c_char {
    thread_local!(static TEXT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) });
    let named: Vec<&str> = NAMES.iter().filter(|(bit, _)| event & bit != 0).map(|&(_, name)| name).collect();
    let text = if named.is_empty() { "MTCP_EPOLLNONE".to_owned() } else { named.join("|") };
    TEXT.with_borrow_mut(|kept| {
        *kept = text.into_bytes();
        kept.push(0);
        kept.as_mut_ptr().cast()
    })
}
