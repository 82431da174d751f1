//! Messages of neighbor discovery. Read RFC 4861 §4, §6.1, §7.1, §8.1, RFC 7527 §3.2 first.
//!
//! Parsing checks what the message itself can tell: lengths, options of length zero, targets that cannot
//! be. Hop limit, addresses of the IPv6 header and checksum are the caller's to check. Options that
//! are not known are skipped.

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use super::icmpv6::{NEIGHBOR_ADVERTISEMENT, NEIGHBOR_SOLICITATION, REDIRECT, ROUTER_ADVERTISEMENT, ROUTER_SOLICITATION};
use super::ipv6::address_at;
use crate::address::MacAddress;

/// The hop limit of all these messages: no router has let them through (RFC 4861 §11.2).
pub const HOP_LIMIT: u8 = 255;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Is there a router?
    RouterSolicitation {
        /// Link address of the sender.
        source_link: Option<MacAddress>,
    },
    /// There is.
    RouterAdvertisement(RouterAdvertisement),
    /// Solicitation of the target.
    NeighborSolicitation {
        /// The address in question.
        target: Ipv6Addr,
        /// Link address of the sender.
        source_link: Option<MacAddress>,
        /// RFC 7527: tells our own question that came back from another's.
        nonce: Option<Nonce>,
    },
    /// I have.
    NeighborAdvertisement {
        /// The address in question.
        target: Ipv6Addr,
        /// Its link address.
        target_link: Option<MacAddress>,
        /// The sender is a router.
        router: bool,
        /// The answer to a question to this one.
        solicited: bool,
        /// The answer replaces an address that is known already.
        overrides: bool,
    },
    /// There is a better first hop.
    Redirect {
        /// The better hop; the destination itself when it is on the link.
        target: Ipv6Addr,
        /// The target.
        destination: Ipv6Addr,
        /// Link address of the target.
        target_link: Option<MacAddress>,
    },
}

/// RFC 3971 §5.3.2: at least six bytes; that is what is sent and compared.
pub type Nonce = [u8; 6];

/// A router's advertisement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterAdvertisement {
    /// The hop limit to use; 0: it does not say.
    pub hop_limit: u8,
    /// Addresses are to be asked for with DHCPv6.
    pub managed: bool,
    /// Other settings are.
    pub other: bool,
    /// Time for which it is a default router, seconds; 0: it is none.
    pub lifetime_secs: u16,
    /// Time for which a neighbor counts as reachable, milliseconds; 0: not given.
    pub reachable_ms: u32,
    /// Between two questions, milliseconds; 0: it does not say.
    pub retransmit_ms: u32,
    /// Its link address.
    pub source_link: Option<MacAddress>,
    /// The link's MTU.
    pub mtu: Option<u32>,
    /// Prefixes of the link, as many as [`PREFIXES_MAX`].
    pub prefixes: Vec<Prefix>,
}

/// A prefix of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Leading bits that count.
    pub prefix_len: u8,
    /// Addresses of it are on the link.
    pub on_link: bool,
    /// Hosts make addresses of it.
    pub autonomous: bool,
    /// Seconds; all ones: for ever.
    pub valid_secs: u32,
    /// Seconds; all ones: for ever.
    pub preferred_secs: u32,
    /// Its bits; those behind `prefix_len` mean nothing.
    pub prefix: Ipv6Addr,
}

/// Prefixes read from one advertisement.
pub const PREFIXES_MAX: usize = 16;

const OPTION_SOURCE_LINK: u8 = 1;
const OPTION_TARGET_LINK: u8 = 2;
const OPTION_PREFIX: u8 = 3;
const OPTION_MTU: u8 = 5;
const OPTION_NONCE: u8 = 14;

#[derive(Default)]
struct Options {
    source_link: Option<MacAddress>,
    target_link: Option<MacAddress>,
    mtu: Option<u32>,
    nonce: Option<Nonce>,
    prefixes: Vec<Prefix>,
}

impl Message {
    /// The message in `bytes`, from the ICMPv6 header on. `None`: too short, an option of length zero or cut
    /// off, a target that is no host, another code than 0, or no message of neighbor discovery.
    pub fn parse(bytes: &[u8]) -> Option<Message> {
        let &[kind, code, _, _, ..] = bytes else { return None };
        if code != 0 {
            return None;
        }
        match kind {
            ROUTER_SOLICITATION => {
                let options = Options::parse(bytes.get(8..)?)?;
                Some(Message::RouterSolicitation { source_link: options.source_link })
            }
            ROUTER_ADVERTISEMENT => RouterAdvertisement::parse(bytes).map(Message::RouterAdvertisement),
            NEIGHBOR_SOLICITATION => {
                let options = Options::parse(bytes.get(24..)?)?;
                let (source_link, nonce) = (options.source_link, options.nonce);
                Some(Message::NeighborSolicitation { target: host_at(bytes, 8)?, source_link, nonce })
            }
            NEIGHBOR_ADVERTISEMENT => {
                let options = Options::parse(bytes.get(24..)?)?;
                let flag = |bit: u8| bytes[4] & bit != 0;
                Some(Message::NeighborAdvertisement {
                    target: host_at(bytes, 8)?,
                    target_link: options.target_link,
                    router: flag(0x80),
                    solicited: flag(0x40),
                    overrides: flag(0x20),
                })
            }
            REDIRECT => {
                let options = Options::parse(bytes.get(40..)?)?;
                let (target, destination) = (host_at(bytes, 8)?, host_at(bytes, 24)?);
                Some(Message::Redirect { target, destination, target_link: options.target_link })
            }
            _ => None,
        }
    }

