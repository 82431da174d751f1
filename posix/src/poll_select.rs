//! poll, ppoll, select and pselect over sockets of the stack and the kernel's descriptors together.
//!
//! One check of our own sockets, one zero-time poll for the kernel's; if nothing is ready, one kernel wait that covers
//! the wake descriptor, the service's life and the kernel's descriptors. A listener is checked in both worlds. These calls are
//! never restarted after a signal (signal(7)).

use crate::Posix;
use crate::blocking::{LookAgain, Sleep, Waiter};
use crate::errno::{Answer, Errno};
use crate::fallback::{Fd, SignalMask};
use crate::fd_table::{Entry, SocketRef};
use libc::pollfd;
use ringway_shm::{Duration, Instant};

/// Kind of an entry in the caller's set.
#[derive(Clone, Copy)]
enum Watched {
    Kernel,
    Socket(SocketRef),
    Epoll(u32),
}

impl Posix {
    /// `ppoll(2)`; `None` as the timeout waits for ever. Returns `None` if nothing in the set is ours.
    pub fn poll(&self, set: &mut [pollfd], timeout: Option<Duration>, mask: Option<SignalMask>) -> Option<Answer<usize>> {
        if self.attached().is_none() {
            self.note_early_polls(set);
            return None;
        }
        let concerns_us =
            |entry: &pollfd| matches!(self.table.lookup(entry.fd), Entry::Socket(_) | Entry::Epoll(_) | Entry::Internal);
        if !set.iter().any(concerns_us) {
            return None;
        }
        let deadline = timeout.map(|timeout| self.kernel.now() + timeout);
        loop {
            let watched: Vec<Watched> = set.iter().map(|entry| self.watched(entry.fd)).collect();
            let answer = match self.poll_once(set, &watched, mask) {
                Ok(0) if timeout != Some(Duration::ZERO) => self.poll_sleep(set, &watched, deadline, mask),
                answer => answer,
            };
            // What was seen of a socket that has become the kernel's counts no more.
            if answer.is_err() || !self.any_has_moved(&watched) {
                return Some(answer);
            }
        }
    }

    /// An epoll instance may get the process's first socket while the kernel waits for it here.
    fn note_early_polls(&self, set: &[pollfd]) {
        if !self.has_epoll_instances() {
            return;
        }
        for entry in set {
            if let Entry::Epoll(number) = self.table.lookup(entry.fd) {
                self.note_watched(number);
            }
        }
    }

    fn any_has_moved(&self, watched: &[Watched]) -> bool {
        let Some(channel) = self.attached() else { return false };
        watched.iter().any(|watched| matches!(watched, Watched::Socket(socket) if self.has_moved(channel, *socket)))
    }

    fn watched(&self, fd: Fd) -> Watched {
        match self.entry_of(fd) {
            Entry::Socket(socket) => Watched::Socket(socket),
            Entry::Epoll(number) => Watched::Epoll(number),
            Entry::Internal | Entry::None => Watched::Kernel,
        }
    }

    /// Checks everything without waiting; returns the number of entries with events.
    fn poll_once(&self, set: &mut [pollfd], watched: &[Watched], mask: Option<SignalMask>) -> Answer<usize> {
        let mut kernel_set = self.kernel_set(set, watched, 0);
        if kernel_set.iter().any(|entry| entry.fd >= 0) {
            self.kernel.poll(&mut kernel_set, Some(Duration::ZERO), mask)?;
        }
        Ok(self.merge(set, watched, &kernel_set))
    }

