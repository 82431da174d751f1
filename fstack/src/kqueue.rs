//! kqueue(2) of FreeBSD, over an epoll instance.
//!
//! ```text
//!   ff_kevent:  changes -> filters (`filters.rs`)          errors and receipts -> events
//!               due timers, triggered user events -> events
//!               epoll_wait, until the next timer -> descriptors that are ready -> events
//! ```
//! The kqueue's descriptor is the epoll instance's: it can be waited on and closed like one. An eventfd in it wakes the waiting thread when another one
//! triggers a user event or sets an earlier timer.

mod filters;

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock};
use std::time::Duration;

use libc::{c_int, c_void, timespec};
use ringway_cabi::{Answer, Errno, checked, give};

use crate::run;
use crate::sockets::lock;
use crate::waiting::{milliseconds, now};
use filters::{Filters, WAKE};

/// `struct kevent`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Kevent {
    ident: usize,
    filter: i16,
    flags: u16,
    fflags: u32,
    data: isize,
    udata: usize,
}

struct Kqueue {
    epoll: c_int,
    wake: c_int,
    filters: Mutex<Filters>,
}

static KQUEUES: LazyLock<RwLock<HashMap<c_int, Arc<Kqueue>>>> = LazyLock::new(RwLock::default);

impl Drop for Kqueue {
    fn drop(&mut self) {
        // SAFETY: the descriptor is this value's; the other one is the program's.
        unsafe { libc::close(self.wake) };
    }
}

impl Kqueue {
    /// Events of the first descriptors, changes' errors aside.
    fn collect(&self, events: &mut Vec<Kevent>, max: usize, limit: Option<Duration>) -> Answer<()> {
        loop {
            let at = now();
            let next = {
                let mut filters = lock(&self.filters);
                filters.take_due(at, events, max);
                filters.next_timer()
            };
            let until = match (limit, next) {
                _ if !events.is_empty() => Some(at),
                (limit, next) => limit.into_iter().chain(next).min(),
            };
            self.wait(events, max, until.map(|until| until.saturating_sub(at)))?;
            if !events.is_empty() || limit.is_some_and(|limit| limit <= now()) {
                return Ok(());
            }
        }
    }

    /// Waits for descriptors. `None`: without an end.
    fn wait(&self, events: &mut Vec<Kevent>, max: usize, timeout: Option<Duration>) -> Answer<()> {
        const BATCH: usize = 256;
        let room = (max - events.len()).min(BATCH);
        if room == 0 {
            return Ok(());
        }
        let mut ready = [const { MaybeUninit::<libc::epoll_event>::uninit() }; BATCH];
        let timeout_ms = timeout.map_or(-1, milliseconds);
        // SAFETY: there is room for so many.
        let count = checked(unsafe { libc::epoll_wait(self.epoll, ready.as_mut_ptr().cast(), room as c_int, timeout_ms) })?;
        let mut filters = lock(&self.filters);
        for ready in &ready[..count as usize] {
            // SAFETY: the kernel has written so many.
            let libc::epoll_event { events: bits, u64: token } = unsafe { ready.assume_init_read() };
            if token == WAKE {
                let mut count = 0_u64;
                // SAFETY: it lives until the call returns. An empty counter is no error here.
                unsafe { libc::read(self.wake, (&raw mut count).cast(), size_of::<u64>()) };
            } else {
                filters.take_ready(self.epoll, token as c_int, bits, (&mut *events, max));
            }
        }
        Ok(())
    }

    /// Wakes a thread that waits.
    fn ring(&self) {
        let one = 1_u64;
        // SAFETY: it lives until the call returns. A full counter has rung.
        unsafe { libc::write(self.wake, (&raw const one).cast(), size_of::<u64>()) };
    }
}

fn kqueue_of(fd: c_int) -> Answer<Arc<Kqueue>> {
    let known = KQUEUES.read().unwrap_or_else(PoisonError::into_inner);
    known.get(&fd).cloned().ok_or(Errno(libc::EBADF))
}

/// A descriptor is about to be closed: its filters go, in FreeBSD by themselves.
pub(crate) fn forget(fd: c_int) {
    let is_kqueue = {
        let known = KQUEUES.read().unwrap_or_else(PoisonError::into_inner);
        for kqueue in known.values() {
            lock(&kqueue.filters).forget(kqueue.epoll, fd);
        }
        known.contains_key(&fd)
    };
    if is_kqueue {
        KQUEUES.write().unwrap_or_else(PoisonError::into_inner).remove(&fd);
    }
}

