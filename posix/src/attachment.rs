//! Attaching, when the first socket needs a channel, and detecting the death of the service. `reattach` has what comes after it.

use crate::Posix;
use crate::apart::is_apart;
use crate::channel::{Attach, Channel, NotAttached};
use crate::errno::{Answer, Errno};
use crate::fallback::{Fd, OnExec};
use crate::fd_table::Entry;
use crate::first_use::FirstUses;
use ringway_channel::sys::{wait_on, wake_all};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

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

/// The outcome of attaching to one service: its channel, or none.
type Attempt = Option<Box<dyn Channel>>;

/// State of the process's attachment.
pub(crate) struct Attachment {
    pub(crate) attach: Box<dyn Attach>,
    /// One channel for each service that this process has met, in their order. None is dropped: a thread may be in the middle of a call.
    channels: FirstUses<Attempt, SERVICES_MAX>,
    /// Place of the channel that counts.
    present: AtomicUsize,
    /// A rule denies the process its sockets.
    denied: AtomicBool,
    /// Number of services that are known to be dead.
    dead: AtomicUsize,
    /// 1: a thread attaches, and others wait for it.
    attaching: AtomicU32,
    /// There may be something to do for `reattach`: calls on their way to the kernel look after the service.
    seeks: AtomicBool,
    /// Time of the next such look, nanoseconds.
    pub(crate) next_look: AtomicU64,
    /// Such looks since the service has died.
    pub(crate) looks: AtomicU32,
}

thread_local! {
    /// True while this thread attaches.
    static ATTACHES: Cell<bool> = const { Cell::new(false) };
}

impl Attachment {
    pub(crate) fn new(attach: Box<dyn Attach>) -> Attachment {
        Attachment {
            attach,
            channels: FirstUses::new(),
            present: AtomicUsize::new(0),
            denied: AtomicBool::new(false),
            dead: AtomicUsize::new(0),
            attaching: AtomicU32::new(0),
            seeks: AtomicBool::new(false),
            next_look: AtomicU64::new(0),
            looks: AtomicU32::new(0),
        }
    }

    /// The outcome of the process's first attempt, which is made now if there was none.
    fn once(&self, attach: impl FnOnce() -> Option<Box<dyn Channel>>) -> &Option<Box<dyn Channel>> {
        if ATTACHES.get() {
            // A signal handler has interrupted the attach of its own thread.
            return &None;
        }
        while self.attaching.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            wait_on(&self.attaching, 1, None);
        }
        ATTACHES.set(true);
        let channel = self.channels.get_or_init(0, || Box::new(attach()));
        ATTACHES.set(false);
        self.attaching.store(0, Ordering::Release);
        wake_all(&self.attaching);
        channel
    }

    /// Runs `attach` while no other thread attaches. Returns false, and does nothing, if one does.
    pub(crate) fn alone(&self, attach: impl FnOnce() -> bool) -> bool {
        if ATTACHES.get() || self.attaching.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        ATTACHES.set(true);
        let attached = attach();
        ATTACHES.set(false);
        self.attaching.store(0, Ordering::Release);
        wake_all(&self.attaching);
        attached
    }

    /// The channel that counts, and its place.
    #[inline]
    pub(crate) fn present(&self) -> (usize, Option<&dyn Channel>) {
        let place = self.present.load(Ordering::Acquire);
        (place, self.channels.get(place).and_then(|channel| channel.as_deref()))
    }

    /// Makes this the channel that counts. The caller attaches alone.
    pub(crate) fn succeed(&self, channel: Box<dyn Channel>) -> &dyn Channel {
        let place = self.present.load(Ordering::Relaxed) + 1;
        let channel = self.channels.get_or_init(place, || Box::new(Some(channel)));
        self.present.store(place, Ordering::Release);
        channel.as_deref().expect("one thread attaches at a time")
    }

    /// The channel before the one that counts.
    pub(crate) fn before(&self) -> Option<&dyn Channel> {
        let place = self.present.load(Ordering::Relaxed).checked_sub(1)?;
        self.channels.get(place)?.as_deref()
    }

    /// Returns true if there may be something to do for `reattach`.
    #[inline]
    pub(crate) fn seeks(&self) -> bool {
        self.seeks.load(Ordering::Relaxed)
    }

    pub(crate) fn seek(&self) {
        self.seeks.store(true, Ordering::Relaxed);
    }

    /// The next call looks, however short ago the last one has.
    pub(crate) fn seek_now(&self) {
        self.next_look.store(0, Ordering::Relaxed);
        self.seek();
    }

    /// Nothing is left to do for it.
    pub(crate) fn rest(&self) {
        if self.seeks() {
            self.seeks.store(false, Ordering::Relaxed);
        }
    }

    /// In a child of fork: a thread that attaches is the parent's, and the child attaches by itself. (The gate keeps forks
    /// from an attach, but not longer than its patience.)
    pub(crate) fn forget_others(&self) {
        if self.attaching.load(Ordering::Acquire) != 0 {
            self.attaching.store(0, Ordering::Release);
        }
    }
}

