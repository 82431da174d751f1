//! Messages: what the byte streams of a datagram socket's slot carry, in both directions.
//!
//! ```text
//!   length 32 | segment 16 | port 16 | flags 16 | tos 8 | ttl 8 | interface 32 | peer 128 | local 128 | time 64 | payload ...
//! ```
//! A message is pushed whole or not at all, so a reader that finds an envelope finds its payload too. What an application
//! has written is checked by the worker when it reads an envelope back: nonsense ends the socket's sending.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use ringway_shm::Instant;

/// Bytes of an envelope.
pub const ENVELOPE: usize = 56;
/// The largest payload of one message: what IPv6 carries in one datagram.
pub const PAYLOAD_MAX: usize = 65_527;

const HAS_PEER: u16 = 1;
const HAS_LOCAL: u16 = 2;
const HAS_TOS: u16 = 4;
const HAS_TTL: u16 = 8;
const HAS_SEGMENT: u16 = 16;

/// What goes with one datagram, or with several of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Envelope {
    /// Payload, bytes.
    pub len: usize,
    /// Payload of each datagram but the last, when there are several, bytes. Sending: `None` is as the socket's options say.
    pub segment_size: Option<u16>,
    /// Destination (`None`: the connected peer), or source.
    pub peer: Option<SocketAddr>,
    /// From, or to, which of our addresses.
    pub local: Option<IpAddr>,
    /// DSCP and ECN; `None`: as the socket's options say.
    pub type_of_service: Option<u8>,
    /// Hops; `None`: as the socket's options say.
    pub time_to_live: Option<u8>,
    /// The kernel's number of the interface that it came through; 0: not known.
    pub interface: u32,
    /// When it came.
    pub received_at: Instant,
}

impl Envelope {
    /// The form that travels.
    pub fn encode(&self) -> [u8; ENVELOPE] {
        let mut bytes = [0; ENVELOPE];
        let mut flags = 0;
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &(self.len as u32).to_le_bytes());
        if let Some(size) = self.segment_size {
            flags |= HAS_SEGMENT;
            put(4, &size.to_le_bytes());
        }
        if let Some(peer) = self.peer {
            flags |= HAS_PEER;
            put(6, &peer.port().to_le_bytes());
            put(16, &super::request::wide(peer.ip()).to_le_bytes());
        }
        if let Some(local) = self.local {
            flags |= HAS_LOCAL;
            put(32, &super::request::wide(local).to_le_bytes());
        }
        if let Some(tos) = self.type_of_service {
            flags |= HAS_TOS;
            put(10, &[tos]);
        }
        if let Some(ttl) = self.time_to_live {
            flags |= HAS_TTL;
            put(11, &[ttl]);
        }
        put(12, &self.interface.to_le_bytes());
        put(48, &self.received_at.as_nanos().to_le_bytes());
        put(8, &flags.to_le_bytes());
        bytes
    }

    /// Reads an envelope back; `None` when it promises more than a message can hold.
    pub fn decode(bytes: &[u8; ENVELOPE]) -> Option<Envelope> {
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let ip = |at: usize| {
            let bits = u128::from_le_bytes(bytes[at..at + 16].try_into().expect("sixteen bytes"));
            IpAddr::V6(Ipv6Addr::from(bits)).to_canonical()
        };
        let flags = half(8);
        let has = |flag: u16| flags & flag != 0;
        let len = word(0) as usize;
        (len <= PAYLOAD_MAX).then(|| Envelope {
            len,
            segment_size: has(HAS_SEGMENT).then(|| half(4)),
            peer: has(HAS_PEER).then(|| SocketAddr::new(ip(16), half(6))),
            local: has(HAS_LOCAL).then(|| ip(32)),
            type_of_service: has(HAS_TOS).then_some(bytes[10]),
            time_to_live: has(HAS_TTL).then_some(bytes[11]),
            interface: word(12),
            received_at: Instant::from_nanos(u64::from_le_bytes(bytes[48..56].try_into().expect("eight bytes"))),
        })
    }
}

#[cfg(test)]
mod tests;
