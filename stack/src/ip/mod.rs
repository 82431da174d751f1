//! The Internet layer: interfaces, addresses, routes, neighbors; packets in and out.
//!
//! IPv4 is served; IPv6 packets are counted and dropped, but every type has room for them.

mod output;

use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use ringway_shm::{Arena, Burst, Instant};

use crate::address::{Cidr, MacAddress};
use crate::config::StackConfig;
use crate::stats::Counters;

pub(crate) use output::{Flow, OutputError, Template};

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

/// What the transport protocols must know of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkInfo {
    pub(crate) mtu: u16,
    pub(crate) medium: Medium,
    pub(crate) sends_partial_checksums: bool,
    pub(crate) segmentation_max_bytes: u32,
    pub(crate) gathers: bool,
}

/// Where packets to one destination go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) interface: u32,
    pub(crate) source: IpAddr,
    pub(crate) next_hop: IpAddr,
    pub(crate) mtu: u16,
}

/// What is known of a received datagram. Its frames start at the transport header; the checksum of
/// TCP segments has been verified (or the device vouches for it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    pub(crate) interface: u32,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
    /// Transport header and payload, bytes, over all frames.
    pub(crate) len: u32,
}

/// The TCP datagrams of one burst, in order: `headers[n]` belongs to the nth packet of `packets`.
/// Non-empty packets only; the protocol must leave it empty.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    pub(crate) headers: Vec<Datagram>,
    pub(crate) packets: Burst,
}

impl Datagrams {
    pub(crate) fn clear(&mut self) {
        self.headers.clear();
        self.packets.clear();
    }
}

/// What an ICMP error (or our own failure to resolve) says of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IcmpErrorKind {
    NetworkUnreachable,
    HostUnreachable,
    ProtocolUnreachable,
    PortUnreachable,
    /// RFC 1191; `mtu` 0: the router did not say.
    FragmentationNeeded {
        mtu: u16,
    },
    /// RFC 1122 §3.2.2.1 codes 9, 10, 13.
    Prohibited,
    TimeExceeded,
}

/// An error about a TCP segment that we sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IcmpError {
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    pub(crate) local_port: u16,
    pub(crate) remote_port: u16,
    /// Sequence number of the quoted segment: believe the error only if it is outstanding (RFC 5927 §4.1).
    pub(crate) sequence: u32,
    pub(crate) kind: IcmpErrorKind,
}

/// The Internet layer of one stack.
pub(crate) struct Ip;

#[allow(unused_variables, reason = "signatures only until the room is built")]
impl Ip {
    pub(crate) fn new(config: &StackConfig, now: Instant) -> Ip {
        Ip
    }

    pub(crate) fn add_interface(&mut self, interface: Interface) -> u32 {
        0
    }

    pub(crate) fn set_addresses(&mut self, interface: u32, addresses: Vec<Cidr>) {}

    pub(crate) fn set_routes(&mut self, routes: Vec<Route>) {}

    pub(crate) fn set_neighbor(&mut self, now: Instant, interface: u32, ip: IpAddr, mac: Option<MacAddress>) {}

    /// Whether `ip` is one of our addresses.
    pub(crate) fn owns(&self, ip: IpAddr) -> bool {
        false
    }

    pub(crate) fn local_addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        core::iter::empty()
    }

    /// Where packets to `remote` go, and the source address to use unless `local` names one.
    pub(crate) fn route(&self, remote: IpAddr, local: Option<IpAddr>) -> Option<Path> {
        None
    }

    /// Changes whenever addresses, routes or neighbors change: cached templates are stale then.
    pub(crate) fn generation(&self) -> u32 {
        0
    }

    /// The header template of a flow; asks for the neighbor when it is not known.
    pub(crate) fn template(&mut self, now: Instant, flow: &Flow) -> Result<Template, OutputError> {
        Err(OutputError::NoRoute)
    }

    /// What the link of an interface can do.
    pub(crate) fn link(&self, interface: u32) -> LinkInfo {
        LinkInfo { mtu: 1500, medium: Medium::Ip, sends_partial_checksums: false, segmentation_max_bytes: 0, gathers: false }
    }

    /// Sends one packet that starts at the transport header (checksum done or `Partial`, with at
    /// least 34 bytes of headroom): adds headers, or holds it while the neighbor is being resolved.
    /// Without a route it is counted and dropped.
    pub(crate) fn send(&mut self, now: Instant, counters: &mut Counters, flow: &Flow, packet: Burst, out: &mut [Burst]) {}

    pub(crate) fn receive(
        &mut self,
        now: Instant,
        arena: &Arena,
        counters: &mut Counters,
        interface: u32,
        burst: &mut Burst,
        datagrams: &mut Datagrams,
    ) {
        burst.clear();
    }

    pub(crate) fn transmit(&mut self, now: Instant, counters: &mut Counters, out: &mut [Burst]) {}

    pub(crate) fn handle_timeout(&mut self, now: Instant, counters: &mut Counters) {}

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// The next neighbor that the kernel must resolve: (interface, address).
    pub(crate) fn poll_resolve(&mut self) -> Option<(u32, IpAddr)> {
        None
    }

    /// The next error about a TCP segment that we sent, for `Tcp::icmp_error`.
    pub(crate) fn poll_error(&mut self) -> Option<IcmpError> {
        None
    }
}
