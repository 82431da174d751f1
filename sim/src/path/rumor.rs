//! False ICMP messages. Read RFC 5927, RFC 5461 first.
//!
//! After some of a host's segments it receives an ICMP error about them that no router has found: a path MTU that no path
//! has, an unreachable host or port, a time exceeded. Some quote the segment as it was (an on-path attacker), others with
//! guessed numbers (an off-path attacker). SYNs are left out: errors about them take effect.

use std::io;

use ringway_device::Device;
use ringway_shm::{Arena, Burst, Frame, Instant};
use ringway_stack::wire::{icmpv4, icmpv6, ipv4, ipv6};

use super::icmp::{self, Message};
use super::{Packet, take};
use crate::random::Random;

/// Middleware on a host's outgoing packets; see the module's text.
pub struct Rumor {
    inner: Box<dyn Device>,
    arena: Arena,
    random: Random,
    ppm: u32,
    told: Burst,
}

impl Rumor {
    /// Wraps `inner`; lies about `ppm` in a million packets.
    pub fn new(inner: Box<dyn Device>, arena: &Arena, seed: u64, ppm: u32) -> Rumor {
        Rumor { inner, arena: arena.clone(), random: Random::new(seed), ppm, told: Burst::default() }
    }

    /// Sends the host an ICMP error about the packet that begins with `first`.
    fn lie_about(&mut self, first: Frame) {
        let link_bytes = self.inner.capabilities().medium.header_bytes();
        let Some(link) = first.bytes().get(..link_bytes).map(<[u8]>::to_vec) else { return };
        // Only headers are quoted: the payload's checksum does not matter.
        let mut packet = Packet { link, network: first.bytes()[link_bytes..].to_vec() };
        let Some(transport) = transport_of_segment(&packet.network) else { return };
        if packet.network[transport + FLAGS_AT] & SYN != 0 {
            return;
        }
        if self.random.one_in(2) {
            let guess = self.random.number() as u32;
            packet.network[transport + SEQUENCE_AT..transport + SEQUENCE_AT + 4].copy_from_slice(&guess.to_be_bytes());
        }
        let message = self.message(packet.network[0] >> 4 == 6);
        if let Some(network) = icmp::error(&packet.network, message) {
            Packet { link: packet.link_back(), network }.push(&self.arena, &mut self.told);
        }
    }

    fn message(&mut self, is_ipv6: bool) -> Message {
        let random = &mut self.random;
        let mtu = [0, 1, 68, 296, 551, 1_279, random.between(552, 9_000) as u16, u16::MAX][random.between(0, 7) as usize];
        let unreachable = random.between(0, 15) as u8;
        let kinds = match is_ipv6 {
            true => [icmpv6::PACKET_TOO_BIG, icmpv6::UNREACHABLE, icmpv6::TIME_EXCEEDED, icmpv6::PARAMETER_PROBLEM],
            false => [icmpv4::UNREACHABLE, icmpv4::UNREACHABLE, icmpv4::TIME_EXCEEDED, icmpv4::PARAMETER_PROBLEM],
        };
        let which = random.between(0, 3) as usize;
        let code = match (which, is_ipv6) {
            (0, true) => 0,
            (0, false) => icmpv4::code::FRAGMENTATION_NEEDED,
            (1, _) => unreachable,
            _ => unreachable % 3,
        };
        Message { kind: kinds[which], code, mtu }
    }
}

/// Returns the offset of the TCP header in a packet that has all of it and is not a later fragment.
fn transport_of_segment(network: &[u8]) -> Option<usize> {
    let at = if let Some(header) = ipv4::Header::parse(network) {
        let is_segment = header.protocol == ipv4::PROTOCOL_TCP && !header.is_fragment();
        Some(usize::from(header.header_len)).filter(|_| is_segment)?
    } else {
        ipv6::Header::parse(network).filter(|header| header.next_header == ipv6::PROTOCOL_TCP).map(|_| ipv6::HEADER_LEN)?
    };
    (network.len() >= at + TCP_LEN).then_some(at)
}

const TCP_LEN: usize = 20;
const SEQUENCE_AT: usize = 4;
const FLAGS_AT: usize = 13;
const SYN: u8 = 2;

impl ringway_device::Middleware for Rumor {
    fn inner(&self) -> &dyn Device {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Device {
        &mut *self.inner
    }

    fn receive(&mut self, now: Instant, burst: &mut Burst) -> io::Result<usize> {
        let told = self.told.packets();
        burst.append(&mut self.told);
        Ok(told + self.inner.receive(now, burst)?)
    }

    fn transmit(&mut self, now: Instant, burst: &mut Burst) -> io::Result<usize> {
        if self.ppm == 0 {
            return self.inner.transmit(now, burst);
        }
        let mut seen = Burst::default();
        while !burst.is_empty() {
            let frames = take(burst);
            if self.random.between(0, 999_999) < u64::from(self.ppm) {
                self.lie_about(frames[0].share());
            }
            frames.into_iter().for_each(|frame| seen.push(frame));
        }
        burst.append(&mut seen);
        self.inner.transmit(now, burst)
    }

    fn arm(&mut self) -> bool {
        self.inner.arm() || !self.told.is_empty()
    }
}
