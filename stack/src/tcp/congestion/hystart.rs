//! HyStart++: leaves the first slow start when the round trip grows, before the queue overflows.
//!
//! Read RFC 9406 §4.2, §4.3 first; names and steps are the RFC's. Rounds are counted by sequence numbers. Only the first
//! slow start of a connection has it: later ones end at a threshold that a loss has set. L is infinite: stretched ACKs come
//! from receivers that coalesce, and Linux does not limit them either.

use crate::wire::sequence::SeqNum;

use super::Window;

/// MIN_RTT_THRESH, microseconds.
const MIN_RTT_THRESH_US: u32 = 4_000;
/// MAX_RTT_THRESH, microseconds.
const MAX_RTT_THRESH_US: u32 = 16_000;
/// MIN_RTT_DIVISOR
const MIN_RTT_DIVISOR: u32 = 8;
/// N_RTT_SAMPLE
const N_RTT_SAMPLE: u8 = 8;
/// CSS_GROWTH_DIVISOR
const CSS_GROWTH_DIVISOR: u32 = 4;
/// CSS_ROUNDS
const CSS_ROUNDS: u8 = 5;
/// No measurement.
const INFINITY: u32 = u32::MAX;

/// An ACK in slow start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// SEG.ACK
    pub(crate) ack: SeqNum,
    /// SND.NXT
    pub(crate) nxt: SeqNum,
    /// Bytes newly acknowledged.
    pub(crate) acked: u32,
    /// The round-trip sample of this ACK, microseconds; 0: none.
    pub(crate) rtt_us: u32,
}

/// State of the first slow start; see the module's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HyStart {
    /// windowEnd: the round is over when this is acknowledged.
    window_end: SeqNum,
    /// lastRoundMinRTT, microseconds.
    last_round_min_rtt_us: u32,
    /// currentRoundMinRTT, microseconds.
    current_round_min_rtt_us: u32,
    /// cssBaselineMinRtt, microseconds; `INFINITY`: standard slow start.
    css_baseline_min_rtt_us: u32,
    /// rttSampleCount
    rtt_samples: u8,
    /// Number of finished rounds of conservative slow start.
    css_rounds: u8,
    /// `window_end` has been set: a round has begun.
    in_round: bool,
    /// `most_until` has been set.
    in_window: bool,
    /// Most bytes in flight in this window of data, and its end.
    most_under_way: u32,
    most_until: SeqNum,
}

const _: () = assert!(size_of::<HyStart>() == 28, "there is one for each connection that has sent something");

impl Default for HyStart {
    fn default() -> HyStart {
        HyStart {
            window_end: SeqNum(0),
            last_round_min_rtt_us: INFINITY,
            current_round_min_rtt_us: INFINITY,
            css_baseline_min_rtt_us: INFINITY,
            rtt_samples: 0,
            css_rounds: 0,
            in_round: false,
            in_window: false,
            most_under_way: 0,
            most_until: SeqNum(0),
        }
    }
}

impl HyStart {
    fn is_conservative(&self) -> bool {
        self.css_baseline_min_rtt_us != INFINITY
    }

    /// Clears the record of this window of data.
    pub(crate) fn forget_most_under_way(&mut self) {
        (self.most_under_way, self.in_window) = (0, false);
    }

    /// RFC 7661, Linux: most bytes in flight in this window of data, when `under_way` were in flight before an ACK.
    #[inline]
    pub(crate) fn most_under_way(&mut self, under_way: u32, ack: SeqNum, nxt: SeqNum) -> u32 {
        let most = self.most_under_way.max(under_way);
        if under_way > self.most_under_way || !self.in_window || ack.at_or_after(self.most_until) {
            (self.most_under_way, self.most_until, self.in_window) = (under_way, nxt, true);
        }
        most
    }

    /// Handles an ACK in the first slow start while the window was in use.
    pub(crate) fn on_ack(&mut self, window: &mut Window, round: &Round) {
        let end = if self.in_round { self.window_end } else { round.nxt };
        (self.window_end, self.in_round) = (end, true);
        self.measure(round.rtt_us);
        if self.is_conservative() {
            window.slow_start(round.acked / CSS_GROWTH_DIVISOR);
            self.return_if_spurious();
        } else {
            window.slow_start(round.acked);
            self.enter_conservative_if_delayed();
        }
        if round.ack.at_or_after(end) && self.begin_round(round.nxt) {
            // CSS_ROUNDS are over: congestion avoidance.
            window.ssthresh = window.cwnd;
        }
    }

    /// Starts a round. Returns true when conservative slow start has lasted long enough.
    fn begin_round(&mut self, nxt: SeqNum) -> bool {
        if self.is_conservative() {
            self.css_rounds += 1;
        }
        (self.window_end, self.in_round) = (nxt, true);
        self.last_round_min_rtt_us = self.current_round_min_rtt_us;
        self.current_round_min_rtt_us = INFINITY;
        self.rtt_samples = 0;
        self.css_rounds >= CSS_ROUNDS
    }

    fn measure(&mut self, rtt_us: u32) {
        if rtt_us != 0 {
            self.current_round_min_rtt_us = self.current_round_min_rtt_us.min(rtt_us);
            self.rtt_samples = self.rtt_samples.saturating_add(1);
        }
    }

    /// Enters conservative slow start when the delay grows, in rounds with enough samples.
    fn enter_conservative_if_delayed(&mut self) {
        let (current, last) = (self.current_round_min_rtt_us, self.last_round_min_rtt_us);
        if self.rtt_samples < N_RTT_SAMPLE || current == INFINITY || last == INFINITY {
            return;
        }
        let threshold_us = (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH_US, MAX_RTT_THRESH_US);
        if current >= last.saturating_add(threshold_us) {
            self.css_baseline_min_rtt_us = current;
            self.css_rounds = 0;
        }
    }

    /// Returns to standard slow start when the delay has become smaller again.
    fn return_if_spurious(&mut self) {
        if self.rtt_samples >= N_RTT_SAMPLE && self.current_round_min_rtt_us < self.css_baseline_min_rtt_us {
            self.css_baseline_min_rtt_us = INFINITY;
        }
    }
}

#[cfg(test)]
mod tests;
