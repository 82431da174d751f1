//! Fork: the child gets a number of its own, with a copy of what the parent holds, before it exists.
//! So nothing closes when the parent closes its descriptors, whenever the child first uses its own.

use super::super::ProcessIndex;
use super::super::attach::{self, AttachError};
use super::super::request::{Operation, Request};
use super::super::roster::{self, RESERVED};
use super::super::slot::SlotRef;
use super::Client;
use crate::sync::Ordering;
use crate::sys;

impl Client {
    /// This process's number in the region.
    pub fn process(&self) -> ProcessIndex {
        self.process.load(Ordering::Relaxed)
    }

    /// Before fork: reserves a number for the child and notes there what this process holds. `false`:
    /// no number is free; the child will have no sockets. One fork at a time.
    pub fn before_fork(&self) -> bool {
        let parent = self.process.load(Ordering::Relaxed);
        let Some(child) = roster::allocate(&self.map, RESERVED | u64::from(parent) << 32) else { return false };
        for word in 0..self.slots() / 64 {
            let bits = self.map.held(parent, word).load(Ordering::SeqCst);
            if bits != 0 || self.map.held(child, word).load(Ordering::Relaxed) != 0 {
                self.map.held(child, word).store(bits, Ordering::SeqCst);
            }
        }
        self.reserved.store(child + 1, Ordering::Release);
        true
    }

    /// After fork, in the parent; `child`: its pid, or `None` when fork failed. Tells the service whom
    /// to watch.
    pub fn after_fork_in_parent(&self, child: Option<u32>) {
        let Some(process) = self.reserved.swap(0, Ordering::AcqRel).checked_sub(1) else { return };
        match child {
            Some(pid) => {
                let entry = &self.map.process(process).entry;
                // Unless the child has attached already.
                let expected = RESERVED | u64::from(self.process()) << 32;
                entry.compare_exchange(expected, expected | u64::from(pid), Ordering::SeqCst, Ordering::SeqCst).ok();
                self.announce_process(process, pid);
            }
            None => self.announce_process(process, 0),
        }
    }

    /// After fork, in the child: use the reserved number. The parent's contexts are not the child's.
    pub fn after_fork_in_child(&self) {
        self.control_lock.store(0, Ordering::Release);
        self.inherited.store(true, Ordering::Release);
        let Some(process) = self.reserved.swap(0, Ordering::AcqRel).checked_sub(1) else {
            // Without a number of its own it must not speak for the parent: to this child the service is gone.
            self.gone.store(true, Ordering::Release);
            return;
        };
        let pid = u64::from(sys::process_number());
        let entry = &self.map.process(process).entry;
        let parent = u64::from(self.process()) << 32;
        entry.store(RESERVED | parent | pid, Ordering::SeqCst);
        self.process.store(process, Ordering::Release);
        // The parent tells too; it may be killed before it does.
        self.announce_process(process, pid as u32);
    }

    fn announce_process(&self, process: ProcessIndex, pid: u32) {
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
        let welcome = attach::request_attach(&self.path, self.token, Some(self.process()), self.fd_floor)?;
        sys::replace(&welcome.control, self.control_fd())?;
        self.inherited.store(false, Ordering::Release);
        let before = self.process.swap(welcome.process, Ordering::AcqRel);
        if before != welcome.process {
            // Could not get the number back: carry over what we hold.
            for word in 0..self.slots() / 64 {
                let bits = self.map.held(before, word).swap(0, Ordering::SeqCst);
                self.map.held(welcome.process, word).fetch_or(bits, Ordering::SeqCst);
            }
        }
        Ok(())
    }
}
