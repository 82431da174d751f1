//! Socket addresses in C form (`sockaddr_in`, `sockaddr_in6`).

use std::net::{IpAddr, SocketAddr};

use ringway_posix::fallback::RawAddress;

/// Writes an address for a socket of one family; an IPv4 address for AF_INET6 is mapped.
pub(super) fn raw(address: SocketAddr, inet6: bool) -> RawAddress {
    let mut bytes = [0; 128];
    bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
    let ip = match address.ip() {
        IpAddr::V4(ip) if !inet6 => {
            bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            bytes[4..8].copy_from_slice(&ip.octets());
            return RawAddress { bytes, len: 16 };
        }
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
    bytes[8..24].copy_from_slice(&ip.octets());
    RawAddress { bytes, len: 28 }
}

/// Reads an address; a mapped one is IPv4's. `None`: another family, or too short.
pub(super) fn parse(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(*bytes.first_chunk::<2>()?));
    let port = u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]);
    let ip = match family {
        libc::AF_INET => IpAddr::from(*bytes.get(4..8)?.first_chunk::<4>()?),
        libc::AF_INET6 => IpAddr::from(*bytes.get(8..24)?.first_chunk::<16>()?).to_canonical(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}
