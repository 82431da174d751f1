//! Each received packet comes out of the ring with what the stack did to it.
use ringway_shm::Arena;
use ringway_shm::WaitsFor;
use ringway_shm::arena::ArenaConfig;
use ringway_shm::capture::{CaptureReader, End, Ends};
use ringway_stack::{
    Autoconfiguration, Cidr, Interface, MacAddress, Medium, Role, Route, SocketAddress, StackConfig, TcpOptions,
};

use super::*;

const HOST: [u8; 4] = [10, 0, 0, 1];

/// Makes an IPv4 packet to the host.
fn packet(protocol: u8, body: &[u8]) -> Vec<u8> {
    let mut header = vec![0x45, 0, 0, 20 + body.len() as u8, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 2];
    header.extend(HOST);
    let sum = internet_checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [header, body.to_vec()].concat()
}

fn internet_checksum(bytes: &[u8]) -> u16 {
    let sum: u32 = bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    !((sum >> 16) + (sum & 0xffff)) as u16
}

fn stack(arena: &Arena) -> Stack {
    let mut stack = Stack::new(StackConfig::default(), arena.clone(), Instant::ZERO);
    let interface = stack.add_interface(Interface {
        name: "tun0".into(),
        medium: Medium::Ip,
        mac: MacAddress::default(),
        mtu: 1500,
        sends_partial_checksums: false,
        segmentation_max_bytes: 0,
        segmentation_max_segments: 0,
        segments_udp: false,
        gathers: true,
        role: Role::Owned,
        autoconfiguration: Autoconfiguration::Off,
        detects_duplicates: false,
        vlan: None,
    });
    stack.set_addresses(interface, vec![Cidr { ip: HOST.into(), prefix_len: 24 }]);
    stack
}

#[test]
fn packets_have_the_reasons_for_which_they_were_dropped() {
    let arena = Arena::new(ArenaConfig { large: 16, small: 16 });
    let mut stack = stack(&arena);
    let echo = [8, 0, 0xf7, 0xff, 0, 0, 0, 0];
    let cases = [
        (packet(1, &echo), None),
        (vec![0x45, 0, 0], Some(Counter::IpInHdrErrors)),
        (packet(253, b"text"), Some(Counter::IpInUnknownProtos)),
        (packet(6, &[0; 20]), Some(Counter::TcpInCsumErrors)),
        (packet(1, &echo), None),
    ];
    let mut burst = Burst::default();
    for (bytes, _) in &cases {
        let frame = arena.alloc_from(bytes).expect("a frame");
        burst.push(frame);
    }
    let file = std::env::temp_dir().join(format!("ringway-drop-reasons-{}", std::process::id()));
    let mut capture = CaptureWriter::create(&file, 0, 100).expect("a temporary file");
    let mut reader = CaptureReader::open(&file, None).expect("it was just made");
    Capture::new(&mut capture, Instant::ZERO, 0, Medium::Ip).receive(&mut stack, &mut burst);
    for (bytes, reason) in cases {
        let packet = reader.next_packet().expect("one for each");
        assert_eq!((packet.bytes, packet.drop_reason), (bytes, reason.map(|reason| reason as u16)));
    }
    assert_eq!(stack.counters().get(Counter::IcmpInEchos), 2, "the stack got the others");
    std::fs::remove_file(&file).expect("the test made it");
}

/// What the worker drops before the stack sees it has the reason too.
#[test]
fn packets_of_a_flood_are_written() {
    let arena = Arena::new(ArenaConfig { large: 16, small: 16 });
    let file = std::env::temp_dir().join(format!("ringway-flood-capture-{}", std::process::id()));
    let mut capture = CaptureWriter::create(&file, 0, 100).expect("a temporary file");
    let mut reader = CaptureReader::open(&file, None).expect("it was just made");
    let mut burst = Burst::default();
    for bytes in [packet(6, b"one"), packet(6, b"two")] {
        burst.push(arena.alloc_from(&bytes).expect("a frame"));
    }
    Capture::new(&mut capture, Instant::ZERO, 0, Medium::Ip).write_dropped(Work::SynsDropped, &mut burst);
    assert!(burst.is_empty());
    let statistics = std::env::temp_dir().join(format!("ringway-flood-statistics-{}", std::process::id()));
    let _metrics = crate::metrics::Metrics::new(Some(&statistics), None).expect("a temporary file");
    let counters = ringway_shm::stats::StatsReader::open(&statistics).expect("it was just made").counters();
    for body in [b"one", b"two"] {
        let written = reader.next_packet().expect("one for each");
        assert_eq!(written.bytes, packet(6, body));
        let reason = written.drop_reason.expect("it was dropped");
        assert_eq!(counters[usize::from(reason)].0, "RingwaySynsDropped");
    }
    std::fs::remove_file(&file).expect("the test made it");
    std::fs::remove_file(&statistics).expect("the test made it");
}

