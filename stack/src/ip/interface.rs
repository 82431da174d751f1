//! Interfaces and routes as whoever sets the stack up names them.

use alloc::string::String;
use core::net::IpAddr;

use crate::address::{Cidr, MacAddress};

/// What frames of an interface look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Frames start with an Ethernet header.
    Ethernet,
    /// Frames start with an IP header.
    Ip,
}

/// Who answers for an interface's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The kernel has the same addresses: it answers ARP and ICMP echo, and neighbors are told to
    /// the stack by `set_neighbor`.
    Shared,
    /// The stack alone: it answers ARP and ICMP echo and resolves neighbors itself.
    Owned,
}

/// An interface as the stack sees it.
#[derive(Clone, Debug)]
pub struct Interface {
    /// For people.
    pub name: String,
    /// What frames look like.
    pub medium: Medium,
    /// Own link address; meaningless for [`Medium::Ip`].
    pub mac: MacAddress,
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// Packets may leave with `Checksum::Partial`.
    pub sends_partial_checksums: bool,
    /// Largest packet that may leave with `Segmentation`, bytes with headers; 0: none.
    pub segmentation_max_bytes: u32,
    /// Packets may leave in several frames.
    pub gathers: bool,
    /// Who answers for the addresses.
    pub role: Role,
}

/// One entry of the routing table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Which addresses it leads to.
    pub destination: Cidr,
    /// The router; `None`: the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// Where packets leave.
    pub interface: u32,
    /// Of two routes with the same prefix the smaller metric wins.
    pub metric: u32,
    /// Preferred source address.
    pub source: Option<IpAddr>,
}
