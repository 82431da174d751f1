//! After the death of the service: the process attaches again when one is back at the same path.
//!
//! ```text
//!   attached -- the service dies --> dead -- all its sockets have left or are closed, a service answers --> attached
//! ```
//! A call that goes to the kernel anyway looks, at most once a second: connect, listen, bind, accept, and the waits (poll, select,
//! epoll_wait). What the dead service has left first becomes the kernel's: sockets that moved, listeners, datagram sockets. A connection
//! that failed with it stays what it is until the program closes it, and until then the process stays on the kernel: a number names
//! sockets of one channel at a time. What a thread still holds of an earlier service's socket is none of the new channel
//! (`client.rs`, `salt`).
//!
//! Promises: no call fails or waits because of it, except for the time of one attach. A fork sees all of it or nothing. Without a look
//! due, it costs one relaxed load. Does not do: waking a thread that sleeps in the kernel; its next call looks. A process
//! that has filtered its system calls, a child of `vfork` and a thread with descriptors of its own do not attach again. What has
//! become the kernel's stays so.

use crate::Posix;
use crate::attachment::SERVICES_MAX;
use crate::channel::{Channel, State};
use crate::fallback::Fd;
use crate::fd_table::Entry;
use crate::reasons::Fallback;
use ringway_shm::Duration;
use std::sync::atomic::Ordering;

impl Posix {
    /// For a call that goes to the kernel: attaches again if that is due.
    #[inline]
    pub fn before_kernel(&self) {
        if self.attachment.seeks() {
            self.look_for_service();
        }
    }

    #[cold]
    pub(crate) fn look_for_service(&self) {
        if self.is_outside_table() || self.waits.is_confined() {
            return;
        }
        let (now, due) = (self.kernel.now().as_nanos(), self.attachment.next_look.load(Ordering::Relaxed));
        let next = now + LOOK_EVERY.as_nanos();
        let is_due = now >= due;
        if !is_due || self.attachment.next_look.compare_exchange(due, next, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return;
        }
        let _inside = self.fork_gate.enter();
        self.note_service_death();
        if self.service_is_dead() && !self.attachment.alone(|| self.attach_again()) {
            return;
        }
        self.attachment.end_seeking();
    }

    fn attach_again(&self) -> bool {
        let (place, Some(channel)) = self.attachment.present() else { return false };
        if place + 1 >= SERVICES_MAX || !self.leave_dead(channel) {
            return false;
        }
        let earlier = u32::try_from(place + 1).expect("SERVICES_MAX is small");
        let Ok(new) = self.attachment.attach.attach(self.internal_floor(), earlier) else { return false };
        self.protect(&new.descriptors());
        let mut new = Some(new);
        let long_dead = self.attachment.before();
        if !self.epoll_renew(|| self.attachment.succeed(new.take().expect("it is asked for once"))) {
            new.iter().for_each(|new| self.unprotect(&new.descriptors()));
            return false;
        }
        self.renew_waiters();
        // No call of the time before the last service is in progress any more.
        if let Some(channel) = long_dead {
            self.unprotect(&channel.descriptors());
            channel.retire();
        }
        if !self.settings.quiet && self.attached().is_some_and(Channel::is_first_of_group) {
            self.kernel.say(&format!("ringway: attached again to service {}", self.attachment.attach.service()));
        }
        true
    }

    /// Makes the kernel's what the dead service has left. Returns true if no socket of it is in this process any more.
    fn leave_dead(&self, channel: &dyn Channel) -> bool {
        let mut sockets = Vec::new();
        self.table.for_each_in(0, Fd::MAX, |fd, entry| {
            if let Entry::Socket(socket) = entry {
                sockets.push((fd, socket));
            }
        });
        for &(fd, socket) in &sockets {
            if self.has_moved(channel, socket) || self.is_strict() {
                continue;
            }
            if self.is_datagram(socket) {
                // Outside strict mode the kernel may have it.
                self.surrender(fd, socket, Fallback::NoAnswer).ok();
            } else if channel.view(socket).is_some_and(|view| view.state == State::Listening) {
                self.leave_stack(channel, socket);
            }
        }
        sockets.iter().all(|(fd, _)| !matches!(self.table.lookup(*fd), Entry::Socket(_)))
    }
}

const LOOK_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
