//! What the Internet layer itself has to say on a link: values that wait until `transmit` writes them.

use core::net::Ipv6Addr;

use ringway_shm::{Arena, Burst, Class};

use super::{CONTROL_MAX, Ip};
use crate::address::MacAddress;
use crate::link::ethernet;
use crate::stats::{Counter, Counters};
use crate::wire::ethernet::{TYPE_ARP, TYPE_IPV6};
use crate::wire::ndp::{self, Message};
use crate::wire::{arp, checksum, ipv6};

/// A message and the link that it is for.
#[derive(Debug)]
pub(super) struct ControlOut {
    pub(super) interface: u32,
    pub(super) destination: MacAddress,
    pub(super) message: Control,
}

/// What is said.
#[derive(Debug)]
pub(super) enum Control {
    Arp(arp::Packet),
    Discovery { source: Ipv6Addr, to: Ipv6Addr, message: Message },
}

impl Ip {
    /// Queues an answer that a stranger has asked for; there are only so many.
    pub(super) fn answer(&mut self, interface: u32, destination: MacAddress, message: Control) {
        if self.control.len() < CONTROL_MAX {
            self.control.push_back(ControlOut { interface, destination, message });
        }
    }

    /// Writes what waits. Returns how many of the packets were no IP packets.
    pub(super) fn write_control(&mut self, arena: &Arena, counters: &mut Counters, out: &mut [Burst]) -> usize {
        let mut other_than_ip = 0;
        while let Some(ControlOut { interface, destination, message }) = self.control.pop_front() {
            let Some(mut frame) = arena.alloc(Class::Small) else {
                counters.count(Counter::DropNoFrame);
                continue;
            };
            let ether_type = match message {
                Control::Arp(packet) => {
                    packet.write(frame.extend(arp::LEN));
                    other_than_ip += 1;
                    TYPE_ARP
                }
                Control::Discovery { source, to, message } => {
                    message.write(frame.extend(message.len()));
                    finish_icmpv6(frame.bytes_mut(), source, to);
                    let header = ipv6::Header {
                        traffic_class: TRAFFIC_CLASS,
                        flow_label: 0,
                        payload_len: frame.len() as u16,
                        next_header: ipv6::PROTOCOL_ICMP,
                        hop_limit: ndp::HOP_LIMIT,
                        source,
                        destination: to,
                    };
                    header.write(frame.push(ipv6::HEADER_LEN));
                    counters.count(Counter::IcmpOutMsgs);
                    TYPE_IPV6
                }
            };
            let own_mac = self.interfaces[interface as usize].interface.mac;
            ethernet::push_header(&mut frame, own_mac, destination, ether_type);
            out[interface as usize].push(frame);
        }
        other_than_ip
    }
}

/// Fills in the checksum of an ICMPv6 message, whose field is zero.
pub(super) fn finish_icmpv6(message: &mut [u8], source: Ipv6Addr, destination: Ipv6Addr) {
    let pseudo = checksum::pseudo_header(source.into(), destination.into(), ipv6::PROTOCOL_ICMP, message.len() as u32);
    let sum = !checksum::add(pseudo, checksum::sum(message));
    message[2..4].copy_from_slice(&sum.to_be_bytes());
}

/// As Linux: neighbor discovery is internetwork control, CS6.
const TRAFFIC_CLASS: u8 = 0xc0;
