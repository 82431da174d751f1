//! ARP for IPv4 over Ethernet. Read RFC 826 first.

use core::net::Ipv4Addr;

use crate::address::MacAddress;

/// Bytes of a packet.
pub const LEN: usize = 28;

const FIXED: [u8; 6] = [0, 1, 8, 0, 6, 4];

/// The sender's purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Request: which link address has the target?
    Request,
    /// I have.
    Reply,
}

/// An ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Request or reply.
    pub operation: Operation,
    /// Link address of the sender.
    pub sender_mac: MacAddress,
    /// IP address of the sender; 0.0.0.0 in a probe (RFC 5227).
    pub sender_ip: Ipv4Addr,
    /// Link address of the target; ignored in a request.
    pub target_mac: MacAddress,
    /// IP address of the target.
    pub target_ip: Ipv4Addr,
}

impl Packet {
    /// The packet at the start of `bytes`; `None`: too short, or not IPv4 over Ethernet.
    pub fn parse(bytes: &[u8]) -> Option<Packet> {
        let bytes: &[u8; LEN] = bytes.first_chunk()?;
        if bytes[..6] != FIXED {
            return None;
        }
        let operation = match u16::from_be_bytes([bytes[6], bytes[7]]) {
            1 => Operation::Request,
            2 => Operation::Reply,
            _ => return None,
        };
        let mac = |at: usize| MacAddress(bytes[at..at + 6].try_into().expect("six bytes inside the packet"));
        let ip = |at: usize| Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]);
        Some(Packet { operation, sender_mac: mac(8), sender_ip: ip(14), target_mac: mac(18), target_ip: ip(24) })
    }

    /// Fills `bytes`.
    ///
    /// # Panics
    /// When there are not exactly [`LEN`].
    pub fn write(&self, bytes: &mut [u8]) {
        assert_eq!(bytes.len(), LEN, "the whole packet");
        let operation: u16 = match self.operation {
            Operation::Request => 1,
            Operation::Reply => 2,
        };
        bytes[..6].copy_from_slice(&FIXED);
        bytes[6..8].copy_from_slice(&operation.to_be_bytes());
        bytes[8..14].copy_from_slice(&self.sender_mac.0);
        bytes[14..18].copy_from_slice(&self.sender_ip.octets());
        bytes[18..24].copy_from_slice(&self.target_mac.0);
        bytes[24..].copy_from_slice(&self.target_ip.octets());
    }
}

#[cfg(test)]
mod tests;
