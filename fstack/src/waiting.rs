//! epoll, select and poll.

use std::time::Duration;

use libc::{c_int, epoll_event, fd_set, nfds_t, pollfd, timeval};
use ringway_cabi::call;

use crate::run;

#[unsafe(no_mangle)]
pub extern "C" fn ff_epoll_create(size: c_int) -> c_int {
    call!(libc::epoll_create(size))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
    call!(libc::epoll_ctl(epoll, operation, fd, event))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_epoll_wait(epoll: c_int, events: *mut epoll_event, max: c_int, timeout_ms: c_int) -> c_int {
    let count = call!(libc::epoll_wait(epoll, events, max, waits(timeout_ms)));
    run::note_work(count > 0);
    count
}

/// How long a call waits whose timeout is so long; below zero: without an end.
fn waits(timeout_ms: c_int) -> c_int {
    u64::try_from(timeout_ms).map_or(timeout_ms, |span| milliseconds(run::waits(Duration::from_millis(span))))
}

/// The time, counted from the machine's start.
pub(crate) fn now() -> Duration {
    time_of(libc::CLOCK_MONOTONIC)
}

/// The time, counted from 1970.
pub(crate) fn wall_clock() -> Duration {
    time_of(libc::CLOCK_REALTIME)
}

fn time_of(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it lives until the call returns, which cannot fail.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A span for a call that takes whole milliseconds: not less than it.
pub(crate) fn milliseconds(span: Duration) -> c_int {
    c_int::try_from(span.as_micros().div_ceil(1000)).unwrap_or(c_int::MAX)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_select(
    count: c_int,
    reads: *mut fd_set,
    writes: *mut fd_set,
    exceptions: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    let ready = call!(libc::select(count, reads, writes, exceptions, timeout));
    run::note_work(ready > 0);
    ready
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_poll(entries: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int {
    let ready = call!(libc::poll(entries, count, waits(timeout_ms)));
    run::note_work(ready > 0);
    ready
}
