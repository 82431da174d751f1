use std::sync::Arc;

use ringway_stack::StackConfig;

use super::*;
use crate::WorkerConfig;
use crate::attach::Maker;

/// Number of packets of `len` bytes, of 64 waiting ones, that a device shows before the iteration has enough.
fn shown(len: usize) -> usize {
    let config = WorkerConfig::default();
    let arena = Arena::new(config.arena);
    let stack = Stack::new(StackConfig::default(), arena.clone(), Instant::ZERO);
    let attachments = &mut Attachments::new(&config, Arc::new(Maker::new(config.shape)));
    let mut readers = Readers { large: 0, interface: 0, stack: &stack, attachments, arena: &arena };
    let mut packets = 0;
    while packets < 64 && !readers.are_enough() {
        assert!(readers.room(&[], len).is_none(), "there is no socket");
        packets += 1;
    }
    packets
}

/// Large packets are taken in portions, whichever application they are for; of small ones a whole burst.
#[test]
fn three_packets_of_64_kib_are_a_portion() {
    assert_eq!(shown(64 << 10), 3);
    assert_eq!(shown(MESSAGE), 64);
}