/// A reader of connections gets their packets and no others, each with what the connection was like after it.
#[test]
fn a_connection_is_written_with_what_it_was_like() {
    const SYN: u8 = 2;
    const RST: u8 = 4;
    let arena = Arena::new(ArenaConfig { large: 16, small: 16 });
    let mut stack = stack(&arena);
    let destination = Cidr { ip: HOST.into(), prefix_len: 24 };
    stack.set_routes(vec![Route { destination, gateway: None, interface: 0, metric: 0, source: None }]);
    let local = SocketAddress { ip: std::net::IpAddr::from(HOST), port: 80 };
    stack.listen(local, 5, TcpOptions::default(), 1).expect("the port is free");
    let segment = |port: u8, flags: u8| {
        let mut header = vec![0x0f, 0xa0, 0, port, 0, 0, 0, 1, 0, 0, 0, 0, 5 << 4, flags, 0xff, 0xff, 0, 0, 0, 0];
        let pseudo = [&[10, 0, 0, 2][..], &HOST, &[0, 6, 0, 20], &header].concat();
        let sum = internet_checksum(&pseudo);
        header[16..18].copy_from_slice(&sum.to_be_bytes());
        packet(6, &header)
    };
    let file = std::env::temp_dir().join(format!("ringway-observed-{}", std::process::id()));
    let mut writer = CaptureWriter::create(&file, 0, 100).expect("a temporary file");
    let ends = Ends { one: End { ip: None, port: 80 }, other: Some(End { ip: None, port: 4_000 }) };
    let mut reader = CaptureReader::open(&file, Some(ends)).expect("it was just made");
    let mut burst = Burst::default();
    for bytes in [packet(1, &[8, 0, 0xf7, 0xff, 0, 0, 0, 0]), segment(81, SYN), segment(80, SYN)] {
        burst.push(arena.alloc_from(&bytes).expect("a frame"));
    }
    Capture::new(&mut writer, Instant::ZERO, 0, Medium::Ip).receive(&mut stack, &mut burst);
    let syn = reader.next_packet().expect("that of port 80");
    let observed = syn.observed.expect("a half-open connection");
    assert_eq!((observed.info.state, observed.waits), (3, WaitsFor::Handshake));
    assert_eq!(reader.next_packet(), None, "no other packet");
    let mut out = [Burst::default()];
    stack.transmit(Instant::ZERO, &mut out);
    Capture::new(&mut writer, Instant::ZERO, 0, Medium::Ip).write_sent(&mut stack, &out[0], 0);
    let answer = reader.next_packet().expect("SYN,ACK");
    assert_eq!((answer.direction, answer.bytes[33]), (Direction::Sent, 0x12));
    assert_eq!(answer.observed.map(|observed| observed.info.state), Some(3));
    assert_eq!(reader.next_packet(), None, "neither the echo nor the RST");
    burst.push(arena.alloc_from(&segment(80, RST)).expect("a frame"));
    Capture::new(&mut writer, Instant::ZERO, 0, Medium::Ip).receive(&mut stack, &mut burst);
    assert!(reader.next_packet().is_some_and(|reset| reset.bytes[33] == RST));
    std::fs::remove_file(&file).expect("the test made it");
}

/// The flow of a frame with a VLAN tag is that of the packet in it.
#[test]
fn a_tagged_frame_has_a_flow() {
    let arena = Arena::new(ArenaConfig { large: 1, small: 1 });
    let file = std::env::temp_dir().join(format!("ringway-tagged-{}", std::process::id()));
    let mut writer = CaptureWriter::create(&file, 0, 100).expect("a temporary file");
    let ends = Ends { one: End { ip: None, port: 80 }, other: None };
    let _reader = CaptureReader::open(&file, Some(ends)).expect("it was just made");
    let segment = packet(6, &[0x0f, 0xa0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 5 << 4, 2, 0xff, 0xff, 0, 0, 0, 0]);
    let capture = Capture::new(&mut writer, Instant::ZERO, 0, Medium::Ethernet);
    let expected = Flow { local: (HOST.into(), 80), remote: ([10, 0, 0, 2].into(), 4_000) };
    for tag in [&[8, 0][..], &[0x81, 0, 0, 5, 8, 0]] {
        let frame = arena.alloc_from(&[&[0; 12][..], tag, &segment].concat()).expect("a frame");
        assert_eq!(capture.flow_of(&frame, Direction::Received), Some(expected), "{tag:?}");
    }
    std::fs::remove_file(&file).expect("the test made it");
}
