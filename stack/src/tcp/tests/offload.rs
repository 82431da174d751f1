//! Offloads of the link: super-segments, partial checksums, gathering; and a link without them.

use alloc::vec;
use alloc::vec::Vec;

use ringway_shm::{Burst, Checksum, SegmentationKind};

use super::rig::*;
use crate::config::TcpOptions;
use crate::ip::Interface;
use crate::wire::checksum;
use crate::wire::tcp::{ACK, FIN, Header, PSH, SYN};

/// A packet as the device gets it.
struct Packet {
    frames: usize,
    checksum: Checksum,
    segmentation: Option<u16>,
    bytes: Vec<u8>,
}

fn transmit(rig: &mut Rig) -> Vec<Packet> {
    while rig.stack.transmit(rig.now, &mut rig.out) {}
    let mut packets = Vec::new();
    while !rig.out[0].is_empty() {
        let burst: &Burst = &rig.out[0];
        let first = burst.front_packet().next().expect("a packet has a frame");
        let segmentation = first.segmentation();
        packets.push(Packet {
            frames: burst.front_packet().count(),
            checksum: first.checksum(),
            segmentation: (segmentation.kind == SegmentationKind::TcpIpv4).then_some(segmentation.size),
            bytes: burst.front_packet().flat_map(|frame| frame.bytes().to_vec()).collect(),
        });
        rig.out[0].drop_packet();
    }
    packets
}

fn payload(packet: &Packet) -> (u32, Vec<u8>) {
    let (header, len) = Header::parse(&packet.bytes[20..]).expect("a good header");
    (header.sequence.0, packet.bytes[20 + len..].to_vec())
}

fn offloading() -> Rig {
    let mut rig = Rig::on(Rig::config(), true, 65_535, true);
    rig.listen_and_accept(TcpOptions::default(), seg(SYN, 0, 0).mss(MSS as u16));
    transmit(&mut rig);
    rig
}

/// The initial window leaves as one packet of ten segments, its checksum left to the link: the field holds the folded sum of
/// the pseudo-header.
#[test]
fn super_segment() {
    let mut rig = offloading();
    rig.send(1, 20 * MSS);
    let packets = transmit(&mut rig);
    assert_eq!(packets.len(), 1);
    let packet = &packets[0];
    assert_eq!(packet.segmentation, Some(MSS as u16));
    assert_eq!(packet.checksum, Checksum::Partial { start: 20, offset: 16 });
    assert!(packet.frames > 1, "the payload is shared, not copied");
    assert_eq!(payload(packet).1, stream(1, 10 * MSS));
    let len = (packet.bytes.len() - 20) as u32;
    let pseudo = checksum::pseudo_header(LOCAL.into(), REMOTE.into(), 6, len);
    assert_eq!(u16::from_be_bytes([packet.bytes[36], packet.bytes[37]]), pseudo);
    assert_eq!(checksum::sum(&packet.bytes[..20]), 0xffff);
}

/// A link may limit the segments of a packet besides its bytes, or reduce its limits while a connection lives.
#[test]
fn few_segments_to_a_packet() {
    let mut rig = offloading();
    let offloads = |bytes, segments| Interface {
        sends_partial_checksums: true,
        segmentation_max_bytes: bytes,
        segmentation_max_segments: segments,
        ..link(1_500)
    };
    rig.stack.set_interface(rig.now, 0, offloads(65_535, 4));
    rig.send(1, 10 * MSS);
    let sizes = |packets: Vec<Packet>| packets.iter().map(|packet| payload(packet).1.len() as u32).collect::<Vec<_>>();
    assert_eq!(sizes(transmit(&mut rig)), [4 * MSS, 4 * MSS, 2 * MSS]);
    rig.receive(seg(ACK, 1, 1 + 10 * MSS));
    // The bytes of six segments and their headers, at most.
    rig.stack.set_interface(rig.now, 0, offloads(6 * MSS + 100, u32::MAX));
    rig.send(1 + 10 * MSS, 10 * MSS);
    assert_eq!(sizes(transmit(&mut rig)), [6 * MSS, 4 * MSS]);
}

/// No packet is longer than the IP length field or the link allows.
#[test]
fn packet_limit() {
    let mut rig = offloading();
    let options = TcpOptions { send_buffer_bytes: 1 << 20, ..TcpOptions::default() };
    let now = rig.now;
    rig.stack.set_options(now, rig.id, options);
    assert_eq!(rig.send(1, 200_000), 200_000);
    for n in 0..20 {
        let acked = rig.info().bytes_acked as u32;
        for packet in transmit(&mut rig) {
            assert!(packet.bytes.len() <= 65_535, "{} bytes", packet.bytes.len());
        }
        if n > 2 && rig.info().unsent_bytes > 0 {
            assert!(rig.info().unacked_bytes > 60_000);
        }
        let under_way = rig.info().unacked_bytes;
        rig.receive(seg(ACK, 1, 1 + acked + under_way));
    }
    assert_eq!(rig.info().bytes_acked, 200_000);
}

