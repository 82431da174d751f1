//! Finds the connection of a packet before it is received, so that the device can read the payload straight to its reader's
//! memory.
//!
//! Only parses: it uses the headers of [`wire`](crate::wire), counts and changes nothing, and `receive` validates the packet
//! like any other. Returns a result only for simple packets: Ethernet without a tag, no IP options, extension headers or
//! fragments, an existing TCP connection, and exactly the packet's length.

use crate::event::SocketId;
use crate::ip::Medium;
use crate::tcp::FlowKey;
use crate::wire::classify::{Payload, classify};
use crate::wire::{ipv4, tcp};

/// The connection that a packet claims to belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The connection.
    pub socket: SocketId,
    /// Its owner's user token.
    pub user_token: u64,
    /// Length of the packet's headers, bytes; the rest is payload.
    pub header_bytes: usize,
}

/// Returns the flow of a packet of `len` bytes that begins with `head`, and the length of its headers.
pub(crate) fn flow_of(medium: Medium, head: &[u8], len: usize) -> Option<(FlowKey, usize)> {
    let Payload::Ip(packet) = classify(medium, head)? else { return None };
    let has_options = packet.source.is_ipv4() && packet.header_len != ipv4::HEADER_LEN;
    let is_whole = medium.header_bytes() + packet.total_len == len;
    if packet.protocol != ipv4::PROTOCOL_TCP || packet.is_fragment || has_options || !is_whole {
        return None;
    }
    let (header, tcp_len) = tcp::Header::parse(packet.payload)?;
    let (local, remote) = (packet.destination, packet.source);
    let key = FlowKey { local, remote, local_port: header.destination_port, remote_port: header.source_port };
    Some((key, medium.header_bytes() + packet.header_len + tcp_len))
}

#[cfg(test)]
mod tests;
