//! Sources of the bytes to be sent.
//!
//! When the link does not compute checksums, a connection needs the sum of its bytes before they leave; a source can compute
//! it while it copies them. Does not do: waiting, or ending early; a source has as many bytes as requested.

use crate::wire::checksum;

/// Supplies the bytes of one call to send, piece by piece, in order.
pub trait Source {
    /// Fills the whole of `piece` with the next bytes.
    fn fill(&mut self, piece: &mut [u8]);

    /// Fills like `fill`; returns the ones'-complement sum of `piece`, folded, in network order, not complemented.
    fn fill_and_sum(&mut self, piece: &mut [u8]) -> u16 {
        self.fill(piece);
        checksum::sum(piece)
    }
}

/// The slice advances past the bytes taken.
impl Source for &[u8] {
    fn fill(&mut self, piece: &mut [u8]) {
        let (now, later) = self.split_at(piece.len());
        piece.copy_from_slice(now);
        *self = later;
    }

    fn fill_and_sum(&mut self, piece: &mut [u8]) -> u16 {
        let (now, later) = self.split_at(piece.len());
        *self = later;
        ringway_shm::sum::copy(piece, now)
    }
}

/// A function that fills pieces.
pub(crate) struct Filler<'a>(pub(crate) &'a mut dyn FnMut(&mut [u8]));

impl Source for Filler<'_> {
    fn fill(&mut self, piece: &mut [u8]) {
        (self.0)(piece);
    }
}
