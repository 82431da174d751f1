//! ringway_poller: waits for events of several sockets.

use std::os::fd::{AsFd, AsRawFd};
use std::slice;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use libc::c_int;
use ringway::remote::{self, Interest, Listener, Session, Source, Stream, UdpSocket};

use crate::answer::{Answer, Errno, borrow, handle, number, status, take};

const READABLE: u32 = 1;
const WRITABLE: u32 = 2;
const ERROR: u32 = 4;
const HUNG_UP: u32 = 8;
const PEER_CLOSED: u32 = 16;

/// A poller and its event buffer.
pub struct Poller {
    poller: remote::Poller,
    events: Mutex<Vec<remote::Event>>,
}

/// `ringway_event`
#[repr(C)]
pub struct Event {
    token: u64,
    ready: u32,
    unused: u32,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_poller_new(session: *const Session) -> *mut Poller {
    // SAFETY: as the crate says.
    let answer = unsafe { borrow(session) }.and_then(|session| Ok(remote::Poller::new(session)?));
    handle(answer.map(|poller| Poller { poller, events: Mutex::default() }))
}

unsafe fn add<T: Source>(poller: *const Poller, source: *const T, interest: u32, token: u64) -> c_int {
    // SAFETY: as the crate says.
    let answer = unsafe { borrow(poller).and_then(|poller| Ok((poller, borrow(source)?))) };
    status(answer.and_then(|(poller, source)| {
        if interest & !(READABLE | WRITABLE) != 0 {
            return Err(Errno(libc::EINVAL));
        }
        let interest = Interest { readable: interest & READABLE != 0, writable: interest & WRITABLE != 0 };
        poller.poller.add(source, token, interest);
        Ok(())
    }))
}

unsafe fn remove<T: Source>(poller: *const Poller, source: *const T) {
    // SAFETY: as the crate says.
    if let (Ok(poller), Ok(source)) = unsafe { (borrow(poller), borrow(source)) } {
        poller.poller.remove(source);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_poller_add_stream(
    poller: *const Poller,
    stream: *const Stream,
    interest: u32,
    token: u64,
) -> c_int {
    // SAFETY: as the crate says.
    unsafe { add(poller, stream, interest, token) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_poller_add_listener(
    poller: *const Poller,
    listener: *const Listener,
    interest: u32,
    token: u64,
) -> c_int {
    // SAFETY: as the crate says.
    unsafe { add(poller, listener, interest, token) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_poller_add_udp(
    poller: *const Poller,
    socket: *const UdpSocket,
    interest: u32,
    token: u64,
) -> c_int {
    // SAFETY: as the crate says.
    unsafe { add(poller, socket, interest, token) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_poller_remove_stream(poller: *const Poller, stream: *const Stream) {
    // SAFETY: as the crate says.
    unsafe { remove(poller, stream) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_poller_remove_listener(poller: *const Poller, listener: *const Listener) {
    // SAFETY: as the crate says.
    unsafe { remove(poller, listener) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_poller_remove_udp(poller: *const Poller, socket: *const UdpSocket) {
    // SAFETY: as the crate says.
    unsafe { remove(poller, socket) };
}

/// The events that the caller has room for.
unsafe fn places<'a>(events: *mut Event, max: c_int) -> Answer<&'a mut [Event]> {
    let max = usize::try_from(max).ok().filter(|&max| max > 0).ok_or(Errno(libc::EINVAL))?;
    if events.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    // SAFETY: `max` says how many there is room for; they are only written to.
    Ok(unsafe { slice::from_raw_parts_mut(events, max) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_poller_wait(poller: *const Poller, events: *mut Event, max: c_int, timeout_ms: c_int) -> c_int {
    // SAFETY: as the crate says.
    let given = unsafe { borrow(poller).and_then(|poller| Ok((poller, places(events, max)?))) };
    number(given.and_then(|(poller, places)| poller.wait(places, timeout_ms)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_poller_try_wait(poller: *const Poller, events: *mut Event, max: c_int) -> c_int {
    // SAFETY: as the crate says.
    let given = unsafe { borrow(poller).and_then(|poller| Ok((poller, places(events, max)?))) };
    number(given.and_then(|(poller, places)| poller.try_wait(places)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_poller_fd(poller: *const Poller) -> c_int {
    // SAFETY: as the crate says.
    number(unsafe { borrow(poller) }.map(|poller| poller.poller.as_fd().as_raw_fd()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_poller_notify(poller: *const Poller) {
    // SAFETY: as the crate says.
    if let Ok(poller) = unsafe { borrow(poller) } {
        poller.poller.notify();
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_poller_free(poller: *mut Poller) {
    // SAFETY: as the crate says.
    drop(unsafe { take(poller) });
}

impl Poller {
    fn wait(&self, places: &mut [Event], timeout_ms: c_int) -> Answer<c_int> {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        self.poller.wait_for(&mut events, places.len(), timeout)?;
        Ok(write(&events, places))
    }

    fn try_wait(&self, places: &mut [Event]) -> Answer<c_int> {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        self.poller.try_wait_for(&mut events, places.len())?;
        Ok(write(&events, places))
    }
}

fn write(events: &[remote::Event], places: &mut [Event]) -> c_int {
    for (place, event) in places.iter_mut().zip(events) {
        *place = Event { token: event.token, ready: bits(&event.readiness), unused: 0 };
    }
    events.len() as c_int
}

fn bits(readiness: &remote::Readiness) -> u32 {
    let bits = [
        (readiness.readable, READABLE),
        (readiness.writable, WRITABLE),
        (readiness.error, ERROR),
        (readiness.hung_up, HUNG_UP),
        (readiness.peer_closed, PEER_CLOSED),
    ];
    bits.into_iter().filter(|(on, _)| *on).fold(0, |all, (_, bit)| all | bit)
}
