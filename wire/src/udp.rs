//! The UDP header. Read RFC 768, RFC 8200 §8.1 first.

/// Bytes of the header.
pub const HEADER_LEN: usize = 8;
/// Where the checksum field is.
pub const CHECKSUM_OFFSET: usize = 6;

/// A UDP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// From which port; 0: none.
    pub source_port: u16,
    /// To which port.
    pub destination_port: u16,
    /// Header and payload, bytes; at least 8 in a datagram that is true.
    pub length: u16,
    /// As on the wire; 0: the sender made none.
    pub checksum: u16,
}

impl Header {
    /// The header at the start of `bytes`; `None`: cut off. The length is not compared with anything.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        let &[s0, s1, d0, d1, l0, l1, c0, c1] = bytes.first_chunk::<HEADER_LEN>()?;
        Some(Header {
            source_port: u16::from_be_bytes([s0, s1]),
            destination_port: u16::from_be_bytes([d0, d1]),
            length: u16::from_be_bytes([l0, l1]),
            checksum: u16::from_be_bytes([c0, c1]),
        })
    }

    /// Fills `bytes`.
    ///
    /// # Panics
    /// When there are not exactly [`HEADER_LEN`].
    #[inline]
    pub fn write(&self, bytes: &mut [u8]) {
        bytes[..2].copy_from_slice(&self.source_port.to_be_bytes());
        bytes[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.length.to_be_bytes());
        bytes[6..].copy_from_slice(&self.checksum.to_be_bytes());
    }
}

/// The checksum field for a sum of pseudo-header, header and payload: zero would mean
/// "none" (RFC 768), so the other zero of one's-complement stands for it.
#[inline]
pub fn checksum_field(sum: u16) -> u16 {
    if sum == 0xffff { 0xffff } else { !sum }
}

#[cfg(test)]
mod tests;
