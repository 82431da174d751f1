//! poll, ppoll, select, pselect.

use crate::c::{number, output};
use crate::kernel::mask_of;
use crate::real;
use crate::shim::posix;
use libc::{c_int, c_void, fd_set, nfds_t, pollfd, sigset_t, size_t, timespec, timeval};
use ringway_posix::fallback::SignalMask;
use ringway_posix::{Answer, SelectSets};
use ringway_shm::Duration;

/// poll(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poll(set: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    let span = u64::try_from(timeout).ok().map(Duration::from_millis);
    // SAFETY: the program's promise about its set.
    match unsafe { poll_ours(set, count, span, None) } {
        Some(answer) => number(answer),
        // SAFETY: the program's own call.
        None => unsafe { real::poll(set, count, timeout) },
    }
}

/// poll(2) of a fortified program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __poll_chk(set: *mut pollfd, count: nfds_t, timeout: c_int, room: size_t) -> c_int {
    check_room(count, room);
    // SAFETY: the same contract, checked.
    unsafe { poll(set, count, timeout) }
}

/// ppoll(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ppoll(set: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int {
    // SAFETY: null, or the program promises that they are valid.
    if let (Some(span), signals) = unsafe { (span_of(timeout), mask_of(mask)) }
        // SAFETY: the program's promise about its set.
        && let Some(answer) = unsafe { poll_ours(set, count, span, signals) }
    {
        return number(answer);
    }
    // SAFETY: the program's own call; a bad timeout is the kernel's to refuse.
    unsafe { real::ppoll(set, count, timeout, mask) }
}

/// ppoll(2) of a fortified program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __ppoll_chk(
    set: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
    room: size_t,
) -> c_int {
    check_room(count, room);
    // SAFETY: the same contract, checked.
    unsafe { ppoll(set, count, timeout, mask) }
}

unsafe fn poll_ours(
    set: *mut pollfd,
    count: nfds_t,
    timeout: Option<Duration>,
    mask: Option<SignalMask>,
) -> Option<Answer<c_int>> {
    let posix = posix()?;
    posix.before_kernel();
    if set.is_null() || count == 0 || count > SET_MAX {
        return None;
    }
    // SAFETY: not null; the program promises `count` entries.
    let set = unsafe { std::slice::from_raw_parts_mut(set, count as usize) };
    posix.poll(set, timeout, mask).map(|answer| answer.map(|ready| ready as c_int))
}

/// select(2). As on Linux, what is left of the time is written back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    // SAFETY: null, or the program promises that it is valid.
    let span = match unsafe { timeout.as_ref() } {
        None => Some(None),
        Some(time) => span(time.tv_sec, time.tv_usec.checked_mul(1_000)).map(Some),
    };
    let started = posix().map(|posix| posix.kernel().now());
    if let Some(span) = span
        // SAFETY: the program's promise about its sets.
        && let Some(answer) = unsafe { select_ours(count, [read, write, except], span, None) }
    {
        if let (Some(span), Some(started), Some(posix)) = (span, started, posix()) {
            let left = (started + span).since(posix.kernel().now()).as_nanos();
            // SAFETY: not null, since there is a span; the program promises that it is valid.
            unsafe {
                *timeout = timeval { tv_sec: (left / 1_000_000_000) as i64, tv_usec: (left % 1_000_000_000 / 1_000) as i64 };
            }
        }
        return number(answer);
    }
    // SAFETY: the program's own call.
    unsafe { real::select(count, read, write, except, timeout) }
}

/// pselect(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: null, or the program promises that they are valid.
    if let (Some(span), signals) = unsafe { (span_of(timeout), mask_of(mask)) }
        // SAFETY: the program's promise about its sets.
        && let Some(answer) = unsafe { select_ours(count, [read, write, except], span, signals) }
    {
        return number(answer);
    }
    // SAFETY: the program's own call.
    unsafe { real::pselect(count, read, write, except, timeout, mask) }
}

unsafe fn select_ours(
    count: c_int,
    sets: [*mut fd_set; 3],
    timeout: Option<Duration>,
    mask: Option<SignalMask>,
) -> Option<Answer<c_int>> {
    let posix = posix()?;
    posix.before_kernel();
    let count = usize::try_from(count).ok().filter(|count| (1..=SET_MAX as usize).contains(count))?;
    // SAFETY: the program promises that each set is null or has a bit for every number below `count`.
    let [read, write, except] = sets.map(|set| unsafe { words(set, count) });
    let answer = posix.select(count, SelectSets { read, write, except }, timeout, mask)?;
    Some(answer.map(|bits| bits as c_int))
}

/// An fd_set is an array of longs; a program may use a longer one than the type says.
unsafe fn words<'a>(set: *mut fd_set, count: usize) -> Option<&'a mut [u64]> {
    if set.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { output(set.cast::<c_void>(), count.div_ceil(64) * 8) }.ok()?;
    // SAFETY: fd_set is aligned as long, and any bits are a valid u64.
    Some(unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast::<u64>(), bytes.len() / 8) })
}

/// `None`: not a valid time. `Some(None)`: for ever.
unsafe fn span_of(timeout: *const timespec) -> Option<Option<Duration>> {
    // SAFETY: null, or the caller promises that it is valid.
    match unsafe { timeout.as_ref() } {
        None => Some(None),
        Some(time) => span(time.tv_sec, Some(time.tv_nsec)).map(Some),
    }
}

/// A time as C says it; `None` when it is not one.
pub(crate) fn span(seconds: i64, nanos: Option<i64>) -> Option<Duration> {
    let (seconds, nanos) = (u64::try_from(seconds).ok()?, u64::try_from(nanos?).ok()?);
    // select(2) takes more than a second's worth of microseconds; so much is harmless in the others.
    Some(Duration::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos)))
}

/// What glibc's fortified entry does when the program's own arithmetic shows an overflow.
fn check_room(count: nfds_t, room: size_t) {
    assert!(room / size_of::<pollfd>() >= count as usize, "*** buffer overflow detected ***: poll");
}

/// More entries than descriptors can exist: the kernel refuses.
const SET_MAX: nfds_t = 1 << 20;
