//! ARP for addresses that only the stack has. Read RFC 826, RFC 5227 first.
//!
//! Requests and replies are values here; `Ip::transmit` writes them.

use core::net::{IpAddr, Ipv4Addr};

use crate::address::MacAddress;
use crate::wire::arp::{Operation, Packet};

/// Content of a received ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    /// The sender's addresses; `None` for a probe.
    pub(crate) sender: Option<(IpAddr, MacAddress)>,
    /// True when it was for us: the sender is then recorded.
    pub(crate) for_us: bool,
    /// The reply, if any.
    pub(crate) reply: Option<Packet>,
}

/// Parses an ARP packet. `None`: nothing in it can be believed.
pub(crate) fn receive(own_mac: MacAddress, owns: impl Fn(IpAddr) -> bool, packet: &Packet) -> Option<Heard> {
    if packet.sender_mac.is_multicast() || packet.sender_mac == MacAddress::default() || packet.sender_mac == own_mac {
        return None;
    }
    // RFC 5227 §2.4: another host claims our address. Never believed.
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

/// Makes a request for the link address of `target`.
pub(crate) fn request(own_mac: MacAddress, own_ip: Ipv4Addr, target: Ipv4Addr) -> Packet {
    Packet {
        operation: Operation::Request,
        sender_mac: own_mac,
        sender_ip: own_ip,
        target_mac: MacAddress::default(),
        target_ip: target,
    }
}

/// Makes an announcement of `own_ip` (RFC 5227 §2.3).
pub(crate) fn announcement(own_mac: MacAddress, own_ip: Ipv4Addr) -> Packet {
    request(own_mac, own_ip, own_ip)
}
