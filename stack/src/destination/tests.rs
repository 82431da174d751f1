//! Finding the connection of a packet that waits at a device.

use alloc::vec;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

use super::*;
use crate::address::MacAddress;
use crate::wire::{ethernet, ipv6};

const PAYLOAD: usize = 60_000;
const TCP_LEN: usize = 20;

/// Makes an Ethernet frame with a TCP segment of [`PAYLOAD`] bytes, from port 7 to port 9; returns its first bytes and its
/// length.
fn packet(ether_type: u16, ip: &[u8]) -> (Vec<u8>, usize) {
    let mut bytes = vec![0; ethernet::HEADER_LEN];
    let (destination, source) = (MacAddress([2, 0, 0, 0, 0, 1]), MacAddress([2, 0, 0, 0, 0, 2]));
    ethernet::Header { destination, source, ether_type }.write(&mut bytes);
    bytes.extend_from_slice(ip);
    let at = bytes.len();
    bytes.resize(at + TCP_LEN, 0);
    tcp::Header { source_port: 7, destination_port: 9, ..tcp::Header::default() }.emit(&mut bytes[at..]);
    let len = bytes.len() + PAYLOAD;
    (bytes, len)
}

fn ipv4(change: impl FnOnce(&mut ipv4::Header)) -> (Vec<u8>, usize) {
    let mut header = ipv4::Header {
        header_len: 20,
        tos: 0,
        total_len: (ipv4::HEADER_LEN + TCP_LEN + PAYLOAD) as u16,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol: ipv4::PROTOCOL_TCP,
        source: Ipv4Addr::new(10, 0, 0, 2),
        destination: Ipv4Addr::new(10, 0, 0, 1),
    };
    change(&mut header);
    let mut bytes = vec![0; ipv4::HEADER_LEN];
    header.write(&mut bytes);
    packet(ethernet::TYPE_IPV4, &bytes)
}

fn ipv6(next_header: u8) -> (Vec<u8>, usize) {
    let header = ipv6::Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: (TCP_LEN + PAYLOAD) as u16,
        next_header,
        hop_limit: 64,
        source: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
        destination: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
    };
    let mut bytes = vec![0; ipv6::HEADER_LEN];
    header.write(&mut bytes);
    packet(ethernet::TYPE_IPV6, &bytes)
}

fn flow((head, len): &(Vec<u8>, usize)) -> Option<(FlowKey, usize)> {
    flow_of(Medium::Ethernet, head, *len)
}

#[test]
fn plain_packets_of_both_families_say_whose_they_are_and_where_payload_begins() {
    let (key, headers) = flow(&ipv4(|_| ())).expect("a plain packet");
    assert!(key.local == Ipv4Addr::new(10, 0, 0, 1) && key.remote == Ipv4Addr::new(10, 0, 0, 2));
    assert_eq!((key.local_port, key.remote_port, headers), (9, 7, 54));
    let (key, headers) = flow(&ipv6(ipv4::PROTOCOL_TCP)).expect("a plain packet");
    assert!(key.local == Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1) && key.remote_port == 7);
    assert_eq!(headers, 74);
    let (head, len) = ipv4(|_| ());
    assert_eq!(
        flow_of(Medium::Ip, &head[ethernet::HEADER_LEN..], len - ethernet::HEADER_LEN).map(|(_, headers)| headers),
        Some(40)
    );
}

#[test]
fn what_is_not_plain_names_no_flow() {
    assert_eq!(flow(&ipv4(|header| header.more_fragments = true)), None);
    assert_eq!(flow(&ipv4(|header| header.fragment_offset = 8)), None);
    assert_eq!(flow(&ipv4(|header| header.protocol = ipv4::PROTOCOL_UDP)), None);
    assert_eq!(flow(&ipv4(|header| header.total_len -= 1)), None, "a length that is not the packet's");
    assert_eq!(flow(&ipv6(44)), None, "an extension header");
    let (head, len) = ipv4(|_| ());
    assert_eq!(flow_of(Medium::Ip, &head, len), None, "no Ethernet header is expected");
    for cut in 0..head.len() {
        assert_eq!(flow_of(Medium::Ethernet, &head[..cut], len), None, "{cut} bytes");
    }
    let mut tagged = head.clone();
    tagged[12..14].copy_from_slice(&ethernet::TYPE_VLAN.to_be_bytes());
    assert_eq!(flow_of(Medium::Ethernet, &tagged, len), None);
    let mut damaged = head.clone();
    damaged[ethernet::HEADER_LEN + 8] ^= 1;
    let found = flow_of(Medium::Ethernet, &head, len);
    assert!(found.is_some());
    assert_eq!(flow_of(Medium::Ethernet, &damaged, len), found, "the stack verifies checksums, and drops it");
}
