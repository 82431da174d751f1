//! The filters of one kqueue: what the program has asked for, and what of it is to be reported.
//!
//! A descriptor has one place in the epoll instance for both its filters. It is edge-triggered where all of them are EV_CLEAR; where only one is,
//! that one is reported as long as it holds.

use std::collections::BTreeMap;
use std::time::Duration;

use libc::c_int;
use ringway_cabi::{Answer, Errno, checked};

use super::Kevent;

pub(super) const EVFILT_READ: i16 = -1;
pub(super) const EVFILT_WRITE: i16 = -2;
pub(super) const EVFILT_TIMER: i16 = -7;
pub(super) const EVFILT_USER: i16 = -11;

pub(super) const EV_ADD: u16 = 0x0001;
pub(super) const EV_DELETE: u16 = 0x0002;
pub(super) const EV_ENABLE: u16 = 0x0004;
pub(super) const EV_DISABLE: u16 = 0x0008;
pub(super) const EV_ONESHOT: u16 = 0x0010;
pub(super) const EV_CLEAR: u16 = 0x0020;
pub(super) const EV_RECEIPT: u16 = 0x0040;
pub(super) const EV_DISPATCH: u16 = 0x0080;
pub(super) const EV_ERROR: u16 = 0x4000;
pub(super) const EV_EOF: u16 = 0x8000;

const NOTE_LOWAT: u32 = 1;
const NOTE_TRIGGER: u32 = 0x0100_0000;
const NOTE_FFCTRLMASK: u32 = 0xc000_0000;
const NOTE_FFLAGSMASK: u32 = 0x00ff_ffff;
/// Units of a timer; without one of them milliseconds.
const NOTE_SECONDS: u32 = 1;
const NOTE_USECONDS: u32 = 4;
const NOTE_NSECONDS: u32 = 8;

/// The token of the eventfd in the epoll instance; no descriptor has it.
pub(super) const WAKE: u64 = u64::MAX;

const READ_BITS: u32 = (libc::EPOLLIN | libc::EPOLLRDHUP) as u32;
const WRITE_BITS: u32 = libc::EPOLLOUT as u32;
const ENDED: u32 = (libc::EPOLLHUP | libc::EPOLLERR) as u32;

/// What all filters have.
#[derive(Clone, Copy, Debug)]
struct Terms {
    flags: u16,
    is_enabled: bool,
    udata: usize,
}

/// What becomes of a filter that was reported.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Stays,
    Sleeps,
    Goes,
}

impl Terms {
    fn of(change: &Kevent) -> Terms {
        Terms { flags: change.flags, is_enabled: change.flags & EV_DISABLE == 0, udata: change.udata }
    }

    /// Obeys a change of a filter that is there.
    fn follow(&mut self, change: &Kevent) {
        if change.flags & EV_ADD != 0 {
            *self = Terms::of(change);
        }
        self.udata = change.udata;
        self.is_enabled |= change.flags & EV_ENABLE != 0;
        self.is_enabled &= change.flags & EV_DISABLE == 0;
    }

    fn after(&self) -> After {
        match self.flags {
            flags if flags & EV_ONESHOT != 0 => After::Goes,
            flags if flags & EV_DISPATCH != 0 => After::Sleeps,
            _ => After::Stays,
        }
    }
}

/// A descriptor's filters.
#[derive(Default)]
struct Watched {
    reads: Option<Terms>,
    writes: Option<Terms>,
    /// What the epoll instance has of it; 0: nothing.
    interest: u32,
    /// The size of its send buffer when the program asked for EVFILT_WRITE.
    room: c_int,
}

impl Watched {
    fn terms(&mut self, filter: i16) -> &mut Option<Terms> {
        if filter == EVFILT_READ { &mut self.reads } else { &mut self.writes }
    }

    fn wanted(&self) -> u32 {
        let enabled = |terms: Option<Terms>| terms.filter(|terms| terms.is_enabled);
        let (reads, writes) = (enabled(self.reads), enabled(self.writes));
        let is_edge = reads.into_iter().chain(writes).all(|terms| terms.flags & EV_CLEAR != 0);
        let bits = reads.map_or(0, |_| READ_BITS) | writes.map_or(0, |_| WRITE_BITS);
        if bits != 0 && is_edge { bits | libc::EPOLLET as u32 } else { bits }
    }

