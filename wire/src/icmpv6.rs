//! ICMPv6 messages but for neighbor discovery. Read RFC 4443 first.

/// Bytes of the header that all messages have.
pub const HEADER_LEN: usize = 8;

/// Type of "destination unreachable".
pub const UNREACHABLE: u8 = 1;
/// Type of "packet too big".
pub const PACKET_TOO_BIG: u8 = 2;
/// Type of "time exceeded".
pub const TIME_EXCEEDED: u8 = 3;
/// Type of "parameter problem".
pub const PARAMETER_PROBLEM: u8 = 4;
/// Type of an echo request.
pub const ECHO_REQUEST: u8 = 128;
/// Type of an echo reply.
pub const ECHO_REPLY: u8 = 129;
/// Type of a multicast listener query (RFC 3810).
pub const MLD_QUERY: u8 = 130;
/// Type of a router solicitation (RFC 4861), the first of neighbor discovery.
pub const ROUTER_SOLICITATION: u8 = 133;
/// Type of a router advertisement.
pub const ROUTER_ADVERTISEMENT: u8 = 134;
/// Type of a neighbor solicitation.
pub const NEIGHBOR_SOLICITATION: u8 = 135;
/// Type of a neighbor advertisement.
pub const NEIGHBOR_ADVERTISEMENT: u8 = 136;
/// Type of a redirect, the last of neighbor discovery.
pub const REDIRECT: u8 = 137;
/// Type of a version 2 multicast listener report (RFC 3810).
pub const MLD_REPORT: u8 = 143;

/// Types of the errors about a packet of ours.
pub const ERRORS: [u8; 4] = [UNREACHABLE, PACKET_TOO_BIG, TIME_EXCEEDED, PARAMETER_PROBLEM];

/// Codes of [`UNREACHABLE`].
pub mod unreachable {
    /// No route to the destination.
    pub const NO_ROUTE: u8 = 0;
    /// Forbidden by a filter.
    pub const PROHIBITED: u8 = 1;
    /// The destination is beyond the scope of the source.
    pub const BEYOND_SCOPE: u8 = 2;
    /// The host does not answer.
    pub const ADDRESS: u8 = 3;
    /// Port unreachable.
    pub const PORT: u8 = 4;
    /// The source address failed a policy.
    pub const SOURCE_POLICY: u8 = 5;
    /// The route to the destination is one of refusal.
    pub const REJECTED: u8 = 6;
}

/// Codes of [`PARAMETER_PROBLEM`].
pub mod problem {
    /// A field makes no sense.
    pub const FIELD: u8 = 0;
    /// The next header is not known.
    pub const NEXT_HEADER: u8 = 1;
    /// An option is not known.
    pub const OPTION: u8 = 2;
}

/// Codes of [`TIME_EXCEEDED`].
pub mod exceeded {
    /// The hop limit was used up.
    pub const HOP_LIMIT: u8 = 0;
    /// Not all fragments came in time.
    pub const REASSEMBLY: u8 = 1;
}

/// The header of an ICMPv6 message. What follows an error is the head of the packet it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Kind of the message.
    pub kind: u8,
    /// More about the kind.
    pub code: u8,
    /// The four bytes behind the checksum: MTU in "packet too big", pointer in "parameter problem".
    pub word: u32,
}

impl Header {
    /// The header at the start of `bytes`; `None`: too short. The checksum is not looked at.
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        let bytes: &[u8; HEADER_LEN] = bytes.first_chunk()?;
        let word = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        Some(Header { kind: bytes[0], code: bytes[1], word })
    }

    /// Fills `bytes`; the checksum is zero and the caller's to make.
    ///
    /// # Panics
    /// When there are not exactly [`HEADER_LEN`].
    pub fn write(&self, bytes: &mut [u8]) {
        assert_eq!(bytes.len(), HEADER_LEN, "the whole header");
        bytes[..4].copy_from_slice(&[self.kind, self.code, 0, 0]);
        bytes[4..].copy_from_slice(&self.word.to_be_bytes());
    }

    /// Returns true when the message is an error, about which no error may be sent (RFC 4443 §2.1, §2.4 (e)); a redirect is
    /// like one.
    pub fn is_error(&self) -> bool {
        self.kind < 128 || self.kind == REDIRECT
    }
}

#[cfg(test)]
mod tests;
