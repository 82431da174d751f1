//! Flows of owned ports that are the kernel's: connections that a stack has handed over to a kernel socket, and those that the kernel had
//! before the port was owned.
//!
//! ```text
//!   owned[port]  = workers | FLOWS | LEFT   FLOWS: flows of the port are in the table
//!                                           LEFT: those that are not are the kernel's
//!   flows[flow]  = 0 the kernel's, 1 the stacks'
//! ```
//! A port that is left has no listener in the stacks any more: new connections are the kernel's, and those that the stacks still have
//! are in the table until the port is released. The programs look a flow up only where its port has the mark, so a port without such flows costs a load and a jump more. The
//! mark is set once the first flow is in its table and goes before the last one leaves. Promises: at most [`FLOWS_MAX`] flows; a flow
//! whose kernel socket is gone is taken out by a sweep (`PortFilter::sweep`). Does not do: knowing when a connection is ready for the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::ops::Bound;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ringway_shm::Flow;

use super::division::{FLOW_BYTES, flow_key};
use super::sockets::Asker;
use super::{Protocol, port_key, sys};

/// Flows of the kernel at most.
pub const FLOWS_MAX: u32 = 65_536;
/// Flows whose sockets one sweep asks for.
const SWEEP_MAX: usize = 1024;

/// Bit of an owned port's word: some of its flows are the kernel's.
pub(super) const FLOWS: u32 = 1 << 31;
/// Bit of an owned port's word: flows that are not in the table are the kernel's.
pub(super) const LEFT: u32 = 1 << 30;
/// Bit of an owned port's word: it is a multicast group's, and the kernel has its packets too.
pub(super) const COPIES: u32 = 1 << 29;
/// The bits of the word that say the workers.
pub(super) const WORKERS: u32 = !(FLOWS | LEFT | COPIES);
/// What the table says of a flow of the stacks' of a port that is left.
const STAYS: u32 = 1;

/// An end of a connection.
pub(super) type End = (IpAddr, u16);

/// The flows, and which of the ports that they belong to are owned.
#[derive(Debug)]
pub(super) struct KernelFlows {
    map: OwnedFd,
    by_port: BTreeMap<End, BTreeSet<End>>,
    /// Ports that are left, and the flows of theirs that the stacks have.
    left: BTreeMap<End, BTreeSet<End>>,
    count: usize,
    /// The flow behind which the next sweep begins.
    swept: Option<Flow>,
}

impl KernelFlows {
    /// None yet, with room for `flows_max`.
    pub(super) fn new(flows_max: u32) -> io::Result<KernelFlows> {
        let map = sys::create_map(sys::MapKind::Hash, FLOW_BYTES as u32, flows_max)?;
        Ok(KernelFlows { map, by_port: BTreeMap::new(), left: BTreeMap::new(), count: 0, swept: None })
    }

