//! The two IP versions in tests, with the same addresses and sizes above them.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::address::Cidr;
use crate::wire::{checksum, ipv4, ipv6};

/// IP version of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Ipv4,
    Ipv6,
}

/// Makes of each function a test for each family: `NAME::ipv4` and `NAME::ipv6`.
macro_rules! in_both_families {
    ($($name:ident)*) => {$(
        mod $name {
            use $crate::family::Family;
            #[test]
            fn ipv4() {
                super::$name(Family::Ipv4);
            }
            #[test]
            fn ipv6() {
                super::$name(Family::Ipv6);
            }
        }
    )*};
}
pub(crate) use in_both_families;

/// Last part of an address.
const LOCAL: u8 = 1;
const REMOTE: u8 = 2;
/// MSS on a link of 1,500 bytes with IPv4.
const MSS: u16 = 1_460;

impl Family {
    /// Returns the stack's address.
    pub(crate) fn local(self) -> IpAddr {
        self.host(LOCAL)
    }

    /// Returns the peer's address.
    pub(crate) fn remote(self) -> IpAddr {
        self.host(REMOTE)
    }

    /// Returns the address of a host on the stack's link.
    pub(crate) fn host(self, number: u8) -> IpAddr {
        match self {
            Family::Ipv4 => Ipv4Addr::new(10, 0, 0, number).into(),
            Family::Ipv6 => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, number.into()).into(),
        }
    }

    /// Returns the unspecified address.
    pub(crate) fn any(self) -> IpAddr {
        match self {
            Family::Ipv4 => Ipv4Addr::UNSPECIFIED.into(),
            Family::Ipv6 => Ipv6Addr::UNSPECIFIED.into(),
        }
    }

    /// Returns the length of the IP header.
    pub(crate) fn header_len(self) -> usize {
        match self {
            Family::Ipv4 => ipv4::HEADER_LEN,
            Family::Ipv6 => ipv6::HEADER_LEN,
        }
    }

    /// Returns the link's MTU; the same MSS fits in either family.
    pub(crate) fn mtu(self) -> u16 {
        MSS + 20 + self.header_len() as u16
    }

    /// Returns the stack's address with the prefix of its link.
    pub(crate) fn network(self) -> Cidr {
        Cidr { ip: self.local(), prefix_len: if self == Family::Ipv4 { 24 } else { 64 } }
    }

    /// Returns the protocol number of ICMP.
    pub(crate) fn icmp(self) -> u8 {
        match self {
            Family::Ipv4 => 1,
            Family::Ipv6 => ipv6::PROTOCOL_ICMP,
        }
    }

    /// Fills `bytes` with the header of a packet from the first to the second of `ends`.
    pub(crate) fn write_header(ends: (IpAddr, IpAddr), protocol: u8, ecn: u8, payload_bytes: usize, bytes: &mut [u8]) {
        match ends {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let total_len = (payload_bytes + ipv4::HEADER_LEN) as u16;
                let header = ipv4::Header::atomic(source, destination, protocol, 64, total_len);
                ipv4::Header { tos: ecn, ..header }.write(bytes);
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let payload_len = payload_bytes as u16;
                let (flow_label, hop_limit, next_header) = (0, 64, protocol);
                ipv6::Header { traffic_class: ecn, flow_label, payload_len, next_header, hop_limit, source, destination }
                    .write(bytes);
            }
            _ => panic!("two families in one packet"),
        }
    }

    /// Returns the ECN field and the addresses of a packet that the stack has sent; its header must be valid.
    pub(crate) fn parse_header(self, bytes: &[u8]) -> (u8, (IpAddr, IpAddr)) {
        match self {
            Family::Ipv4 => {
                assert_eq!(checksum::sum(&bytes[..ipv4::HEADER_LEN]), 0xffff, "IP checksum");
                let header = ipv4::Header::parse(bytes).expect("a good header");
                assert_eq!(header.total_len as usize, bytes.len(), "IP length");
                (header.tos & 3, (header.source.into(), header.destination.into()))
            }
            Family::Ipv6 => {
                let header = ipv6::Header::parse(bytes).expect("a good header");
                assert_eq!(header.payload_len as usize + ipv6::HEADER_LEN, bytes.len(), "IP length");
                (header.traffic_class & 3, (header.source.into(), header.destination.into()))
            }
        }
    }
}
