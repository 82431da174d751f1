//! Received timestamps: the check for old ones, and the choice of TS.Recent. Shared by the fast paths and the slow path.
//!
//! Read RFC 7323 §4.3, §5.3 first. Promises nothing about segments without the option: `input` decides about those.

use super::tcb::Tcb;
use crate::wire::sequence::SeqNum;

impl Tcb {
    /// RFC 7323 §5.3, R1: returns true when SEG.TSval is older than TS.Recent.
    #[inline(always)]
    pub(crate) fn is_time_old(&self, value: u32) -> bool {
        value.wrapping_sub(self.ts_recent()).cast_signed() < 0
    }

    /// RFC 7323 §4.3 (3), for a SEG.TSval that is not old. Returns true when it is TS.Recent.
    #[inline(always)]
    pub(crate) fn remember_time(&mut self, sequence: SeqNum, value: u32) -> bool {
        let is_recent = sequence.at_or_before(self.last_ack_sent());
        if is_recent {
            self.set_ts_recent(value);
        }
        is_recent
    }
}
