//! ACKs keep the neighbor confirmed (RFC 4861 §7.3.1), on every path of the stack.

use alloc::vec::Vec;

use ringway_shm::{Burst, Class};

use super::rig::*;
use crate::MacAddress;
use crate::config::{StackConfig, TcpOptions};
use crate::family::Family;
use crate::ip::{Interface, Medium};
use crate::wire::tcp::{ACK, PSH, SYN};

const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PEER: [u8; 6] = [2, 0, 0, 0, 0, 2];
const ARP: [u8; 2] = [8, 6];
const IPV4: [u8; 2] = [8, 0];
const HEADER: usize = 14;

/// Delivers a segment of the peer in an Ethernet frame.
fn arrive(rig: &mut Rig, segment: Seg) {
    let (mut packets, mut burst) = (Burst::default(), Burst::default());
    rig.push(&segment, &mut packets);
    let mut frame = packets.pop().expect("the rig makes one packet");
    frame.push(HEADER).copy_from_slice(&[&OWN[..], &PEER, &IPV4].concat());
    burst.push(frame);
    rig.stack.receive(rig.now, 0, &mut burst);
}

/// Delivers the peer's answer to an ARP request.
fn answer(rig: &mut Rig, request: &[u8]) {
    let (sender, target) = (&request[28..32], &request[38..42]);
    let reply = [&OWN[..], &PEER, &ARP, &request[14..20], &[0, 2], &PEER, target, &OWN, sender].concat();
    let mut frame = rig.arena.alloc(Class::Large).expect("the arena has frames");
    frame.extend(reply.len()).copy_from_slice(&reply);
    let mut burst = Burst::default();
    burst.push(frame);
    rig.stack.receive(rig.now, 0, &mut burst);
}

/// Segments that the stack sends, and number of its ARP requests. `answers`: the peer answers those.
fn sent(rig: &mut Rig, answers: bool) -> (Vec<Seg>, u32) {
    let (mut segments, mut requests) = (Vec::new(), 0);
    loop {
        while rig.stack.transmit(rig.now, &mut rig.out) {}
        if rig.out[0].is_empty() {
            return (segments, requests);
        }
        let bytes: Vec<u8> = rig.out[0].front_packet().flat_map(|frame| frame.bytes().to_vec()).collect();
        rig.out[0].drop_packet();
        if bytes[12..HEADER] != ARP {
            segments.push(rig.parse(&bytes[HEADER..]));
            continue;
        }
        requests += 1;
        if answers {
            answer(rig, &bytes);
        }
    }
}

/// Runs a request every 200 ms for three minutes, each answered, each answer acknowledged by the next request, of a peer
/// that answers no ARP request after the handshake. Returns the number of answers, and of ARP requests sent.
fn three_minutes(slow_path_alone: bool) -> (u32, u32) {
    let interface = Interface { medium: Medium::Ethernet, mac: MacAddress(OWN), ..link(1_500) };
    let mut rig = Rig::over(Family::Ipv4, StackConfig { seed: 7, ..StackConfig::default() }, interface);
    if slow_path_alone {
        rig.stack.take_the_long_way();
    }
    let listener = rig.listen(TcpOptions { no_delay: true, ..TcpOptions::default() }, 16);
    let clock = rig.now.as_millis() as u32;
    arrive(&mut rig, seg(SYN, 0, 0).mss(MSS as u16).scale(3).sack_permitted().time(clock, 0));
    let (handshake, _) = sent(&mut rig, true);
    let mut echo = handshake[0].options.timestamps.expect("timestamps were offered").value;
    arrive(&mut rig, seg(ACK, 1, 1).time(clock, echo));
    rig.id = rig.stack.accept(listener, 77).expect("the handshake is over");
    sent(&mut rig, true);
    let (mut next, mut acked, mut answered, mut requests) = (1, 1, 0, 0);
    for _ in 0..900 {
        rig.wait_ms(200);
        let clock = rig.now.as_millis() as u32;
        arrive(&mut rig, seg(ACK | PSH, next, acked).data(100).time(clock, echo));
        next += 100;
        rig.events();
        rig.stack.read_with(rig.id, 100, &mut |_| {}).expect("the connection is open");
        rig.send(acked, 100);
        let (segments, asked) = sent(&mut rig, false);
        requests += asked;
        for segment in segments.iter().filter(|segment| !segment.payload.is_empty()) {
            echo = segment.options.timestamps.expect("as before").value;
            acked = acked.max(segment.seq + segment.payload.len() as u32);
            answered += 1;
        }
    }
    assert_eq!(rig.stack.fast_segments() == 0, slow_path_alone, "the intended path was taken");
    (answered, requests)
}

/// RFC 4861 §7.3.1
#[test]
fn acks_on_the_fast_path_confirm_the_neighbor() {
    assert_eq!(three_minutes(true), (900, 0));
    assert_eq!(three_minutes(false), (900, 0));
}