/// PSH of a super-segment is its last segment's: one from the middle is retransmitted without it.
#[test]
fn push_stays_with_the_last_segment() {
    let mut rig = offloading();
    rig.send(1, 10 * MSS);
    let flags = |packets: &[Packet]| packets.iter().map(|packet| packet.bytes[33]).collect::<Vec<_>>();
    assert_eq!(flags(&transmit(&mut rig)), [ACK | PSH]);
    for _ in 0..3 {
        rig.receive(seg(ACK, 1, 1));
    }
    assert_eq!(flags(&transmit(&mut rig)), [ACK], "the first segment again");
}

/// One lost segment of a super-segment is retransmitted alone.
#[test]
fn lost_in_the_middle() {
    let mut rig = offloading();
    rig.send(1, 10 * MSS);
    transmit(&mut rig);
    for _ in 0..3 {
        rig.receive(seg(ACK, 1, 1 + 4 * MSS));
    }
    rig.receive(seg(ACK, 1, 1 + 4 * MSS));
    let again = transmit(&mut rig);
    assert_eq!(payload(&again[0]).1, stream(1 + 4 * MSS, MSS));
    assert_eq!(again[0].segmentation, None);
}

/// A link that takes one frame per packet and no partial checksums gets exactly that.
/// RFC 9293 MUST-2.
#[test]
fn plain_link() {
    let mut rig = Rig::on(Rig::config(), false, 0, false);
    rig.listen_and_accept(TcpOptions::default(), seg(SYN, 0, 0).mss(MSS as u16));
    transmit(&mut rig);
    rig.send(1, 3 * MSS + 7);
    let packets = transmit(&mut rig);
    assert_eq!(packets.len(), 4);
    for packet in &packets {
        assert_eq!((packet.frames, packet.checksum, packet.segmentation), (1, Checksum::Complete, None));
        let pseudo = checksum::pseudo_header(LOCAL.into(), REMOTE.into(), 6, (packet.bytes.len() - 20) as u32);
        assert_eq!(checksum::add(pseudo, checksum::sum(&packet.bytes[20..])), 0xffff);
    }
    let bytes: Vec<u8> = packets.iter().flat_map(|packet| payload(packet).1).collect();
    assert_eq!(bytes, stream(1, 3 * MSS + 7));
}

/// Small messages share the frame of their header, also when the link gathers.
#[test]
fn small_messages_are_one_frame() {
    let mut rig = offloading();
    rig.send(1, 64);
    let packets = transmit(&mut rig);
    assert_eq!((packets.len(), packets[0].frames), (1, 1));
}

/// A received super-segment is one segment: delivered whole, one ACK, its FIN taken.
#[test]
fn received_super_segment() {
    let mut rig = Rig::accepted(Rig::config(), TcpOptions::default());
    rig.receive_in_pieces(seg(ACK | FIN, 1, 1).data(40_000), 1_900);
    assert_eq!(rig.brief(), vec![(ACK, 1, 40_002, 0)]);
    assert_eq!(rig.read(1), Ok(40_000));
    // Overlap is trimmed across frames.
    let mut rig = Rig::accepted(Rig::config(), TcpOptions::default());
    rig.receive(seg(ACK, 1, 1).data(1_000));
    rig.receive_in_pieces(seg(ACK, 501, 1).data(9_500), 700);
    assert_eq!(rig.read(1), Ok(10_000));
    rig.assert_no_leak();
}

/// A super-segment with SACK blocks is split into segments that have space for them.
/// RFC 2018 §3, RFC 6691 §2.
#[test]
fn super_segments_tell_of_gaps() {
    let mut config = Rig::config();
    config.tcp.sack = true;
    let mut rig = Rig::on(config, true, 65_535, true);
    rig.listen_and_accept(TcpOptions::default(), seg(SYN, 0, 0).mss(MSS as u16).sack_permitted());
    transmit(&mut rig);
    rig.receive(seg(ACK, 101, 1).data(100));
    rig.send(1, 20 * MSS);
    let packets = transmit(&mut rig);
    assert_eq!(packets.len(), 1, "the data reports the gap");
    let (header, len) = Header::parse(&packets[0].bytes[20..]).expect("a good header");
    assert_eq!((header.options.sack().len(), len), (1, 32));
    assert_eq!(packets[0].segmentation, Some((MSS - 12) as u16));
    // As much as the window allows, in segments of that size.
    let room = MSS - 12;
    assert_eq!(payload(&packets[0]).1, stream(1, 10 * MSS / room * room));
}
