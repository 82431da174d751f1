//! A peer that lies about what it has received. Read Savage et al., "TCP congestion control with a misbehaving receiver"
//! (1999), RFC 3465 §2.3, RFC 2018 §8, RFC 2883 §5, RFC 5681 §7 first.
//!
//! Rewrites an honest host's pure acknowledgments on their way out. The lies leave the stream deliverable: an acknowledgment
//! of data that has not arrived yet is drawn only where the data will arrive, and stays within the window.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

use ringway_device::Device;
use ringway_shm::{Arena, Burst, Frame, Instant};
use ringway_stack::wire::tcp::{ACK, FIN, Header, RST, SYN, SackBlock};
use ringway_stack::wire::{checksum, ipv4, ipv6};

use super::{Packet, take};
use crate::random::Random;

/// A kind of lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// One acknowledgment becomes many that divide its bytes.
    Division,
    /// Data that has not arrived yet is acknowledged.
    Optimism,
    /// Each acknowledgment is sent many times.
    Duplication,
    /// SACK blocks of data that has not arrived, was never sent, is empty, or was acknowledged long ago (DSACK).
    Sacks,
    /// Windows that shrink, close and open at random, within what the host really offered.
    Windows,
    /// A window that is shut is said once: probes of it have no answer.
    Silence,
}

impl Lie {
    /// All lies about what has arrived, and how much more may come.
    pub const ALL: [Lie; 5] = [Lie::Division, Lie::Optimism, Lie::Duplication, Lie::Sacks, Lie::Windows];
}

type Ends = (IpAddr, u16, IpAddr, u16);

/// Middleware on the outgoing packets of a lying host; see the module's text.
pub struct Liar {
    inner: Box<dyn Device>,
    arena: Arena,
    random: Random,
    lie: Option<Lie>,
    flows: BTreeMap<Ends, Said>,
    said: Burst,
}

/// Last advertisement of a flow.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    acknowledged: Option<u32>,
    /// Closed windows in a row.
    shut: u32,
}

/// A parsed acknowledgment.
struct Acknowledgment {
    packet: Packet,
    header: Header,
    ends: Ends,
}

impl Liar {
    /// Makes a lying host; `None`: an honest one.
    pub fn new(inner: Box<dyn Device>, arena: &Arena, seed: u64, lie: Option<Lie>) -> Liar {
        let (flows, said) = (BTreeMap::new(), Burst::default());
        Liar { inner, arena: arena.clone(), random: Random::new(seed), lie, flows, said }
    }

    fn say(&mut self, lie: Lie, frames: Vec<Frame>) {
        let link_bytes = self.inner.capabilities().medium.header_bytes();
        let Some(honest) = Packet::copy(link_bytes, &frames).and_then(Acknowledgment::parse) else {
            return frames.into_iter().for_each(|frame| self.said.push(frame));
        };
        let headers = self.rewrite(lie, &honest);
        for header in headers {
            honest.with(&header).push(&self.arena, &mut self.said);
        }
    }

    /// Returns the headers that replace an honest acknowledgment.
    fn rewrite(&mut self, lie: Lie, honest: &Acknowledgment) -> Vec<Header> {
        let header = honest.header;
        let flow = self.flows.entry(honest.ends).or_default();
        let before = flow.acknowledged.replace(header.acknowledgment.0).unwrap_or(header.acknowledgment.0);
        let random = &mut self.random;
        match lie {
            Lie::Division => {
                let news = header.acknowledgment.0.wrapping_sub(before);
                let pieces = if (2..NEWS_MAX).contains(&news) { news.min(random.between(2, 64) as u32) } else { 1 };
                let part = |number: u32| {
                    let mut part = header;
                    part.acknowledgment.0 = before.wrapping_add((u64::from(news) * u64::from(number) / u64::from(pieces)) as u32);
                    part
                };
                (1..=pieces).map(part).collect()
            }
            Lie::Optimism => {
                let mut early = header;
                // The window scale is unknown here: an advance up to the unscaled window is within it, and its edge does not
                // move.
                let ahead = random.between(0, header.window.into()) as u16;
                early.acknowledgment.0 = early.acknowledgment.0.wrapping_add(ahead.into());
                early.window -= ahead;
                // An acknowledgment beyond what was sent counts for nothing: the honest one follows.
                vec![early, header]
            }
            Lie::Duplication => vec![header; random.magnitude(16) as usize + 1],
            Lie::Sacks => {
                let mut options = header.options;
                while options.sack_room() > options.sack().len() {
                    options.push_sack(invented_block(random, &header));
                }
                vec![Header { options, ..header }]
            }
            Lie::Windows => {
                // An orphan gives up after some probes (RFC 9293 §3.8.6.1, Linux: tcp_orphan_retries).
                let shuts = random.one_in(3) && flow.shut < SHUT_MAX;
                flow.shut = if shuts { flow.shut + 1 } else { 0 };
                let window = if shuts { 0 } else { (header.window >> random.between(0, 8)).max(1).min(header.window) };
                vec![Header { window, ..header }]
            }
            Lie::Silence => {
                let is_repeated = header.window == 0 && flow.shut > 0 && before == header.acknowledgment.0;
                flow.shut = u32::from(header.window == 0);
                if is_repeated { Vec::new() } else { vec![header] }
            }
        }
    }
}

