//! ARP where the stack alone answers for its addresses. Read RFC 826, RFC 5227 first.
//!
//! Answers and questions are values here; `Ip::transmit` writes them.

use core::net::{IpAddr, Ipv4Addr};

use crate::address::MacAddress;
use crate::wire::arp::{Operation, Packet};

/// What a received ARP packet means for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    /// Where the sender is, unless it does not say (a probe).
    pub(crate) sender: Option<(IpAddr, MacAddress)>,
    /// It was for us: the sender is worth remembering.
    pub(crate) for_us: bool,
    /// What to answer.
    pub(crate) reply: Option<Packet>,
}

/// Looks at an ARP packet. `None`: nothing to believe in it.
pub(crate) fn receive(own_mac: MacAddress, owns: impl Fn(IpAddr) -> bool, packet: &Packet) -> Option<Heard> {
    if packet.sender_mac.is_multicast() || packet.sender_mac == MacAddress::default() || packet.sender_mac == own_mac {
        return None;
    }
    // RFC 5227 §2.4: somebody else claims our address. Never believe it.
    let claims_ours = owns(packet.sender_ip.into());
    let names_host = !packet.sender_ip.is_unspecified() && !packet.sender_ip.is_multicast() && !packet.sender_ip.is_broadcast();
    let for_us = owns(packet.target_ip.into());
    let reply = (for_us && packet.operation == Operation::Request).then_some(Packet {
        operation: Operation::Reply,
        sender_mac: own_mac,
        sender_ip: packet.target_ip,
        target_mac: packet.sender_mac,
        target_ip: packet.sender_ip,
    });
    let sender = (names_host && !claims_ours).then_some((packet.sender_ip.into(), packet.sender_mac));
    Some(Heard { sender, for_us, reply })
}

/// Who has `target`?
pub(crate) fn request(own_mac: MacAddress, own_ip: Ipv4Addr, target: Ipv4Addr) -> Packet {
    Packet {
        operation: Operation::Request,
        sender_mac: own_mac,
        sender_ip: own_ip,
        target_mac: MacAddress::default(),
        target_ip: target,
    }
}

/// Tells everybody that `own_ip` is here now (RFC 5227 §2.3).
pub(crate) fn announcement(own_mac: MacAddress, own_ip: Ipv4Addr) -> Packet {
    request(own_mac, own_ip, own_ip)
}
