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

/// How the stack makes addresses (RFC 4862).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Autoconfiguration {
    /// Not at all.
    #[default]
    Off,
    /// With identifiers that stay the same in a network and tell nothing in another (RFC 7217).
    Stable,
    /// With identifiers made of the link address (RFC 4291 appendix A).
    Eui64,
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
    /// Segments that such a packet may have.
    pub segmentation_max_segments: u32,
    /// Trains of UDP datagrams may leave with `Segmentation` too.
    pub segments_udp: bool,
    /// Packets may leave in several frames.
    pub gathers: bool,
    /// Who answers for the addresses.
    pub role: Role,
    /// Whether the stack makes IPv6 addresses for itself and follows routers. Only for [`Role::Owned`] on Ethernet.
    pub autoconfiguration: Autoconfiguration,
    /// Whether addresses that are set are used only after nobody else on the link was found to have them: some seconds
    /// later (RFC 4862 §5.4, RFC 5227 §2.1). Otherwise whoever sets them answers for that. Only for [`Role::Owned`] on
    /// Ethernet.
    pub detects_duplicates: bool,
    /// The VLAN (IEEE 802.1Q, 1 to 4094) that the interface is on: only its tagged frames come in, all that leave are tagged,
    /// and none leaves with segmentation. `None`: untagged frames, and those whose tag has only a priority.
    pub vlan: Option<u16>,
}

impl Interface {
    /// What follows for packets: no device is asked to cut tagged ones.
    pub(super) fn settle(mut self) -> Interface {
        if self.vlan.is_some() {
            self.segmentation_max_bytes = 0;
            self.segments_udp = false;
        }
        self
    }
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
