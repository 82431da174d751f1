//! A mirror of the kernel's knowledge of the network: links, addresses, routes, rules of policy routing, neighbors of this
//! network namespace, and their changes.
//!
//! Promises: after [`Mirror::open`] the mirror equals the kernel's state, and it follows; when the
//! kernel dropped messages everything is read again and only the differences are told. Does not
//! do: change anything, except asking the kernel to resolve a neighbor.

mod mirror;
mod resolve;
mod socket;
mod wire;

pub use mirror::{Differences, Mirror, Snapshot};
pub use resolve::NeighborResolver;

/// Counts the messages of a datagram of the kernel that make sense, for fuzzing.
pub fn count_messages(datagram: &[u8]) -> usize {
    wire::messages(datagram).len()
}

use std::net::IpAddr;

use ringway_stack::{Cidr, MacAddress};

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The kernel's number.
    pub index: u32,
    /// The kernel's name.
    pub name: String,
    /// Link address; zero where there is none.
    pub mac: MacAddress,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Administratively up.
    pub up: bool,
    /// The loopback interface.
    pub loopback: bool,
    /// Frames start with an Ethernet header.
    pub ethernet: bool,
    /// Packets wait in a queueing discipline (any but `noqueue`).
    pub queued: bool,
    /// Kind of a virtual interface (`veth`, `bridge`, `vlan`); empty: hardware.
    pub kind: String,
    /// It belongs to a VRF, which has a routing table of its own.
    pub is_in_vrf: bool,
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The interface.
    pub link: u32,
    /// Address and the length of its network's prefix.
    pub cidr: Cidr,
    /// Not usable (yet): duplicate address detection is not over, or has found another host (RFC 4862 §5.4).
    pub tentative: bool,
    /// New connections should come from another one (RFC 4862 §5.5.4).
    pub deprecated: bool,
}

/// A route of the main table, also one that says that nothing leads there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkRoute {
    /// Which addresses it leads to.
    pub destination: Cidr,
    /// The router; `None`: the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// The interface; [`NO_LINK`]: packets are refused.
    pub link: u32,
    /// The smaller wins.
    pub metric: u32,
    /// Preferred source address.
    pub source: Option<IpAddr>,
}

/// A rule of policy routing that asks for another table than the main one, or for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// For IPv4; else for IPv6.
    pub is_ipv4: bool,
    /// The smaller is asked first.
    pub priority: u32,
    /// Which table; `None`: packets are refused, or the rule goes on at another one.
    pub table: Option<u32>,
}

/// The interface of routes that lead nowhere (unreachable, prohibit, blackhole).
pub const NO_LINK: u32 = u32::MAX;

/// A neighbor on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbor {
    /// The interface.
    pub link: u32,
    /// Its address.
    pub ip: IpAddr,
    /// Its link address; `None`: not known (any more).
    pub mac: Option<MacAddress>,
}

#[cfg(test)]
pub(crate) mod tests;
