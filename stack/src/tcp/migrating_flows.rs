//! Several stacks with one address: the flows of this stack, and those that arrive while a flow group migrates to another
//! stack.
//!
//! A group migrates in the steering of packets, not here. But packets steered before are still on their way to this stack,
//! SYNs included. A connection opened for them must be steered here before its SYN-ACK is on the wire. So flows that reach a
//! listener meanwhile are recorded ([`MigratingFlows`]), between receiving and transmitting. Promises: segments of connections
//! cost nothing extra. Does not do: steering.

use alloc::vec::Vec;

use ringway_shm::{Flow, GroupSet};

use super::demux::{FlowKey, Target};
use super::segment::Segment;
use super::{State, Tcp};

/// The recorded flows; at most as many as a burst has segments when the list is taken after each.
#[derive(Debug)]
pub(crate) struct MigratingFlows {
    /// Groups that are migrating.
    groups: GroupSet,
    flows: Vec<Flow>,
}

impl MigratingFlows {
    pub(crate) fn new() -> MigratingFlows {
        MigratingFlows { groups: GroupSet::NONE, flows: Vec::new() }
    }

    /// Records flows of `groups` that reach a listener from now on, and no others.
    pub(crate) fn watch(&mut self, groups: GroupSet) {
        self.groups = groups;
        self.flows.clear();
    }

    /// The recorded flows; the reader empties the list.
    pub(crate) fn flows(&mut self) -> &mut Vec<Flow> {
        &mut self.flows
    }

    /// Records the flow of a segment for a listener.
    #[inline]
    pub(super) fn note(&mut self, segment: &Segment) {
        if self.groups == GroupSet::NONE {
            return;
        }
        let flow = flow(&segment.key);
        if self.groups.contains(flow.group()) {
            self.flows.push(flow);
        }
    }
}

impl Tcp {
    pub(crate) fn migrating_flows(&mut self) -> &mut MigratingFlows {
        &mut self.migrating_flows
    }

    /// Calls `visit` for every connection with its state, half-open ones and those in TIME-WAIT too.
    pub(crate) fn for_each_flow(&self, visit: &mut dyn FnMut(&Flow, State)) {
        // A freed block is closed.
        let open = self.tcbs.iter().filter(|tcb| tcb.state() != State::Closed);
        for tcb in open {
            let (local, remote) = tcb.addresses();
            visit(&Flow { local: (local.ip, local.port), remote: (remote.ip, remote.port) }, tcb.state());
        }
        self.syn_queue.iter().for_each(|record| visit(&flow(&record.key), State::SynReceived));
        self.time_wait.iter().for_each(|(record, _)| visit(&flow(&record.key), State::TimeWait));
    }

    /// Returns true when there is such a connection, half open or in TIME-WAIT too.
    pub(crate) fn knows(&self, flow: &Flow) -> bool {
        self.is_known(&key(flow))
    }

    /// Like [`knows`](Tcp::knows), by the key.
    pub(super) fn is_known(&self, key: &FlowKey) -> bool {
        self.target_of(key).is_some()
    }

    /// The record of a flow.
    pub(super) fn target_of(&self, key: &FlowKey) -> Option<Target> {
        self.flows.find(self.hasher.hash(key), |target| self.key_of(target) == Some(*key))
    }

    fn key_of(&self, target: Target) -> Option<FlowKey> {
        match target {
            Target::Connection(index) => Some(self.tcbs[index as usize].key()),
            Target::HalfOpen(index) => self.syn_queue.get(index).map(|record| record.key),
            Target::TimeWait(index) => self.time_wait.get(index).map(|record| record.key),
        }
    }
}

fn flow(key: &FlowKey) -> Flow {
    Flow { local: (key.local, key.local_port), remote: (key.remote, key.remote_port) }
}

fn key(flow: &Flow) -> FlowKey {
    let ((local, local_port), (remote, remote_port)) = (flow.local, flow.remote);
    FlowKey { local, remote, local_port, remote_port }
}
