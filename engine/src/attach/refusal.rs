//! Sockets that were refused, or given back or handed over while they were open, and are the kernel's: the latest of each group, for `ringway ss`.
//!
//! Promises: a group has [`LATEST_MAX`] records at most, whatever it asks for; the same request again counts. Does not do: requests that
//! no interface of Ringway reaches, of which a program may make thousands; sockets that a library leaves to the kernel without asking.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ringway_channel::{ControlAnswer, Failure, KernelPath, KernelReason, Operation};
use ringway_shm::stats::{Endpoint, HOLDERS_NAMED, InfoRecord, SocketRecord};
use ringway_stack::State;

use super::record::UNCONNECTED;
use super::region::Region;
use crate::core::Core;

/// Records of one group.
pub(super) const LATEST_MAX: usize = 8;
/// Linux's number of a listener.
const LISTEN: u8 = State::Listen.linux();

/// The socket that was asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Wanted {
    state: u8,
    datagrams: bool,
    local: SocketAddr,
    remote: SocketAddr,
}

/// The latest refusals of a group, the oldest first.
#[derive(Default)]
pub(super) struct Refusals {
    /// The number: of the record in the statistics, if there was one.
    rows: Vec<(Wanted, KernelPath, Option<u32>)>,
}

impl Region {
    /// Remembers that a request was refused, or forgets it once the request is granted.
    pub(super) fn note_answer(&mut self, operation: &Operation, answer: &ControlAnswer, core: &mut Core) {
        let Some(wanted) = wanted(operation) else { return };
        let reason = match answer {
            ControlAnswer::Failed(Failure::InUse | Failure::NotAvailable) => KernelReason::PortTaken,
            ControlAnswer::Failed(Failure::NoResources) => KernelReason::NoResources,
            ControlAnswer::Done => {
                let granted = self.refusals.rows.extract_if(.., |(known, ..)| *known == wanted);
                granted.filter_map(|(_, _, record)| record).for_each(|record| core.metrics.release_record(record));
                return;
            }
            ControlAnswer::Failed(failure) => match failure.kernel_reason() {
                Some(reason) => reason,
                None => return,
            },
            ControlAnswer::NotOurs => return,
        };
        self.note_refusal(wanted, reason, core);
    }

    /// Remembers that an open datagram socket of these addresses has become the kernel's; its slot has no row any more.
    pub(super) fn note_given_back(&mut self, local: SocketAddr, remote: SocketAddr, reason: KernelReason, core: &mut Core) {
        self.note_refusal(Wanted { state: UNCONNECTED, datagrams: true, local, remote }, reason, core);
    }

    /// Remembers that a connection has gone to the kernel for a reason of the stack's; rows with the same ends count.
    pub(super) fn note_handed_over(&mut self, local: SocketAddr, remote: SocketAddr, reason: KernelReason, core: &mut Core) {
        self.note_refusal(Wanted { state: State::Established.linux(), datagrams: false, local, remote }, reason, core);
    }

    fn note_refusal(&mut self, wanted: Wanted, reason: KernelReason, core: &mut Core) {
        let rows = &mut self.refusals.rows;
        let known = rows.iter().position(|(known, path, _)| *known == wanted && path.reason == reason);
        let (count, record) = match known.map(|at| rows.remove(at)) {
            Some((_, path, record)) => (path.count.saturating_add(1), record),
            None if rows.len() < LATEST_MAX => (1, core.metrics.claim_record()),
            None => (1, rows.remove(0).2),
        };
        let path = KernelPath { reason, count };
        rows.push((wanted, path, record));
        // `None`: there is no file, or it is full.
        if let Some(record) = record {
            core.metrics.write_socket(record, &self.refused(&wanted, path));
        }
    }

    /// The group has ended.
    pub(super) fn forget_refusals(&mut self, core: &mut Core) {
        self.refusals.rows.drain(..).filter_map(|(_, _, record)| record).for_each(|record| core.metrics.release_record(record));
    }

    /// The rows for tools, if there is space for all.
    #[cfg(test)]
    pub(super) fn refused_rows(&self) -> Vec<SocketRecord> {
        self.refusals.rows.iter().map(|(wanted, path, _)| self.refused(wanted, *path)).collect()
    }

    fn refused(&self, wanted: &Wanted, path: KernelPath) -> SocketRecord {
        let endpoint = |address: SocketAddr| Endpoint { ip: address.ip(), port: address.port() };
        SocketRecord {
            state: wanted.state,
            datagrams: wanted.datagrams,
            local: endpoint(wanted.local),
            remote: endpoint(wanted.remote),
            receive_queue: 0,
            send_queue: 0,
            interface: u32::MAX,
            pid: self.owner.pid,
            uid: self.owner.uid,
            program: self.owner.program.clone(),
            region: self.number,
            slot: u32::MAX,
            congestion_control: String::new(),
            info: InfoRecord::default(),
            timer: None,
            memory: [0; 4],
            kernel: Some(path),
            holders: [0; HOLDERS_NAMED],
            descriptor: None,
        }
    }
}

/// No address and no port, of the same family.
pub(super) fn any(address: SocketAddr) -> SocketAddr {
    let ip = if address.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
    SocketAddr::new(ip, 0)
}

fn wanted(operation: &Operation) -> Option<Wanted> {
    let (state, datagrams, local, remote) = match *operation {
        Operation::Listen { local, .. } => (LISTEN, false, local, any(local)),
        Operation::Connect { remote } => (UNCONNECTED, false, any(remote), remote),
        Operation::Datagram { local, .. } => (UNCONNECTED, true, local, any(local)),
        Operation::ConnectDatagram { remote } => (UNCONNECTED, true, any(remote), remote),
        _ => return None,
    };
    Some(Wanted { state, datagrams, local, remote })
}
