//! Cut super-segments are right TCP and UDP packets over every kind of inner device, and equal bytes arrive.
use super::*;
use crate::memory::{Memory, MemoryOptions, pair};
use crate::testing::{Arrived, Packet, arena, arrived};
use ringway_shm::ArenaConfig;

fn through(options: MemoryOptions, packet: Packet, segment_size: u16) -> Vec<Arrived> {
    let (left, right) = (arena(), arena());
    let (a, mut b): (Memory, Memory) = pair(&left, &right, options);
    let mut offload = Offload::new(Box::new(a), &left);
    let mut burst = Burst::default();
    packet.push(&left, &mut burst, segment_size, true);
    let before = left.free(Class::Large);
    assert_eq!(offload.transmit(Instant::ZERO, &mut burst).expect("memory does not fail"), 1);
    assert!(left.free(Class::Large) >= before && offload.poll_timeout().is_none());
    while b.receive(Instant::ZERO, &mut burst).expect("memory does not fail") > 0 {}
    arrived(&mut burst)
}

fn wires() -> [MemoryOptions; 4] {
    [(true, true), (true, false), (false, true), (false, false)].map(|(gathers, partial_checksums)| MemoryOptions {
        gathers,
        partial_checksums,
        ..MemoryOptions::default()
    })
}

#[test]
fn a_super_segment_becomes_right_packets() {
    let payload: Vec<u8> = (0..50_001u32).map(|i| (i * 7) as u8).collect();
    for options in wires() {
        for ipv6 in [false, true] {
            let packet = Packet { payload: &payload, ipv6, sequence: u32::MAX - 3000, flags: 0x99, ..Packet::default() };
            let got = through(options, packet, 1428);
            assert_eq!(got.len(), 50_001usize.div_ceil(1428));
            let bytes: Vec<u8> = got.iter().flat_map(|p| p.payload().to_vec()).collect();
            assert_eq!(bytes, payload);
            for (i, piece) in got.iter().enumerate() {
                assert_eq!(piece.sequence(), (u32::MAX - 3000).wrapping_add(i as u32 * 1428));
                let flags = piece.bytes[packet.tcp_start() + 13];
                let expect = 0x10 | if i == 0 { CWR } else { 0 } | if i + 1 == got.len() { FIN | PSH } else { 0 };
                assert_eq!(flags, expect, "flags of piece {i}");
                if !ipv6 {
                    assert_eq!(u16::from_be_bytes([piece.bytes[18], piece.bytes[19]]), 0x1234 + i as u16);
                }
            }
        }
    }
}

#[test]
fn an_ordinary_packet_is_summed_where_the_wire_does_not() {
    for options in wires() {
        let got = through(options, Packet { payload: b"odd", ..Packet::default() }, 0);
        assert_eq!(got[0].payload(), b"odd");
        assert_eq!(matches!(got[0].checksum, Checksum::Partial { .. }), options.partial_checksums);
    }
}

#[test]
fn cut_pieces_wait_for_a_full_wire_and_a_timeout_is_asked_for() {
    let (left, right) = (arena(), arena());
    let (a, mut b) = pair(&left, &right, MemoryOptions { queue_packets: 3, ..MemoryOptions::default() });
    let mut offload = Offload::new(Box::new(a), &left);
    let payload = vec![9; 10_000];
    let mut burst = Burst::default();
    Packet { payload: &payload, ..Packet::default() }.push(&left, &mut burst, 1000, true);
    offload.transmit(Instant::ZERO, &mut burst).expect("memory does not fail");
    let mut got = Burst::default();
    let mut turns = 0;
    while let Some(at) = offload.poll_timeout() {
        b.receive(at, &mut got).expect("memory does not fail");
        offload.transmit(at, &mut burst).expect("memory does not fail");
        turns += 1;
    }
    b.receive(Instant::ZERO, &mut got).expect("memory does not fail");
    assert_eq!(turns, 3);
    assert_eq!(arrived(&mut got).len(), 10);
}

