//! Control messages of the Internet layer (ARP, NDP, IGMP, MLD): values that wait until `transmit` writes them.

use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

use ringway_shm::{Burst, Class, Frame};

use super::{CONTROL_MAX, Ip};
use crate::address::MacAddress;
use crate::env::IpEnv;
use crate::link::ethernet;
use crate::stats::Counter;
use crate::wire::ethernet::{TYPE_ARP, TYPE_IPV4, TYPE_IPV6};
use crate::wire::igmp::{self, Record};
use crate::wire::ndp::{self, Message};
use crate::wire::{arp, checksum, ipv4, ipv6};

/// A message with its interface and link destination.
#[derive(Debug)]
pub(super) struct ControlOut {
    pub(super) interface: u32,
    pub(super) destination: MacAddress,
    pub(super) message: Control,
}

/// Content of a message.
#[derive(Debug)]
pub(super) enum Control {
    Arp(arp::Packet),
    Discovery { source: Ipv6Addr, to: Ipv6Addr, message: Message },
    Igmp { source: Ipv4Addr, records: Vec<(Record, Ipv4Addr)> },
    Mld { source: Ipv6Addr, records: Vec<(Record, Ipv6Addr)> },
}

impl Ip {
    /// Queues an answer to another host; the queue is bounded.
    ///
    /// # Errors
    /// Returns the counter of dropped answers when the queue is full.
    pub(super) fn answer(&mut self, interface: u32, destination: MacAddress, message: Control) -> Result<(), Counter> {
        if self.control.len() >= CONTROL_MAX {
            return Err(Counter::DropNeighborAnswer);
        }
        self.control.push_back(ControlOut { interface, destination, message });
        Ok(())
    }

    /// Writes the queued messages. Returns the number of packets that are not IP.
    pub(super) fn write_control(&mut self, env: &mut IpEnv, out: &mut [Burst]) -> usize {
        let mut other_than_ip = 0;
        while let Some(ControlOut { interface, destination, message }) = self.control.pop_front() {
            let class = if message.len() > SMALL_BYTES { Class::Large } else { Class::Small };
            let Some(mut frame) = env.arena.alloc(class) else {
                env.counters.count(Counter::DropNoFrame);
                continue;
            };
            let ether_type = message.write(&mut frame);
            match ether_type {
                TYPE_ARP => other_than_ip += 1,
                TYPE_IPV6 => env.counters.count(Counter::IcmpOutMsgs),
                _ => {}
            }
            let own = &self.interfaces[interface as usize].interface;
            ethernet::push_header(&mut frame, own.mac, destination, ether_type, own.vlan);
            out[interface as usize].push(frame);
        }
        other_than_ip
    }
}

impl Control {
    /// Length without the IP header, bytes.
    fn len(&self) -> usize {
        match self {
            Control::Arp(_) => arp::LEN,
            Control::Discovery { message, .. } => message.len(),
            Control::Igmp { records, .. } => igmp::report_len(records.len()),
            Control::Mld { records, .. } => igmp::mld_report_len(records.len()),
        }
    }

    /// Fills an empty frame from the IP (or ARP) header on; returns its EtherType.
    fn write(&self, frame: &mut Frame) -> u16 {
        let bytes = frame.extend(self.len());
        match self {
            Control::Arp(packet) => {
                packet.write(bytes);
                TYPE_ARP
            }
            Control::Discovery { source, to, message } => {
                message.write(bytes);
                finish_icmpv6(bytes, *source, *to);
                push_ipv6_header(frame, ipv6::PROTOCOL_ICMP, ndp::HOP_LIMIT, *source, *to);
                TYPE_IPV6
            }
            Control::Igmp { source, records } => {
                igmp::write_report(records, bytes);
                let sum = !checksum::sum(bytes);
                bytes[2..4].copy_from_slice(&sum.to_be_bytes());
                push_igmp_header(frame, *source);
                TYPE_IPV4
            }
            Control::Mld { source, records } => {
                let to = ipv6::ALL_MLD_ROUTERS;
                igmp::write_mld_report(records, bytes);
                finish_icmpv6(bytes, *source, to);
                // RFC 3810 §5: with a router alert.
                frame.push(ROUTER_ALERT_IPV6.len()).copy_from_slice(&ROUTER_ALERT_IPV6);
                push_ipv6_header(frame, ipv6::HOP_BY_HOP, 1, *source, to);
                TYPE_IPV6
            }
        }
    }
}

fn push_ipv6_header(frame: &mut Frame, next_header: u8, hop_limit: u8, source: Ipv6Addr, destination: Ipv6Addr) {
    let payload_len = frame.len() as u16;
    let header =
        ipv6::Header { traffic_class: TRAFFIC_CLASS, flow_label: 0, payload_len, next_header, hop_limit, source, destination };
    header.write(frame.push(ipv6::HEADER_LEN));
}

/// RFC 3376 §4: TTL 1, precedence 6, and a router alert.
fn push_igmp_header(frame: &mut Frame, source: Ipv4Addr) {
    let len = ipv4::HEADER_LEN + ROUTER_ALERT_IPV4.len();
    let total_len = (len + frame.len()) as u16;
    let header =
        ipv4::Header { tos: TRAFFIC_CLASS, ..ipv4::Header::atomic(source, igmp::ALL_ROUTERS, igmp::PROTOCOL_IGMP, 1, total_len) };
    let bytes = frame.push(len);
    header.write(&mut bytes[..ipv4::HEADER_LEN]);
    bytes[0] = 0x46;
    bytes[ipv4::HEADER_LEN..].copy_from_slice(&ROUTER_ALERT_IPV4);
    bytes[10..12].fill(0);
    let sum = !checksum::sum(bytes);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Writes the checksum of an ICMPv6 message, whose field is zero.
pub(super) fn finish_icmpv6(message: &mut [u8], source: Ipv6Addr, destination: Ipv6Addr) {
    let pseudo = checksum::pseudo_header(source.into(), destination.into(), ipv6::PROTOCOL_ICMP, message.len() as u32);
    let sum = !checksum::add(pseudo, checksum::sum(message));
    message[2..4].copy_from_slice(&sum.to_be_bytes());
}

/// Like Linux: neighbor discovery is internetwork control, CS6.
const TRAFFIC_CLASS: u8 = 0xc0;
/// Maximum message that fits a small frame together with its headers.
const SMALL_BYTES: usize = 100;
/// RFC 2113
const ROUTER_ALERT_IPV4: [u8; 4] = [0x94, 4, 0, 0];
/// A hop-by-hop header in front of ICMPv6 with RFC 2711's option for MLD, and two bytes of padding.
const ROUTER_ALERT_IPV6: [u8; 8] = [ipv6::PROTOCOL_ICMP, 0, 5, 2, 0, 0, 1, 0];
