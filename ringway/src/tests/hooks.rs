//! Hooks that see the packets of a program's interface.

use std::cell::Cell;
use std::rc::Rc;

use ringway_device::impair::Impairments;
use ringway_device::memory::MemoryOptions;
use ringway_shm::Instant;

use super::harness::{CLIENT, Pair, SERVER, pattern};
use crate::{PacketHook, PacketVerdict};

/// Refuses each tenth packet of either direction.
struct Tenth {
    seen: [u64; 2],
    refused: Rc<Cell<u64>>,
}

impl Tenth {
    fn judge(&mut self, direction: usize) -> PacketVerdict {
        self.seen[direction] += 1;
        if !self.seen[direction].is_multiple_of(10) {
            return PacketVerdict::Pass;
        }
        self.refused.set(self.refused.get() + 1);
        PacketVerdict::Drop
    }
}

impl PacketHook for Tenth {
    fn received(&mut self, _now: Instant, packet: &[u8]) -> PacketVerdict {
        assert!(packet.len() >= 34, "the headers are there");
        self.judge(0)
    }

    fn sent(&mut self, _now: Instant, packet: &[u8]) -> PacketVerdict {
        assert!(packet.len() >= 34, "the headers are there");
        self.judge(1)
    }
}

/// TCP repairs what a hook refuses.
#[test]
fn a_connection_carries_every_byte_past_a_hook_that_refuses_packets() {
    let refused = Rc::new(Cell::new(0));
    let count = refused.clone();
    let mut pair = Pair::prepared(MemoryOptions::default(), Impairments::default(), 8_192, move |host, net| {
        let refused = count.clone();
        if host == SERVER {
            net.hook_packets(move |interface| {
                assert_eq!(interface.name, "wire");
                Box::new(Tenth { seen: [0; 2], refused: refused.clone() })
            });
        }
    });
    let (client, server) = pair.connection(80);
    let sent = pattern(300_000, 5);
    let (mut written, mut got, mut buffer) = (0, Vec::new(), [0; 8192]);
    pair.run_until(|pair| {
        if written < sent.len() {
            written += client.write(&mut pair.nets[CLIENT], &sent[written..]).unwrap_or(0);
        }
        while let Ok(count) = server.read(&mut pair.nets[SERVER], &mut buffer) {
            got.extend_from_slice(&buffer[..count]);
        }
        got.len() >= sent.len()
    });
    assert!(got == sent);
    assert!(refused.get() > 10, "{} packets were refused", refused.get());
}