    /// Makes the epoll instance follow. After a change it is told anew in any case, so that an edge that holds is one again.
    fn register(&mut self, epoll: c_int, fd: c_int, cause: Cause) -> Answer<()> {
        let wanted = self.wanted();
        if wanted == self.interest && (wanted == 0 || cause == Cause::Report) {
            return Ok(());
        }
        let control = |operation| {
            let mut event = libc::epoll_event { events: wanted, u64: fd as u64 };
            // SAFETY: it lives until the call returns.
            checked(unsafe { libc::epoll_ctl(epoll, operation, fd, &raw mut event) }).map(|_| ())
        };
        let done = match (self.interest, wanted) {
            // One that was closed is not there any more.
            (_, 0) => control(libc::EPOLL_CTL_DEL).or(Ok(())),
            (0, _) => control(libc::EPOLL_CTL_ADD).or_else(|error| match error {
                Errno(libc::EEXIST) => control(libc::EPOLL_CTL_MOD),
                error => Err(error),
            }),
            // The number may be another file's since.
            _ => control(libc::EPOLL_CTL_MOD).or_else(|error| match error {
                Errno(libc::ENOENT) => control(libc::EPOLL_CTL_ADD),
                error => Err(error),
            }),
        };
        self.interest = if done.is_ok() { wanted } else { 0 };
        done
    }
}

/// Why a descriptor's place in the epoll instance is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    Change,
    Report,
}

struct Timer {
    terms: Terms,
    period: Duration,
    /// Times are counted from the machine's start.
    next: Duration,
}

struct User {
    terms: Terms,
    fflags: u32,
    is_triggered: bool,
}

/// The filters of one kqueue.
#[derive(Default)]
pub(super) struct Filters {
    /// By number; numbers are small.
    descriptors: Vec<Watched>,
    timers: BTreeMap<usize, Timer>,
    users: BTreeMap<usize, User>,
    /// Events for which a call had no room.
    kept: Vec<Kevent>,
}

impl Filters {
    /// Obeys one change. Returns true if a thread that waits must look again.
    pub(super) fn change(&mut self, epoll: c_int, change: &Kevent, now: Duration) -> Answer<bool> {
        match change.filter {
            EVFILT_READ | EVFILT_WRITE => self.change_descriptor(epoll, change).map(|()| false),
            EVFILT_TIMER => self.change_timer(change, now),
            EVFILT_USER => self.change_user(change),
            // Files, processes and signals are the kernel's business.
            _ => Err(Errno(libc::EOPNOTSUPP)),
        }
    }

    fn change_descriptor(&mut self, epoll: c_int, change: &Kevent) -> Answer<()> {
        let fd = c_int::try_from(change.ident).map_err(|_| Errno(libc::EBADF))?;
        if self.descriptors.len() <= change.ident {
            if !is_open(fd) {
                return Err(Errno(libc::EBADF));
            }
            self.descriptors.resize_with(change.ident + 1, Watched::default);
        }
        let watched = &mut self.descriptors[change.ident];
        if change.filter == EVFILT_WRITE && change.flags & EV_ADD != 0 {
            watched.room = option(fd, libc::SO_SNDBUF).unwrap_or(PIPE_BUF).max(1);
        }
        let place = watched.terms(change.filter);
        let done = match place {
            Some(_) if change.flags & EV_DELETE != 0 => {
                *place = None;
                Ok(())
            }
            Some(terms) => {
                terms.follow(change);
                Ok(())
            }
            None if change.flags & EV_ADD != 0 => {
                *place = Some(Terms::of(change));
                Ok(())
            }
            None => Err(Errno(libc::ENOENT)),
        };
        let done = done.and_then(|()| watched.register(epoll, fd, Cause::Change));
        if done.is_err() && change.flags & EV_ADD != 0 {
            *watched.terms(change.filter) = None;
        }
        self.kept.retain(|event| event.ident != change.ident || event.filter != change.filter);
        if done.is_ok() && change.filter == EVFILT_READ && change.fflags & NOTE_LOWAT != 0 {
            let least = c_int::try_from(change.data).unwrap_or(c_int::MAX);
            ringway_cabi::set_number(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, least)?;
        }
        done
    }

