//! Packets of the worker's interfaces for the capture ring: with what became of those received, and what their connections
//! were like after them.
//!
//! Runs only while there is a reader. Then the stack gets packets one at a time, so that a counter that moves tells which
//! packet was dropped, and why. Packets that no reader wants are not written.

use ringway_shm::capture::{CaptureWriter, Direction, Observed, Wishes};
use ringway_shm::stats::InfoRecord;
use ringway_shm::{Burst, Flow, Frame, Instant};
use ringway_stack::wire::classify::{Payload, classify};
use ringway_stack::wire::{ethernet, ipv4};
use ringway_stack::{Counter, Medium, Observation, Stack};

use crate::info_record::{record_of, timer_record};
use crate::metrics::Work;

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

/// A capture ring in use: for one interface and one moment.
pub(super) struct Capture<'a> {
    writer: &'a mut CaptureWriter,
    wishes: Wishes,
    now: Instant,
    interface: u32,
    medium: Medium,
}

impl<'a> Capture<'a> {
    pub(super) fn new(writer: &'a mut CaptureWriter, now: Instant, interface: u32, medium: Medium) -> Capture<'a> {
        let wishes = writer.wishes();
        Capture { writer, wishes, now, interface, medium }
    }

    /// Gives the packets of a burst to the stack and writes each with the reason for which it was dropped, if it was.
    pub(super) fn receive(&mut self, stack: &mut Stack, burst: &mut Burst) {
        let mut packet = Burst::default();
        while !burst.is_empty() {
            while let Some(frame) = burst.pop() {
                packet.push(frame);
                if packet.packets() == 1 {
                    break;
                }
            }
            self.receive_one(stack, &mut packet);
            packet.clear();
        }
    }

    fn receive_one(&mut self, stack: &mut Stack, packet: &mut Burst) {
        let flow = packet.frames().next().and_then(|head| self.flow_of(head, Direction::Received));
        if !self.wishes.include(flow.as_ref()) {
            return stack.receive(self.now, self.interface, packet);
        }
        self.writer.begin(self.now, self.interface, Direction::Received, packet.frames());
        let before = DROP_REASONS.map(|reason| stack.counters().get(reason));
        stack.receive(self.now, self.interface, packet);
        let moved = DROP_REASONS.iter().zip(before).find(|(reason, before)| stack.counters().get(**reason) != *before);
        let observed = flow.and_then(|flow| self.observe(stack, &flow));
        self.writer.publish(moved.map(|(reason, _)| *reason as u16), observed.as_ref());
    }

    /// Writes received packets that the stack does not get, and drops them.
    pub(super) fn write_dropped(&mut self, reason: Work, burst: &mut Burst) {
        while let Some(head) = burst.front() {
            let flow = self.flow_of(head, Direction::Received);
            if self.wishes.include(flow.as_ref()) {
                self.writer.begin(self.now, self.interface, Direction::Received, burst.front_packet());
                self.writer.publish(Some(reason.index_in_statistics() as u16), None);
            }
            burst.drop_packet();
        }
    }

    /// Writes the packets of a burst after the first `skip`, which were written before. Their connections are as they are
    /// after all of them.
    pub(super) fn write_sent(&mut self, stack: &mut Stack, burst: &Burst, skip: usize) {
        let mut frames = burst.frames();
        for number in 0..burst.packets() {
            let mut ended = false;
            let mut packet = std::iter::from_fn(|| {
                let frame = if ended { None } else { frames.next() }?;
                ended = !frame.continues();
                Some(frame)
            })
            .peekable();
            let flow = packet.peek().and_then(|head| self.flow_of(head, Direction::Sent));
            if number < skip || !self.wishes.include(flow.as_ref()) {
                packet.for_each(drop);
                continue;
            }
            self.writer.begin(self.now, self.interface, Direction::Sent, packet);
            let observed = flow.and_then(|flow| self.observe(stack, &flow));
            self.writer.publish(None, observed.as_ref());
        }
    }

    /// The connection of a TCP packet, if a reader's wish depends on it.
    fn flow_of(&self, head: &Frame, direction: Direction) -> Option<Flow> {
        if !self.wishes.are_of_connections() {
            return None;
        }
        let bytes = head.bytes();
        let is_tagged = self.medium == Medium::Ethernet
            && ethernet::Header::parse(bytes).is_some_and(|header| header.ether_type == ethernet::TYPE_VLAN);
        let found = match is_tagged {
            true => classify(Medium::Ip, bytes.get(ethernet::HEADER_LEN + ethernet::TAG_LEN..)?),
            false => classify(self.medium, bytes),
        };
        let Payload::Ip(packet) = found? else { return None };
        if packet.protocol != ipv4::PROTOCOL_TCP || packet.is_fragment {
            return None;
        }
        let (source_port, destination_port) = packet.ports()?;
        let (source, destination) = ((packet.source, source_port), (packet.destination, destination_port));
        Some(match direction {
            Direction::Received => Flow { local: destination, remote: source },
            Direction::Sent => Flow { local: source, remote: destination },
        })
    }

    /// What the connection is like now, if a reader wants to know.
    fn observe(&self, stack: &mut Stack, flow: &Flow) -> Option<Observed> {
        if !self.wishes.observe(flow) {
            return None;
        }
        let Observation { summary, info, waits, probing } = stack.observe(flow)?;
        let bare =
            InfoRecord { state: summary.state.linux().into(), backoff: summary.retransmits.into(), ..InfoRecord::default() };
        let info = info.map_or(bare, |info| record_of(&info, flow.remote.0.is_ipv6()));
        Some(Observed { info, timer: timer_record(&summary, self.now), waits, probing })
    }
}

#[cfg(test)]
mod tests;
