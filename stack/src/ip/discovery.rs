//! Neighbor discovery on interfaces where the stack alone answers for its addresses. Read RFC 4861 §7 first.
//!
//! Answers solicitations for its addresses and records the answers of neighbors (`link::neighbor` keeps the states of
//! §7.3.2). Ignores messages that a router may have forwarded (hop limit below 255). Messages of routers go to `router` and
//! `redirect`, messages about our own addresses to `dad`.

use core::net::{IpAddr, Ipv6Addr};

use ringway_shm::Instant;

use super::control::Control;
use super::{Ip, Medium, Role};
use crate::address::MacAddress;
use crate::event::AddressChange;
use crate::link::neighbor::Advertised;
use crate::stats::Counter;
use crate::wire::ipv6;
use crate::wire::ndp::{self, Message, Nonce};

/// What a neighbor solicitation says.
struct Solicitation {
    target: Ipv6Addr,
    source_link: Option<MacAddress>,
    nonce: Option<Nonce>,
}

impl Ip {
    /// Takes a message with a valid checksum, from its ICMPv6 header on.
    pub(super) fn receive_discovery(
        &mut self,
        now: Instant,
        interface: u32,
        outer: &ipv6::Header,
        bytes: &[u8],
    ) -> Result<(), Counter> {
        let own = self.interfaces.get(interface as usize).map(|state| &state.interface);
        if own.is_none_or(|own| own.role == Role::Shared || own.medium == Medium::Ip) {
            return Ok(());
        }
        if outer.hop_limit != ndp::HOP_LIMIT {
            return Err(Counter::IcmpInErrors);
        }
        match Message::parse(bytes).ok_or(Counter::IcmpInErrors)? {
            Message::NeighborSolicitation { target, source_link, nonce } => {
                self.receive_solicitation(now, interface, outer, Solicitation { target, source_link, nonce })
            }
            Message::NeighborAdvertisement { target, target_link, solicited, overrides, router } => {
                // §7.1.2: a solicited answer must be unicast.
                if outer.destination.is_multicast() && solicited {
                    return Err(Counter::IcmpInErrors);
                }
                if self.is_tentative(interface, target.into()) {
                    self.address_is_taken(interface, target.into());
                } else if self.interfaces[interface as usize].has(target.into()) {
                    self.tell(interface, AddressChange::Duplicate(target.into()));
                } else {
                    let link = target_link.filter(|mac| is_neighbors(*mac));
                    let advertised = Advertised { mac: link, solicited, overrides };
                    self.neighbors.advertised(now, (interface, target.into()), advertised);
                    if !router && self.is_router(interface, target.into()) {
                        self.remove_router((interface, target.into()));
                    }
                }
                Ok(())
            }
            Message::RouterAdvertisement(told) => {
                let result = self.receive_advertisement(now, interface, outer.source, &told);
                self.reschedule();
                result
            }
            Message::Redirect { target, destination, target_link } => {
                let router = outer.source.into();
                let believed = self.receive_redirect(now, (interface, router), destination.into(), target.into());
                if let Some(mac) = target_link.filter(|mac| believed && is_neighbors(*mac)) {
                    self.neighbors.noticed(now, (interface, target.into()), mac);
                }
                Ok(())
            }
            // Hosts do not answer router solicitations.
            Message::RouterSolicitation { .. } => Ok(()),
        }
    }

    /// §7.2.3, §7.2.4
    fn receive_solicitation(
        &mut self,
        now: Instant,
        interface: u32,
        outer: &ipv6::Header,
        Solicitation { target, source_link, nonce }: Solicitation,
    ) -> Result<(), Counter> {
        let from_nobody = outer.source.is_unspecified();
        // §7.1.1: a host without an address solicits the group and names no link address.
        if from_nobody && (outer.destination != ipv6::solicited_node(target) || source_link.is_some()) {
            return Err(Counter::IcmpInErrors);
        }
        self.hears_question(interface, target, from_nobody, nonce);
        let state = &self.interfaces[interface as usize];
        if !state.has(target.into()) {
            return Ok(());
        }
        let own_mac = state.interface.mac;
        let (source, sender) = (outer.source, IpAddr::V6(outer.source));
        let on_link = !from_nobody && self.is_on_link(interface, sender);
        if let Some(mac) = source_link.filter(|mac| on_link && is_neighbors(*mac) && *mac != own_mac) {
            self.neighbors.noticed(now, (interface, sender), mac);
        }
        let advertisement = Message::NeighborAdvertisement {
            target,
            target_link: Some(own_mac),
            router: false,
            solicited: !from_nobody,
            overrides: true,
        };
        let (to, destination) = match from_nobody {
            true => (ipv6::ALL_NODES, Some(MacAddress::of_group(ipv6::ALL_NODES.into()))),
            // A host that only confirms us may omit its link address: it is known, or being resolved.
            false => (source, source_link.or_else(|| self.neighbors.lookup(now, (interface, sender)))),
        };
        if let Some(destination) = destination.filter(|mac| from_nobody || is_neighbors(*mac)) {
            self.answer(interface, destination, Control::Discovery { source: target, to, message: advertisement })?;
        }
        Ok(())
    }
}

/// Returns true when a link address can be that of one neighbor.
pub(super) fn is_neighbors(mac: MacAddress) -> bool {
    !mac.is_multicast() && mac != MacAddress::default()
}

#[cfg(test)]
mod tests;
