//! Packets out: header templates for flows, and the slow path that adds headers one by one.

use core::net::IpAddr;

use ringway_shm::Frame;

/// What the headers of a flow's packets say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    pub(crate) protocol: u8,
    /// DSCP and ECN bits.
    pub(crate) tos: u8,
    /// 0: the default, 64.
    pub(crate) ttl: u8,
}

/// Why there is no template now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputError {
    /// The neighbor is being asked; `Ip::send` would hold the packet. The generation changes when
    /// the answer comes.
    Unresolved,
    /// No route leads there, or the local address is gone.
    NoRoute,
}

/// Link and IP header of a flow, ready but for length and checksum: one cache line.
/// Stale when its `generation` is not `Ip::generation()`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Template {
    /// Link header, then IP header. `len` bytes are used.
    pub(crate) bytes: [u8; 54],
    pub(crate) len: u8,
    pub(crate) interface: u8,
    /// One's-complement sum of the IP header with length and checksum zero.
    header_sum: u16,
    /// One's-complement sum of the pseudo-header with length zero (RFC 9293 §3.1), not complemented.
    pub(crate) pseudo_sum: u16,
    pub(crate) generation: u32,
}

const _: () = assert!(size_of::<Template>() == 64);

impl Template {
    /// Puts link and IP header in front of a transport header: `transport_len` bytes of transport
    /// header and payload follow, in this frame and the next ones of the packet.
    pub(crate) fn push_headers(&self, frame: &mut Frame, transport_len: usize) {
        let len = self.len as usize;
        let headers = frame.push(len);
        headers.copy_from_slice(&self.bytes[..len]);
        let total = (transport_len + 20) as u16;
        let sum = self.header_sum as u32 + total as u32;
        let sum = (sum & 0xffff) + (sum >> 16);
        headers[len - 18..len - 16].copy_from_slice(&total.to_be_bytes());
        headers[len - 10..len - 8].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    }
}
