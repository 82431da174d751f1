//! What our segments tell of data that is missing, and what that leaves of a full segment for payload.
//!
//! Read RFC 2018 §3-4 and RFC 6691 §2 first. While data is held out of order each segment has SACK blocks, whether it carries data
//! or not: where both ends send, there may be no pure ACK for a long time, and the peer would repair late. The blocks of a data
//! segment take their room from its payload, so that no segment becomes longer than the path lets through; those of a
//! super-segment stand in each segment that it is cut into. A report of duplicates (RFC 2883) goes in one ACK alone: repeated
//! in each segment of a super-segment it would say that all that was sent again was for nothing.

use crate::wire::tcp::{Header, Options};

use super::connection::Connection;
use super::tcb::flag;

/// Of a full segment's payload the blocks take one part in so many at most: a peer may have offered an MSS of a few bytes.
const SHARE: usize = 2;

/// How much goes into what is sent next, bytes of payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// A full segment.
    pub(crate) segment: u32,
    /// A packet: one full segment, or several where the link cuts.
    pub(crate) packet: u32,
}

impl Connection<'_, '_> {
    /// A full segment with what it has to tell of gaps.
    #[inline]
    pub(crate) fn segment_bytes(&self) -> u32 {
        let mss = u32::from(self.tcb.mss);
        if self.tcb.cold == super::cold::NONE { mss } else { mss - Options::sack_bytes_of(self.blocks_beside_data()) as u32 }
    }

    /// SACK blocks of a data segment.
    fn blocks_beside_data(&self) -> usize {
        let Some(cold) = self.shared.cold.get(self.tcb.cold).filter(|cold| !cold.reassembly.is_empty()) else { return 0 };
        let affordable = Options::sack_blocks_in(usize::from(self.tcb.mss) / SHARE);
        if self.tcb.has(flag::SACK) { cold.reassembly.blocks(self.tcb.has(flag::TIMESTAMPS)).min(affordable) } else { 0 }
    }

    /// Tells of gaps in the header of a data segment, of which [`segment_bytes`](Connection::segment_bytes) knows.
    #[inline(never)]
    pub(crate) fn tell_gaps_beside_data(&self, header: &mut Header) {
        self.tell_gaps(header, self.blocks_beside_data());
    }

    /// Tells of gaps in a header, with up to `most` blocks and as many as fit.
    pub(crate) fn tell_gaps(&self, header: &mut Header, most: usize) {
        if self.tcb.has(flag::SACK)
            && let Some(cold) = self.shared.cold.get(self.tcb.cold)
        {
            cold.reassembly.report(&mut header.options, most);
        }
    }

    /// Whether only a pure ACK can say what there is to say: duplicates, or (RFC 5681 §2) a gap to a peer that counts
    /// duplicate ACKs.
    pub(crate) fn has_report_of_its_own(&self) -> bool {
        let cold = self.shared.cold.get(self.tcb.cold);
        cold.is_some_and(|cold| cold.duplicate.is_some() || !self.tcb.has(flag::SACK) && !cold.reassembly.is_empty())
    }
}
