//! Attaching once, when the first socket needs a channel, and detecting the death of the service.

use crate::Posix;
use crate::apart::is_apart;
use crate::channel::{Attach, Channel};
use crate::errno::{Answer, Errno};
use crate::fallback::{Fd, OnExec};
use crate::fd_table::Entry;
use crate::first_use::FirstUse;
use ringway_shm::sys::{wait_on, wake_all};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Settings of this process from the environment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// RINGWAY_STRICT: a socket that should be ours but cannot be fails instead of going to the kernel.
    pub strict: bool,
    /// RINGWAY_QUIET: no line on standard error when the service does not answer.
    pub quiet: bool,
    /// RINGWAY_LOG=fallback: one line for each socket that stays on the kernel.
    pub log_fallback: bool,
}

/// State of the process's attachment.
pub(crate) struct Attachment {
    attach: Box<dyn Attach>,
    channel: FirstUse<Option<Box<dyn Channel>>>,
    /// 1: a thread attaches, and others wait for it.
    attaching: AtomicU32,
    dead: AtomicBool,
}

thread_local! {
    /// True while this thread attaches.
    static ATTACHES: Cell<bool> = const { Cell::new(false) };
}

impl Attachment {
    pub(crate) fn new(attach: Box<dyn Attach>) -> Attachment {
        Attachment { attach, channel: FirstUse::new(), attaching: AtomicU32::new(0), dead: AtomicBool::new(false) }
    }

    /// The outcome of the process's one attempt, which is made now if there was none.
    fn once(&self, attach: impl FnOnce() -> Option<Box<dyn Channel>>) -> &Option<Box<dyn Channel>> {
        if ATTACHES.get() {
            // A signal handler has interrupted the attach of its own thread.
            return &None;
        }
        while self.attaching.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            wait_on(&self.attaching, 1, None);
        }
        ATTACHES.set(true);
        let channel = self.channel.get_or_init(|| Box::new(attach()));
        ATTACHES.set(false);
        self.attaching.store(0, Ordering::Release);
        wake_all(&self.attaching);
        channel
    }

    /// In a child of fork: a thread that attaches is the parent's, and the child attaches by itself. (The gate keeps forks
    /// from an attach, but not longer than its patience.)
    pub(crate) fn forget_others(&self) {
        self.attaching.store(0, Ordering::Release);
    }
}

impl Posix {
    /// The channel if this process is attached; never attaches.
    #[inline]
    pub fn attached(&self) -> Option<&dyn Channel> {
        self.attachment.channel.get()?.as_deref()
    }

    /// The channel; attaches at the first call. `Ok(None)`: no service, the kernel serves everything.
    ///
    /// # Errors
    /// ENETDOWN in strict mode without a service.
    pub(crate) fn channel(&self) -> Answer<Option<&dyn Channel>> {
        if is_apart() {
            return if self.settings.strict { Err(Errno::NETDOWN) } else { Ok(None) };
        }
        let channel = match self.attachment.channel.get() {
            Some(channel) => channel,
            None => {
                // A child has no use of what another thread of its parent has attached by half.
                let _inside = self.fork_gate.enter();
                self.attachment.once(|| self.attach_now())
            }
        };
        match channel.as_deref() {
            None if self.settings.strict => Err(Errno::NETDOWN),
            channel => Ok(channel),
        }
    }

    /// Returns true in strict mode: sockets that cannot be the stack's fail.
    pub fn is_strict(&self) -> bool {
        self.settings.strict
    }

    /// Returns true if nothing may be written to standard error.
    pub fn is_quiet(&self) -> bool {
        self.settings.quiet
    }

    /// Attaches now unless it was tried (before the process confines itself, or for inherited sockets).
    pub fn attach_early(&self) -> bool {
        matches!(self.channel(), Ok(Some(_)))
    }

    fn attach_now(&self) -> Option<Box<dyn Channel>> {
        match self.attachment.attach.attach(self.internal_floor()) {
            Ok(channel) => {
                self.protect(&channel.descriptors());
                self.waits.cells();
                Some(channel)
            }
            Err(reason) => {
                if !self.settings.quiet {
                    self.kernel.say(&format!("ringway: no service ({reason}); this program's sockets stay on the kernel"));
                }
                None
            }
        }
    }

    /// Marks descriptors as this library's own.
    pub(crate) fn protect(&self, descriptors: &[Fd]) {
        for &fd in descriptors {
            self.table.set(fd, Entry::Internal);
        }
    }

    /// Lowest number for our own descriptors: high enough that the program's lowest free numbers stay free.
    pub(crate) fn internal_floor(&self) -> Fd {
        let limit = self.kernel.descriptor_limit().min(INTERNAL_TOP);
        Fd::try_from(limit.saturating_sub(INTERNAL_ROOM)).expect("INTERNAL_TOP fits a descriptor number").max(3)
    }

    /// Moves one of our own descriptors to the top of the range and marks it.
    pub(crate) fn park(&self, fd: Fd) -> Fd {
        let parked = match self.kernel.duplicate(fd, self.internal_floor(), OnExec::Close) {
            Ok(high) => {
                // A number that cannot be closed stays open; nothing else depends on it.
                self.kernel.close(fd).ok();
                high
            }
            Err(_) => fd,
        };
        self.table.set(parked, Entry::Internal);
        parked
    }

    /// Returns true if the service is gone; then every socket is reset.
    pub(crate) fn service_is_dead(&self) -> bool {
        if self.attachment.dead.load(Ordering::Acquire) {
            return true;
        }
        match self.attached() {
            Some(channel) if !channel.alive() => {
                self.note_service_death();
                true
            }
            _ => false,
        }
    }

    /// Checks whether the service has died, for waits that do not include the control descriptor.
    pub(crate) fn look_at_service(&self) {
        if let Some(channel) = self.attached() {
            channel.confirm_death();
        }
    }

    /// Checks a control descriptor that has hung up. In a forked child it may have been the parent's, and its hang-up
    /// not the service's.
    pub fn note_service_death(&self) {
        let Some(channel) = self.attached() else { return };
        channel.confirm_death();
        if !channel.alive() {
            self.attachment.dead.store(true, Ordering::Release);
        }
    }
}

/// Our own descriptors stay below this number even under a higher limit: the kernel's table grows with the highest.
const INTERNAL_TOP: u64 = 16_384;
/// Numbers below the limit that are reserved for us.
const INTERNAL_ROOM: u64 = 128;

#[cfg(test)]
mod tests;
