//! The packets that readers of the capture ring want: all, or those of some connections with what they were like.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::flow_group::Flow;

/// Words of one reader's wish.
pub(super) const WORDS: usize = 5;

const CONNECTIONS: u64 = 1;
const HAS_ADDRESS: u64 = 2;
const IS_IPV6: u64 = 4;
/// The other end has the same bits, and one that says that it is there.
const OTHER_SHIFT: u32 = 8;
const IS_THERE: u64 = 8;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Its address; `None`: any.
    pub ip: Option<IpAddr>,
    /// Its port.
    pub port: u16,
}

impl End {
    fn is(&self, (ip, port): (IpAddr, u16)) -> bool {
        self.port == port && self.ip.is_none_or(|wanted| wanted == ip)
    }

    fn bits(&self) -> (u64, u128) {
        match self.ip {
            None => (0, 0),
            Some(IpAddr::V4(ip)) => (HAS_ADDRESS, u128::from(ip.to_bits())),
            Some(IpAddr::V6(ip)) => (HAS_ADDRESS | IS_IPV6, ip.to_bits()),
        }
    }

    fn of_bits(kind: u64, bits: u128, port: u16) -> End {
        let ip = match (kind & HAS_ADDRESS != 0, kind & IS_IPV6 != 0) {
            (false, _) => None,
            (true, false) => Some(IpAddr::V4(Ipv4Addr::from_bits(bits as u32))),
            (true, true) => Some(IpAddr::V6(Ipv6Addr::from_bits(bits))),
        };
        End { ip, port }
    }
}

/// Connections by one end, or by both in either order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// One end, ours or the peer's.
    pub one: End,
    /// The other end; `None`: any.
    pub other: Option<End>,
}

impl Ends {
    /// Returns true if it is one of the ends.
    pub fn name(&self, end: (IpAddr, u16)) -> bool {
        self.one.is(end) || self.other.is_some_and(|other| other.is(end))
    }

    /// Returns true for the connections that are meant.
    pub fn are_of(&self, flow: &Flow) -> bool {
        let is = |end, other| self.one.is(end) && self.other.is_none_or(|wanted| wanted.is(other));
        is(flow.local, flow.remote) || is(flow.remote, flow.local)
    }

    pub(super) fn encode(&self) -> [u64; WORDS] {
        let (kind, bits) = self.one.bits();
        let (other_kind, other_bits) = self.other.map_or((0, 0), |other| (other.bits().0 | IS_THERE, other.bits().1));
        let ports = u64::from(self.one.port) | u64::from(self.other.map_or(0, |other| other.port)) << 16;
        let head = CONNECTIONS | kind | other_kind << OTHER_SHIFT | ports << 32;
        [head, bits as u64, (bits >> 64) as u64, other_bits as u64, (other_bits >> 64) as u64]
    }

    /// `None`: all packets are wanted.
    pub(super) fn decode(words: [u64; WORDS]) -> Option<Ends> {
        let head = words[0];
        let bits = |at: usize| u128::from(words[at]) | u128::from(words[at + 1]) << 64;
        let other = head >> OTHER_SHIFT;
        (head & CONNECTIONS != 0).then(|| Ends {
            one: End::of_bits(head, bits(1), (head >> 32) as u16),
            other: (other & IS_THERE != 0).then(|| End::of_bits(other, bits(3), (head >> 48) as u16)),
        })
    }
}

/// What all readers together want.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    pub(super) all: bool,
    pub(super) connections: Vec<Ends>,
}

impl Wishes {
    /// Returns true when it matters which connection a packet is of.
    pub fn are_of_connections(&self) -> bool {
        !self.connections.is_empty()
    }

    /// Returns true when a reader wants what a connection is like after its packets.
    pub fn observe(&self, flow: &Flow) -> bool {
        self.connections.iter().any(|ends| ends.are_of(flow))
    }

    /// Returns true when a reader wants a packet of this connection; `None`: of none.
    pub fn include(&self, flow: Option<&Flow>) -> bool {
        self.all || flow.is_some_and(|flow| self.observe(flow))
    }
}

#[cfg(test)]
mod tests;
