//! Ethernet in and out: which frames are for us and what they carry.

use ringway_shm::Frame;

use crate::address::MacAddress;
use crate::wire::ethernet::{HEADER_LEN, Header, TYPE_ARP, TYPE_IPV4, TYPE_IPV6};

/// What a frame for us carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carries {
    Arp,
    Ipv4,
    /// IPv4 in a frame to many: hosts must not answer those (RFC 1122 §3.3.6).
    Ipv4ToMany,
    Ipv6,
    /// IPv6 in a frame to many.
    Ipv6ToMany,
}

/// Looks at the Ethernet header and takes it off. `None`: not for us, or nothing that we speak.
#[inline]
pub(crate) fn receive(own: MacAddress, frame: &mut Frame) -> Option<Carries> {
    let header = Header::parse(frame.bytes())?;
    let to_many = header.destination.is_multicast();
    if (header.destination != own && !to_many) || header.source.is_multicast() {
        return None;
    }
    let carries = match header.ether_type {
        TYPE_ARP => Carries::Arp,
        TYPE_IPV4 if to_many => Carries::Ipv4ToMany,
        TYPE_IPV4 => Carries::Ipv4,
        TYPE_IPV6 if to_many => Carries::Ipv6ToMany,
        TYPE_IPV6 => Carries::Ipv6,
        _ => return None,
    };
    frame.pull(HEADER_LEN);
    Some(carries)
}

/// Puts an Ethernet header in front.
#[inline]
pub(crate) fn push_header(frame: &mut Frame, source: MacAddress, destination: MacAddress, ether_type: u16) {
    Header { destination, source, ether_type }.write(frame.push(HEADER_LEN));
}
