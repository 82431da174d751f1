//! Packets to broadcast and multicast addresses. Read RFC 1122 §3.3.6-7, RFC 1112 §6-7, RFC 4291 §2.7 first.
//!
//! Finds their path: the requested interface, else the routing table's, else the first with an address of the family.
//! `group` keeps the memberships.

use super::fragment::Routed;
use core::net::IpAddr;

use ringway_shm::Burst;

use super::{Flow, Ip, Path};
use crate::env::IpEnv;
use crate::stats::Counter;

impl Ip {
    /// Returns true for a multicast or broadcast address.
    pub(crate) fn names_many(&self, ip: IpAddr) -> bool {
        ip.is_multicast() || self.is_broadcast(ip)
    }

    /// Returns the path of packets to `remote`, a multicast or broadcast address; `route` serves hosts.
    pub(crate) fn route_to_many(&self, remote: IpAddr, local: Option<IpAddr>, interface: Option<u32>) -> Option<Path> {
        let interface = interface.or_else(|| self.interface_to_many(remote))?;
        let state = self.interfaces.get(interface as usize)?;
        let source = match local {
            Some(local) => Some(local).filter(|&ip| ip.is_ipv4() == remote.is_ipv4() && self.owns(ip)),
            None => state.source_towards(remote, remote),
        }?;
        let mtu = if remote.is_ipv4() { state.interface.mtu } else { state.ipv6_mtu };
        Some(Path { interface, source, next_hop: remote, mtu })
    }

    /// Returns the default interface of packets to a multicast or broadcast address.
    pub(crate) fn interface_to_many(&self, remote: IpAddr) -> Option<u32> {
        let on_network = |state: &super::InterfaceState| matches!(remote, IpAddr::V4(ip) if state.broadcasts.contains(&ip));
        let named = self.interfaces.iter().position(on_network).map(|at| at as u32);
        let routed = || self.routes.lookup(remote).map(|route| route.interface);
        let same_family =
            |state: &super::InterfaceState| state.addresses.iter().any(|cidr| cidr.ip.is_ipv4() == remote.is_ipv4());
        let first = || self.interfaces.iter().position(same_family).map(|at| at as u32);
        named.or_else(routed).or_else(first)
    }

    /// Sends the multicast or broadcast datagram of `packet` through an interface, like `send_fragmentable`.
    pub(crate) fn send_to_many(&mut self, env: &mut IpEnv, to: (&Flow, u32), packet: &mut Burst, out: &mut [Burst]) {
        let (flow, interface) = to;
        match self.route_to_many(flow.remote, Some(flow.local), Some(interface)) {
            Some(path) => self.send_along(env, Routed { flow, path: &path }, packet, out),
            None => {
                packet.drop_packet();
                env.counters.count(Counter::IpOutNoRoutes);
            }
        }
    }

    /// Returns the interface that has this address.
    pub(crate) fn interface_with(&self, ip: IpAddr) -> Option<u32> {
        self.interfaces.iter().position(|state| state.has(ip)).map(|at| at as u32)
    }

    /// Returns true when the interface exists.
    pub(crate) fn has_interface(&self, interface: u32) -> bool {
        (interface as usize) < self.interfaces.len()
    }
}
