//! Watches of a socket that becomes the stack's or that the kernel goes on with (`crate::moved`): they move from the kernel's
//! instances to the interest lists, or the other way, with their events, the program's word, EPOLLET, EPOLLONESHOT and EPOLLEXCLUSIVE.
//!
//! A one-shot that has fired stays silent: the kernel would report errors and hang-ups of it, so it is added when the program arms it
//! again. In a list that fork shares no process knows that for the others, and it is added at once. An edge that was
//! reported is reported once more where it still holds.

use libc::epoll_event;
use std::sync::{MutexGuard, TryLockError};

use super::{EpollRef, Epolls, Instance};
use crate::Posix;
use crate::channel::Handover;
use crate::errno::{Answer, Errno};
use crate::fallback::Fd;
use crate::fd_table::{Descriptor, Entry, SocketRef};
use crate::interest::{ONESHOT, Watch};
use crate::reasons::Fallback;
use ringway_shm::Duration;

impl Epolls {
    /// Takes the lock of an instance, unless it stays taken: this very thread may have it, and a signal handler be in its way.
    pub(super) fn lock_soon(&self, number: u32, pause: impl Fn()) -> Option<MutexGuard<'static, Option<Instance>>> {
        (0..ATTEMPTS).find_map(|_| match self.cell(number).try_lock() {
            Ok(cell) => Some(cell),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {
                pause();
                None
            }
        })
    }
}

impl Posix {
    /// Moves the watches of kernel socket `fd`, which has become a socket of the stack (`connect`, `listen`, `bind`), from the kernel to the
    /// interest lists.
    pub(crate) fn epoll_adopt(&self, fd: Fd, socket: SocketRef) {
        for number in self.epolls.used() {
            let (epoll, event) = match self.epolls.lock(number).as_mut() {
                Some(instance) => match instance.kernel_members.remove(&fd) {
                    Some(event) => (instance.fd, event),
                    None => continue,
                },
                None => continue,
            };
            // ENOENT: the number was closed without DEL and reused; the new socket is not watched.
            if self.kernel.epoll_control(epoll, libc::EPOLL_CTL_DEL, fd, None).is_ok()
                && self.epoll_add(number, epoll, Descriptor { fd, socket }, event).is_err()
            {
                self.fall_back("epoll_ctl", &fd, Fallback::WatchLost);
            }
        }
    }

    /// Moves the watches of `socket`, which has these numbers here, to the kernel. Returns false if an instance stays locked: the rest is
    /// for the next call that meets the socket.
    pub(crate) fn epoll_leave(&self, socket: SocketRef, numbers: &[Fd]) -> bool {
        let mut is_complete = true;
        for number in self.epolls.used() {
            let Some(mut cell) = self.epolls.lock_soon(number, || self.kernel.pause(Duration::from_micros(50))) else {
                is_complete = false;
                continue;
            };
            if let Some(instance) = cell.as_mut() {
                self.watches_leave(number, instance, socket, numbers);
            }
        }
        is_complete
    }

    fn watches_leave(&self, number: u32, instance: &mut Instance, socket: SocketRef, numbers: &[Fd]) {
        self.epoll_follow(instance);
        let mut keys = instance.list.keys_of_slot(socket.index);
        keys.retain(|key| key.socket == socket);
        if keys.is_empty() {
            return;
        }
        let epoll = self.number_of_instance(number, instance.fd).unwrap_or(instance.fd);
        for key in keys {
            let fd = match numbers.contains(&key.fd) {
                true => key.fd,
                // The number of another process, which moves it.
                false if instance.list.is_common() => continue,
                // Watched under a number that is closed by now; the description is open.
                false => numbers[0],
            };
            match instance.list.take_over(key) {
                Some(watch) => self.watch_in_kernel(epoll, instance, (fd, socket), watch),
                // Another process was faster.
                None => continue,
            }
        }
        if let (true, Some((context, _)), Some(channel)) =
            (instance.list.keys_of_slot(socket.index).is_empty(), instance.wake_fd, self.attached())
        {
            channel.unwatch(socket, context);
        }
    }

