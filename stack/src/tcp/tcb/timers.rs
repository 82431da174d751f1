//! The round-trip estimate and the deadlines.
//!
//! Read RFC 6298 first. Deadlines are ticks of the timer wheel (milliseconds modulo 2^32); 0 means not armed. One deadline
//! serves the retransmission timer, the tail loss probe, the reordering timer and the persist timer, as only one of them runs.

use super::{Tcb, flag};
use crate::tcp::rtt;

/// See the module's text.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Timers {
    srtt_us: u32,
    rttvar_us: u32,
    /// Retransmission or persist timer.
    rto_deadline: u32,
    /// Delayed ACK; when none is pending, that of the last one, see `ack`.
    ack_deadline: u32,
    /// Keepalive (armed: SO_KEEPALIVE is on), or the end of an orphan's FIN-WAIT-2.
    idle_deadline: u32,
}

/// Purpose of the retransmission deadline, when it is not the persist timer's ([`flag::PERSIST`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum TimerKind {
    /// RFC 6298
    Retransmission,
    /// RFC 8985 §7
    Probe,
    /// RFC 8985 §6.2, step 5
    Reordering,
}

/// In [`Tcb::min_rtt`](Tcb): the microseconds.
const ROUND_TRIP_MASK: u32 = (1 << 28) - 1;
/// No sample yet.
pub(super) const NO_ROUND_TRIP: u32 = u32::MAX;
/// Length of an era in milliseconds, as a shift: 131 s.
const MIN_RTT_ERA_SHIFT: u32 = 17;
/// Number of eras after which a minimum is old; Linux: 300 s.
const MIN_RTT_ERAS: u32 = 3;

/// Round trips.
impl Tcb {
    /// SRTT, microseconds; 0: no sample yet.
    #[inline(always)]
    pub(crate) fn srtt_us(&self) -> u32 {
        self.timers.srtt_us
    }

    /// RTTVAR, microseconds.
    #[inline(always)]
    pub(crate) fn rttvar_us(&self) -> u32 {
        self.timers.rttvar_us
    }

    /// Smallest round trip of the last minutes, microseconds; `u32::MAX`: no sample.
    #[inline]
    pub(crate) fn min_rtt_us(&self) -> u32 {
        if self.min_rtt == NO_ROUND_TRIP { u32::MAX } else { self.min_rtt & ROUND_TRIP_MASK }
    }

    /// Takes a sample of any size at `tick`: SRTT, RTTVAR, and the minimum, which the sample replaces if it is smaller (RFC
    /// 8985 §6.2, step 1), or if that is old.
    #[inline(always)]
    pub(crate) fn measure_round_trip(&mut self, sample_us: u32, tick: u32) {
        let sample_us = sample_us.clamp(rtt::SAMPLE_MIN_US, rtt::SAMPLE_MAX_US);
        let timers = &mut self.timers;
        (timers.srtt_us, timers.rttvar_us) = rtt::measure(timers.srtt_us, timers.rttvar_us, sample_us);
        let era = tick >> MIN_RTT_ERA_SHIFT << 28;
        let is_old = era.wrapping_sub(self.min_rtt & !ROUND_TRIP_MASK) >= MIN_RTT_ERAS << 28;
        if sample_us <= self.min_rtt & ROUND_TRIP_MASK || is_old {
            self.min_rtt = sample_us | era;
        }
    }

    /// Goes on with the estimates of another stack; `min_rtt_us`, `u32::MAX` for none, counts as measured at `tick`.
    pub(crate) fn resume_round_trips(&mut self, srtt_us: u32, rttvar_us: u32, min_rtt_us: u32, tick: u32) {
        (self.timers.srtt_us, self.timers.rttvar_us) = (srtt_us, rttvar_us);
        let era = tick >> MIN_RTT_ERA_SHIFT << 28;
        self.min_rtt = if min_rtt_us == u32::MAX { NO_ROUND_TRIP } else { (min_rtt_us & ROUND_TRIP_MASK) | era };
    }

