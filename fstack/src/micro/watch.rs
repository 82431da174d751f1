//! Which micro threads wait for which descriptors: one epoll instance, each descriptor in it once.
//!
//! A watch is one-shot, so it says nothing while no thread waits. It may stay in the instance after that; a closed descriptor leaves it by
//! itself.

use std::collections::HashMap;

use libc::{c_int, epoll_event};
use ringway_cabi::{Answer, Errno, checked};

/// What is waited for, as in F-Stack.
pub(super) const READ: u8 = 1;
pub(super) const WRITE: u8 = 2;

/// A micro thread that waits for a descriptor, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiter {
    pub(super) thread: u32,
    pub(super) events: u8,
}

pub(super) struct Watch {
    epoll: c_int,
    waiting: HashMap<c_int, Vec<Waiter>>,
    events: Vec<epoll_event>,
}

impl Watch {
    pub(super) fn new() -> Answer<Watch> {
        // SAFETY: no memory of ours.
        let epoll = checked(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        Ok(Watch { epoll, waiting: HashMap::new(), events: vec![epoll_event { events: 0, u64: 0 }; BATCH] })
    }

    /// Notes that a thread waits.
    ///
    /// # Errors
    /// As epoll_ctl(2); EPERM: the descriptor is always ready.
    pub(super) fn add(&mut self, fd: c_int, waiter: Waiter) -> Answer<()> {
        self.waiting.entry(fd).or_default().push(waiter);
        let armed = self.arm(fd);
        if armed.is_err() {
            self.remove(fd, waiter.thread);
        }
        armed
    }

    /// The thread does not wait any more.
    pub(super) fn remove(&mut self, fd: c_int, thread: u32) {
        let Some(waiters) = self.waiting.get_mut(&fd) else { return };
        waiters.retain(|waiter| waiter.thread != thread);
        if waiters.is_empty() {
            self.waiting.remove(&fd);
        }
    }

    fn arm(&self, fd: c_int) -> Answer<()> {
        let wanted = self.waiting.get(&fd).into_iter().flatten().fold(0, |all, waiter| all | waiter.events);
        let mut bits = libc::EPOLLONESHOT | libc::EPOLLRDHUP;
        for (event, bit) in [(READ, libc::EPOLLIN), (WRITE, libc::EPOLLOUT)] {
            if wanted & event != 0 {
                bits |= bit;
            }
        }
        let mut event = epoll_event { events: bits as u32, u64: fd as u64 };
        let mut control = |operation| {
            // SAFETY: the event lives until the call returns.
            checked(unsafe { libc::epoll_ctl(self.epoll, operation, fd, &raw mut event) }).map(|_| ())
        };
        match control(libc::EPOLL_CTL_MOD) {
            Err(Errno(libc::ENOENT)) => control(libc::EPOLL_CTL_ADD),
            modified => modified,
        }
    }

    /// Waits for so many milliseconds, below zero without an end, and names the threads whose descriptors are ready, with what they are
    /// ready for. A signal ends the wait too.
    pub(super) fn wait(&mut self, timeout_ms: c_int, mut ready: impl FnMut(Waiter)) {
        // SAFETY: there is room for so many events.
        let count = unsafe { libc::epoll_wait(self.epoll, self.events.as_mut_ptr(), BATCH as c_int, timeout_ms) };
        for place in 0..count.max(0) as usize {
            let (bits, fd) = (self.events[place].events as c_int, self.events[place].u64 as c_int);
            let ended = bits & (libc::EPOLLERR | libc::EPOLLHUP) != 0;
            let can_read = bits & (libc::EPOLLIN | libc::EPOLLRDHUP) != 0 || ended;
            let can_write = bits & libc::EPOLLOUT != 0 || ended;
            let holds = (u8::from(can_read) * READ) | (u8::from(can_write) * WRITE);
            let Some(waiters) = self.waiting.get_mut(&fd) else { continue };
            waiters.retain(|waiter| {
                let events = waiter.events & holds;
                if events != 0 {
                    ready(Waiter { events, ..*waiter });
                }
                events == 0
            });
            if waiters.is_empty() {
                self.waiting.remove(&fd);
            } else if self.arm(fd).is_err() {
                // It was closed meanwhile: its waiters' next calls say so.
                self.waiting.remove(&fd).into_iter().flatten().for_each(&mut ready);
            }
        }
    }
}

const BATCH: usize = 256;