/// Invents a block around the acknowledgment: ahead, far ahead, behind, empty, reversed.
fn invented_block(random: &mut Random, header: &Header) -> SackBlock {
    let mut block = SackBlock { left: header.acknowledgment, right: header.acknowledgment };
    let len = random.between(1, 3_000) as u32;
    let (left, right) = match random.between(0, 5) {
        0 | 1 => {
            let ahead = random.between(1, 30_000) as u32;
            (ahead, ahead.wrapping_add(len))
        }
        2 => (1 << 20, (1 << 20) + len),
        3 => (len.wrapping_neg(), 0),
        4 => (len, len),
        _ => (len.wrapping_add(1_000), len),
    };
    block.left.0 = block.left.0.wrapping_add(left);
    block.right.0 = block.right.0.wrapping_add(right);
    block
}

impl Acknowledgment {
    /// `None`: anything but an acknowledgment without payload in a packet without IP options.
    fn parse(packet: Packet) -> Option<Acknowledgment> {
        let (at, source, destination, len) = if let Some(header) = ipv4::Header::parse(&packet.network) {
            let fits = header.protocol == ipv4::PROTOCOL_TCP && !header.is_fragment();
            let len = usize::from(header.total_len.checked_sub(ipv4::HEADER_LEN as u16)?);
            let plain = fits && usize::from(header.header_len) == ipv4::HEADER_LEN;
            Some((ipv4::HEADER_LEN, IpAddr::from(header.source), IpAddr::from(header.destination), len)).filter(|_| plain)?
        } else {
            let header = ipv6::Header::parse(&packet.network).filter(|header| header.next_header == ipv6::PROTOCOL_TCP)?;
            (ipv6::HEADER_LEN, header.source.into(), header.destination.into(), header.payload_len.into())
        };
        let (header, header_len) = Header::parse(packet.network.get(at..)?)?;
        let pure = header_len == len && header.flags & (SYN | FIN | RST) == 0 && header.flags & ACK != 0;
        let ends = (source, header.source_port, destination, header.destination_port);
        pure.then_some(Acknowledgment { packet, header, ends })
    }

    /// Returns the packet with another TCP header.
    fn with(&self, header: &Header) -> Packet {
        let mut tcp = vec![0; header.len()];
        header.emit(&mut tcp);
        let pseudo = checksum::pseudo_header(self.ends.0, self.ends.2, ipv4::PROTOCOL_TCP, tcp.len() as u32);
        let sum = !checksum::add(pseudo, checksum::sum(&tcp));
        tcp[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&sum.to_be_bytes());
        let mut network = Vec::new();
        if let Some(ip) = ipv4::Header::parse(&self.packet.network) {
            network.resize(ipv4::HEADER_LEN, 0);
            ipv4::Header { total_len: (ipv4::HEADER_LEN + tcp.len()) as u16, ..ip }.write(&mut network);
        } else if let Some(ip) = ipv6::Header::parse(&self.packet.network) {
            network.resize(ipv6::HEADER_LEN, 0);
            ipv6::Header { payload_len: tcp.len() as u16, ..ip }.write(&mut network);
        }
        network.extend_from_slice(&tcp);
        Packet { link: self.packet.link.clone(), network }
    }
}

/// Maximum number of closed windows in a row.
const SHUT_MAX: u32 = 3;
/// A larger step means another connection, not newly acknowledged data.
const NEWS_MAX: u32 = 1 << 24;
const CHECKSUM_AT: usize = 16;

impl ringway_device::Middleware for Liar {
    fn inner(&self) -> &dyn Device {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Device {
        &mut *self.inner
    }

    fn transmit(&mut self, now: Instant, burst: &mut Burst) -> io::Result<usize> {
        let Some(lie) = self.lie else { return self.inner.transmit(now, burst) };
        let count = burst.packets();
        while !burst.is_empty() {
            self.say(lie, take(burst));
        }
        self.inner.transmit(now, &mut self.said)?;
        Ok(count)
    }
}
