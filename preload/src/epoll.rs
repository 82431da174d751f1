//! The epoll family.

use crate::c::{may_be_memory, number, status};
use crate::kernel::mask_of;
use crate::poll::span;
use crate::real;
use crate::shim::posix;
use libc::{c_int, epoll_event, sigset_t, timespec};
use ringway_posix::fallback::SignalMask;
use ringway_posix::{Answer, Errno};
use ringway_shm::Duration;

/// epoll_create(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_create(size: c_int) -> c_int {
    // SAFETY: the program's own call.
    created(unsafe { real::epoll_create(size) })
}

/// epoll_create1(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_create1(flags: c_int) -> c_int {
    // SAFETY: the program's own call.
    created(unsafe { real::epoll_create1(flags) })
}

fn created(fd: c_int) -> c_int {
    if let (Some(posix), true) = (posix(), fd >= 0) {
        posix.epoll_created(crate::makers::fresh(fd));
    }
    fd
}

/// epoll_ctl(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
    if let Some(posix) = posix() {
        // EPOLL_CTL_DEL does not look at it.
        let is_read = operation != libc::EPOLL_CTL_DEL && may_be_memory(event.cast(), size_of::<epoll_event>());
        // SAFETY: the program promises that it is valid.
        let event = is_read.then(|| unsafe { event.read_unaligned() });
        if let Some(answer) = posix.epoll_control(epoll, operation, fd, event) {
            return status(answer);
        }
    }
    // SAFETY: the program's own call.
    unsafe { real::epoll_ctl(epoll, operation, fd, event) }
}

/// epoll_wait(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_wait(epoll: c_int, events: *mut epoll_event, room: c_int, timeout: c_int) -> c_int {
    // SAFETY: the program's promise about its events.
    match unsafe { wait(epoll, events, room, millis(timeout), None) } {
        Some(answer) => number(answer),
        // SAFETY: the program's own call.
        None => unsafe { real::epoll_wait(epoll, events, room, timeout) },
    }
}

/// epoll_pwait(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_pwait(
    epoll: c_int,
    events: *mut epoll_event,
    room: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the program's promise about its events and mask.
    match unsafe { wait(epoll, events, room, millis(timeout), mask_of(mask)) } {
        Some(answer) => number(answer),
        // SAFETY: the program's own call.
        None => unsafe { real::epoll_pwait(epoll, events, room, timeout, mask) },
    }
}

/// epoll_pwait2(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_pwait2(
    epoll: c_int,
    events: *mut epoll_event,
    room: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: null, or the program promises that it is valid.
    let limit = match unsafe { timeout.as_ref() } {
        None => Some(None),
        Some(time) => span(time.tv_sec, Some(time.tv_nsec)).map(Some),
    };
    if let Some(limit) = limit
        // SAFETY: the program's promise about its events and mask.
        && let Some(answer) = unsafe { wait(epoll, events, room, limit, mask_of(mask)) }
    {
        return number(answer);
    }
    // SAFETY: the program's own call; a bad time is the kernel's to refuse.
    unsafe { real::epoll_pwait2(epoll, events, room, timeout, mask) }
}

fn millis(timeout: c_int) -> Option<Duration> {
    u64::try_from(timeout).ok().map(Duration::from_millis)
}

/// `None`: no instance that is known. A process that is not attached yet may open its first socket while this thread waits.
unsafe fn wait(
    epoll: c_int,
    events: *mut epoll_event,
    room: c_int,
    timeout: Option<Duration>,
    mask: Option<SignalMask>,
) -> Option<Answer<c_int>> {
    let posix = posix()?;
    posix.before_kernel();
    match usize::try_from(room) {
        Ok(count) if count > 0 && count <= ROOM_MAX && may_be_memory(events.cast(), count * size_of::<epoll_event>()) => {
            // SAFETY: the program promises `room` entries. epoll_event is packed: any address will do.
            let events = unsafe { std::slice::from_raw_parts_mut(events, count) };
            Some(posix.epoll_wait(epoll, events, timeout, mask)?.map(|ready| ready as c_int))
        }
        Ok(count) if count > 0 && count <= ROOM_MAX => Some(Err(Errno::FAULT)),
        _ => None,
    }
}

/// fs/eventpoll.c, EP_MAX_EVENTS.
const ROOM_MAX: usize = i32::MAX as usize / size_of::<epoll_event>();