    fn change_timer(&mut self, change: &Kevent, now: Duration) -> Answer<bool> {
        if change.flags & EV_DELETE != 0 {
            return self.timers.remove(&change.ident).map(|_| false).ok_or(Errno(libc::ENOENT));
        }
        if change.flags & EV_ADD != 0 {
            let number = u64::try_from(change.data).map_err(|_| Errno(libc::EINVAL))?.max(1);
            let period = match change.fflags & (NOTE_SECONDS | NOTE_USECONDS | NOTE_NSECONDS) {
                NOTE_SECONDS => Duration::from_secs(number.min(super::LONGEST.as_secs())),
                NOTE_USECONDS => Duration::from_micros(number),
                NOTE_NSECONDS => Duration::from_nanos(number),
                _ => Duration::from_millis(number),
            };
            let period = period.min(super::LONGEST);
            let timer = Timer { terms: Terms::of(change), period, next: now + period };
            self.timers.insert(change.ident, timer);
            return Ok(true);
        }
        let timer = self.timers.get_mut(&change.ident).ok_or(Errno(libc::ENOENT))?;
        timer.terms.follow(change);
        Ok(true)
    }

    fn change_user(&mut self, change: &Kevent) -> Answer<bool> {
        if change.flags & EV_DELETE != 0 {
            return self.users.remove(&change.ident).map(|_| false).ok_or(Errno(libc::ENOENT));
        }
        if change.flags & EV_ADD == 0 && !self.users.contains_key(&change.ident) {
            return Err(Errno(libc::ENOENT));
        }
        let new = || User { terms: Terms::of(change), fflags: 0, is_triggered: false };
        let user = self.users.entry(change.ident).or_insert_with(new);
        user.terms.follow(change);
        let given = change.fflags & NOTE_FFLAGSMASK;
        user.fflags = match (change.fflags & NOTE_FFCTRLMASK) >> 30 {
            0 => user.fflags,
            1 => user.fflags & given,
            2 => user.fflags | given,
            _ => given,
        };
        user.is_triggered |= change.fflags & NOTE_TRIGGER != 0;
        Ok(user.is_triggered && user.terms.is_enabled)
    }

    /// When the next timer is due.
    pub(super) fn next_timer(&self) -> Option<Duration> {
        self.timers.values().filter(|timer| timer.terms.is_enabled).map(|timer| timer.next).min()
    }

    /// Reports what waits without a descriptor: what had no room, timers that are due, user events that were triggered.
    pub(super) fn take_due(&mut self, now: Duration, events: &mut Vec<Kevent>, max: usize) {
        let room = |events: &Vec<Kevent>| max.saturating_sub(events.len());
        let taken = self.kept.len().min(room(events));
        events.extend(self.kept.drain(..taken));
        self.timers.retain(|ident, timer| {
            if !timer.terms.is_enabled || timer.next > now || room(events) == 0 {
                return true;
            }
            let times = 1 + (now - timer.next).as_nanos() / timer.period.as_nanos();
            timer.next += timer.period.saturating_mul(u32::try_from(times).unwrap_or(u32::MAX));
            // One that has slept for years counts from now on.
            timer.next = timer.next.max(now);
            events.push(timer.terms.event(*ident, EVFILT_TIMER, (0, isize::try_from(times).unwrap_or(isize::MAX))));
            timer.terms.settle()
        });
        self.users.retain(|ident, user| {
            if !user.terms.is_enabled || !user.is_triggered || room(events) == 0 {
                return true;
            }
            events.push(user.terms.event(*ident, EVFILT_USER, (user.fflags, 0)));
            user.is_triggered &= user.terms.flags & EV_CLEAR == 0;
            user.terms.settle()
        });
    }

