//! Read RFC 4861 §4 and RFC 826 first. The receiver of a packet, found in software.
//!
//! Says of a flow what the program in `fanout` says. Promises: never panics on what came from the wire. Does not do: walking
//! IPv6 extension headers; what has others than a fragment's is worker 0's.

use ringway_shm::FlowGroup;
use ringway_wire::classify::{Packet, Payload, classify};
use ringway_wire::{arp, icmpv6};

use crate::Medium;

/// For which worker a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressee {
    /// The one that has this group: it belongs to a flow, or is an ICMP error about one.
    Flow(FlowGroup),
    /// All of them: it teaches a link address or a route, or is a fragment, of which only the first has ports.
    Everyone,
    /// Worker 0, which answers for the address.
    First,
}

/// ICMPv6 messages that teach.
const TEACHING: [u8; 3] = [icmpv6::ROUTER_ADVERTISEMENT, icmpv6::NEIGHBOR_ADVERTISEMENT, icmpv6::REDIRECT];

/// The receiver of the packet that begins with `bytes`: at least its headers.
#[inline]
pub fn addressee(medium: Medium, bytes: &[u8]) -> Addressee {
    match classify(medium, bytes) {
        Some(Payload::Ip(packet)) => of_packet(&packet).unwrap_or(Addressee::First),
        Some(Payload::Arp(bytes)) if is_arp_reply(bytes) => Addressee::Everyone,
        Some(Payload::Arp(_)) | None => Addressee::First,
    }
}

fn is_arp_reply(bytes: &[u8]) -> bool {
    arp::Packet::parse(bytes).is_some_and(|packet| packet.operation == arp::Operation::Reply)
}

fn of_packet(packet: &Packet<'_>) -> Option<Addressee> {
    if packet.is_fragment {
        return Some(Addressee::Everyone);
    }
    match packet.icmp_type() {
        None => of_flow(packet),
        Some(kind) if packet.source.is_ipv6() && TEACHING.contains(&kind) => Some(Addressee::Everyone),
        Some(_) => of_flow(&packet.quoted()?),
    }
}

fn of_flow(packet: &Packet<'_>) -> Option<Addressee> {
    let (from, to) = packet.ports()?;
    Some(Addressee::Flow(FlowGroup::of((packet.source, from), (packet.destination, to))))
}
