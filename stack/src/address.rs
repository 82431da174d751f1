//! Link, network and transport addresses, IPv4 and IPv6.

use core::net::{IpAddr, Ipv4Addr};

pub use ringway_wire::MacAddress;

/// An IP address and a port: one end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SocketAddress {
    /// The address; unspecified means any.
    pub ip: IpAddr,
    /// The port in host order; 0 means any.
    pub port: u16,
}

/// An address and its prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr {
    /// The address.
    pub ip: IpAddr,
    /// Number of leading bits that name the network.
    pub prefix_len: u8,
}

impl core::str::FromStr for Cidr {
    type Err = BadCidr;

    /// Reads `10.0.0.1/24` or `fd00::1/64`.
    fn from_str(text: &str) -> Result<Cidr, BadCidr> {
        let (ip, prefix_len) = text.split_once('/').ok_or(BadCidr)?;
        let ip: IpAddr = ip.parse().map_err(|_| BadCidr)?;
        let prefix_len: u8 = prefix_len.parse().map_err(|_| BadCidr)?;
        let bits = if ip.is_ipv4() { 32 } else { 128 };
        (prefix_len <= bits).then_some(Cidr { ip, prefix_len }).ok_or(BadCidr)
    }
}

/// The text is not an address, a slash and a prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadCidr;

impl core::fmt::Display for BadCidr {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("expected an address and its prefix length, as in 10.0.0.1/24")
    }
}

impl core::error::Error for BadCidr {}

impl Cidr {
    /// Returns true when `ip` is in this network.
    pub fn contains(&self, ip: IpAddr) -> bool {
        self.network() == Cidr { ip, prefix_len: self.prefix_len }.network() && self.ip.is_ipv4() == ip.is_ipv4()
    }

    /// Returns the network's first address as a number: all bits after the prefix are zero.
    pub(crate) fn network(&self) -> u128 {
        let (bits, width) = match self.ip {
            IpAddr::V4(ip) => (u128::from(u32::from(ip)), 32),
            IpAddr::V6(ip) => (u128::from(ip), 128),
        };
        let host_bits = u32::from(width - self.prefix_len.min(width));
        bits.checked_shr(host_bits).and_then(|network| network.checked_shl(host_bits)).unwrap_or(0)
    }

    /// Returns the broadcast address of an IPv4 network: its last one (RFC 3021: /31 and /32 have none).
    pub(crate) fn broadcast(&self) -> Option<Ipv4Addr> {
        match self.ip {
            IpAddr::V4(ip) if self.prefix_len < 31 => {
                let host_mask = u32::MAX >> self.prefix_len;
                Some((u32::from(ip) | host_mask).into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
