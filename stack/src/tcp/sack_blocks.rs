//! SACK blocks in our segments, and the payload space they leave in a full segment.
//!
//! Read RFC 2018 §3-4 and RFC 6691 §2 first. While data is held out of order each segment has SACK blocks, with or without
//! data: when both ends send, there may be no pure ACK for a long time, and the peer would repair late. The blocks of a data
//! segment take their space from its payload, so that no segment exceeds the path's limit; those of a super-segment are in
//! each segment that it is split into. A report of duplicates (RFC 2883) goes in one ACK alone: repeated in each segment of
//! a super-segment it would say that all retransmissions were unnecessary.
//!
//! When a burst adds more intervals than one ACK has blocks for, additional ACKs in front of it report the rest, the oldest
//! first: each out-of-order segment would cause an ACK of its own (RFC 5681 §4.2). An interval reported late, or never,
//! looks to the peer like reordering on the path (RFC 8985 §6.2 step 4), and then it waits longer before it retransmits. For
//! the same reason those ACKs acknowledge what was in order when their intervals grew. A hole filled later in the same burst
//! was sent later: a sender that hears of it first marks everything not yet SACKed as lost.

use ringway_shm::Burst;

use crate::wire::tcp::{Header, Options, SACK_BLOCKS_BESIDE_TIMESTAMPS, SACK_BLOCKS_MAX};

use super::connection::Connection;
use super::output::WriteError;
use super::tcb::flag;
use crate::wire::sequence::SeqNum;

/// The blocks take at most one in this many of a full segment's payload bytes: a peer may have offered an MSS of a few
/// bytes.
const SHARE: usize = 2;

/// Payload bytes of the next transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// A full segment.
    pub(crate) segment: u32,
    /// A packet: one full segment, or several when the link splits them.
    pub(crate) packet: u32,
}

impl Sizes {
    /// One segment that leaves `bytes` to an option.
    pub(crate) fn beside(self, bytes: u32) -> Sizes {
        let segment = self.segment.saturating_sub(bytes).max(1);
        if bytes == 0 { self } else { Sizes { segment, packet: segment } }
    }
}

impl Connection<'_, '_> {
    /// Payload bytes of a full segment beside its SACK blocks.
    #[inline]
    pub(crate) fn segment_bytes(&self) -> u32 {
        let mss = u32::from(self.tcb.mss());
        if self.tcb.cold() == super::cold::NONE { mss } else { mss - Options::sack_bytes_of(self.blocks_beside_data()) as u32 }
    }

    /// Number of SACK blocks in a data segment.
    fn blocks_beside_data(&self) -> usize {
        let Some(cold) = self.shared.cold.get(self.tcb.cold()).filter(|cold| !cold.reassembly.is_empty()) else { return 0 };
        let affordable = Options::sack_blocks_in(usize::from(self.tcb.mss()) / SHARE);
        if self.tcb.has(flag::SACK) { cold.reassembly.intervals().min(self.blocks_in_ack()).min(affordable) } else { 0 }
    }

    /// Writes SACK blocks into the header of a data segment; [`segment_bytes`](Connection::segment_bytes) has left space for
    /// them.
    #[inline(never)]
    pub(crate) fn tell_gaps_beside_data(&mut self, header: &mut Header) {
        let most = self.blocks_beside_data();
        self.write_sack(header, most);
    }

    /// Writes up to `most` SACK blocks into a header, and as many as fit.
    pub(crate) fn write_sack(&mut self, header: &mut Header, most: usize) {
        if self.tcb.has(flag::SACK)
            && let Some(cold) = self.cold()
        {
            cold.reassembly.report(&mut header.options, most);
            cold.reassembly.all_told();
        }
    }

    /// Writes ACKs for the intervals that the next one has no space for.
    pub(crate) fn write_earlier_gaps(&mut self, out: &mut [Burst]) -> Result<(), WriteError> {
        let room = self.blocks_in_ack();
        let sacks = self.tcb.has(flag::SACK);
        let Some(cold) = self.cold().filter(|_| sacks) else { return Ok(()) };
        let last = room - usize::from(cold.duplicate.is_some());
        if cold.reassembly.untold_count() <= last {
            return Ok(());
        }
        for earlier in cold.reassembly.untold_before(last).chunks(room) {
            let mut header = self.header(self.tcb.snd_nxt());
            let then = earlier.iter().fold(self.tcb.last_ack_sent(), |latest, untold| latest.latest(untold.rcv_nxt));
            self.acknowledge_only(&mut header, then);
            earlier.iter().rev().for_each(|untold| header.options.push_sack(untold.block));
            self.write(&header, None, out)?;
        }
        Ok(())
    }

    /// Limits the acknowledgment of `header` to data that was in order up to `then`; the window's edge does not move left
    /// for that, as far as the field can express it.
    fn acknowledge_only(&mut self, header: &mut Header, then: SeqNum) {
        let scale = self.tcb.receive_scale();
        let filled = (self.tcb.rcv_nxt() - then).div_ceil(1 << scale);
        let window = (u32::from(header.window) + filled).min(u32::from(u16::MAX));
        (header.acknowledgment, header.window) = (then, window as u16);
        self.tcb.advertise(then + (window << scale));
    }

    /// Number of blocks that a pure ACK has space for.
    fn blocks_in_ack(&self) -> usize {
        if self.tcb.has(flag::TIMESTAMPS) { SACK_BLOCKS_BESIDE_TIMESTAMPS } else { SACK_BLOCKS_MAX }
    }

    /// Returns true when only a pure ACK can carry the report: duplicates, more blocks than a data segment can have, or (RFC
    /// 5681 §2) a gap to a peer that counts duplicate ACKs.
    pub(crate) fn has_report_of_its_own(&self) -> bool {
        let cold = self.shared.cold.get(self.tcb.cold());
        cold.is_some_and(|cold| match self.tcb.has(flag::SACK) {
            true => cold.duplicate.is_some() || cold.reassembly.untold_count() > self.blocks_beside_data(),
            false => !cold.reassembly.is_empty(),
        })
    }
}
