//! What tests of handover ask of the two workers.

use std::net::IpAddr;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard};

use ringway_channel::SlotRef;

use super::{App, Net, Worker};
use crate::attach::HandoverCommand;
use crate::command::{RegionId, Reply};
use crate::handover::Unmoved;
use crate::ports::Leave;

/// Ports whose new connections are the kernel's, and the peers' ports of those that stay.
#[derive(Clone, Default)]
pub(super) struct LeftPorts(Arc<Mutex<Left>>);

/// What the workers have named to their hosts.
#[derive(Clone, Default)]
pub(super) struct Taken(Arc<Mutex<Vec<Unmoved>>>);

impl Taken {
    pub(super) fn note(&self, unmoved: Unmoved) {
        self.0.lock().expect("no panic while it is held").push(unmoved);
    }
}

#[derive(Default)]
struct Left {
    ports: Vec<(u16, Vec<u16>)>,
    /// Another worker has all ports too, and lets none go.
    is_kept: bool,
}

impl LeftPorts {
    fn left(&self) -> MutexGuard<'_, Left> {
        self.0.lock().expect("no panic while it is held")
    }

    pub(super) fn leave(&self, port: u16, stay: &[(IpAddr, u16)]) -> Leave {
        let mut left = self.left();
        left.ports.push((port, stay.iter().map(|&(_, port)| port).collect()));
        if left.is_kept { Leave::Waits } else { Leave::Done }
    }

    pub(super) fn is_left(&self, port: u16) -> bool {
        let left = self.left();
        !left.is_kept && left.ports.iter().any(|(left, _)| *left == port)
    }

    pub(super) fn take_back(&self, port: u16) {
        self.left().ports.retain(|(left, _)| *left != port);
    }
}

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
        self.left.left().ports.clone()
    }

    /// What was named since the last time.
    pub(in super::super) fn taken(&mut self) -> Vec<Unmoved> {
        std::mem::take(&mut *self.taken.0.lock().expect("no panic while it is held"))
    }

    /// Another worker has all ports too, and keeps them or does not.
    pub(in super::super) fn keep_ports(&mut self, is_kept: bool) {
        self.left.left().is_kept = is_kept;
    }

    /// Requests that wait because their socket is on its way.
    pub(in super::super) fn waiting_requests(&mut self, app: usize, slot: SlotRef) -> usize {
        let App { worker, region, .. } = self.apps[app];
        self.workers[worker].attachments.waiting_requests(region, slot)
    }
}
