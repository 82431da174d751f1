//! Addresses: link, network and transport. IPv4 and IPv6 alike.

use core::net::IpAddr;

/// An Ethernet address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// ff:ff:ff:ff:ff:ff
    pub const BROADCAST: MacAddress = MacAddress([0xff; 6]);
}

/// An IP address and a port: one end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SocketAddress {
    /// The address; unspecified means any.
    pub ip: IpAddr,
    /// The port in host order; 0 means any.
    pub port: u16,
}

/// An address and the length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr {
    /// The address.
    pub ip: IpAddr,
    /// Leading bits that name the network.
    pub prefix_len: u8,
}
