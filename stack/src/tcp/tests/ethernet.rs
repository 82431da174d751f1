//! The rig on an Ethernet link of its own: the peer answers ARP requests and neighbor solicitations.

use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use ringway_shm::{Burst, Class, Frame};

use super::rig::{Rig, link};
use crate::MacAddress;
use crate::family::Family;
use crate::ip::{Interface, Medium};
use crate::wire::{arp, checksum, ethernet, ipv6, ndp};

const OWN: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const PEER: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);

/// The peer's side of the link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    /// It answers requests for its link address.
    pub(super) answers: bool,
    /// Number of those requests.
    pub(super) requests: u32,
}

impl Default for Peer {
    fn default() -> Peer {
        Peer { answers: true, requests: 0 }
    }
}

/// An Ethernet link.
pub(super) fn ethernet(mtu: u16) -> Interface {
    Interface { medium: Medium::Ethernet, mac: OWN, ..link(mtu) }
}

/// Puts the peer's link header in front of a packet.
pub(super) fn wrap(family: Family, packet: &mut Frame) {
    let ether_type = if family == Family::Ipv4 { ethernet::TYPE_IPV4 } else { ethernet::TYPE_IPV6 };
    ethernet::Header { destination: OWN, source: PEER, ether_type }.write(packet.push(ethernet::HEADER_LEN));
}

impl Rig {
    /// The packet in a frame of the stack; `None`: it was one between neighbors.
    pub(super) fn unwrap(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let header = ethernet::Header::parse(bytes).expect("a whole header");
        assert_eq!(header.source, OWN);
        let packet = &bytes[ethernet::HEADER_LEN..];
        let answer = match header.ether_type {
            ethernet::TYPE_ARP => arp_answer(self.family.remote(), packet)?,
            ethernet::TYPE_IPV6 if packet[6] == ipv6::PROTOCOL_ICMP => neighbor_advertisement(self.family.remote(), packet)?,
            _ => {
                assert_eq!(header.destination, PEER);
                return Some(packet.to_vec());
            }
        };
        let peer = self.peer.as_mut().expect("the link is Ethernet");
        peer.requests += 1;
        if peer.answers {
            let mut frame = self.arena.alloc(Class::Large).expect("the arena has frames");
            frame.extend(answer.len()).copy_from_slice(&answer);
            let mut burst = Burst::default();
            burst.push(frame);
            self.stack.receive(self.now, 0, &mut burst);
        }
        None
    }
}

/// Answers a request for `host`; announcements and requests for others get no answer.
fn arp_answer(host: IpAddr, request: &[u8]) -> Option<Vec<u8>> {
    let request = arp::Packet::parse(request).filter(|request| IpAddr::V4(request.target_ip) == host)?;
    let mut answer = vec![0; ethernet::HEADER_LEN + arp::LEN];
    let (head, packet) = answer.split_at_mut(ethernet::HEADER_LEN);
    ethernet::Header { destination: OWN, source: PEER, ether_type: ethernet::TYPE_ARP }.write(head);
    arp::Packet {
        operation: arp::Operation::Reply,
        sender_mac: PEER,
        sender_ip: request.target_ip,
        target_mac: request.sender_mac,
        target_ip: request.sender_ip,
    }
    .write(packet);
    Some(answer)
}

/// Answers a solicitation of `host`.
fn neighbor_advertisement(host: IpAddr, solicitation: &[u8]) -> Option<Vec<u8>> {
    let message = ndp::Message::parse(&solicitation[ipv6::HEADER_LEN..])?;
    let ndp::Message::NeighborSolicitation { target, .. } = message else { return None };
    if IpAddr::V6(target) != host {
        return None;
    }
    let message =
        ndp::Message::NeighborAdvertisement { target, target_link: Some(PEER), router: false, solicited: true, overrides: true };
    let mut answer = vec![0; ethernet::HEADER_LEN + ipv6::HEADER_LEN + message.len()];
    let (head, packet) = answer.split_at_mut(ethernet::HEADER_LEN);
    ethernet::Header { destination: OWN, source: PEER, ether_type: ethernet::TYPE_IPV6 }.write(head);
    let (head, body) = packet.split_at_mut(ipv6::HEADER_LEN);
    let source: Ipv6Addr = ipv6::Header::parse(solicitation).expect("a good header").source;
    ipv6::Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: body.len() as u16,
        next_header: ipv6::PROTOCOL_ICMP,
        hop_limit: ndp::HOP_LIMIT,
        source: target,
        destination: source,
    }
    .write(head);
    message.write(body);
    let pseudo = checksum::pseudo_header(IpAddr::V6(target), IpAddr::V6(source), ipv6::PROTOCOL_ICMP, body.len() as u32);
    let sum = !checksum::add(pseudo, checksum::sum(body));
    body[2..4].copy_from_slice(&sum.to_be_bytes());
    Some(answer)
}
