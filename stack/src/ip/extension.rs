//! The extension headers of a received IPv6 packet. Read RFC 8200 §4, RFC 5095, RFC 6946, RFC 8504 §5.3 first.
//!
//! Walks to the transport header and returns an error when it cannot get there. Bounded: at most eight headers, all of them
//! in the packet's first frame. Of the options a host only handles padding and the router alert; others are treated
//! according to their two high bits.

use crate::stats::Counter;
use crate::wire::icmpv6::problem;
use crate::wire::ipv6::{
    AUTHENTICATION, DESTINATION_OPTIONS, ENCRYPTED, FRAGMENT, Fragment, HEADER_LEN, HOP_BY_HOP, NO_NEXT_HEADER, ROUTING,
};

/// The header behind the extension headers. Offsets count from the start of the IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A transport protocol's header.
    Transport {
        protocol: u8,
        /// Offset of the header.
        at: usize,
        /// Offset of the field that names the protocol.
        named_at: usize,
    },
    /// A fragment of a datagram.
    Fragment {
        header: Fragment,
        /// Offset of the fragment header: the bytes before it are the unfragmentable part.
        at: usize,
        /// Offset of the field that names the fragment header.
        named_at: usize,
    },
    /// No next header, which is valid.
    Nothing,
}

/// Reason why a packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Without an ICMP error.
    Silently(Counter),
    /// The sender gets an ICMP error (RFC 4443 §3.4).
    Problem {
        code: u8,
        pointer: u32,
        /// True when the error is also sent about a multicast packet.
        even_multicast: bool,
    },
}

/// Maximum number of headers in one packet.
const HEADERS_MAX: usize = 8;

const OPTION_PAD1: u8 = 0;
const OPTION_PADN: u8 = 1;
const OPTION_ROUTER_ALERT: u8 = 5;

/// Walks over the headers of `packet`, which starts at the IPv6 header and has the length given there.
pub(crate) fn walk(packet: &[u8]) -> Result<Found, Refused> {
    let mut named_at = 6;
    let mut at = HEADER_LEN;
    for count in 0..=HEADERS_MAX {
        let kind = packet[named_at];
        match kind {
            NO_NEXT_HEADER => return Ok(Found::Nothing),
            // There are no keys, so these headers cannot be processed.
            ENCRYPTED | AUTHENTICATION => return Err(Refused::Silently(Counter::IpInUnknownProtos)),
            HOP_BY_HOP if count > 0 => return Err(problem(problem::NEXT_HEADER, named_at)),
            HOP_BY_HOP | DESTINATION_OPTIONS | ROUTING | FRAGMENT if count == HEADERS_MAX => break,
            HOP_BY_HOP | DESTINATION_OPTIONS => check_options(header_at(packet, at)?, at)?,
            ROUTING => check_routing(header_at(packet, at)?, at)?,
            FRAGMENT => {
                let header = Fragment::parse(&packet[at..]).ok_or(TOO_SHORT)?;
                if !header.is_atomic() {
                    return Ok(Found::Fragment { header, at, named_at });
                }
                named_at = at;
                at += 8;
                continue;
            }
            protocol => return Ok(Found::Transport { protocol, at, named_at }),
        }
        named_at = at;
        at += header_at(packet, at)?.len();
    }
    Err(Refused::Silently(Counter::IpInHdrErrors))
}

const TOO_SHORT: Refused = Refused::Silently(Counter::IpInHdrErrors);

fn problem(code: u8, pointer: usize) -> Refused {
    Refused::Problem { code, pointer: pointer as u32, even_multicast: false }
}

/// Returns the whole extension header at `at`.
fn header_at(packet: &[u8], at: usize) -> Result<&[u8], Refused> {
    let rest = packet.get(at..).ok_or(TOO_SHORT)?;
    let len = rest.get(1).map(|&len| 8 + 8 * usize::from(len)).ok_or(TOO_SHORT)?;
    rest.get(..len).ok_or(TOO_SHORT)
}

/// RFC 8200 §4.4, RFC 5095: a host is never an intermediate stop.
fn check_routing(header: &[u8], at: usize) -> Result<(), Refused> {
    let segments_left = header[3];
    if segments_left == 0 { Ok(()) } else { Err(problem(problem::FIELD, at + 2)) }
}

/// RFC 8200 §4.2
fn check_options(header: &[u8], start: usize) -> Result<(), Refused> {
    let mut at = 2;
    while at < header.len() {
        let kind = header[at];
        if kind == OPTION_PAD1 {
            at += 1;
            continue;
        }
        let len = header.get(at + 1).map(|&len| 2 + usize::from(len)).ok_or(TOO_SHORT)?;
        if at + len > header.len() {
            return Err(TOO_SHORT);
        }
        match (kind, kind >> 6) {
            (OPTION_PADN | OPTION_ROUTER_ALERT, _) | (_, 0) => {}
            (_, 1) => return Err(Refused::Silently(Counter::IpInHdrErrors)),
            (_, action) => {
                let pointer = (start + at) as u32;
                return Err(Refused::Problem { code: problem::OPTION, pointer, even_multicast: action == 2 });
            }
        }
        at += len;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
