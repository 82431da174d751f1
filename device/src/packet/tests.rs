//! The packets and errors that the device holds between two calls.

use std::process::Command;

use ringway_shm::slab::Slabs;
use ringway_shm::{Burst, Instant, Room};

use super::inbound::LARGE_ENOUGH;
use super::{Packet as PacketDevice, PacketOptions};
use crate::testing::{Packet, arena, in_namespace, ip};
use crate::{Device, Rooms, interface};

/// Connections that each have one request under way: the largest number that `ringway bench conns` opens over veth.
const CONNECTIONS: u32 = 4800;

/// The two ends of a wire that carries nothing of its own, and the link addresses of a packet from left to right.
fn ends() -> (PacketDevice, PacketDevice, [u8; 12]) {
    ip("link add left type veth peer name right");
    for name in ["left", "right"] {
        ip(&format!("link set {name} arp off up"));
    }
    let mac = |name| interface::Interface::open(name).expect("it was made above").mac;
    let macs = [mac("right"), mac("left")].concat().try_into().expect("twice six bytes");
    let open = |name| PacketDevice::open(name, None, PacketOptions::default(), &arena()).expect("it was made above");
    (open("left"), open("right"), macs)
}

#[test]
fn requests_of_many_connections_wait_for_a_worker_that_is_late() {
    in_namespace(|| {
        let (mut left, mut right, macs) = ends();
        let template = Packet { macs, payload: &[7; 64], ..Packet::default() };
        let mut burst = Burst::with_capacity(64);
        for sequence in 0..CONNECTIONS {
            Packet { sequence, ..template }.push(&left.arena, &mut burst, 0, false);
            if burst.packets() == 64 || sequence + 1 == CONNECTIONS {
                left.transmit(Instant::ZERO, &mut burst).expect("the wire is up");
            }
        }
        let mut wanted = 0;
        while wanted < CONNECTIONS && right.receive(Instant::ZERO, &mut burst).expect("the wire is up") > 0 {
            for packet in crate::testing::arrived(&mut burst) {
                wanted += u32::from(packet.payload() == [7; 64]);
            }
        }
        assert_eq!((wanted, right.counters().rx_dropped), (CONNECTIONS, 0));
    });
}

/// The worker measures what a wake-up costs by when the packet that woke it arrived.
#[test]
fn the_packet_that_waits_says_when_it_arrived() {
    in_namespace(|| {
        let (mut left, mut right, macs) = ends();
        let mut burst = Burst::with_capacity(64);
        while right.receive(Instant::ZERO, &mut burst).expect("the wire is up") > 0 {
            burst.clear();
        }
        let mut send = || {
            Packet { macs, payload: &[7; 64], ..Packet::default() }.push(&left.arena, &mut burst, 0, false);
            left.transmit(Instant::ZERO, &mut burst).expect("the wire is up");
        };
        send();
        let first = right.first_arrival().expect("a packet waits");
        send();
        assert_eq!(right.first_arrival(), Some(first), "of both the first");
        let mut burst = Burst::with_capacity(64);
        right.receive(Instant::ZERO, &mut burst).expect("the wire is up");
        assert_eq!(right.first_arrival(), None);
    });
}

/// A request of 8 KiB came by a system call of its own; the largest ones still do, and nothing is lost between the two.
#[test]
fn messages_of_8_kib_come_through_the_ring() {
    in_namespace(|| {
        let (mut left, mut right, macs) = ends();
        for (bytes, calls) in [(4_096, 0), (8_192, 0), (14_480, 1)] {
            let payload: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
            let mut burst = Burst::with_capacity(64);
            Packet { macs, payload: &payload, ..Packet::default() }.push(&left.arena, &mut burst, PIECE, true);
            left.transmit(Instant::ZERO, &mut burst).expect("the wire is up");
            let before = right.counters().syscalls;
            let mut got = Vec::new();
            while right.receive(Instant::ZERO, &mut burst).expect("the wire is up") > 0 {
                let packets = crate::testing::arrived(&mut burst);
                got.extend(packets.iter().filter(|packet| packet.bytes[23] == 6).map(|packet| packet.payload().to_vec()));
            }
            assert!(got == [payload], "equal bytes arrive");
            assert_eq!(right.counters().syscalls - before, calls, "{bytes} bytes");
        }
    });
}