impl Posix {
    /// The channel if this process is attached; never attaches.
    #[inline]
    pub fn attached(&self) -> Option<&dyn Channel> {
        self.attachment.present().1
    }

    /// The channel; attaches at the first call, and again when the service has died and another one is there. `Ok(None)`: no service, the kernel serves everything.
    ///
    /// # Errors
    /// ENETDOWN in strict mode without a service; EACCES where a rule denies this process its sockets.
    pub(crate) fn channel(&self) -> Answer<Option<&dyn Channel>> {
        if is_apart() {
            return if self.settings.strict { Err(Errno::NETDOWN) } else { Ok(None) };
        }
        if self.attachment.seeks() {
            self.look_for_service();
        }
        let channel = match self.attached() {
            Some(channel) => Some(channel),
            None => {
                // A child has no use of what another thread of its parent has attached by half.
                let _inside = self.fork_gate.enter();
                self.attachment.once(|| self.attach_now()).as_deref()
            }
        };
        match channel {
            None if self.attachment.denied.load(Ordering::Relaxed) => Err(Errno::ACCES),
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

    /// Returns true if a filter of system calls may forbid what the program would not do itself.
    pub fn is_confined(&self) -> bool {
        self.waits.is_confined()
    }

    /// Returns true if a descriptor of the program's is a socket of the stack.
    pub fn has_sockets(&self) -> bool {
        self.table.has_sockets()
    }

    /// Returns true if the service of a socket of this process answers: a program that this process becomes could attach there.
    pub fn has_live_sockets(&self) -> bool {
        self.has_sockets() && !self.service_is_dead()
    }

    /// Attaches now unless it was tried (before the process confines itself, or for inherited sockets).
    pub fn attach_early(&self) -> bool {
        matches!(self.channel(), Ok(Some(_)))
    }

    fn attach_now(&self) -> Option<Box<dyn Channel>> {
        match self.attachment.attach.attach(self.internal_floor(), 0) {
            Ok(channel) => {
                self.protect(&channel.descriptors());
                self.waits.cells();
                Some(channel)
            }
            Err(NotAttached::Kernel(reason)) => {
                self.say(&format!("ringway: no service ({reason}); this program's sockets stay on the kernel"));
                None
            }
            Err(NotAttached::Denied(reason)) => {
                self.attachment.denied.store(true, Ordering::Relaxed);
                self.say(&format!("ringway: this program may have no sockets: {reason}"));
                None
            }
        }
    }

    fn say(&self, line: &str) {
        if !self.settings.quiet {
            self.kernel.say(line);
        }
    }

    /// Marks descriptors as this library's own.
    pub(crate) fn protect(&self, descriptors: &[Fd]) {
        for &fd in descriptors {
            self.table.set(fd, Entry::Internal);
        }
    }

    /// Ends that, before they are closed.
    pub(crate) fn unprotect(&self, descriptors: &[Fd]) {
        for &fd in descriptors {
            self.table.take_exactly(fd, Entry::Internal);
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
        let (place, channel) = self.attachment.present();
        if self.attachment.dead.load(Ordering::Acquire) > place {
            return true;
        }
        match channel {
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
        let (place, Some(channel)) = self.attachment.present() else { return };
        channel.confirm_death();
        if !channel.alive() {
            let is_news = self.attachment.dead.fetch_max(place + 1, Ordering::AcqRel) <= place;
            self.attachment.seek();
            if is_news {
                self.hear_all_multicast_again();
            }
        }
    }
}

/// Services that a process attaches to in its life, one after the other.
pub(crate) const SERVICES_MAX: usize = 256;
/// Our own descriptors stay below this number even under a higher limit: the kernel's table grows with the highest, and fork copies
/// it (100 us with one of 16,256, 10 us with one of 2,000). Programs that use select(2) have their numbers below 1024.
const INTERNAL_TOP: u64 = 2_048;
/// Numbers below the limit that are reserved for us.
const INTERNAL_ROOM: u64 = 128;

#[cfg(test)]
mod tests;