    /// Discards all samples.
    pub(crate) fn forget_round_trips(&mut self) {
        (self.timers.srtt_us, self.timers.rttvar_us) = (0, 0);
        self.min_rtt = NO_ROUND_TRIP;
    }
}

/// Deadlines.
impl Tcb {
    /// Deadline of the retransmission or persist timer.
    #[inline(always)]
    pub(crate) fn rto_deadline(&self) -> u32 {
        self.timers.rto_deadline
    }

    /// Purpose of the retransmission deadline.
    #[inline]
    pub(crate) fn timer_kind(&self) -> TimerKind {
        match (self.error_and_timer >> 4) & 3 {
            0 => TimerKind::Retransmission,
            1 => TimerKind::Probe,
            _ => TimerKind::Reordering,
        }
    }

    /// Timeouts without progress.
    #[inline(always)]
    pub(crate) fn backoff(&self) -> u8 {
        self.backoff
    }

    /// Deadline of a delayed ACK; when none is pending, that of the last one.
    #[inline(always)]
    pub(crate) fn ack_deadline(&self) -> u32 {
        self.timers.ack_deadline
    }

    /// Deadline of keepalive or of an orphan's FIN-WAIT-2.
    #[inline(always)]
    pub(crate) fn idle_deadline(&self) -> u32 {
        self.timers.idle_deadline
    }

    /// Tick of the live entry in the timer wheel; 0: none.
    #[inline(always)]
    pub(crate) fn timer_tick(&self) -> u32 {
        self.timer_tick
    }

    /// RFC 6298 (5.1): starts the timer for data in flight.
    #[inline(always)]
    pub(crate) fn start_rto(&mut self, deadline: u32, kind: TimerKind) {
        self.timers.rto_deadline = deadline;
        self.error_and_timer = (self.error_and_timer & !0x30) | ((kind as u8) << 4);
    }

    /// RFC 9293 §3.8.6.1: starts the persist timer.
    pub(crate) fn start_persist(&mut self, deadline: u32) {
        self.set(flag::PERSIST);
        self.timers.rto_deadline = deadline;
    }

    /// RFC 6298 (5.2): stops the retransmission or persist timer.
    #[inline(always)]
    pub(crate) fn stop_rto(&mut self) {
        self.timers.rto_deadline = 0;
    }

    /// RFC 6298 (5.5): counts a timeout without progress.
    pub(crate) fn back_off(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }

    /// RFC 6298 (5.7): the peer has answered.
    #[inline(always)]
    pub(crate) fn end_backoff(&mut self) {
        self.backoff = 0;
    }

    /// Takes over the retransmissions of a SYN-ACK.
    pub(crate) fn begin_backed_off(&mut self, retries: u8) {
        self.backoff = retries;
    }

    /// Goes on with the timeouts of another stack.
    pub(crate) fn resume_backoff(&mut self, timeouts: u8) {
        self.backoff = timeouts;
    }

    /// Starts the delay of an ACK. Returns true when the deadline has changed.
    #[inline(always)]
    pub(crate) fn start_ack_delay(&mut self, deadline: u32) -> bool {
        core::mem::replace(&mut self.timers.ack_deadline, deadline) != deadline
    }

    /// Ends the delay of an ACK.
    #[inline(always)]
    pub(crate) fn stop_ack_delay(&mut self) {
        self.timers.ack_deadline = 0;
    }

    /// Starts keepalive's timer, or that of an orphan's FIN-WAIT-2.
    pub(crate) fn start_idle(&mut self, deadline: u32) {
        self.timers.idle_deadline = deadline;
    }

    /// Stops keepalive's timer.
    pub(crate) fn stop_idle(&mut self) {
        self.timers.idle_deadline = 0;
    }

    /// Stops all timers.
    pub(crate) fn stop_timers(&mut self) {
        self.stop_rto();
        self.stop_ack_delay();
        self.stop_idle();
    }

    /// Notes the live entry in the timer wheel; 0: there is none.
    #[inline(always)]
    pub(crate) fn set_timer_tick(&mut self, tick: u32) {
        self.timer_tick = tick;
    }
}