    fn poll_sleep(
        &self,
        set: &mut [pollfd],
        watched: &[Watched],
        deadline: Option<Instant>,
        mask: Option<SignalMask>,
    ) -> Answer<usize> {
        let Some(waiter) = self.waiter() else { return self.poll_by_time(set, watched, deadline, mask) };
        let Some(channel) = self.attached() else { return Err(Errno::BADF) };
        let sockets =
            || watched.iter().filter_map(|watched| if let Watched::Socket(socket) = watched { Some(*socket) } else { None });
        sockets().for_each(|socket| channel.watch(socket, waiter.context()));
        let answer = self.poll_with(&waiter, set, watched, Sleep { deadline, mask });
        sockets().for_each(|socket| channel.unwatch(socket, waiter.context()));
        answer
    }

    fn poll_with(
        &self,
        waiter: &Waiter<'_>,
        set: &mut [pollfd],
        watched: &[Watched],
        Sleep { deadline, mask }: Sleep,
    ) -> Answer<usize> {
        loop {
            waiter.forget_events();
            if self.merge(set, watched, &[]) == 0 {
                // The check below sees whether it has brought something.
                waiter.yield_now();
            }
            waiter.prepare();
            let mut kernel_set = self.kernel_set(set, watched, WAITER_ENTRIES);
            if self.merge(set, watched, &[]) == 0 {
                waiter.sleep(&mut kernel_set, deadline, mask)?;
            }
            let ready = self.merge(set, watched, &kernel_set[WAITER_ENTRIES..]);
            if ready > 0 || self.any_has_moved(watched) || deadline.is_some_and(|deadline| self.kernel.now() >= deadline) {
                return Ok(ready);
            }
        }
    }

    /// Polls without a context, because no context or descriptor is left: the kernel's descriptors end a sleep, ours
    /// are checked at growing intervals.
    fn poll_by_time(
        &self,
        set: &mut [pollfd],
        watched: &[Watched],
        deadline: Option<Instant>,
        mask: Option<SignalMask>,
    ) -> Answer<usize> {
        let mut nap = LookAgain::default();
        loop {
            self.look_at_service();
            let mut kernel_set = self.kernel_set(set, watched, 0);
            let span = nap.next_span();
            let left = deadline.map_or(span, |deadline| deadline.since(self.kernel.now()));
            self.kernel.poll(&mut kernel_set, Some(span.min(left)), mask)?;
            let ready = self.merge(set, watched, &kernel_set);
            if ready > 0 || self.any_has_moved(watched) || deadline.is_some_and(|deadline| self.kernel.now() >= deadline) {
                return Ok(ready);
            }
        }
    }

    /// The set for the kernel: `leading` unused entries, then the caller's without connections of the stack (poll(2)
    /// skips a negative descriptor). Listeners and epoll instances stay in.
    fn kernel_set(&self, set: &[pollfd], watched: &[Watched], leading: usize) -> Vec<pollfd> {
        let unused = pollfd { fd: -1, events: 0, revents: 0 };
        let own = set.iter().zip(watched).map(|(entry, watched)| match watched {
            Watched::Socket(socket) if !self.has_shadow(*socket) => unused,
            Watched::Socket(socket) => {
                pollfd { fd: entry.fd, events: self.shadow_events(*socket, entry.events as u32) as i16, revents: 0 }
            }
            Watched::Epoll(number) => pollfd { fd: self.epoll_polled(*number, entry.fd), events: entry.events, revents: 0 },
            _ => pollfd { fd: entry.fd, events: entry.events, revents: 0 },
        });
        std::iter::repeat_n(unused, leading).chain(own).collect()
    }

    /// Writes the events of our own entries and those of `kernel_set` (same order; may be empty) to `set`.
    fn merge(&self, set: &mut [pollfd], watched: &[Watched], kernel_set: &[pollfd]) -> usize {
        let mut ready = 0;
        for (index, (entry, watched)) in set.iter_mut().zip(watched).enumerate() {
            let ours = match watched {
                Watched::Kernel => 0,
                Watched::Socket(socket) => self.readiness(*socket).events as i16 & (entry.events | ALWAYS),
                Watched::Epoll(number) if self.epoll_is_ready(*number) => entry.events & (libc::POLLIN | libc::POLLRDNORM),
                Watched::Epoll(_) => 0,
            };
            entry.revents = ours | kernel_set.get(index).map_or(0, |kernel| kernel.revents);
            ready += usize::from(entry.revents != 0);
        }
        ready
    }

