//! The particular rules of AF_XDP; the rest is in the conformance suite.
use super::*;
use crate::testing::{Packet, arena};

fn frame(arena: &Arena, bytes: &[u8]) -> Frame {
    arena.alloc_from(bytes).expect("room")
}

#[test]
fn a_pseudo_header_sum_is_recognized_as_a_partial_checksum() {
    let arena = arena();
    for ipv6 in [false, true] {
        let packet = Packet { payload: b"some bytes", ipv6, ..Packet::default() };
        let mut partial = frame(&arena, &packet.bytes_partial());
        recognize_partial(&mut partial);
        assert_eq!(partial.checksum(), Checksum::Partial { start: packet.tcp_start() as u16, offset: 16 });
        let mut complete = frame(&arena, &packet.bytes());
        recognize_partial(&mut complete);
        assert_eq!(complete.checksum(), Checksum::Complete);
    }
}

#[test]
fn truncated_packets_are_not_recognized_and_do_no_harm() {
    let arena = arena();
    let bytes = Packet { payload: b"", ..Packet::default() }.bytes_partial();
    for len in 0..bytes.len() {
        let mut short = frame(&arena, &bytes[..len]);
        recognize_partial(&mut short);
        assert_eq!(short.checksum(), Checksum::Complete, "{len} bytes");
    }
    let mut lying = bytes.clone();
    lying[16..18].copy_from_slice(&[0, 3]);
    recognize_partial(&mut frame(&arena, &lying));
}

#[test]
fn ways_go_from_the_best_to_the_plainest() {
    let interface = |mtu| Interface {
        name: "x".to_owned(),
        index: 1,
        mac: [0; 6],
        mtu,
        up: true,
        driver: String::new(),
        receive_queues: 1,
        udp_segmentation: false,
        tcp_segmentation: false,
        segmentation_max_bytes: 65_521,
        segmentation_max_segments: 65_535,
    };
    let plain = Xdp::attach_modes(&interface(1500), &XdpOptions::default());
    assert!(
        plain.len() == 2 && plain.iter().all(|attach_mode| !attach_mode.zero_copy && !attach_mode.metadata),
        "the safe ways alone"
    );
    let all = XdpOptions { zero_copy: true, kernel_checksums: true, ..XdpOptions::default() };
    let small = Xdp::attach_modes(&interface(1500), &all);
    assert!(small[0].zero_copy && small[0].mode == XdpMode::Native);
    assert!(small[1].metadata && !small[1].zero_copy);
    assert!(small.iter().all(|attach_mode| !attach_mode.chains) && small.len() == 5);
    let jumbo = Xdp::attach_modes(&interface(9000), &XdpOptions { zero_copy: false, ..all });
    assert!(jumbo.iter().all(|attach_mode| attach_mode.chains && !attach_mode.metadata) && jumbo.len() == 2);
}

#[test]
fn the_ledger_returns_what_was_lent_and_nothing_else() {
    use ringway_shm::Class;
    let arena = arena();
    let mut accounting = FrameAccounting::new(&arena);
    let large = arena.alloc(Class::Large).expect("room");
    let small = arena.alloc_from(b"abc").expect("room");
    let twice = small.share();
    let (at, _) = accounting.lend(large);
    let (small_at, len) = accounting.lend(small);
    accounting.lend(twice);
    assert!(accounting.take_back(at ^ CHUNK_BYTES as u64, 0).is_none(), "another slot");
    assert!(accounting.take_back(u64::MAX, 0).is_none(), "outside");
    let received = accounting.take_back((at & !2047) + 256, 1514).expect("anywhere in the chunk");
    assert_eq!((received.headroom(), received.len()), (256, 1514));
    assert!(accounting.take_back(at, 0).is_none(), "once");
    assert_eq!(accounting.take_back(small_at, len).expect("lent").bytes(), b"abc");
    accounting.take_back_all();
    drop(received);
    assert_eq!(arena.free(Class::Large), arena.capacity(Class::Large));
    assert_eq!(arena.free(Class::Small), arena.capacity(Class::Small));
}
