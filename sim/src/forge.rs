//! A blind attacker on the wire. Read RFC 5961 first.
//!
//! It follows some of the segments that pass with forged ones of the same connection: RST, SYN and ACK with numbers that an
//! attacker that cannot see the connection would guess. None of them may harm it. A RST takes effect only at exactly the next
//! expected number, so that number is never used.

use std::io;
use std::net::IpAddr;

use ringway_device::Device;
use ringway_shm::{Arena, Burst, Class, Frame, Instant};
use ringway_stack::wire::{checksum, ethernet, ipv4, ipv6};

use crate::random::Random;

const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;
const TCP_LEN: usize = 20;

/// Middleware that adds forged segments to what is sent.
pub struct Forge {
    inner: Box<dyn Device>,
    arena: Arena,
    random: Random,
    ppm: u32,
    forged: Burst,
}

impl Forge {
    /// Wraps `inner`; forges a segment after `ppm` in a million packets.
    pub fn new(inner: Box<dyn Device>, arena: &Arena, seed: u64, ppm: u32) -> Forge {
        Forge { inner, arena: arena.clone(), random: Random::new(seed), ppm, forged: Burst::default() }
    }

    /// Forges a segment of the connection of the packet that starts with `first`; `None`: it is not TCP.
    fn forge(&mut self, first: &Frame) -> Option<Frame> {
        let link = first.bytes().get(..ethernet::HEADER_LEN)?;
        let network = first.bytes().get(ethernet::HEADER_LEN..)?;
        let (header, source, destination) = network_header(network)?;
        let original: &[u8; TCP_LEN] = network.get(header.len()..)?.first_chunk()?;
        if original[13] & (SYN | RST) != 0 {
            return None;
        }
        let mut tcp = self.lie(*original);
        let pseudo = checksum::pseudo_header(source, destination, ipv4::PROTOCOL_TCP, TCP_LEN as u32);
        tcp[16..18].fill(0);
        let sum = !checksum::add(pseudo, checksum::sum(&tcp));
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        let mut frame = self.arena.alloc(Class::Small)?;
        for part in [link, &header, &tcp] {
            frame.extend(part.len()).copy_from_slice(part);
        }
        Some(frame)
    }

    fn lie(&mut self, mut tcp: [u8; TCP_LEN]) -> [u8; TCP_LEN] {
        let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
        let acknowledgment = u32::from_be_bytes([tcp[8], tcp[9], tcp[10], tcp[11]]);
        let far = |random: &mut Random| random.between(1 << 29, 3 << 29) as u32;
        // A RST ahead of everything that this end may have sent: in the window, but never exact.
        let ahead = sequence.wrapping_add(self.random.between(200_000, 2_000_000) as u32);
        let (flags, sequence, acknowledgment) = match self.random.between(0, 3) {
            0 => (RST, ahead, acknowledgment),
            1 => (RST, sequence.wrapping_add(far(&mut self.random)), acknowledgment),
            2 => (SYN, sequence.wrapping_add(self.random.number() as u32), acknowledgment),
            _ => (ACK, sequence, acknowledgment.wrapping_add(far(&mut self.random))),
        };
        tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
        tcp[8..12].copy_from_slice(&acknowledgment.to_be_bytes());
        tcp[12] = 5 << 4;
        tcp[13] = flags;
        tcp
    }
}

/// Returns the IP header of a forged segment, copied from `network` without payload, and its addresses.
fn network_header(network: &[u8]) -> Option<(Vec<u8>, IpAddr, IpAddr)> {
    if let Some(header) = ipv4::Header::parse(network) {
        let header = Some(header).filter(|header| header.protocol == ipv4::PROTOCOL_TCP && header.header_len == 20)?;
        let total_len = (ipv4::HEADER_LEN + TCP_LEN) as u16;
        let mut bytes = vec![0; ipv4::HEADER_LEN];
        ipv4::Header::atomic(header.source, header.destination, header.protocol, 64, total_len).write(&mut bytes);
        return Some((bytes, header.source.into(), header.destination.into()));
    }
    let header = ipv6::Header::parse(network).filter(|header| header.next_header == ipv6::PROTOCOL_TCP)?;
    let mut bytes = vec![0; ipv6::HEADER_LEN];
    ipv6::Header { payload_len: TCP_LEN as u16, ..header }.write(&mut bytes);
    Some((bytes, header.source.into(), header.destination.into()))
}

impl ringway_device::Middleware for Forge {
    fn inner(&self) -> &dyn Device {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Device {
        &mut *self.inner
    }

    fn transmit(&mut self, now: Instant, burst: &mut Burst) -> io::Result<usize> {
        if self.ppm > 0 && !burst.is_empty() && self.random.between(0, 999_999) < u64::from(self.ppm) {
            let lie = burst.front_packet().next().map(Frame::share).and_then(|first| self.forge(&first));
            if let Some(frame) = lie {
                self.forged.push(frame);
            }
        }
        let sent = self.inner.transmit(now, burst)?;
        self.inner.transmit(now, &mut self.forged)?;
        Ok(sent)
    }
}
