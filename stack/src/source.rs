//! Where the bytes to be sent come from.
//!
//! A connection whose link does not sum needs the sum of its bytes before they leave; whoever copies them can take it
//! in the same pass. Does not do: waiting, or ending early; a source has as many bytes as it is asked for.

use crate::wire::checksum;

/// Gives the bytes of one call to send, piece by piece, in order.
pub trait Source {
    /// Fills the whole of `piece` with the next bytes.
    fn fill(&mut self, piece: &mut [u8]);

    /// As `fill`; returns the ones'-complement sum of `piece`, folded, in network order, not complemented.
    fn fill_and_sum(&mut self, piece: &mut [u8]) -> u16 {
        self.fill(piece);
        checksum::sum(piece)
    }
}

/// The slice moves on to what was not asked for yet.
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
