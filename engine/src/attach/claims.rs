//! Rights that applications have shown, and what becomes of them.
//!
//! ```text
//!   claim (service) -> noted for the slot -> used by Listen, Connect or Datagram -> kept by the socket, or with its port
//! ```
//! Promises: a claim is good for one use of one slot; it lives as long as what it was used for, a connection's until its port is
//! given back. Does not do: judging; the service has.

use std::net::IpAddr;

use ringway_shm::channel::{SlotIndex, SlotRef};

use super::region::Region;
use crate::claim::{Claim, Purpose, Rights};
use crate::core::Core;
use crate::metrics::Work;

impl Region {
    /// Notes a claim for the next request of a slot, in place of an earlier one.
    pub(super) fn note_claim(&mut self, slot: SlotRef, claim: Claim) -> bool {
        let current = !self.detached && self.channel.is_current(slot);
        if current {
            self.claims.insert(slot.index, (slot, claim));
        }
        current
    }

    /// Whether the group may use these addresses with `port` for what `slot` asks. `Ok(None)`: it needs to show nothing.
    pub(super) fn right(
        &mut self,
        slot: SlotIndex,
        purpose: Purpose,
        addresses: &[IpAddr],
        port: u16,
        core: &mut Core,
    ) -> Result<Option<Claim>, NotShown> {
        if self.owner.rights == Rights::Trusted {
            return Ok(None);
        }
        let socket = self.sockets.get(slot).map(|socket| socket.slot);
        match self.claims.remove(&slot) {
            Some((shown_for, claim))
                if Some(shown_for) == socket && addresses.iter().all(|&ip| claim.covers(purpose, ip, port)) =>
            {
                Ok(Some(claim))
            }
            _ => {
                core.metrics.add(Work::UnshownPorts, 1);
                Err(NotShown)
            }
        }
    }

    /// What a claim was used for ends, since its kernel socket is no longer what it was.
    pub(super) fn revoke(&mut self, slot: SlotRef, core: &mut Core) {
        if self.claims.get(&slot.index).is_some_and(|(shown_for, _)| *shown_for == slot) {
            self.claims.remove(&slot.index);
        }
        if self.sockets.get(slot.index).is_some_and(|socket| socket.slot == slot) {
            core.metrics.add(Work::RevokedClaims, 1);
            self.close(slot.index, true, core);
        }
    }
}

/// The application has not shown that the port is its own.
pub(super) struct NotShown;
