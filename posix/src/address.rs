//! Socket addresses as C programs write them: `sockaddr_in`, and `sockaddr_in6` with a v4-mapped address.

use crate::fallback::RawAddress;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4};

/// What the program's `sockaddr` says, as far as it concerns the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// An IPv4 address; `mapped` when it came in an IPv6 structure.
    V4 { address: SocketAddrV4, mapped: bool },
    /// The IPv6 wildcard with this port (a dual-stack socket serves IPv4 too).
    V6Any { port: u16 },
    /// A true IPv6 address.
    V6,
    /// Another family, or too short: the kernel knows what to say.
    Other,
}

/// A name (address) that the stack hands to a program, ready to be copied out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SocketName {
    bytes: [u8; IN6_LEN],
    len: usize,
}

impl SocketName {
    /// `address` as the socket's family wants it.
    pub(crate) fn new(address: SocketAddrV4, inet6: bool) -> SocketName {
        let mut bytes = [0; IN6_LEN];
        let family = if inet6 { libc::AF_INET6 } else { libc::AF_INET };
        bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        if inet6 {
            bytes[8..24].copy_from_slice(&address.ip().to_ipv6_mapped().octets());
            return SocketName { bytes, len: IN6_LEN };
        }
        bytes[4..8].copy_from_slice(&address.ip().octets());
        SocketName { bytes, len: IN_LEN }
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

/// Reads a program's `sockaddr`.
pub(crate) fn parse(bytes: &[u8]) -> Parsed {
    let Some(family) = bytes.first_chunk::<2>().map(|bytes| i32::from(u16::from_ne_bytes(*bytes))) else {
        return Parsed::Other;
    };
    match family {
        libc::AF_INET if bytes.len() >= IN_LEN => {
            let ip: [u8; 4] = bytes[4..8].try_into().expect("four bytes");
            Parsed::V4 { address: SocketAddrV4::new(Ipv4Addr::from(ip), port(bytes)), mapped: false }
        }
        libc::AF_INET6 if bytes.len() >= IN6_LEN_MIN => {
            let ip: [u8; 16] = bytes[8..24].try_into().expect("sixteen bytes");
            let ip = Ipv6Addr::from(ip);
            match ip.to_ipv4_mapped() {
                Some(v4) => Parsed::V4 { address: SocketAddrV4::new(v4, port(bytes)), mapped: true },
                None if ip.is_unspecified() => Parsed::V6Any { port: port(bytes) },
                None => Parsed::V6,
            }
        }
        _ => Parsed::Other,
    }
}

fn port(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes[2], bytes[3]])
}

const IN_LEN: usize = 16;
const IN6_LEN: usize = 28;
/// Linux takes a `sockaddr_in6` without its scope id (RFC 2133 had none).
const IN6_LEN_MIN: usize = 24;

#[cfg(test)]
mod tests;
