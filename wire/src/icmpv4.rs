//! ICMP messages. Read RFC 792, RFC 1122 §3.2.2, RFC 1191 §4 first.

/// Bytes of the header that all messages have.
pub const HEADER_LEN: usize = 8;

/// Type of an echo request.
pub const ECHO_REQUEST: u8 = 8;
/// Type of an echo reply.
pub const ECHO_REPLY: u8 = 0;
/// Type of "destination unreachable".
pub const UNREACHABLE: u8 = 3;
/// Type of a redirect.
pub const REDIRECT: u8 = 5;
/// Type of "time exceeded".
pub const TIME_EXCEEDED: u8 = 11;
/// Code of [`TIME_EXCEEDED`]: fragments did not come in time.
pub const REASSEMBLY_TIME: u8 = 1;
/// Type of "parameter problem".
pub const PARAMETER_PROBLEM: u8 = 12;

/// Types of the errors about a packet of ours.
pub const ERRORS: [u8; 3] = [UNREACHABLE, TIME_EXCEEDED, PARAMETER_PROBLEM];

/// Codes of [`UNREACHABLE`].
pub mod code {
    /// No route to the network.
    pub const NETWORK: u8 = 0;
    /// The host does not answer.
    pub const HOST: u8 = 1;
    /// The host does not serve the protocol.
    pub const PROTOCOL: u8 = 2;
    /// Port unreachable.
    pub const PORT: u8 = 3;
    /// The packet is too large and must not be cut.
    pub const FRAGMENTATION_NEEDED: u8 = 4;
    /// The source route failed.
    pub const SOURCE_ROUTE: u8 = 5;
    /// The network is not known.
    pub const NETWORK_UNKNOWN: u8 = 6;
    /// The network is forbidden by its administrator.
    pub const NETWORK_PROHIBITED: u8 = 9;
    /// The host is forbidden by its administrator.
    pub const HOST_PROHIBITED: u8 = 10;
    /// No route to the network for this type of service.
    pub const NETWORK_TOS: u8 = 11;
    /// Forbidden by a filter.
    pub const PROHIBITED: u8 = 13;
}

/// The header of an ICMP message. What follows an error is the head of the packet it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Kind of the message.
    pub kind: u8,
    /// More about the kind.
    pub code: u8,
    /// The last two bytes of the header: the next hop's MTU in "fragmentation needed" (RFC 1191).
    pub low: u16,
}

impl Header {
    /// The header at the start of `bytes`; `None`: too short. The checksum is not looked at.
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        let bytes: &[u8; HEADER_LEN] = bytes.first_chunk()?;
        Some(Header { kind: bytes[0], code: bytes[1], low: u16::from_be_bytes([bytes[6], bytes[7]]) })
    }

    /// Fills `bytes` for an error message; the checksum is zero and the caller's to make.
    ///
    /// # Panics
    /// When there are not exactly [`HEADER_LEN`].
    pub fn write(&self, bytes: &mut [u8]) {
        assert_eq!(bytes.len(), HEADER_LEN, "the whole header");
        bytes.copy_from_slice(&[self.kind, self.code, 0, 0, 0, 0, 0, 0]);
        bytes[6..].copy_from_slice(&self.low.to_be_bytes());
    }

    /// Returns true when the message is an error, about which no error may be sent (RFC 1122 §3.2.2).
    pub fn is_error(&self) -> bool {
        // Source quench (4) and redirect (5) are errors too.
        matches!(self.kind, UNREACHABLE | 4 | 5 | TIME_EXCEEDED | PARAMETER_PROBLEM)
    }
}

#[cfg(test)]
mod tests;
