use std::net::{Ipv4Addr, Ipv6Addr};

use ringway_shm::{Arena, ArenaConfig, Class};

use super::*;

const FULL: usize = 64;

/// Stands for the flags of a packet that is no TCP segment.
const DATAGRAM: u8 = 0xff;

/// Bursts of packets as they would come from a wire.
struct Wire {
    arena: Arena,
    flood: Flood,
    known: KnownSources,
    now: Instant,
}

impl Wire {
    fn new() -> Wire {
        Wire {
            arena: Arena::new(ArenaConfig { large: 16, small: 256 }),
            flood: Flood::default(),
            known: KnownSources::with_keys([17, 18]),
            now: Instant::from_millis(5_000),
        }
    }

    fn packet(&self, source: IpAddr, flags: u8) -> Frame {
        let protocol = if flags == DATAGRAM { ipv4::PROTOCOL_UDP } else { ipv4::PROTOCOL_TCP };
        let mut frame = self.arena.alloc(Class::Small).expect("few are used");
        let mut tcp = [0; tcp::HEADER_BYTES];
        tcp[tcp::FLAGS_OFFSET] = flags;
        match source {
            IpAddr::V4(source) => {
                let mut header = [0; 20];
                (header[0], header[3], header[9]) = (0x45, 40, protocol);
                header[12..16].copy_from_slice(&source.octets());
                frame.extend(20).copy_from_slice(&header);
            }
            IpAddr::V6(source) => {
                let mut header = [0; 40];
                (header[0], header[5], header[6]) = (0x60, 20, protocol);
                header[8..24].copy_from_slice(&source.octets());
                frame.extend(40).copy_from_slice(&header);
            }
        }
        frame.extend(tcp.len()).copy_from_slice(&tcp);
        frame
    }

    /// A burst arrives; returns what is left of it.
    fn burst(&mut self, packets: impl IntoIterator<Item = (IpAddr, u8)>) -> Vec<(IpAddr, u8)> {
        let mut received = Burst::default();
        for (source, flags) in packets {
            received.push(self.packet(source, flags));
        }
        if self.flood.is_suspected(self.now, received.packets() >= FULL) {
            let before = received.packets();
            let dropped = self.flood.shed(self.now, Medium::Ip, &mut received, &self.known);
            let dropped = dropped.map_or(0, |(_, dropped)| std::mem::take(dropped).packets());
            assert_eq!(received.packets() + dropped, before);
        }
        let left = received.heads().map(|head| match classify(Medium::Ip, head.bytes()) {
            Some(Payload::Ip(packet)) => (packet.source, packet.payload[tcp::FLAGS_OFFSET]),
            other => panic!("{other:?}"),
        });
        left.collect()
    }

    /// A flood begins: full bursts of SYNs from one source.
    fn begin(&mut self) {
        for _ in 0..2 * FULL_BURSTS {
            self.burst([(HOST, tcp::SYN); FULL]);
        }
        assert_eq!(self.flood.take_untold(), Some(Kind::Syn));
    }
}

const HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 66));
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// An address of its own for each number.
fn other(number: usize) -> IpAddr {
    Ipv4Addr::from_bits(0x0a00_0000 + number as u32).into()
}

#[test]
fn beside_a_flood_from_one_host_all_else_is_kept() {
    let mut wire = Wire::new();
    wire.begin();
    let mut burst = [(HOST, tcp::SYN); FULL];
    (burst[7], burst[8], burst[60]) = ((CLIENT, tcp::SYN), (HOST, tcp::ACK), (CLIENT, tcp::ACK | tcp::PSH));
    for _ in 0..10 {
        assert_eq!(wire.burst(burst), [burst[7], burst[8], burst[60]]);
    }
    assert_eq!(wire.flood.take_untold(), None, "it is the same flood");
}

#[test]
fn what_the_worker_keeps_up_with_is_answered() {
    let mut wire = Wire::new();
    for round in 0..10 {
        for _ in 1..FULL_BURSTS {
            assert_eq!(wire.burst([(HOST, tcp::SYN); FULL]).len(), FULL, "{round}");
        }
        wire.burst([]);
    }
    wire.begin();
    assert_eq!(wire.burst([(HOST, tcp::SYN); FULL - 1]).len(), FULL - 1, "nothing waits behind it");
}

