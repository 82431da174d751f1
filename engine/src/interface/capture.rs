//! Packets of the worker's interfaces for the capture ring, with what became of those received.
//!
//! Runs only while there is a reader. Then the stack gets packets one at a time, so that a counter that moves tells which
//! packet was dropped, and why.

use ringway_shm::capture::{CaptureWriter, Direction};
use ringway_shm::{Burst, Instant};
use ringway_stack::{Counter, Stack};

/// Counters of received packets that were dropped; of two that one packet moves, the more precise one is first.
const DROP_REASONS: [Counter; 22] = [
    Counter::DropMalformed,
    Counter::IpInHdrErrors,
    Counter::IpInAddrErrors,
    Counter::IpInUnknownProtos,
    Counter::IpReasmFails,
    Counter::IcmpInErrors,
    Counter::TcpInCsumErrors,
    Counter::UdpInCsumErrors,
    Counter::UdpRcvbufErrors,
    Counter::UdpNoPorts,
    Counter::UdpInErrors,
    Counter::PawsEstab,
    Counter::TcpOfoDrop,
    Counter::TcpReqQFullDrop,
    Counter::TcpDeferAcceptDrop,
    Counter::ListenDrops,
    Counter::DropNoBuffer,
    Counter::DropNoSocket,
    Counter::DropHandedOver,
    Counter::DropElsewhere,
    Counter::DropOutOfWindow,
    Counter::DropUnacceptable,
];

/// Gives the packets of a burst to the stack and writes each with the reason for which it was dropped, if it was.
pub(super) fn receive(capture: &mut CaptureWriter, now: Instant, interface: u32, stack: &mut Stack, burst: &mut Burst) {
    let mut packet = Burst::default();
    while !burst.is_empty() {
        while let Some(frame) = burst.pop() {
            packet.push(frame);
            if packet.packets() == 1 {
                break;
            }
        }
        capture.begin(now, interface, Direction::Received, packet.frames());
        let before = DROP_REASONS.map(|reason| stack.counters().get(reason));
        stack.receive(now, interface, &mut packet);
        packet.clear();
        let moved = DROP_REASONS.iter().zip(before).find(|(reason, before)| stack.counters().get(**reason) != *before);
        capture.publish(moved.map(|(reason, _)| *reason as u16));
    }
}

/// Writes the packets of a burst after the first `skip`, which were written before.
pub(super) fn write_sent(capture: &mut CaptureWriter, now: Instant, interface: u32, burst: &Burst, skip: usize) {
    let mut frames = burst.frames();
    for number in 0..burst.packets() {
        let mut ended = false;
        let packet = std::iter::from_fn(|| {
            let frame = if ended { None } else { frames.next() }?;
            ended = !frame.continues();
            Some(frame)
        });
        if number < skip {
            packet.for_each(drop);
        } else {
            capture.write(now, interface, Direction::Sent, packet);
        }
    }
}

#[cfg(test)]
mod tests;