/// A wire on whose right end large packets come apart, and the link addresses of a packet from left to right.
fn apart() -> (PacketDevice, PacketDevice, [u8; 12]) {
    let (mut left, right, macs) = ends();
    drop(right);
    let options = PacketOptions { split_ring: true, ..PacketOptions::default() };
    let mut right = PacketDevice::open("right", None, options, &arena()).expect("it was made above");
    let mut burst = Burst::with_capacity(64);
    for count in 0..=LARGE_ENOUGH {
        Packet { macs, payload: &[7; WHOLE], ..Packet::default() }.push(&left.arena, &mut burst, PIECE, true);
        left.transmit(Instant::ZERO, &mut burst).expect("the wire is up");
        let is_apart = count == LARGE_ENOUGH;
        assert!(if is_apart { kept(&mut right) < 512 } else { kept(&mut right) > 8_192 }, "{count}");
        assert!(payloads(&mut right) == [[7; WHOLE]]);
    }
    (left, right, macs)
}

/// Bytes of the first large packet that lie in its slot.
fn kept(device: &mut PacketDevice) -> usize {
    while device.inbound.choose() {
        let slot = device.inbound.front().expect("it was chosen");
        if slot.len > WHOLE {
            return slot.bytes.len();
        }
        device.inbound.release();
    }
    0
}

/// Returns the payloads of the TCP packets of `device`, in the order in which they come.
fn payloads(device: &mut PacketDevice) -> Vec<Vec<u8>> {
    let (mut burst, mut got) = (Burst::with_capacity(64), Vec::new());
    while device.receive(Instant::ZERO, &mut burst).expect("the wire is up") > 0 {
        let packets = crate::testing::arrived(&mut burst);
        got.extend(packets.iter().filter(|packet| packet.bytes[23] == 6).map(|packet| packet.payload().to_vec()));
    }
    got
}

/// Packet sockets of this namespace, and how many of them receive.
fn sockets() -> (usize, usize) {
    let table = std::fs::read_to_string("/proc/thread-self/net/packet").expect("the kernel lists them");
    let running = table.lines().skip(1).filter(|line| line.split_whitespace().nth(5) == Some("1")).count();
    (table.lines().skip(1).count(), running)
}

/// A ring that was made when it was needed held the worker up for 7 ms: sixteen clients that waited for their answers sent
/// what was not acknowledged once more (tail loss probes).
#[test]
fn the_socket_for_large_packets_stands_ready() {
    in_namespace(|| {
        let (_left, right, _) = ends();
        drop(right);
        let options = PacketOptions { split_ring: true, ..PacketOptions::default() };
        let _right = PacketDevice::open("right", None, options, &arena()).expect("it was made above");
        assert_eq!(sockets(), (3, 2), "left, right, and what is not needed yet");
    });
    in_namespace(|| {
        let _ends = apart();
        assert_eq!(sockets(), (3, 3));
    });
}

/// Waits for the ring for short packets, for which the device does not wait.
fn grow(device: &mut PacketDevice) {
    device.expect(50_000);
    while device.inbound.sockets() < 3 {
        std::thread::yield_now();
        device.inbound.divide();
    }
}

/// 16,000 connections lost 65,645 packets in 2.3 s in a ring of 8,192. Few connections take no memory for many.
#[test]
fn each_of_fifty_thousand_connections_has_room_for_a_request() {
    const MANY: u32 = 50_000;
    in_namespace(|| {
        let (mut left, right, macs) = ends();
        drop(right);
        let options = PacketOptions { split_ring: true, ..PacketOptions::default() };
        let mut right = PacketDevice::open("right", None, options, &arena()).expect("it was made above");
        right.expect(4_096);
        assert_eq!(sockets(), (3, 2), "left, right, and what is not needed yet");
        grow(&mut right);
        assert_eq!(sockets(), (4, 4));
        let template = Packet { macs, payload: &[7; 64], ..Packet::default() };
        let mut burst = Burst::with_capacity(64);
        for sequence in 0..MANY {
            Packet { sequence, ..template }.push(&left.arena, &mut burst, 0, false);
            if burst.packets() == 64 || sequence + 1 == MANY {
                left.transmit(Instant::ZERO, &mut burst).expect("the wire is up");
            }
        }
        let got = payloads(&mut right);
        assert_eq!((got.len(), right.counters().rx_dropped), (MANY as usize, 0));
    });
}

/// They wait in two or three rings, and one flow has all: every order of sizes is kept, also where the sizes are next to a limit.
#[test]
fn packets_that_come_apart_keep_their_order() {
    in_namespace(|| keep_their_order(|_| ()));
    in_namespace(|| keep_their_order(grow));
}