    /// `pselect(2)` on sets of 64-bit words (bit n of the whole = descriptor n); `None` as the timeout waits for ever.
    /// Returns `None` if nothing in the sets is ours.
    pub fn select(
        &self,
        count: usize,
        mut sets: SelectSets<'_>,
        timeout: Option<Duration>,
        mask: Option<SignalMask>,
    ) -> Option<Answer<usize>> {
        if self.attached().is_none() && !self.has_epoll_instances() {
            return None;
        }
        let mut polled: Vec<pollfd> = (0..count).filter_map(|number| sets.entry(number)).collect();
        let answer = self.poll(&mut polled, timeout, mask)?;
        if let Err(error) = answer {
            return Some(Err(error));
        }
        if polled.iter().any(|entry| entry.revents & libc::POLLNVAL != 0) {
            return Some(Err(Errno::BADF));
        }
        sets.clear(count);
        Some(Ok(polled.iter().map(|entry| sets.report(entry)).sum()))
    }
}

/// The three sets of `select(2)`.
#[derive(Debug, Default)]
pub struct SelectSets<'a> {
    /// Watched for reading.
    pub read: Option<&'a mut [u64]>,
    /// Watched for writing.
    pub write: Option<&'a mut [u64]>,
    /// Watched for urgent data.
    pub except: Option<&'a mut [u64]>,
}

impl SelectSets<'_> {
    fn entry(&self, number: usize) -> Option<pollfd> {
        let asked = |set: &Option<&mut [u64]>, events: i16| if has(set.as_deref(), number) { events } else { 0 };
        let events = asked(&self.read, libc::POLLIN) | asked(&self.write, libc::POLLOUT) | asked(&self.except, libc::POLLPRI);
        (events != 0).then_some(pollfd { fd: number as Fd, events, revents: 0 })
    }

    fn clear(&mut self, count: usize) {
        for set in [&mut self.read, &mut self.write, &mut self.except].into_iter().flatten() {
            for number in 0..count {
                if let Some(word) = set.get_mut(number / 64) {
                    *word &= !(1 << (number % 64));
                }
            }
        }
    }

    /// Sets the bits for an entry's poll events (fs/select.c). Returns the number of bits set.
    fn report(&mut self, entry: &pollfd) -> usize {
        let sets = [
            (&mut self.read, libc::POLLIN, libc::POLLIN | libc::POLLRDNORM | libc::POLLHUP | libc::POLLERR),
            (&mut self.write, libc::POLLOUT, libc::POLLOUT | libc::POLLWRNORM | libc::POLLERR),
            (&mut self.except, libc::POLLPRI, libc::POLLPRI),
        ];
        let mut bits = 0;
        for (set, asked, counts) in sets {
            if entry.events & asked != 0 && entry.revents & counts != 0 && set_bit(set, entry.fd as usize) {
                bits += 1;
            }
        }
        bits
    }
}

fn has(set: Option<&[u64]>, number: usize) -> bool {
    set.and_then(|set| set.get(number / 64)).is_some_and(|word| word & (1 << (number % 64)) != 0)
}

fn set_bit(set: &mut Option<&mut [u64]>, number: usize) -> bool {
    match set.as_mut().and_then(|set| set.get_mut(number / 64)) {
        Some(word) => {
            *word |= 1 << (number % 64);
            true
        }
        None => false,
    }
}

/// Leading entries of a set that `Waiter::sleep` fills.
const WAITER_ENTRIES: usize = 2;
/// Reported whether requested or not (poll(2)).
const ALWAYS: i16 = libc::POLLERR | libc::POLLHUP;

#[cfg(test)]
mod tests;