    /// The map, for a program.
    pub(super) fn map(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    /// Returns the mark that the word of this port of TCP has.
    pub(super) fn mark(&self, port: End) -> u32 {
        match (self.left.contains_key(&port), self.by_port.contains_key(&port)) {
            (true, _) => FLOWS | LEFT,
            (false, true) => FLOWS,
            (false, false) => 0,
        }
    }

    /// All flows of `port` but those in `stay` are the kernel's, and the word of the port in `owned` says so.
    pub(super) fn leave_port(&mut self, owned: BorrowedFd<'_>, port: End, stay: &[End]) -> io::Result<()> {
        let kernels = self.by_port.get(&port);
        let stay: BTreeSet<End> =
            stay.iter().copied().filter(|end| !kernels.is_some_and(|kernels| kernels.contains(end))).collect();
        let key = |&remote: &End| flow_key(&Flow { local: port, remote });
        for (count, remote) in stay.iter().enumerate() {
            if let Err(error) = sys::update(self.map.as_fd(), &key(remote), STAYS) {
                stay.iter().take(count).try_for_each(|remote| sys::delete_if_there(self.map.as_fd(), &key(remote)))?;
                return Err(error);
            }
        }
        self.left.insert(port, stay);
        set_mark(owned, port, self.mark(port))
    }

    /// The port has no owner any more: it is not left any more either.
    pub(super) fn forget_port(&mut self, port: End) -> io::Result<()> {
        for remote in self.left.remove(&port).into_iter().flatten() {
            sys::delete_if_there(self.map.as_fd(), &flow_key(&Flow { local: port, remote }))?;
        }
        Ok(())
    }

    /// `flow` is the kernel's, and the word of its port in `owned` says so.
    pub(super) fn enter(&mut self, owned: BorrowedFd<'_>, flow: &Flow) -> io::Result<()> {
        sys::update(self.map.as_fd(), &flow_key(flow), 0)?;
        if let Some(stay) = self.left.get_mut(&flow.local) {
            stay.remove(&flow.remote);
        }
        let is_first = self.mark(flow.local) == 0;
        if is_first && let Err(error) = set_mark(owned, flow.local, FLOWS) {
            sys::delete_if_there(self.map.as_fd(), &flow_key(flow))?;
            return Err(error);
        }
        if self.by_port.entry(flow.local).or_default().insert(flow.remote) {
            self.count += 1;
        }
        Ok(())
    }

    /// Returns true when the flow is the kernel's.
    pub(super) fn has(&self, flow: &Flow) -> bool {
        self.by_port.get(&flow.local).is_some_and(|remotes| remotes.contains(&flow.remote))
    }

    /// `flow` is the workers' again. Nothing happens to one that is not the kernel's.
    pub(super) fn take_back(&mut self, owned: BorrowedFd<'_>, flow: &Flow) -> io::Result<()> {
        let is_kernels = self.has(flow);
        self.forget(owned, flow)?;
        match self.left.get_mut(&flow.local) {
            Some(stay) if is_kernels => {
                sys::update(self.map.as_fd(), &flow_key(flow), STAYS)?;
                stay.insert(flow.remote);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// `flow` has ended in the kernel.
    fn forget(&mut self, owned: BorrowedFd<'_>, flow: &Flow) -> io::Result<()> {
        let is_left = self.left.contains_key(&flow.local);
        let Some(remotes) = self.by_port.get_mut(&flow.local).filter(|remotes| remotes.contains(&flow.remote)) else {
            return Ok(());
        };
        if remotes.len() == 1 && !is_left {
            set_mark(owned, flow.local, 0)?;
        }
        sys::delete_if_there(self.map.as_fd(), &flow_key(flow))?;
        remotes.remove(&flow.remote);
        if remotes.is_empty() {
            self.by_port.remove(&flow.local);
        }
        self.count -= 1;
        Ok(())
    }

    /// Takes `flow` out if its kernel socket is gone.
    pub(super) fn check(&mut self, owned: BorrowedFd<'_>, flow: &Flow, asker: &mut Asker) -> io::Result<()> {
        if asker.has_connection(flow)? { Ok(()) } else { self.forget(owned, flow) }
    }

    /// Returns the number of flows.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns the flows that a sweep is to check, [`SWEEP_MAX`] at most; the next ones go on behind them.
    pub(super) fn next_flows(&mut self) -> Vec<Flow> {
        let flows = self.flows_behind_swept();
        self.swept = flows.last().copied();
        flows
    }

    /// The flows behind those of the last sweep, going round.
    fn flows_behind_swept(&self) -> Vec<Flow> {
        let flows_of = |(&local, remotes)| {
            let remotes: &BTreeSet<End> = remotes;
            remotes.iter().map(move |&remote| Flow { local, remote })
        };
        let all = || self.by_port.iter().flat_map(flows_of);
        let Some(swept) = self.swept else { return all().take(SWEEP_MAX).collect() };
        let behind = self.by_port.range((Bound::Included(swept.local), Bound::Unbounded)).flat_map(flows_of);
        behind.filter(|flow| *flow > swept).chain(all().take_while(|flow| *flow <= swept)).take(SWEEP_MAX).collect()
    }
}

/// Sets the mark of a port to `mark`, where the port is owned.
fn set_mark(owned: BorrowedFd<'_>, (ip, port): End, mark: u32) -> io::Result<()> {
    let key = port_key(Protocol::Tcp, ip, port);
    match sys::look_up(owned, &key)? {
        Some(word) => sys::update(owned, &key, word & WORKERS | mark),
        None => Ok(()),
    }
}