fn keep_their_order(prepare: fn(&mut PacketDevice)) {
    let (mut left, mut right, macs) = apart();
    prepare(&mut right);
    let mut random = 1u64;
    let mut sent = Vec::new();
    for _ in 0..40 {
        let mut burst = Burst::with_capacity(64);
        for _ in 0..50 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let bytes = [64, 1_448, 8_192, 8_240, 8_260, 14_480, 318, 330][(random >> 61) as usize];
            let payload: Vec<u8> = (0..bytes).map(|at| (at as u64 + (random >> 32)) as u8).collect();
            Packet { macs, payload: &payload, ..Packet::default() }.push(&left.arena, &mut burst, PIECE, bytes > 1_448);
            sent.push(payload);
        }
        left.transmit(Instant::ZERO, &mut burst).expect("the wire is up");
        if random >> 63 == 0 {
            let got = payloads(&mut right);
            assert!(got == sent[..got.len()], "in order");
            sent.drain(..got.len());
        }
    }
    let got = payloads(&mut right);
    assert!(got == sent, "{} of {} packets arrive in order", got.len(), sent.len());
    assert_eq!(right.counters().rx_dropped, 0);
}

/// The kernel unlinks the sockets of an interface that goes down, and links them again when it comes up.
#[test]
fn packets_come_apart_again_when_the_interface_was_down() {
    in_namespace(|| come_apart_again(|_| ()));
    in_namespace(|| come_apart_again(grow));
}

fn come_apart_again(prepare: fn(&mut PacketDevice)) {
    let (mut left, mut right, macs) = apart();
    prepare(&mut right);
    for round in 0..3 {
        let payload: Vec<u8> = (0..14_480).map(|at| (at * 5 + round) as u8).collect();
        let mut burst = Burst::with_capacity(64);
        Packet { macs, payload: &payload, ..Packet::default() }.push(&left.arena, &mut burst, PIECE, true);
        Packet { macs, payload: &[9; 64], ..Packet::default() }.push(&left.arena, &mut burst, 0, false);
        left.transmit(Instant::ZERO, &mut burst).expect("the wire is up");
        let before = right.counters().syscalls;
        assert!(payloads(&mut right) == [payload, vec![9; 64]], "both arrive, in order");
        assert_eq!(right.counters().syscalls - before, 1);
        ip("link set right down");
        ip("link set right up");
        for device in [&mut left, &mut right] {
            // Tells once that it was down.
            device.arm();
            device.receive(Instant::ZERO, &mut burst).err();
            burst.clear();
        }
    }
}

/// A packet that the kernel sends at the interface itself has not arrived there.
#[test]
fn what_leaves_does_not_arrive() {
    in_namespace(|| {
        let (mut left, mut right, _) = apart();
        ip("address add 10.9.9.1/24 dev right");
        ip("neighbor add 10.9.9.2 lladdr 02:00:00:00:00:09 dev right");
        let socket = std::net::UdpSocket::bind("10.9.9.1:0").expect("the address is there");
        let udp = |device: &mut PacketDevice| {
            let (mut burst, mut count) = (Burst::with_capacity(64), 0);
            while device.receive(Instant::ZERO, &mut burst).expect("the wire is up") > 0 {
                count += crate::testing::arrived(&mut burst).iter().filter(|packet| packet.bytes[23] == 17).count();
            }
            count
        };
        socket.send_to(&[1; 100], "10.9.9.2:9").expect("the neighbor is known");
        assert_eq!((udp(&mut right), udp(&mut left)), (0, 1));
    });
}

/// A reader that wants the payload of every TCP packet in its own memory, and counts the packets.
struct Reader {
    memory: Slabs,
    asked: usize,
    /// The number of packets that are enough for one call.
    at_once: usize,
}

impl Rooms for Reader {
    fn room(&mut self, head: &[u8], len: usize) -> Option<(usize, Room)> {
        // Behind Ethernet and IPv4 without options; the TCP header says its length.
        let headers = (head.get(23) == Some(&6)).then(|| 34 + usize::from(head[46] >> 4) * 4)?;
        self.asked += 1;
        self.memory.take(len - headers).map(|payload| (headers, Room::of(payload)))
    }

    fn are_enough(&self) -> bool {
        self.asked >= self.at_once
    }
}

