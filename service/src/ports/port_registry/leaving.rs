//! A port whose new connections go to the kernel, with all the workers that have it.
//!
//! ```text
//!   worker 0: takes no SYN any more; leave(its peers) ---> Waits
//!   worker 1: takes no SYN any more; leave(its peers) ---> Done: the filters know both workers' peers, the rest is the kernel's
//!   worker 0: has_left ---> true
//! ```
//! Each worker knows its own connections only, so the filters are told when the last one has named its own. Promises: a connection of a worker that
//! has let the port go stays with that worker, whichever is last. Does not do: time; a worker that does not want to wait any longer says
//! [`stay`](WorkerPorts::stay).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ringway_engine::{Leave, Transport};

use super::{IN_WORKER_MAX, PortRegistry, WorkerPorts};

/// An address and a port.
type End = (IpAddr, u16);

/// A port that is the kernel's for new connections, or that some of its workers have let go.
#[derive(Default)]
pub(super) struct Leaving {
    /// The peers of the workers that have let it go, by bit.
    peers: BTreeMap<u32, Vec<End>>,
    /// The filters know.
    is_left: bool,
}

impl PortRegistry {
    /// Tells the filters if all workers that have the port have let it go.
    fn leave_if_all(&mut self, end: End) -> Leave {
        let (Some(owners), Some(leaving)) = (self.ports.get(&(Transport::Tcp, end.0, end.1)), self.leaving.get(&end)) else {
            return Leave::Refused;
        };
        if owners.workers & !leaving.peers.keys().fold(0, |bits, bit| bits | bit) != 0 {
            return Leave::Waits;
        }
        self.tell_filters(end)
    }

    /// New connections of a port go to the kernel, those that its workers have named stay.
    fn tell_filters(&mut self, end: End) -> Leave {
        let Some(leaving) = self.leaving.get_mut(&end) else { return Leave::Refused };
        let stay: BTreeSet<End> = leaving.peers.values().flatten().copied().collect();
        let stay: Vec<End> = stay.into_iter().collect();
        leaving.is_left = self.steering.leave_port(end.0, end.1, &stay).is_ok();
        if leaving.is_left {
            return Leave::Done;
        }
        self.leaving.remove(&end);
        Leave::Refused
    }
}

impl WorkerPorts {
    /// New connections to a port of this worker are the kernel's once all workers that have it have said so; those with the peers in `stay` are still
    /// this worker's.
    pub(in super::super) fn leave(&self, ip: IpAddr, port: u16, stay: &[End]) -> Leave {
        let mut registry = self.registry();
        let owners = registry.ports.get(&(Transport::Tcp, ip, port));
        if owners.is_none_or(|owners| owners.workers & self.bit == 0) {
            return Leave::Refused;
        }
        let leaving = registry.leaving.entry((ip, port)).or_default();
        if leaving.is_left {
            return Leave::Done;
        }
        leaving.peers.insert(self.bit, stay.to_vec());
        registry.leave_if_all((ip, port))
    }

    /// Returns true if new connections to the port, which this worker has let go, are the kernel's.
    pub(in super::super) fn has_left(&self, ip: IpAddr, port: u16) -> bool {
        let mut registry = self.registry();
        let is_left = registry.leaving.get(&(ip, port)).map(|leaving| leaving.is_left);
        // A worker that had not let it go may have given it up meanwhile.
        is_left.is_some_and(|is_left| is_left || registry.leave_if_all((ip, port)) == Leave::Done)
    }

    /// This worker does not let the port go after all. Returns false if it is the kernel's by now.
    pub(in super::super) fn stay(&self, ip: IpAddr, port: u16) -> bool {
        let mut registry = self.registry();
        let Some(leaving) = registry.leaving.get_mut(&(ip, port)) else { return true };
        if leaving.is_left {
            return false;
        }
        leaving.peers.remove(&self.bit);
        if leaving.peers.is_empty() {
            registry.leaving.remove(&(ip, port));
        }
        true
    }

    /// Ends [`leave`](WorkerPorts::leave), for all workers: the connections that the kernel has got meanwhile stay the kernel's. Returns false where
    /// they cannot be known; then the port is left as before, but for the connections with the peers in `stay`. Packets are lost meanwhile, as on a bad
    /// line.
    pub(in super::super) fn take_back(&self, ip: IpAddr, port: u16, stay: &[End]) -> bool {
        let mut registry = self.registry();
        let Some(owners) = registry.ports.get(&(Transport::Tcp, ip, port)).copied() else { return false };
        let Some(leaving) = registry.leaving.get_mut(&(ip, port)).filter(|leaving| leaving.is_left) else {
            // Another worker has done it.
            return true;
        };
        leaving.peers.insert(self.bit, stay.to_vec());
        let workers = if owners.shared { registry.all } else { owners.workers };
        let steering = &mut registry.steering;
        let is_known = steering.retake_port(ip, port).and_then(|()| steering.leave_connections(ip, port, IN_WORKER_MAX));
        let is_back = is_known.is_ok_and(|is_known| is_known);
        if is_back {
            registry.leaving.remove(&(ip, port));
        } else {
            // `Refused`: there is no room for the flows that stay; they are lost.
            registry.tell_filters((ip, port));
        }
        let is_owned = registry.steering.own(Transport::Tcp, ip, port, workers).is_ok();
        if is_back && registry.steering.kernel_flows() > 0 {
            registry.on_flows.iter().for_each(|tell| tell());
        }
        is_back && is_owned
    }
}
