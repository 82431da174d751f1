//! Socket addresses in C form: `sockaddr_in` and `sockaddr_in6`.
//!
//! Beyond this file a v4-mapped address in a `sockaddr_in6` is an IPv4 address; only names returned to the program are
//! mapped again.

use crate::fallback::RawAddress;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// The content of a program's `sockaddr`, as far as it concerns the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// An Internet address, IPv4 also if it came v4-mapped; `inet6`: it came in an IPv6 structure.
    Inet { address: SocketAddr, inet6: bool },
    /// Another family, or too short: the kernel returns the error.
    Other,
}

/// A name (address) that the stack returns to a program, ready to be copied out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SocketName {
    bytes: [u8; IN6_LEN],
    len: usize,
}

impl SocketName {
    /// Encodes `address` for the socket's family.
    pub(crate) fn new(address: SocketAddr, inet6: bool) -> SocketName {
        let mut bytes = [0; IN6_LEN];
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        let ip = match address.ip() {
            IpAddr::V4(ip) if !inet6 => {
                bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
                bytes[4..8].copy_from_slice(&ip.octets());
                return SocketName { bytes, len: IN_LEN };
            }
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        // Flow information and scope stay zero: link-local addresses are never ours.
        bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        bytes[8..24].copy_from_slice(&ip.octets());
        SocketName { bytes, len: IN6_LEN }
    }

    /// The bytes of the `sockaddr`.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl From<SocketName> for RawAddress {
    fn from(name: SocketName) -> RawAddress {
        let mut bytes = [0; 128];
        bytes[..name.len].copy_from_slice(name.bytes());
        RawAddress { bytes, len: name.len }
    }
}

/// Parses a program's `sockaddr`.
pub(crate) fn parse(bytes: &[u8]) -> Parsed {
    let Some(family) = bytes.first_chunk::<2>().map(|bytes| i32::from(u16::from_ne_bytes(*bytes))) else {
        return Parsed::Other;
    };
    match family {
        libc::AF_INET if bytes.len() >= IN_LEN => {
            let ip: [u8; 4] = bytes[4..8].try_into().expect("four bytes");
            Parsed::Inet { address: SocketAddrV4::new(Ipv4Addr::from(ip), port(bytes)).into(), inet6: false }
        }
        libc::AF_INET6 if bytes.len() >= IN6_LEN_MIN => {
            let ip: [u8; 16] = bytes[8..24].try_into().expect("sixteen bytes");
            let ip = Ipv6Addr::from(ip);
            let address = match ip.to_ipv4_mapped() {
                Some(v4) => SocketAddrV4::new(v4, port(bytes)).into(),
                None => SocketAddrV6::new(ip, port(bytes), 0, 0).into(),
            };
            Parsed::Inet { address, inet6: true }
        }
        _ => Parsed::Other,
    }
}

/// Returns true for addresses that the kernel always serves, as destination or as the address of a listener.
pub(crate) fn is_kernels(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_multicast() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_multicast() || ip.is_unicast_link_local(),
    }
}

fn port(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes[2], bytes[3]])
}

const IN_LEN: usize = 16;
const IN6_LEN: usize = 28;
/// Linux accepts a `sockaddr_in6` without its scope id (RFC 2133 had none).
const IN6_LEN_MIN: usize = 24;

#[cfg(test)]
mod tests;