    /// Bytes that [`write`](Message::write) fills.
    ///
    /// # Panics
    /// For what only routers send.
    pub fn len(&self) -> usize {
        match self {
            Message::RouterSolicitation { source_link } => 8 + 8 * usize::from(source_link.is_some()),
            Message::NeighborSolicitation { source_link, nonce, .. } => {
                24 + 8 * (usize::from(source_link.is_some()) + usize::from(nonce.is_some()))
            }
            Message::NeighborAdvertisement { target_link, .. } => 24 + 8 * usize::from(target_link.is_some()),
            Message::RouterAdvertisement(_) | Message::Redirect { .. } => unreachable!("only routers send those"),
        }
    }

    /// A message is never empty.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Fills `bytes` from the ICMPv6 header on; the checksum is zero and the caller's to make.
    ///
    /// # Panics
    /// When there are not exactly [`len`](Message::len); for what only routers send.
    pub fn write(&self, bytes: &mut [u8]) {
        assert_eq!(bytes.len(), self.len(), "the whole message");
        bytes.fill(0);
        let mut options = [None; 2];
        match self {
            Message::RouterSolicitation { source_link } => {
                bytes[0] = ROUTER_SOLICITATION;
                options[0] = source_link.map(|mac| (OPTION_SOURCE_LINK, mac.0));
            }
            Message::NeighborSolicitation { target, source_link, nonce } => {
                bytes[0] = NEIGHBOR_SOLICITATION;
                bytes[8..24].copy_from_slice(&target.octets());
                options = [source_link.map(|mac| (OPTION_SOURCE_LINK, mac.0)), nonce.map(|nonce| (OPTION_NONCE, nonce))];
            }
            Message::NeighborAdvertisement { target, target_link, router, solicited, overrides } => {
                bytes[0] = NEIGHBOR_ADVERTISEMENT;
                bytes[4] = u8::from(*router) << 7 | u8::from(*solicited) << 6 | u8::from(*overrides) << 5;
                bytes[8..24].copy_from_slice(&target.octets());
                options[0] = target_link.map(|mac| (OPTION_TARGET_LINK, mac.0));
            }
            Message::RouterAdvertisement(_) | Message::Redirect { .. } => unreachable!("only routers send those"),
        }
        let mut at = bytes.len() - 8 * options.iter().flatten().count();
        for (kind, value) in options.into_iter().flatten() {
            bytes[at] = kind;
            bytes[at + 1] = 1;
            bytes[at + 2..at + 8].copy_from_slice(&value);
            at += 8;
        }
    }
}

impl RouterAdvertisement {
    fn parse(bytes: &[u8]) -> Option<RouterAdvertisement> {
        let options = Options::parse(bytes.get(16..)?)?;
        Some(RouterAdvertisement {
            hop_limit: bytes[4],
            managed: bytes[5] & 0x80 != 0,
            other: bytes[5] & 0x40 != 0,
            lifetime_secs: u16::from_be_bytes([bytes[6], bytes[7]]),
            reachable_ms: word(bytes, 8),
            retransmit_ms: word(bytes, 12),
            source_link: options.source_link,
            mtu: options.mtu,
            prefixes: options.prefixes,
        })
    }
}

impl Options {
    /// `None`: RFC 4861 §4.6, one has length zero, or the last is cut off.
    fn parse(mut bytes: &[u8]) -> Option<Options> {
        let mut options = Options::default();
        while !bytes.is_empty() {
            let len = 8 * usize::from(*bytes.get(1)?);
            if len == 0 {
                return None;
            }
            let option = bytes.get(..len)?;
            match (option[0], len) {
                (OPTION_SOURCE_LINK, 8) => options.source_link = Some(mac_at(option)),
                (OPTION_TARGET_LINK, 8) => options.target_link = Some(mac_at(option)),
                (OPTION_NONCE, 8) => options.nonce = Some(mac_at(option).0),
                (OPTION_MTU, 8) => options.mtu = Some(word(option, 4)),
                (OPTION_PREFIX, 32) if options.prefixes.len() < PREFIXES_MAX => options.prefixes.push(Prefix {
                    prefix_len: option[2],
                    on_link: option[3] & 0x80 != 0,
                    autonomous: option[3] & 0x40 != 0,
                    valid_secs: word(option, 4),
                    preferred_secs: word(option, 8),
                    prefix: address_at(option, 16),
                }),
                _ => {}
            }
            bytes = &bytes[len..];
        }
        Some(options)
    }
}

fn mac_at(option: &[u8]) -> MacAddress {
    MacAddress(option[2..8].try_into().expect("six bytes of an option of eight"))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn host_at(bytes: &[u8], at: usize) -> Option<Ipv6Addr> {
    let ip = address_at(bytes, at);
    (!ip.is_multicast() && !ip.is_unspecified()).then_some(ip)
}

#[cfg(test)]
mod tests;
