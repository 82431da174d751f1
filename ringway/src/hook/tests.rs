use std::cell::RefCell;
use std::rc::Rc;

use ringway_device::memory::{self, MemoryOptions};
use ringway_shm::{Arena, ArenaConfig};

use super::*;

/// Notes the first byte of each packet, and refuses those whose byte is a multiple of three.
#[derive(Clone, Default)]
struct Notes(Rc<RefCell<[Vec<u8>; 2]>>);

impl Notes {
    fn note(&self, direction: usize, packet: &[u8]) -> PacketVerdict {
        self.0.borrow_mut()[direction].push(packet[0]);
        if packet[0].is_multiple_of(3) { PacketVerdict::Drop } else { PacketVerdict::Pass }
    }
}

impl PacketHook for Notes {
    fn received(&mut self, _now: Instant, packet: &[u8]) -> PacketVerdict {
        self.note(0, packet)
    }

    fn sent(&mut self, _now: Instant, packet: &[u8]) -> PacketVerdict {
        self.note(1, packet)
    }
}

/// The wire takes three packets, so most come to the device several times.
#[test]
fn each_packet_is_seen_once_and_those_that_are_refused_are_gone() {
    let now = Instant::from_millis(1);
    let arena = Arena::new(ArenaConfig { large: 64, small: 64 });
    let options = MemoryOptions { queue_packets: 3, ..MemoryOptions::default() };
    let (left, right) = memory::pair(&arena, &arena, options);
    let (near, far) = (Notes::default(), Notes::default());
    let mut sender = Hooked::new(Box::new(left), Box::new(near.clone()));
    let mut receiver = Hooked::new(Box::new(right), Box::new(far.clone()));
    let mut burst = Burst::default();
    for number in 0..20_u8 {
        burst.push(arena.alloc_from(&[number; 60][..]).expect("a frame is free"));
    }
    let mut arrived = Vec::new();
    for _ in 0..20 {
        Device::transmit(&mut sender, now, &mut burst).expect("the wire is there");
        let mut received = Burst::default();
        let count = Device::receive(&mut receiver, now, &mut received).expect("the wire is there");
        assert_eq!(count, received.packets());
        arrived.extend(received.iter().map(|frame| frame.bytes()[0]));
    }
    let passed: Vec<u8> = (0..20).filter(|number| number % 3 != 0).collect();
    assert!(burst.is_empty());
    assert_eq!(near.0.borrow()[1], (0..20).collect::<Vec<u8>>());
    assert_eq!((&far.0.borrow()[0], &arrived), (&passed, &passed));
    assert_eq!((Device::counters(&sender).tx_dropped, Device::counters(&receiver).rx_dropped), (7, 0));
    let mut again = Burst::default();
    again.push(arena.alloc_from(&[9; 60][..]).expect("a frame is free"));
    Device::transmit(&mut receiver, now, &mut again).expect("the wire is there");
    assert!(again.is_empty() && near.0.borrow()[0].is_empty());
}
