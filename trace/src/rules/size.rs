//! The other end's MSS. Read RFC 9293 §3.7.1, RFC 6691 first.
//!
//! A segment beyond it is a violation only when no interface can have put it together: one whose checksum an
//! interface completes, or that is longer than an Ethernet carries, is a super-segment and counted.

use std::net::IpAddr;

use crate::datagram::Sum;
use crate::finding::Rule;
use crate::flow::{Flow, View};
use crate::segment::SYN;

/// Without the option (RFC 9293 §3.7.1).
const DEFAULT_MSS_V4: u16 = 536;
const DEFAULT_MSS_V6: u16 = 1220;
/// What an Ethernet carries.
const ETHERNET_MTU: u32 = 1500;

/// The other end's MSS, when its SYN was seen.
pub(crate) fn limit(flow: &Flow, me: usize) -> Option<u32> {
    let peer = &flow.ends[1 - me];
    let default = if matches!(peer.address.ip(), IpAddr::V4(_)) { DEFAULT_MSS_V4 } else { DEFAULT_MSS_V6 };
    peer.syn.as_ref().map(|syn| u32::from(syn.mss.unwrap_or(default)))
}

pub(crate) fn check(flow: &mut Flow, view: &View<'_>) {
    let segment = view.segment;
    let Some(mss) = limit(flow, view.me).filter(|_| segment.payload_len > 0 && !segment.has(SYN)) else { return };
    let size = segment.payload_len + segment.options_len;
    if size <= mss {
        return;
    }
    flow.ends[view.me].super_segments += 1;
    if view.sum != Sum::Partial && view.ip_len <= ETHERNET_MTU {
        let text = format!("{} bytes of payload and {} of options, MSS {mss}", segment.payload_len, segment.options_len);
        flow.object(view, Rule::SegmentSize, text);
    }
}