fn make() -> Answer<c_int> {
    // SAFETY: they make descriptors, of which those are closed that are not used.
    unsafe {
        let epoll = checked(libc::epoll_create1(0))?;
        let wake = checked(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)).inspect_err(|_| {
            libc::close(epoll);
        })?;
        let kqueue = Kqueue { epoll, wake, filters: Mutex::default() };
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: WAKE };
        checked(libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, wake, &raw mut event)).inspect_err(|_| {
            libc::close(epoll);
        })?;
        KQUEUES.write().unwrap_or_else(PoisonError::into_inner).insert(epoll, Arc::new(kqueue));
        Ok(epoll)
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn ff_kqueue() -> c_int {
    give(make())
}

/// The changes and the events of one call.
struct Call {
    changes: *const Kevent,
    changes_count: usize,
    max: usize,
    timeout: *const timespec,
}

/// Does what kevent(2) does. errno stays as it was where the call succeeds: programs look at it behind functions that set it only sometimes.
///
/// # Safety
/// As the crate says.
unsafe fn kevent(kqueue: c_int, call: &Call) -> Answer<Vec<Kevent>> {
    let before = Errno::last();
    // SAFETY: as the function says.
    unsafe { change_and_wait(kqueue, call) }.inspect(|_| before.set())
}

/// # Safety
/// As the crate says.
unsafe fn change_and_wait(kqueue: c_int, call: &Call) -> Answer<Vec<Kevent>> {
    let kqueue = kqueue_of(kqueue)?;
    let mut events = Vec::with_capacity(call.max.min(64));
    for index in 0..call.changes_count {
        // SAFETY: the caller has given so many.
        let change = unsafe { call.changes.add(index).read() };
        let done = lock(&kqueue.filters).change(kqueue.epoll, &change, now());
        let error = match done {
            Ok(wakes) => {
                if wakes {
                    kqueue.ring();
                }
                0
            }
            Err(Errno(error)) => error,
        };
        if error == 0 && change.flags & filters::EV_RECEIPT == 0 {
            continue;
        }
        if events.len() == call.max {
            return if error == 0 { continue } else { Err(Errno(error)) };
        }
        events.push(Kevent { flags: change.flags | filters::EV_ERROR, data: error as isize, ..change });
    }
    if !events.is_empty() || call.max == 0 {
        return Ok(events);
    }
    // SAFETY: it is null or the caller's.
    let timeout = unsafe { call.timeout.as_ref() }.map(span).transpose()?;
    // F-Stack cannot wait for events: no timeout means none in its loop.
    let timeout = if run::is_running() { timeout.or(Some(Duration::ZERO)) } else { timeout };
    let limit = timeout.map(|timeout| now() + run::waits(timeout).min(LONGEST));
    kqueue.collect(&mut events, call.max, limit)?;
    run::note_work(!events.is_empty());
    Ok(events)
}

/// Longer timeouts are this long: years.
const LONGEST: Duration = Duration::from_secs(1 << 30);

fn span(timeout: &timespec) -> Answer<Duration> {
    let is_right = timeout.tv_sec >= 0 && (0..1_000_000_000).contains(&timeout.tv_nsec);
    is_right.then(|| Duration::new(timeout.tv_sec as u64, timeout.tv_nsec as u32)).ok_or(Errno(libc::EINVAL))
}

/// A number of entries that C has given; below zero: none.
fn entries(count: c_int) -> usize {
    count.max(0) as usize
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_kevent(
    kqueue: c_int,
    changes: *const Kevent,
    changes_count: c_int,
    events: *mut Kevent,
    max: c_int,
    timeout: *const timespec,
) -> c_int {
    let call = Call { changes, changes_count: entries(changes_count), max: entries(max), timeout };
    // SAFETY: as the crate says.
    let found = unsafe { kevent(kqueue, &call) };
    give(found.map(|found| {
        // SAFETY: there are no more than the caller has room for.
        unsafe { found.as_ptr().copy_to_nonoverlapping(events, found.len()) };
        found.len() as c_int
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_kevent_do_each(
    kqueue: c_int,
    changes: *const Kevent,
    changes_count: c_int,
    mut events: *mut c_void,
    max: c_int,
    timeout: *const timespec,
    each: Option<extern "C" fn(*mut *mut c_void, *mut Kevent)>,
) -> c_int {
    let Some(each) = each else {
        // SAFETY: as the crate says.
        return unsafe { ff_kevent(kqueue, changes, changes_count, events.cast(), max, timeout) };
    };
    let call = Call { changes, changes_count: entries(changes_count), max: entries(max), timeout };
    // SAFETY: as the crate says.
    let found = unsafe { kevent(kqueue, &call) };
    give(found.map(|mut found| {
        found.iter_mut().for_each(|event| each(&raw mut events, event));
        found.len() as c_int
    }))
}

#[cfg(test)]
mod tests;
