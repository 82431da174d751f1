//! Claims of applications to ports, and their use.
//!
//! ```text
//!   claim (service) -> noted for the slot -> used by Listen, Connect or Datagram -> kept by the socket, or with its port
//! ```
//! Promises: a claim is good for one use of one slot. It lives as long as the socket that uses it; a connection's lives
//! until its port is given back, an unused one until its slot is freed. Does not do: judging; the service has done so.

use std::net::IpAddr;

use ringway_channel::{SlotIndex, SlotRef};

use super::close::Closing;
use super::region::Region;
use crate::claim::{Claim, Purpose, Rights};
use crate::core::Core;
use crate::metrics::Work;

/// The use of a local port that a request asks for.
pub(super) struct PortUse<'a> {
    pub(super) purpose: Purpose,
    pub(super) addresses: &'a [IpAddr],
    pub(super) port: u16,
}

impl Region {
    /// Records a claim for the next request of a slot, in place of an earlier one.
    pub(super) fn note_claim(&mut self, slot: SlotRef, claim: Claim) -> bool {
        let current = !self.detached && self.channel.is_current(slot);
        if current {
            self.claims.insert(slot.index, (slot, claim));
        }
        current
    }

    /// Takes the claim that lets the group use a port for the request of `slot`. `Ok(None)`: none
    /// is needed.
    pub(super) fn right(
        &mut self,
        slot: SlotIndex,
        PortUse { purpose, addresses, port }: PortUse<'_>,
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

    /// Ends the use of a claim, because its kernel socket has changed.
    pub(super) fn revoke(&mut self, slot: SlotRef, core: &mut Core) {
        if self.claims.get(&slot.index).is_some_and(|(shown_for, _)| *shown_for == slot) {
            self.claims.remove(&slot.index);
        }
        // The kernel socket of a connection that is on its way is changed by the service, and the news of that may come late.
        let is_moving = self.movings.has(slot.index);
        if !is_moving && self.sockets.get(slot.index).is_some_and(|socket| socket.slot == slot && !socket.moved) {
            core.metrics.add(Work::RevokedClaims, 1);
            self.close(slot.index, Closing::Reset, core);
        }
    }
}

/// The application has not shown that the port is its own.
pub(super) struct NotShown;