/// A super-segment of more pieces than the arena has frames goes piece by piece. It used to wait for as many free frames at once,
/// which never were, and all behind it with it (seed 24028552651 of the simulator: 63 bytes a piece after a black hole).
#[test]
fn more_pieces_than_frames_all_go() {
    for options in wires() {
        let (left, right) = (Arena::new(ArenaConfig { large: 64, small: 64 }), arena());
        let (a, mut b) = pair(&left, &right, MemoryOptions { queue_packets: 32, ..options });
        let mut offload = Offload::new(Box::new(a), &left);
        let payload: Vec<u8> = (0..60_000u32).map(|i| (i * 7) as u8).collect();
        let (mut burst, mut got, mut bytes) = (Burst::default(), Burst::default(), Vec::new());
        Packet { payload: &payload, ..Packet::default() }.push(&left, &mut burst, 63, true);
        assert_eq!(offload.transmit(Instant::ZERO, &mut burst).expect("memory does not fail"), 1);
        while let Some(at) = offload.poll_timeout() {
            b.receive(at, &mut got).expect("memory does not fail");
            bytes.extend(arrived(&mut got).iter().flat_map(|packet| packet.payload().to_vec()));
            offload.transmit(at, &mut burst).expect("memory does not fail");
        }
        b.receive(Instant::ZERO, &mut got).expect("memory does not fail");
        bytes.extend(arrived(&mut got).iter().flat_map(|packet| packet.payload().to_vec()));
        assert!(bytes == payload && offload.counters().tx_dropped == 0);
        assert_eq!((left.free(Class::Large), left.free(Class::Small)), (64, 64));
    }
}

/// Where no frame comes back what is left of the packet is dropped, and what is behind it goes.
#[test]
fn without_frames_the_packet_is_given_up() {
    let (left, right) = (Arena::new(ArenaConfig { large: 8, small: 4 }), arena());
    let (a, mut b) = pair(&left, &right, MemoryOptions::default());
    let mut offload = Offload::new(Box::new(a), &left);
    let mut burst = Burst::default();
    Packet { payload: &[9; 500], ..Packet::default() }.push(&left, &mut burst, 100, true);
    Packet { payload: b"behind", ..Packet::default() }.push(&left, &mut burst, 0, true);
    let held: Vec<Frame> = [Class::Large, Class::Small]
        .into_iter()
        .flat_map(|class| std::iter::from_fn(|| left.alloc(class)).collect::<Vec<_>>())
        .collect();
    let (mut now, mut got) = (Instant::ZERO, Burst::default());
    offload.transmit(now, &mut burst).expect("memory does not fail");
    while let Some(at) = offload.poll_timeout() {
        now = at;
        offload.transmit(now, &mut burst).expect("memory does not fail");
    }
    b.receive(now, &mut got).expect("memory does not fail");
    assert_eq!(arrived(&mut got).iter().map(|packet| packet.payload().to_vec()).collect::<Vec<_>>(), [b"behind"]);
    assert!(now.since(Instant::ZERO) >= PATIENCE && offload.counters().tx_dropped == 1);
    drop(held);
}

#[test]
fn a_lying_super_segment_is_dropped_not_trusted() {
    let (left, right) = (arena(), arena());
    let (a, _b) = pair(&left, &right, MemoryOptions::default());
    let mut offload = Offload::new(Box::new(a), &left);
    let mut burst = Burst::default();
    let mut frame = left.alloc_from(&[0xff; 60]).expect("room");
    frame.set_checksum(Checksum::Partial { start: 58, offset: 16 });
    frame.set_segmentation(Segmentation { kind: SegmentationKind::TcpIpv4, size: 10 });
    burst.push(frame);
    offload.transmit(Instant::ZERO, &mut burst).expect("memory does not fail");
    assert_eq!(offload.counters().tx_dropped, 1);
}