/// A packet for which a reader has no time now waits outside, and is lost nowhere.
#[test]
fn a_reader_that_has_enough_is_given_the_rest_later() {
    in_namespace(|| {
        let (mut left, mut right, macs) = ends();
        let mut reader = Reader { memory: Slabs::new(&right.arena, 8), asked: 0, at_once: 2 };
        let mut burst = Burst::with_capacity(64);
        for number in 0..5 {
            Packet { macs, payload: &[number; WHOLE], ..Packet::default() }.push(&left.arena, &mut burst, PIECE, true);
        }
        left.transmit(Instant::ZERO, &mut burst).expect("the wire is up");
        let calls: Vec<Vec<u8>> = (0..4)
            .map(|_| {
                reader.asked = 0;
                right.receive_to(Instant::ZERO, &mut burst, &mut reader).expect("the wire is up");
                let packets = crate::testing::arrived(&mut burst);
                packets.iter().filter(|packet| packet.bytes[23] == 6).map(|packet| packet.payload()[0]).collect()
            })
            .collect();
        assert_eq!(calls, [vec![0, 1], vec![2, 3], vec![4], vec![]]);
    });
}

/// A packet that waits in the ring goes to where its reader wants it as well, unless one frame holds it.
#[test]
fn payload_from_the_ring_is_read_to_where_it_is_wanted() {
    in_namespace(|| {
        let (mut left, mut right, macs) = ends();
        let mut reader = Reader { memory: Slabs::new(&right.arena, 4), asked: 0, at_once: usize::MAX };
        for (bytes, asked) in [(1_000, 0), (4_096, 1), (8_192, 1), (14_480, 1)] {
            let payload: Vec<u8> = (0..bytes).map(|at| (at * 7) as u8).collect();
            let mut burst = Burst::with_capacity(64);
            Packet { macs, payload: &payload, ..Packet::default() }.push(&left.arena, &mut burst, PIECE, true);
            left.transmit(Instant::ZERO, &mut burst).expect("the wire is up");
            let (before, mut got) = (reader.asked, Vec::new());
            while right.receive_to(Instant::ZERO, &mut burst, &mut reader).expect("the wire is up") > 0 {
                let lies_there = burst.frames().any(|frame| !frame.is_in_area() && frame.bytes() == payload);
                let packets = crate::testing::arrived(&mut burst);
                let of_tcp = packets.iter().filter(|packet| packet.bytes[23] == 6);
                got.extend(of_tcp.map(|packet| (packet.payload().to_vec(), lies_there)));
            }
            assert!(got == [(payload, asked == 1)], "{bytes} bytes arrive, where they should");
            assert_eq!(reader.asked - before, asked, "{bytes} bytes");
        }
    });
}

/// Payload bytes of the super-segment below, and of its pieces.
const WHOLE: usize = 14_480;
const PIECE: u16 = 1448;

/// `features` of interface `left`, as in ethtool(8).
fn set_features(features: &str) {
    let status = std::process::Command::new("ethtool").args(["-K", "left"]).args(features.split_whitespace()).status();
    assert!(status.expect("ethtool is installed").success(), "ethtool -K left {features}");
}

/// Sends a super-segment from left to right, and says what arrives: payload bytes of each packet.
fn cross(left: &mut PacketDevice, right: &mut PacketDevice, macs: [u8; 12]) -> Vec<usize> {
    let mut burst = Burst::with_capacity(64);
    Packet { macs, payload: &[7; WHOLE], ..Packet::default() }.push(&left.arena, &mut burst, PIECE, true);
    left.transmit(Instant::ZERO, &mut burst).expect("the wire is up");
    let mut lengths = Vec::new();
    while right.receive(Instant::ZERO, &mut burst).expect("the wire is up") > 0 {
        let packets = crate::testing::arrived(&mut burst);
        lengths.extend(packets.iter().filter(|packet| packet.bytes[23] == 6).map(|packet| packet.payload().len()));
    }
    lengths
}

/// Around the queueing discipline nothing is cut: every super-segment of a connection was lost there (0.4 Mbit/s where the
/// kernel had 6).
#[test]
fn an_interface_that_cannot_cut_loses_no_super_segment() {
    in_namespace(|| {
        let (mut left, mut right, macs) = ends();
        assert_eq!(cross(&mut left, &mut right, macs), [WHOLE], "veth carries them whole");
        // Switched off while the device is open: the first one that comes back is sent again.
        set_features("tso off");
        let pieces = vec![usize::from(PIECE); WHOLE / usize::from(PIECE)];
        assert_eq!(cross(&mut left, &mut right, macs), pieces);
        assert_eq!(left.counters().tx_dropped, 0);
        // And before it is opened.
        left = PacketDevice::open("left", None, PacketOptions::default(), &arena()).expect("it was made above");
        assert_eq!(cross(&mut left, &mut right, macs), pieces);
        assert_eq!(left.counters().tx_dropped, 0);
    });
}

