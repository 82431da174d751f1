//! What our segments tell of data that is missing, and what that leaves of a full segment for payload.
//!
//! Read RFC 2018 §3-4 and RFC 6691 §2 first. While data is held out of order each segment has SACK blocks, whether it carries data
//! or not: where both ends send, there may be no pure ACK for a long time, and the peer would repair late. The blocks of a data
//! segment take their room from its payload, so that no segment becomes longer than the path lets through; those of a
//! super-segment stand in each segment that it is cut into. A report of duplicates (RFC 2883) goes in one ACK alone: repeated
//! in each segment of a super-segment it would say that all that was sent again was for nothing.
//!
//! Of a burst that grows more intervals than one ACK has blocks, other ACKs in front of it tell, the oldest first: each segment out of
//! order would have an ACK of its own (RFC 5681 §4.2). What is told late, or never, looks to the peer as if the path had
//! reordered it (RFC 8985 §6.2 step 4), and then it waits longer before it sends again what is lost. For the same reason those
//! ACKs acknowledge what had come in order when their intervals grew: a hole that was filled after them in the same burst was
//! sent later, so that whoever hears of it first takes for lost all that he has not been told of.

use ringway_shm::Burst;

use crate::wire::tcp::{Header, Options, SACK_BLOCKS_BESIDE_TIMESTAMPS, SACK_BLOCKS_MAX};

use super::connection::Connection;
use super::output::WriteError;
use super::sequence::SeqNum;
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

impl Sizes {
    /// One segment that leaves `bytes` to an option.
    pub(crate) fn beside(self, bytes: u32) -> Sizes {
        let segment = self.segment.saturating_sub(bytes).max(1);
        if bytes == 0 { self } else { Sizes { segment, packet: segment } }
    }
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
        if self.tcb.has(flag::SACK) { cold.reassembly.intervals().min(self.blocks_in_ack()).min(affordable) } else { 0 }
    }

    /// Tells of gaps in the header of a data segment, of which [`segment_bytes`](Connection::segment_bytes) knows.
    #[inline(never)]
    pub(crate) fn tell_gaps_beside_data(&mut self, header: &mut Header) {
        let most = self.blocks_beside_data();
        self.tell_gaps(header, most);
    }

    /// Tells of gaps in a header, with up to `most` blocks and as many as fit.
    pub(crate) fn tell_gaps(&mut self, header: &mut Header, most: usize) {
        if self.tcb.has(flag::SACK)
            && let Some(cold) = self.cold()
        {
            cold.reassembly.report(&mut header.options, most);
            cold.reassembly.all_told();
        }
    }

    /// Writes ACKs for the intervals that the next one has no room for.
    pub(crate) fn write_earlier_gaps(&mut self, out: &mut [Burst]) -> Result<(), WriteError> {
        let room = self.blocks_in_ack();
        let sacks = self.tcb.has(flag::SACK);
        let Some(cold) = self.cold().filter(|_| sacks) else { return Ok(()) };
        let last = room - usize::from(cold.duplicate.is_some());
        if cold.reassembly.untold_count() <= last {
            return Ok(());
        }
        for earlier in cold.reassembly.untold_before(last).chunks(room) {
            let mut header = self.header(self.tcb.snd_nxt);
            let then = earlier.iter().fold(self.tcb.last_ack_sent, |latest, untold| latest.latest(untold.rcv_nxt));
            self.acknowledge_only(&mut header, then);
            earlier.iter().rev().for_each(|untold| header.options.push_sack(untold.block));
            self.write(&header, None, out)?;
        }
        Ok(())
    }

    /// Has `header` acknowledge no more than what had come in order up to `then`; the window's edge does not move left for that, as
    /// far as the field can say it.
    fn acknowledge_only(&mut self, header: &mut Header, then: SeqNum) {
        let scale = self.tcb.receive_scale();
        let filled = (self.tcb.rcv_nxt - then).div_ceil(1 << scale);
        let window = (u32::from(header.window) + filled).min(u32::from(u16::MAX));
        (header.acknowledgment, header.window) = (then, window as u16);
        self.tcb.rcv_adv = self.tcb.rcv_adv.latest(then + (window << scale));
    }

    /// Blocks that a pure ACK has room for.
    fn blocks_in_ack(&self) -> usize {
        if self.tcb.has(flag::TIMESTAMPS) { SACK_BLOCKS_BESIDE_TIMESTAMPS } else { SACK_BLOCKS_MAX }
    }

    /// Whether only a pure ACK can say what there is to say: duplicates, more than the blocks of a data segment can, or (RFC 5681
    /// §2) a gap to a peer that counts duplicate ACKs.
    pub(crate) fn has_report_of_its_own(&self) -> bool {
        let cold = self.shared.cold.get(self.tcb.cold);
        cold.is_some_and(|cold| match self.tcb.has(flag::SACK) {
            true => cold.duplicate.is_some() || cold.reassembly.untold_count() > self.blocks_beside_data(),
            false => !cold.reassembly.is_empty(),
        })
    }
}