    /// Reports a descriptor of which epoll has said something.
    pub(super) fn take_ready(&mut self, epoll: c_int, fd: c_int, bits: u32, to: (&mut Vec<Kevent>, usize)) {
        let (events, max) = to;
        let Some(watched) = usize::try_from(fd).ok().and_then(|fd| self.descriptors.get_mut(fd)) else { return };
        let (room, is_edge) = (watched.room as isize, watched.interest & libc::EPOLLET as u32 != 0);
        for (filter, bit) in [(EVFILT_READ, READ_BITS), (EVFILT_WRITE, WRITE_BITS)] {
            let place = watched.terms(filter);
            let Some(terms) = place.as_mut().filter(|terms| terms.is_enabled && bits & (bit | ENDED) != 0) else { continue };
            let has_room = events.len() < max;
            if !has_room && !is_edge && terms.after() == After::Stays {
                // It comes again by itself.
                continue;
            }
            let amount = if filter == EVFILT_READ { readable(fd) } else { room };
            let has_ended = bits & (ENDED | if filter == EVFILT_READ { libc::EPOLLRDHUP as u32 } else { 0 }) != 0;
            let mut event = terms.event(fd as usize, filter, (0, amount));
            event.flags |= if has_ended { EV_EOF } else { 0 };
            if !terms.settle() {
                *place = None;
            }
            if has_room { events.push(event) } else { self.kept.push(event) }
        }
        // A descriptor that cannot be changed is one that was closed.
        watched.register(epoll, fd, Cause::Report).unwrap_or_default();
    }

    /// A descriptor is about to be closed.
    pub(super) fn forget(&mut self, epoll: c_int, fd: c_int) {
        let watched = usize::try_from(fd).ok().and_then(|fd| self.descriptors.get_mut(fd));
        if let Some(watched) = watched.filter(|watched| watched.reads.or(watched.writes).is_some()) {
            (watched.reads, watched.writes) = (None, None);
            watched.register(epoll, fd, Cause::Change).unwrap_or_default();
            self.kept.retain(|event| event.ident != fd as usize || event.filter < EVFILT_WRITE);
        }
    }
}

impl Terms {
    /// What is reported, with the filter's flags and (fflags, data).
    fn event(&self, ident: usize, filter: i16, (fflags, data): (u32, isize)) -> Kevent {
        let flags = self.flags & !(EV_ENABLE | EV_DISABLE | EV_DELETE | EV_RECEIPT);
        Kevent { ident, filter, flags, fflags, data, udata: self.udata }
    }

    /// After the report. Returns false if the filter goes.
    fn settle(&mut self) -> bool {
        self.is_enabled &= self.after() != After::Sleeps;
        self.after() != After::Goes
    }
}

/// Bytes that can be read, or connections that can be accepted.
fn readable(fd: c_int) -> isize {
    let mut number: c_int = 0;
    // SAFETY: the number lives until the call returns.
    match checked(unsafe { libc::ioctl(fd, libc::FIONREAD, &raw mut number) }) {
        Ok(_) => number as isize,
        // A listener has no bytes.
        Err(_) => waiting(fd).max(1),
    }
}

fn is_open(fd: c_int) -> bool {
    // SAFETY: it takes numbers.
    unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
}

/// What a pipe takes at once.
const PIPE_BUF: c_int = 4096;

fn option(fd: c_int, name: c_int) -> Answer<c_int> {
    let (mut value, mut size): (c_int, _) = (0, size_of::<c_int>() as libc::socklen_t);
    // SAFETY: both live until the call returns.
    checked(unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, name, (&raw mut value).cast(), &raw mut size) }).map(|_| value)
}

/// Connections in a listener's queue: what Linux calls `tcpi_unacked` there.
fn waiting(fd: c_int) -> isize {
    const UNACKED: usize = 24;
    let mut info = [0_u8; 32];
    let mut size = info.len() as libc::socklen_t;
    // SAFETY: both live until the call returns.
    let asked = unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut size) };
    match info.get(UNACKED..UNACKED + 4) {
        Some(number) if asked == 0 => u32::from_ne_bytes(number.try_into().expect("four bytes")) as isize,
        _ => 0,
    }
}