/// A train of datagrams is cut into right datagrams; the last one is shorter.
#[test]
fn a_super_datagram_becomes_right_datagrams() {
    let payload: Vec<u8> = (0..10_001u32).map(|i| (i * 7) as u8).collect();
    for options in wires() {
        for ipv6 in [false, true] {
            let (left, right) = (arena(), arena());
            let (a, mut b) = pair(&left, &right, options);
            let mut offload = Offload::new(Box::new(a), &left);
            let mut burst = Burst::default();
            Packet { payload: &payload, ipv6, ..Packet::default() }.push_udp(&left, &mut burst, 1_200);
            assert_eq!(offload.transmit(Instant::ZERO, &mut burst).expect("memory does not fail"), 1);
            while b.receive(Instant::ZERO, &mut burst).expect("memory does not fail") > 0 {}
            let mut joined = Vec::new();
            let (ip, udp) = (14, if ipv6 { 54 } else { 34 });
            while !burst.is_empty() {
                let partial = matches!(burst.front_packet().next().expect("not empty").checksum(), Checksum::Partial { .. });
                let bytes: Vec<u8> = burst.front_packet().flat_map(|frame| frame.bytes().to_vec()).collect();
                burst.drop_packet();
                let len = u16::from_be_bytes([bytes[udp + 4], bytes[udp + 5]]);
                assert_eq!(usize::from(len), bytes.len() - udp);
                let addresses = if ipv6 { &bytes[ip + 8..ip + 40] } else { &bytes[ip + 12..ip + 20] };
                let pseudo = crate::checksum::pseudo(addresses, 17, u32::from(len));
                let sum = match partial {
                    true => fold(pseudo) ^ !u16::from_be_bytes([bytes[udp + 6], bytes[udp + 7]]),
                    false => fold(crate::checksum::add(pseudo, &bytes[udp..])),
                };
                assert_eq!(sum, 0xffff);
                joined.extend_from_slice(&bytes[udp + 8..]);
            }
            assert_eq!(joined, payload);
        }
    }
}

/// Takes every packet and sends it at the next call only, as a ring whose kernel is called again.
struct Late {
    taken: usize,
    sent: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

impl Device for Late {
    fn capabilities(&self) -> Capabilities {
        let arena = arena();
        pair(&arena, &arena, MemoryOptions { gathers: false, ..MemoryOptions::default() }).0.capabilities()
    }

    fn receive(&mut self, _now: Instant, _burst: &mut Burst) -> io::Result<usize> {
        Ok(0)
    }

    fn transmit(&mut self, _now: Instant, burst: &mut Burst) -> io::Result<usize> {
        self.sent.fetch_add(std::mem::take(&mut self.taken), std::sync::atomic::Ordering::Relaxed);
        let mut packet = Vec::new();
        while take_packet(burst, &mut packet) {
            self.taken += 1;
            packet.clear();
        }
        Ok(self.taken)
    }

    fn wait_fds<'a>(&'a self, _fds: &mut Vec<std::os::fd::BorrowedFd<'a>>) {}

    fn arm(&mut self) -> bool {
        false
    }

    fn poll_timeout(&self) -> Option<Instant> {
        (self.taken > 0).then_some(Instant::ZERO)
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}

#[test]
fn an_inner_device_that_asks_to_be_called_is_called_with_nothing_staged() {
    let (arena, sent) = (arena(), std::sync::Arc::<std::sync::atomic::AtomicUsize>::default());
    let mut offload = Offload::new(Box::new(Late { taken: 0, sent: sent.clone() }), &arena);
    let mut burst = Burst::default();
    Packet { payload: b"late", ..Packet::default() }.push(&arena, &mut burst, 0, true);
    assert_eq!(offload.transmit(Instant::ZERO, &mut burst).expect("it does not fail"), 1);
    assert_eq!(sent.load(std::sync::atomic::Ordering::Relaxed), 1);
    assert!(offload.poll_timeout().is_none());
}
