//! Converts packets to fragments for `reassembly` and back. Read RFC 791 §3.2, RFC 1122 §3.3.2, RFC 8200 §4.5, RFC 792
//! first.
//!
//! The result is a packet as if it had not been fragmented: one IP header (that of the first fragment), no fragment header,
//! all bytes. When a datagram stays incomplete, its sender gets an ICMP error if the first fragment had arrived and the
//! stack alone has the address.

use core::net::IpAddr;

use ringway_shm::Frame;

use super::icmp_error::ErrorCause;
use super::reassembly::{Fragment, Key, Outcome};
use super::{Arrival, Ip};
use crate::env::IpEnv;
use crate::stats::Counter;
use crate::wire::icmpv6::problem;
use crate::wire::{ipv4, ipv6};

/// A packet, reassembled if needed: `None` until the rest has arrived.
type Whole<H> = Result<Option<(H, Frame)>, Counter>;

/// The headers of an IPv6 packet that is a piece of a datagram.
pub(super) struct Piece<'a> {
    pub(super) header: &'a ipv6::Header,
    pub(super) fragment: ipv6::Fragment,
    /// Where the fragment header is.
    pub(super) at: usize,
    /// Where the field is that names it.
    pub(super) named_at: usize,
}

impl Ip {
    /// Takes a fragment: `first` starts at the IPv4 header, `self.rest` follows. The result has the same form.
    pub(super) fn reassemble_ipv4(
        &mut self,
        env: &mut IpEnv,
        arrival: Arrival,
        header: &ipv4::Header,
        mut first: Frame,
    ) -> Whole<ipv4::Header> {
        first.pull(header.header_len.into());
        let fragment = Fragment {
            key: Key {
                remote: header.source.into(),
                local: header.destination.into(),
                identification: header.identification.into(),
                protocol: header.protocol,
            },
            interface: arrival.interface,
            offset: header.fragment_offset.into(),
            more: header.more_fragments,
            next_header: header.protocol,
            named_at: 0,
            header_len: header.header_len.into(),
            tos: header.tos,
            ttl: header.ttl,
            multicast: arrival.multicast,
        };
        let Some((fragment, mut first, len)) = self.reassemble(env, &fragment, first)? else { return Ok(None) };
        first.push(fragment.header_len.into());
        let whole = ipv4::Header {
            header_len: fragment.header_len as u8,
            tos: fragment.tos,
            total_len: (u32::from(fragment.header_len) + len) as u16,
            more_fragments: false,
            fragment_offset: 0,
            ttl: fragment.ttl,
            ..*header
        };
        Ok(Some((whole, first)))
    }

    /// Takes a fragment: `first` starts at the IPv6 header; `self.rest` follows. The result has no fragment header.
    pub(super) fn reassemble_ipv6(
        &mut self,
        env: &mut IpEnv,
        arrival: Arrival,
        piece: Piece<'_>,
        mut first: Frame,
    ) -> Whole<ipv6::Header> {
        let Piece { header, fragment: piece, at, named_at } = piece;
        let header_len = at + ipv6::FRAGMENT_LEN;
        let len = ipv6::HEADER_LEN + usize::from(header.payload_len) - header_len;
        // RFC 8200 §4.5: an ICMP error reports the offset of an impossible length.
        let pointer = if piece.more && !len.is_multiple_of(8) {
            Some(PAYLOAD_LENGTH_AT)
        } else if usize::from(piece.offset) + len > usize::from(u16::MAX) {
            Some(at + 2)
        } else {
            None
        };
        if let Some(pointer) = pointer {
            let cause = ErrorCause::Problem { code: problem::FIELD, pointer: pointer as u32, even_multicast: false };
            self.send_icmp_error(env, arrival.interface, &first, cause);
            env.counters.count(Counter::IpReasmReqds);
            return Err(Counter::IpReasmFails);
        }
        first.pull(header_len);
        let fragment = Fragment {
            key: Key {
                remote: IpAddr::V6(header.source),
                local: IpAddr::V6(header.destination),
                identification: piece.identification,
                protocol: 0,
            },
            interface: arrival.interface,
            offset: piece.offset.into(),
            more: piece.more,
            next_header: piece.next_header,
            named_at: named_at as u16,
            header_len: header_len as u16,
            tos: header.traffic_class,
            ttl: header.hop_limit,
            multicast: arrival.multicast,
        };
        let Some((fragment, mut first, len)) = self.reassemble(env, &fragment, first)? else { return Ok(None) };
        // Moves the first fragment's headers eight bytes later, over its fragment header.
        let at = usize::from(fragment.header_len) - ipv6::FRAGMENT_LEN;
        first.push(fragment.header_len.into());
        let bytes = first.bytes_mut();
        bytes[usize::from(fragment.named_at)] = fragment.next_header;
        bytes.copy_within(..at, ipv6::FRAGMENT_LEN);
        first.pull(ipv6::FRAGMENT_LEN);
        let payload_len = (at - ipv6::HEADER_LEN + len as usize) as u16;
        let whole = ipv6::Header {
            traffic_class: fragment.tos,
            payload_len,
            next_header: first.bytes()[NEXT_HEADER_AT],
            hop_limit: fragment.ttl,
            ..*header
        };
        Ok(Some((whole, first)))
    }

    /// Inserts a fragment into the table; `Some`: the datagram is complete, its first frame starts after its network
    /// headers, `self.rest` follows.
    fn reassemble(
        &mut self,
        env: &mut IpEnv,
        fragment: &Fragment,
        first: Frame,
    ) -> Result<Option<(Fragment, Frame, u32)>, Counter> {
        env.counters.count(Counter::IpReasmReqds);
        match self.reassembly.insert(env.now, env.arena, fragment, (first, &mut self.rest)) {
            Outcome::Kept => Ok(None),
            Outcome::Whole(fragment, first, len) => {
                env.counters.count(Counter::IpReasmOks);
                Ok(Some((fragment, first, len)))
            }
            Outcome::Failed => Err(Counter::IpReasmFails),
        }
    }

    /// Sends ICMP errors about datagrams that were not complete in time.
    pub(super) fn tell_expired(&mut self, env: &mut IpEnv) {
        let timeouts = core::mem::take(&mut self.reassembly_timeouts);
        env.counters.add(Counter::IpReasmTimeout, timeouts);
        env.counters.add(Counter::IpReasmFails, timeouts);
        let mut expired = core::mem::take(&mut self.expired);
        for (interface, first) in expired.drain(..) {
            self.send_icmp_error(env, interface, &first, ErrorCause::Reassembly);
        }
        self.expired = expired;
    }
}

/// Offsets of the payload length and of the next header in the IPv6 header.
const PAYLOAD_LENGTH_AT: usize = 4;
const NEXT_HEADER_AT: usize = 6;

#[cfg(test)]
mod tests;
