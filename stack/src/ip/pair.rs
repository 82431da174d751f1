//! The two addresses of a datagram, ours first.
//!
//! IPv4 addresses are one number, in the byte order of an outgoing packet's header: so they are hashed, and compared with
//! header templates, in one operation.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// See the module's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pair {
    V4(u64),
    V6(Ipv6Addr, Ipv6Addr),
}

impl Pair {
    /// Makes a pair of two addresses of one family. (A mixed pair would be stored as IPv6 and never found.)
    #[inline]
    pub(crate) fn of(local: IpAddr, remote: IpAddr) -> Pair {
        let wide = |ip| match ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        match (local, remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => Pair::ipv4(local, remote),
            (local, remote) => Pair::V6(wide(local), wide(remote)),
        }
    }

    /// Makes a pair of two IPv4 addresses.
    #[inline]
    pub(crate) fn ipv4(local: Ipv4Addr, remote: Ipv4Addr) -> Pair {
        Pair::V4(u64::from(local.to_bits()) << 32 | u64::from(remote.to_bits()))
    }

    /// Returns our address.
    #[inline]
    pub(crate) fn local(self) -> IpAddr {
        match self {
            Pair::V4(pair) => IpAddr::V4(Ipv4Addr::from_bits((pair >> 32) as u32)),
            Pair::V6(local, _) => IpAddr::V6(local),
        }
    }

    /// Returns the remote address.
    #[inline]
    pub(crate) fn remote(self) -> IpAddr {
        match self {
            Pair::V4(pair) => IpAddr::V4(Ipv4Addr::from_bits(pair as u32)),
            Pair::V6(_, remote) => IpAddr::V6(remote),
        }
    }
}

#[cfg(test)]
mod tests;
