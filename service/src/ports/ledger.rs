//! Which workers of the service own which port, and what the filters are told of it.
//!
//! ```text
//!   own        one worker's port: an ephemeral one, a bound one, of datagrams   filter: its bit
//!   own_share  a listener's that every worker has                               filter: the bits of all
//! ```
//! A port is one worker's or everybody's until its last user has gone, so a connection stays where its packets come: who
//! asks for the other kind meanwhile is refused. Promises: the filters change when the first owner comes and the last one
//! goes, and not between. Does not do: counting the users of one worker; that worker does.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use ringway::{PortError, Transport};

use super::Steering;

/// The owners of a port, by bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owners {
    workers: u32,
    /// Flows are divided among all workers.
    shared: bool,
}

/// The table of all workers.
struct Ledger {
    steering: Box<dyn Steering>,
    all: u32,
    ports: HashMap<(Transport, IpAddr, u16), Owners>,
}

/// One worker's hand on the table.
#[derive(Clone)]
pub(crate) struct Seat {
    ledger: Arc<Mutex<Ledger>>,
    bit: u32,
}

impl Seat {
    /// The hands of so many workers on one table, whose filters are told by `steering`.
    pub(crate) fn seats(steering: Box<dyn Steering>, workers: usize) -> impl Iterator<Item = Seat> {
        let all = (0..workers).fold(0, |bits, worker| bits | 1 << worker);
        let ledger = Arc::new(Mutex::new(Ledger { steering, all, ports: HashMap::new() }));
        (0..workers).map(move |worker| Seat { ledger: ledger.clone(), bit: 1 << worker })
    }

    fn ledger(&self) -> std::sync::MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn own(&self, transport: Transport, ip: IpAddr, port: u16, shared: bool) -> Result<(), PortError> {
        let mut ledger = self.ledger();
        let Some(owners) = ledger.ports.get_mut(&(transport, ip, port)) else {
            let workers = if shared { ledger.all } else { self.bit };
            ledger.steering.own(transport, ip, port, workers).map_err(|_| PortError::NoSteering)?;
            ledger.ports.insert((transport, ip, port), Owners { workers: self.bit, shared });
            return Ok(());
        };
        // What is this worker's own stays so: its listener gets all flows, and those of the others are refused.
        let joins = owners.shared && shared;
        if owners.workers & self.bit == 0 && !joins {
            return Err(PortError::InUse);
        }
        owners.workers |= self.bit;
        Ok(())
    }

    pub(super) fn disown(&self, transport: Transport, ip: IpAddr, port: u16) -> io::Result<()> {
        let mut ledger = self.ledger();
        let Some(owners) = ledger.ports.get_mut(&(transport, ip, port)) else { return Ok(()) };
        owners.workers &= !self.bit;
        if owners.workers != 0 {
            return Ok(());
        }
        ledger.ports.remove(&(transport, ip, port));
        ledger.steering.release(transport, ip, port)
    }
}

#[cfg(test)]
mod tests;
