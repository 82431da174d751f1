//! Fork: the child gets a number of its own, with a copy of what the parent holds, before it exists.
//! So nothing closes when the parent closes its descriptors, whenever the child first uses its own.

use super::super::ProcessIndex;
use super::super::attach::{self, Applicant, AttachError};
use super::super::process_table::{self, RESERVED};
use super::super::request::{Operation, Request};
use super::super::slot::SlotRef;
use super::Client;
use crate::sys;
use ringway_shm::sync::Ordering;
use std::os::fd::AsFd;

impl Client {
    /// This process's number in the region.
    pub fn process(&self) -> ProcessIndex {
        self.process.load(Ordering::Relaxed)
    }

    /// Before fork: reserves a number for the child and notes there what this process holds. `false`:
    /// no number is free; the child will have no sockets. One fork at a time.
    pub fn before_fork(&self) -> bool {
        let parent = self.process.load(Ordering::Relaxed);
        let Some(child) = process_table::allocate_within(&self.map, RESERVED | u64::from(parent) << 32) else {
            self.map.numbers().forks_refused.0.fetch_add(1, Ordering::Relaxed);
            return false;
        };
        self.map.held_slots(parent).for_each(|slot| self.map.hold(child, slot));
        self.reserved.store(child + 1, Ordering::Release);
        true
    }

    /// Before an exec in a child that borrows its parent's memory (vfork): reserves a number for the image after it, once, however
    /// many paths the program is looked for at.
    pub fn before_borrowed_exec(&self) {
        let name = RESERVED | u64::from(self.process()) << 32 | u64::from(self.name_of(sys::process_number()));
        if !self.map.processes().used().any(|process| self.map.process(process).entry.load(Ordering::SeqCst) == name)
            && self.before_fork()
        {
            self.after_fork_in_parent(Some(sys::process_number()));
        }
    }

    /// After fork, in the parent; `child`: its pid, or `None` when fork failed. Tells the service which process
    /// to watch.
    pub fn after_fork_in_parent(&self, child: Option<u32>) {
        let Some(process) = self.reserved.swap(0, Ordering::AcqRel).checked_sub(1) else { return };
        match child {
            Some(pid) => {
                let entry = &self.map.process(process).entry;
                // Unless the child has attached already.
                let expected = RESERVED | u64::from(self.process()) << 32;
                let named = expected | u64::from(self.name_of(pid));
                entry.compare_exchange(expected, named, Ordering::SeqCst, Ordering::SeqCst).ok();
                self.announce_process(process, pid);
            }
            None => self.announce_process(process, 0),
        }
    }

    /// After fork, in the child: use the reserved number. The parent's contexts are not the child's. `false`: none was free.
    pub fn after_fork_in_child(&self) -> bool {
        self.control_lock.store(0, Ordering::Release);
        self.inherited.store(true, Ordering::Release);
        let Some(process) = self.reserved.swap(0, Ordering::AcqRel).checked_sub(1) else {
            // Without a number of its own it must not speak for the parent: to this child the service is gone.
            self.gone.store(true, Ordering::Release);
            return false;
        };
        let pid = sys::process_number();
        let entry = &self.map.process(process).entry;
        // In another PID namespace the service may have been told by the parent, and have written its own number.
        let unnamed = RESERVED | u64::from(self.process()) << 32;
        let named = unnamed | u64::from(self.name_of(pid));
        entry.compare_exchange(unnamed, named, Ordering::SeqCst, Ordering::SeqCst).ok();
        // The service has not said yet by which number it knows a process of another namespace.
        self.known_as.store(if self.is_foreign { 0 } else { pid }, Ordering::Release);
        self.process.store(process, Ordering::Release);
        // The parent tells too; it may be killed before it does.
        self.announce_process(process, pid);
        true
    }

    /// By which name a number is reserved for process `pid` of this namespace.
    fn name_of(&self, pid: u32) -> u32 {
        if self.is_foreign { attach::name_inside(self.namespace, pid) } else { pid }
    }

    /// The number by which the service knows process `pid` of this namespace; 0: not known. So far this process alone is.
    pub fn number_outside(&self, pid: u32) -> u32 {
        match self.is_foreign {
            true if pid == sys::process_number() => self.known_as.load(Ordering::Acquire),
            true => 0,
            false => pid,
        }
    }

    /// As [`number_outside`](Self::number_outside), the other way round.
    pub fn number_inside(&self, outside: u32) -> u32 {
        match self.is_foreign {
            true if outside == self.known_as.load(Ordering::Acquire) && outside != 0 => sys::process_number(),
            true => 0,
            false => outside,
        }
    }

    /// `pid`: 0: there is no child.
    fn announce_process(&self, process: ProcessIndex, pid: u32) {
        if pid != 0 && self.is_foreign {
            // A child of vfork tells nothing of itself: the image after its exec attaches by the name of the number.
            if pid == sys::process_number() {
                return;
            }
            // Where that fails (a program may have closed the control connection) the number is kept until the child
            // attaches, or the group ends.
            if let Ok(pidfd) = sys::open_process(pid) {
                self.with_control(|control| attach::show_child(control, process, pidfd.as_fd())).ok();
            }
            return;
        }
        let slot = SlotRef { index: 0, generation: 0 };
        self.submit(Request { slot, sequence: 0, operation: Operation::Forked { process, pid } });
    }

    /// In a forked child: a control connection of its own, under the number that it has and in place of the
    /// parent's, with the same descriptor number. Needed before [`open_context`](Self::open_context). Does
    /// nothing when that is done already.
    ///
    /// # Errors
    /// See [`AttachError`]; the child goes on without contexts then.
    pub fn reattach(&self) -> Result<(), AttachError> {
        let _lock = self.lock_control()?;
        if !self.inherited.load(Ordering::Acquire) {
            return Ok(());
        }
        if self.known_dead() {
            return Err(AttachError::ServiceGone);
        }
        let applicant = Applicant { token: self.token, membership: self.membership, wanted: Some(self.process()), program: None };
        let welcome = attach::request_attach(&self.path, applicant, self.fd_floor)?;
        if welcome.region != self.region {
            // Another service listens at the path by now.
            self.gone.store(true, Ordering::Relaxed);
            return Err(AttachError::ServiceGone);
        }
        sys::replace(&welcome.control, self.control_fd())?;
        self.known_as.store(welcome.known_as, Ordering::Release);
        self.inherited.store(false, Ordering::Release);
        let before = self.process.swap(welcome.process, Ordering::AcqRel);
        if before != welcome.process {
            // Could not get the number back: carry over what we hold.
            self.map.held_slots(before).for_each(|slot| self.map.hold(welcome.process, slot));
            self.map.take_held(before);
        }
        Ok(())
    }
}