/// The limits of an interface bound super-segments; when its limits shrink later, the kernel cuts, as for its own.
#[test]
fn limits_of_an_interface_bound_super_segments() {
    in_namespace(|| {
        let (mut left, mut right, macs) = ends();
        ip("link set left gso_max_size 4000 gso_max_segs 4");
        let pieces = vec![usize::from(PIECE); WHOLE / usize::from(PIECE)];
        assert_eq!(cross(&mut left, &mut right, macs), pieces, "limits that were not there at the opening");
        assert_eq!(left.counters().tx_dropped, 0);
        left = PacketDevice::open("left", None, PacketOptions::default(), &arena()).expect("it was made above");
        let can = left.capabilities();
        assert!(can.segmentation_max_bytes < 4000, "{can:?}");
        assert_eq!(can.segmentation_max_segments, 4);
        // The largest that it says it takes crosses whole.
        let mut burst = Burst::with_capacity(64);
        let payload = vec![7; can.segmentation_max_bytes as usize - 54];
        Packet { macs, payload: &payload, ..Packet::default() }.push(&left.arena, &mut burst, PIECE, true);
        left.transmit(Instant::ZERO, &mut burst).expect("the wire is up");
        crate::testing::receive_some(&mut right, &mut burst);
        let lengths: Vec<usize> = crate::testing::arrived(&mut burst).iter().map(|packet| packet.payload().len()).collect();
        assert_eq!((lengths, left.counters().tx_dropped), (vec![payload.len()], 0));
    });
}

/// netfilter's egress hook sees the priority that the queueing discipline will see.
#[test]
fn packets_have_the_priority_of_their_dscp_and_keep_their_order() {
    in_namespace(|| {
        let (_, mut right, macs) = ends();
        let rules = "add table netdev t; add chain netdev t out { type filter hook egress device left priority 0; }; \
                     add rule netdev t out meta priority 0:6 counter; add rule netdev t out meta priority 0:2 counter";
        assert!(Command::new("nft").arg(rules).status().expect("nft runs").success());
        let priorities = super::Priorities::read(["EF=6"]).expect("it is right");
        let options = PacketOptions { queued: true, priorities, ..PacketOptions::default() };
        let mut left = PacketDevice::open("left", None, options, &arena()).expect("it was made above");
        let mut burst = Burst::with_capacity(64);
        // Best effort, EF twice, AF11, and best effort again: four calls, five packets.
        for (sequence, dscp) in (0..).zip([0, 46, 46, 10, 0]) {
            let mut bytes = Packet { macs, sequence, ..Packet::default() }.bytes();
            bytes[15] = dscp << 2;
            burst.push(left.arena.alloc_from(&bytes).expect("test arena is large enough"));
        }
        let before = left.counters().syscalls;
        assert_eq!(left.transmit(Instant::ZERO, &mut burst).expect("the wire is up"), 5);
        assert_eq!(left.counters().syscalls - before, 4);
        let (mut sequences, mut burst) = (Vec::new(), Burst::with_capacity(64));
        while sequences.len() < 5 {
            crate::testing::receive_some(&mut right, &mut burst);
            let packets = std::iter::from_fn(|| burst.pop().map(|frame| frame.bytes().to_vec()));
            sequences.extend(packets.filter(|bytes| bytes[12..14] == [8, 0]).map(|bytes| bytes[41]));
        }
        assert_eq!(sequences, [0, 1, 2, 3, 4]);
        let counted = Command::new("nft").args(["-n", "list", "table", "netdev", "t"]).output().expect("nft runs").stdout;
        let counted = String::from_utf8_lossy(&counted);
        let has =
            |priority: &str, packets: u32| counted.contains(&format!("meta priority {priority} counter packets {packets} "));
        assert!(has("0:6", 2) && has("0:2", 1), "{counted}");
    });
}

#[test]
fn packets_that_wait_their_turn_cross_as_well() {
    in_namespace(|| {
        let (_, mut right, macs) = ends();
        let queued = PacketOptions { queued: true, ..PacketOptions::default() };
        let mut left = PacketDevice::open("left", None, queued, &arena()).expect("it was made above");
        assert_eq!(cross(&mut left, &mut right, macs), [WHOLE]);
    });
}
