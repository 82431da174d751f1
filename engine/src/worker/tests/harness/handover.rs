//! What tests of handover ask of the two workers.

use std::sync::mpsc::Receiver;

use ringway_shm::channel::SlotRef;

use super::{App, Net, Worker};
use crate::attach::HandoverCommand;
use crate::command::{RegionId, Reply};

impl Net {
    /// Has the worker of an application obey, and returns its answer, if it has one by now.
    pub(in super::super) fn hand_over<T>(
        &mut self,
        app: usize,
        command: impl FnOnce(RegionId, Reply<T>) -> HandoverCommand,
    ) -> Receiver<T> {
        let App { worker, region, .. } = self.apps[app];
        let Worker { attachments, core, .. } = &mut self.workers[worker];
        let (reply, answer) = Reply::pair();
        attachments.hand_over(command(region, reply), core);
        answer
    }

    /// Takes the locks of an application's slot, as a thread in a call does, or frees them.
    pub(in super::super) fn hold_slot(&mut self, app: usize, slot: SlotRef, holds: bool) {
        let App { worker, region, .. } = self.apps[app];
        self.workers[worker].attachments.hold_slot(region, slot, holds);
    }

    /// The kernel socket that was shown for a slot has changed.
    pub(in super::super) fn revoke(&mut self, app: usize, slot: SlotRef) {
        let App { worker, region, .. } = self.apps[app];
        let Worker { attachments, core, .. } = &mut self.workers[worker];
        attachments.revoke(region, slot, core);
    }

    /// Ports of which new connections are the kernel's.
    pub(in super::super) fn left(&self) -> Vec<(u16, Vec<u16>)> {
        self.left.lock().expect("no panic while it is held").clone()
    }

    /// Requests that wait because their socket is on its way.
    pub(in super::super) fn waiting_requests(&mut self, app: usize, slot: SlotRef) -> usize {
        let App { worker, region, .. } = self.apps[app];
        self.workers[worker].attachments.waiting_requests(region, slot)
    }
}
