//! Parses and writes Ethernet headers: selects frames for us and finds their protocol.

use ringway_shm::Frame;

use crate::address::MacAddress;
use crate::wire::ethernet::{HEADER_LEN, Header, TAG_LEN, TYPE_ARP, TYPE_IPV4, TYPE_IPV6, TYPE_VLAN, vlan_of};

/// Content of a frame for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carries {
    Arp,
    Ipv4,
    /// IPv4 in a broadcast or multicast frame: hosts must not answer those (RFC 1122 §3.3.6).
    Ipv4Multicast,
    Ipv6,
    /// IPv6 in a broadcast or multicast frame.
    Ipv6Multicast,
}

/// Parses and removes the Ethernet header. `None`: not for us, or an unknown protocol.
#[inline]
pub(crate) fn receive(own: MacAddress, vlan: Option<u16>, frame: &mut Frame) -> Option<Carries> {
    let header = Header::parse(frame.bytes())?;
    let multicast = header.destination.is_multicast();
    if (header.destination != own && !multicast) || header.source.is_multicast() {
        return None;
    }
    let (ether_type, len) = match (header.ether_type, vlan) {
        (TYPE_VLAN, _) => (tagged_type(frame.bytes(), vlan.unwrap_or(0))?, HEADER_LEN + TAG_LEN),
        (_, Some(_)) => return None,
        (ether_type, None) => (ether_type, HEADER_LEN),
    };
    let carries = match ether_type {
        TYPE_ARP => Carries::Arp,
        TYPE_IPV4 if multicast => Carries::Ipv4Multicast,
        TYPE_IPV4 => Carries::Ipv4,
        TYPE_IPV6 if multicast => Carries::Ipv6Multicast,
        TYPE_IPV6 => Carries::Ipv6,
        _ => return None,
    };
    frame.pull(len);
    Some(carries)
}

/// Returns the EtherType of a tagged frame; `None`: another VLAN, or a second tag.
fn tagged_type(bytes: &[u8], vlan: u16) -> Option<u16> {
    let tag: &[u8; TAG_LEN] = bytes.get(HEADER_LEN..)?.first_chunk()?;
    let [c0, c1, t0, t1] = *tag;
    (vlan_of(u16::from_be_bytes([c0, c1])) == vlan).then_some(u16::from_be_bytes([t0, t1]))
}

/// Writes an Ethernet header in front, with a tag of `vlan`.
#[inline]
pub(crate) fn push_header(frame: &mut Frame, source: MacAddress, destination: MacAddress, ether_type: u16, vlan: Option<u16>) {
    let mut ether_type = ether_type;
    if let Some(vlan) = vlan {
        let tag = frame.push(TAG_LEN);
        tag[..2].copy_from_slice(&vlan.to_be_bytes());
        tag[2..].copy_from_slice(&ether_type.to_be_bytes());
        ether_type = TYPE_VLAN;
    }
    Header { destination, source, ether_type }.write(frame.push(HEADER_LEN));
}

#[cfg(test)]
mod tests;