/// Where no source sends many, none is preferred, and what is no SYN is kept all the same.
#[test]
fn a_flood_from_everywhere_loses_whole_bursts_of_syns() {
    let mut wire = Wire::new();
    let mut numbers = (0..).map(other);
    let mut left = Vec::new();
    for _ in 0..4 * FULL_BURSTS {
        let syns = numbers.by_ref().take(FULL - 1).map(|source| (source, tcp::SYN));
        left.push(wire.burst(syns.chain([(CLIENT, tcp::ACK)])));
    }
    assert!(left.iter().all(|burst| burst.ends_with(&[(CLIENT, tcp::ACK)])));
    let counts: Vec<usize> = left.iter().map(Vec::len).collect();
    let begun = (FULL_BURSTS + VAIN_BURSTS) as usize;
    assert!(
        counts[..begun - 1].iter().all(|count| *count == FULL) && counts[begun..].iter().all(|count| *count == 1),
        "{counts:?}"
    );
    // The worker has caught up: the next ones are answered.
    wire.burst([]);
    assert_eq!(wire.burst(numbers.by_ref().take(FULL).map(|source| (source, tcp::SYN))).len(), FULL);
}

#[test]
fn only_syns_are_a_flood() {
    let mut wire = Wire::new();
    for flags in [tcp::ACK, tcp::RST, tcp::SYN | tcp::ACK, tcp::FIN | tcp::ACK, tcp::SYN | tcp::RST] {
        for _ in 0..3 * FULL_BURSTS {
            assert_eq!(wire.burst([(HOST, flags); FULL]).len(), FULL);
        }
        assert_eq!(wire.flood.take_untold(), None);
    }
}

#[test]
fn datagrams_are_a_flood_beside_which_segments_are_kept() {
    let mut wire = Wire::new();
    let mut burst = [(HOST, DATAGRAM); FULL];
    (burst[3], burst[40], burst[41]) = ((CLIENT, DATAGRAM), (CLIENT, tcp::SYN), (HOST, tcp::ACK));
    for _ in 0..2 * FULL_BURSTS {
        wire.burst(burst);
    }
    assert_eq!(wire.flood.take_untold(), Some(Kind::Datagram));
    (0..2 * WINDOW as usize / FULL).for_each(|_| drop(wire.burst([(HOST, DATAGRAM); FULL])));
    assert_eq!(wire.burst(burst), [burst[3], burst[40], burst[41]]);
}

#[test]
fn a_flood_is_over_a_second_after_its_last_drop() {
    let mut wire = Wire::new();
    wire.begin();
    wire.now += Duration::from_millis(999);
    wire.burst([]);
    assert_eq!(wire.burst([(HOST, tcp::SYN); FULL]), []);
    wire.now += Duration::from_millis(1_000);
    wire.burst([]);
    assert_eq!(wire.burst([(HOST, tcp::SYN); FULL]).len(), FULL);
    wire.begin();
}

/// One customer's prefix is one source.
#[test]
fn addresses_of_one_prefix_are_one_source() {
    let mut wire = Wire::new();
    let host = |prefix: u128, number: usize| IpAddr::V6(Ipv6Addr::from_bits(0x2001_0db8 << 96 | prefix << 64 | number as u128));
    let mut numbers = 0..;
    for _ in 0..2 * FULL_BURSTS {
        wire.burst(numbers.by_ref().take(FULL).map(|number| (host(7, number), tcp::SYN)));
    }
    let mut burst: Vec<_> = numbers.take(FULL).map(|number| (host(7, number), tcp::SYN)).collect();
    burst[9].0 = host(8, 0);
    assert_eq!(wire.burst(burst), [(host(8, 0), tcp::SYN)]);
}

#[test]
fn a_source_of_accepted_connections_is_answered_beside_a_flood_from_everywhere() {
    let mut wire = Wire::new();
    wire.known.add(CLIENT);
    let mut numbers = (1 << 20..).map(other);
    for round in 0..4 * FULL_BURSTS {
        let mut burst: Vec<_> = numbers.by_ref().take(FULL).map(|source| (source, tcp::SYN)).collect();
        if round % 8 == 0 {
            burst[FULL - 1].0 = CLIENT;
        }
        let left = wire.burst(burst);
        assert!(round % 8 != 0 || left.ends_with(&[(CLIENT, tcp::SYN)]), "{round}");
        assert!(round < FULL_BURSTS + VAIN_BURSTS || left.len() < 8, "some pass for known ones: {}", left.len());
    }
}

/// What was counted long ago does not count any more.
#[test]
fn a_source_is_forgiven() {
    let (mut sources, known) = (Sources::default(), KnownSources::with_keys([17, 18]));
    assert!((0..=MANY).any(|_| sources.sends_many(known.hash(CLIENT))));
    for number in 0..8 * WINDOW as usize {
        sources.sends_many(known.hash(other(number)));
    }
    assert!(!sources.sends_many(known.hash(CLIENT)));
}
