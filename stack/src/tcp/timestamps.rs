//! Timestamps that come: which are old, and which is remembered. One home for the short ways and the long one.
//!
//! Read RFC 7323 §4.3, §5.3 first. Promises nothing about segments without the option: `input` decides about those.

use super::sequence::SeqNum;
use super::tcb::Tcb;

impl Tcb {
    /// RFC 7323 §5.3, R1: whether SEG.TSval is older than TS.Recent.
    #[inline(always)]
    pub(crate) fn is_time_old(&self, value: u32) -> bool {
        value.wrapping_sub(self.ts_recent).cast_signed() < 0
    }

    /// RFC 7323 §4.3 (3), for a SEG.TSval that is not old.
    #[inline(always)]
    pub(crate) fn remember_time(&mut self, sequence: SeqNum, value: u32) {
        if sequence.at_or_before(self.last_ack_sent) {
            self.ts_recent = value;
        }
    }
}