    fn watch_in_kernel(&self, epoll: Fd, instance: &mut Instance, (fd, socket): (Fd, SocketRef), watch: Watch) {
        let Watch { events, data, spent } = watch;
        let event = epoll_event { events, u64: data };
        let has_shadow = self.has_shadow(socket);
        let sleeps = spent && !instance.list.is_common();
        if has_shadow && !sleeps && !self.is_datagram(socket) {
            // A listener's kernel socket is watched for the same.
            return;
        }
        if has_shadow && self.kernel.epoll_control(epoll, libc::EPOLL_CTL_DEL, fd, None).is_ok() {
            instance.kernel_members.remove(&fd);
        }
        if sleeps {
            instance.dormant.insert(fd);
            return;
        }
        let event = if spent { epoll_event { events: ONESHOT, ..event } } else { event };
        match self.kernel.epoll_control(epoll, libc::EPOLL_CTL_ADD, fd, Some(event)) {
            // Another process that has the kernel's instance has added it.
            Ok(()) | Err(Errno::EXIST) => {
                instance.kernel_members.insert(fd, event);
                instance.list.note_kernel_files();
            }
            Err(_) => self.fall_back("epoll_ctl", &fd, Fallback::WatchLost),
        }
    }

    /// After epoll_ctl(2) of a socket of ours, which another thread may have made the kernel's meanwhile.
    pub(super) fn control_moved(
        &self,
        at: EpollRef,
        key: Descriptor,
        (operation, event): (i32, Option<epoll_event>),
        answer: Answer<()>,
    ) -> Answer<()> {
        if !self.attached().is_some_and(|channel| self.has_moved(channel, key.socket)) {
            return answer;
        }
        match (operation, answer) {
            (libc::EPOLL_CTL_ADD, Ok(())) => {
                if let Some(instance) = self.epolls.lock(at.number).as_mut() {
                    self.watches_leave(at.number, instance, key.socket, &[key.fd]);
                }
                Ok(())
            }
            (_, Err(Errno::NOENT)) => self.epoll_control_kernel(at, operation, key.fd, event),
            (_, answer) => answer,
        }
    }

    /// After the kernel's epoll_ctl(2): a watch that sleeps as a spent one-shot is not in the kernel's instance.
    pub(super) fn control_dormant(
        &self,
        at: EpollRef,
        (operation, fd): (i32, Fd),
        event: Option<epoll_event>,
        answer: Answer<()>,
    ) -> Answer<()> {
        let sleeps = match (operation, answer) {
            (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, Err(Errno::NOENT)) | (libc::EPOLL_CTL_ADD, Ok(())) => {
                self.epolls.lock(at.number).as_mut().is_some_and(|instance| instance.dormant.remove(&fd))
            }
            _ => false,
        };
        match operation {
            libc::EPOLL_CTL_MOD if sleeps => self.kernel.epoll_control(at.fd, libc::EPOLL_CTL_ADD, fd, event),
            libc::EPOLL_CTL_DEL if sleeps => Ok(()),
            _ => answer,
        }
    }

    /// What a look at a watched socket has to leave for later, when no lock is held. Returns true if nothing is told of the socket here.
    pub(super) fn has_to_move(&self, socket: SocketRef, later: &mut Vec<SocketRef>) -> bool {
        let Some(channel) = self.attached() else { return false };
        match channel.handover(socket) {
            None => false,
            Some(Handover::Stays) if !self.is_left_behind(channel, socket) => false,
            Some(_) => {
                let handover = self.handover_of(channel, socket);
                if handover != Handover::Stays {
                    later.push(socket);
                }
                handover == Handover::Moved
            }
        }
    }

    /// Does what was left for later. Without the lock that it takes, the next wait looks again, and comes soon.
    pub(super) fn move_later(&self, number: u32, later: Vec<SocketRef>) {
        let Some(channel) = self.attached() else { return };
        for socket in later {
            let is_undone = self.has_moved(channel, socket) && !self.numbers_of(socket).is_empty();
            if let (true, Some(instance)) = (is_undone, self.epolls.lock(number).as_mut()) {
                instance.list.mark(socket.index);
                self.nudge(instance);
            }
        }
    }

    /// A number of the instance. `first`, under which it was created, may be another file's by now.
    pub(super) fn number_of_instance(&self, number: u32, first: Fd) -> Option<Fd> {
        if self.table.lookup(first) == Entry::Epoll(number) {
            return Some(first);
        }
        let mut fd = None;
        self.table.for_each_in(0, Fd::MAX, |known, entry| fd = if entry == Entry::Epoll(number) { Some(known) } else { fd });
        fd
    }
}

/// Attempts at the lock of an instance, 50 microseconds apart.
const ATTEMPTS: u32 = 40;

#[cfg(test)]
mod tests;
