//! Challenge ACKs, and answers to invalid segments: their rate limits, so that no sender learns or gains from them.
//!
//! Read RFC 5961 §3-5, §7 first. Two limits, as in Linux. A connection sends one answer per half second to segments without
//! data, whatever is wrong with them: two ends that are out of step do not answer each other for ever. The stack sends a
//! limited number per second, which differs from second to second: with a known number an attacker can find out whether a
//! guess was right (Cao et al., "Off-Path TCP Exploits", 2016). Resets have a limit of their own.

use crate::stats::Counter;
use crate::wire::tcp::SYN;

use super::connection::Connection;
use super::segment::Segment;
use super::state::State;

impl Connection<'_, '_> {
    /// RFC 5961 §3.2, §4.2, §5.2, limited as §7 asks for.
    pub(crate) fn challenge_ack(&mut self) {
        if self.has_answered_lately() {
            self.env.counters.count(Counter::TcpAckSkippedChallenge);
            return;
        }
        let random = self.shared.secrets.random();
        if self.shared.replies.allow_challenge(self.now, self.env, random) {
            self.env.counters.count(Counter::TcpChallengeAck);
            self.answer();
        }
    }

    /// Sends the ACK that answers a segment outside the window or with an old timestamp; `skipped` counts those that are
    /// suppressed.
    pub(crate) fn answer_invalid(&mut self, segment: &Segment, skipped: Counter) {
        let limited = segment.len == 0 || segment.has(SYN);
        if limited && self.has_answered_lately() {
            self.env.counters.count(skipped);
        } else {
            self.answer();
        }
    }

    /// RFC 9293 §3.10.7.4: <SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK>. In SYN-RECEIVED the connection's own transmission is a
    /// SYN-ACK, which has another sequence number.
    fn answer(&mut self) {
        if self.tcb.state() != State::SynReceived {
            return self.ack_now();
        }
        let header = self.header(self.tcb.snd_nxt());
        let tos = self.acknowledgment_tos();
        self.shared.replies.push(self.tcb.key(), tos, header);
    }

    /// Returns true when an answer went out within the interval; otherwise records one now.
    fn has_answered_lately(&mut self) -> bool {
        let now = self.tick().max(1);
        self.forget_old_answer();
        let last = &mut self.demand_cold().answered_at;
        let lately = *last != 0;
        if !lately {
            *last = now;
        }
        lately
    }

    /// Clears the time of an answer that is older than the interval.
    pub(crate) fn forget_old_answer(&mut self) {
        let (now, interval_ms) = (self.tick().max(1), self.shared.config.invalid_interval.as_millis() as u32);
        if let Some(cold) = self.cold()
            && now.wrapping_sub(cold.answered_at) >= interval_ms
        {
            cold.answered_at = 0;
        }
    }
}
