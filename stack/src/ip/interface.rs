//! Interfaces and routes as the owner of the stack describes them.

use alloc::string::String;
use core::net::IpAddr;

use crate::address::{Cidr, MacAddress};
pub use crate::wire::classify::Medium;

/// Owner of an interface's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The kernel has the same addresses: it answers ARP and ICMP echo, and `set_neighbor` passes its neighbors to the
    /// stack.
    Shared,
    /// Only the stack: it answers ARP and ICMP echo and resolves neighbors itself.
    Owned,
}

/// Making of addresses by the stack (RFC 4862).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Autoconfiguration {
    /// Makes no addresses.
    #[default]
    Off,
    /// With identifiers that stay the same in a network and reveal nothing in another one (RFC 7217).
    Stable,
    /// With identifiers derived from the link address (RFC 4291 appendix A).
    Eui64,
}

/// Description of an interface.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Name, for messages.
    pub name: String,
    /// Frame format.
    pub medium: Medium,
    /// Own link address; meaningless for [`Medium::Ip`].
    pub mac: MacAddress,
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// Packets may leave with `Checksum::Partial`.
    pub sends_partial_checksums: bool,
    /// Maximum length of a packet that may leave with `Segmentation`, bytes with headers; 0: none.
    pub segmentation_max_bytes: u32,
    /// Maximum number of segments of such a packet.
    pub segmentation_max_segments: u32,
    /// UDP datagrams may leave with `Segmentation` too.
    pub segments_udp: bool,
    /// Packets may leave in several frames.
    pub gathers: bool,
    /// Owner of the addresses.
    pub role: Role,
    /// Makes IPv6 addresses and follows routers. Only for [`Role::Owned`] on Ethernet.
    pub autoconfiguration: Autoconfiguration,
    /// Uses configured addresses only after DAD has found no other host with them: some seconds later
    /// (RFC 4862 §5.4, RFC 5227 §2.1). Otherwise the caller must know that they are free. Only for [`Role::Owned`] on Ethernet.
    pub detects_duplicates: bool,
    /// VLAN of the interface (IEEE 802.1Q, 1 to 4094): only its tagged frames are received, all frames leave tagged, and
    /// none leaves with segmentation. `None`: untagged frames, and those whose tag has only a priority.
    pub vlan: Option<u16>,
}

impl Interface {
    /// Adapts the description to VLANs: no device is asked to cut tagged packets.
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
    /// Addresses that it covers.
    pub destination: Cidr,
    /// The router; `None`: the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// Interface through which packets leave.
    pub interface: u32,
    /// Of two routes with the same prefix the smaller metric wins.
    pub metric: u32,
    /// Preferred source address.
    pub source: Option<IpAddr>,
}
