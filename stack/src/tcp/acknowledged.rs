//! Processing of a received ACK: frees data, measures the round trip, opens windows, finds losses.
//!
//! Read RFC 9293 §3.10.7.4 (fifth), RFC 5681 §3.2, RFC 6582 §3.2, RFC 6675 §5, RFC 6298 §5 first.

use crate::stats::Counter;
use crate::wire::tcp::Timestamps;

use super::congestion::Episode;
use super::connection::Connection;
use super::frto::Frto;
use super::prr::{Prr, SafeAck};
use super::ranges::Ranges;
use super::segment::Segment;
use super::tcb::{Recovery, flag};
use super::tlp::Probe;
use crate::wire::sequence::SeqNum;

/// Effect of an ACK on SND.UNA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Una {
    Advanced,
    Unchanged,
}

/// Snapshot of delivered and lost bytes; the difference of two is what an ACK reported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    /// SND.UNA and the bytes SACKed above it.
    mark: u32,
    lost: u32,
}

impl Delivery {
    /// Bytes delivered since `before`. A peer that withdraws SACKed data has delivered nothing.
    pub(crate) fn since(&self, before: &Delivery) -> u32 {
        self.mark.wrapping_sub(before.mark).cast_signed().max(0).cast_unsigned()
    }
}

impl Connection<'_, '_> {
    /// SND.UNA < SEG.ACK <= SND.NXT: `ack` acknowledges something new.
    pub(crate) fn acknowledge(&mut self, ack: SeqNum, segment: &Segment) {
        let acked = ack - self.tcb.snd_una();
        let data_end = ack.earliest(self.tcb.snd_end());
        let data_acked = if self.tcb.snd_una().before(data_end) { data_end - self.tcb.snd_una() } else { 0 };
        if self.tcb.cold() != super::cold::NONE {
            self.acknowledge_in_cold(ack, segment);
            self.undo_if_spurious(segment, Una::Advanced);
            if self.is_rate_based() {
                self.model_delivered(ack);
            }
        }
        let was_nearly_full = self.tcb.is_nearly_full();
        let cursors = self.shared.cold.get_mut(self.tcb.cold()).map(|cold| &mut cold.cursors);
        let freed = self.tcb.free_until(self.env.arena, data_end, cursors);
        let in_order = self.tcb.recovery() == Recovery::Open && self.tcb.dup_acks() == 0;
        let sent_at = freed.sent_at.filter(|_| in_order);
        let rtt_us = self.advance(ack, data_acked, sent_at, segment.header.options.timestamps);
        let known = self.acknowledge_known(ack);
        self.advance_recovery(ack, acked, acked.saturating_sub(known), rtt_us);
        self.go_on_sending();
        if was_nearly_full {
            self.resume_writer();
        }
    }

    /// The next ACK of a connection with nothing unusual, of `acked` bytes of data: the steps of
    /// [`acknowledge`](Connection::acknowledge) that are left without a cold object, recovery or a FIN in flight.
    #[inline(always)]
    pub(crate) fn acknowledge_in_order(&mut self, acked: u32, time: Timestamps) {
        match self.tcb.is_nearly_full() {
            true => self.reborrow().acknowledge_nearly_full(acked, time),
            false => self.take_next_ack(acked, time),
        }
    }

    /// Out of line: a value that had to live across the whole ACK would cost the usual case 13 instructions.
    #[inline(never)]
    fn acknowledge_nearly_full(&mut self, acked: u32, time: Timestamps) {
        self.take_next_ack(acked, time);
        self.resume_writer();
    }

    #[inline(always)]
    fn take_next_ack(&mut self, acked: u32, time: Timestamps) {
        let ack = self.tcb.snd_una() + acked;
        let freed = self.tcb.free_until(self.env.arena, ack, None);
        let rtt_us = self.advance(ack, acked, freed.sent_at, Some(time));
        self.grow_window(acked, acked, rtt_us);
        self.go_on_sending();
    }

    /// Notes `ack` in the cold object. Returns the number of newly acknowledged bytes that SACK blocks or duplicate ACKs have
    /// reported before: they are not newly delivered.
    fn acknowledge_known(&mut self, ack: SeqNum) -> u32 {
        self.mtu_acknowledged(ack);
        let mut known = if self.tcb.has(flag::SACK) { 0 } else { self.tcb.dup_acks() as u32 * self.tcb.mss() as u32 };
        if let Some(cold) = self.cold() {
            let held = cold.scoreboard.sacked();
            cold.scoreboard.acknowledge(ack);
            known += held - cold.scoreboard.sacked();
            cold.rack.acknowledge(ack);
            if cold.undo.take_if(|undo| undo.is_over(ack)).is_some() {
                self.shared.cold.release_if_quiet(self.env.arena, self.tcb);
            }
        }
        self.end_reduction(ack);
        known
    }

    /// Moves SND.UNA to `ack`, for `data_acked` bytes of payload, of which the last was sent at `sent_at`. Returns the round
    /// trip, microseconds; 0: not measured. The peer is reachable (RFC 4861 §7.3.1), and it has answered the retransmissions
    /// (RFC 6298 §5.7).
    #[inline(always)]
    fn advance(&mut self, ack: SeqNum, data_acked: u32, sent_at: Option<u32>, time: Option<Timestamps>) -> u32 {
        let rtt_us = self.measure_round_trip(sent_at, time);
        self.tcb.advance_una(ack, data_acked);
        self.confirm_neighbor();
        if self.tcb.backoff() != 0 {
            self.tcb.end_backoff();
            self.reborrow().note_answer();
        }
        rtt_us
    }

    /// Takes the steps after a new ACK: the samples, the timer, and the data that waits.
    #[inline(always)]
    fn go_on_sending(&mut self) {
        self.sample_acknowledged();
        let is_all =
            self.tcb.snd_una() == self.tcb.snd_end() && !self.tcb.has(flag::FIN_QUEUED | flag::RETRANSMIT | flag::PERSIST);
        if is_all {
            debug_assert!(self.tcb.flight() == 0 && !self.has_to_send(), "recovery ends with the last ACK");
            self.tcb.stop_rto();
            self.stop_clock();
            return;
        }
        self.restart_rto();
        if self.tcb.flight() + self.tcb.unsent() == 0 {
            self.stop_clock();
        }
        self.mark_data_if_any();
    }

    /// The buffer was nearly full and an ACK has come: wakes an application that waits to write.
    #[inline(never)]
    pub(crate) fn resume_writer(&mut self) {
        self.tune_send_buffer();
        if self.shared.is_writable(self.tcb) {
            self.stats().clock.writer_goes_on();
            self.signal();
        }
    }

    /// Reports to RACK what has arrived in order while there were gaps or retransmissions.
    fn acknowledge_in_cold(&mut self, ack: SeqNum, segment: &Segment) {
        let Some(cold) = self.shared.cold.get(self.tcb.cold()) else { return };
        if !self.uses_rack() || (cold.scoreboard.is_empty() && cold.rack.is_idle()) {
            return;
        }
        let mut news = Ranges::default();
        cold.scoreboard.for_each_outside(self.tcb.snd_una(), ack, &mut |start, end| news.add(start, end, ()));
        self.all_delivered(&news, segment);
    }

    fn all_delivered(&mut self, news: &Ranges<()>, segment: &Segment) {
        // Both clocks were rounded down.
        let echo_age_us =
            self.echo_age_ms(segment.header.options.timestamps).map(|age| age.saturating_sub(1).saturating_mul(1_000));
        let before = self.shared.conn_stats.rare(self.tcb).map_or(0, |rare| rare.reordered);
        for range in news.iter() {
            self.rack_delivered(range.start, range.end, echo_age_us);
        }
        // Linux: the news of one ACK counts as one reordering.
        if let Some(rare) = self.shared.conn_stats.rare_mut(self.tcb) {
            rare.reordered = rare.reordered.min(before.saturating_add(1));
        }
    }

    /// Age of the segment with the timestamp that this one echoes, milliseconds.
    fn echo_age_ms(&self, time: Option<Timestamps>) -> Option<u32> {
        let echo = time.filter(|_| self.tcb.has(flag::TIMESTAMPS))?.echo;
        (echo != 0).then(|| self.timestamp().wrapping_sub(echo))
    }

    /// Snapshot of the data known to have arrived, and to be lost.
    pub(crate) fn delivery(&self) -> Delivery {
        let cold = self.shared.cold.get(self.tcb.cold());
        let (sacked, lost) = cold.map_or((0, 0), |cold| (cold.scoreboard.sacked(), cold.rack.lost.bytes()));
        Delivery { mark: self.tcb.snd_una().0.wrapping_add(sacked), lost }
    }

    /// Order of decisions after an ACK, with SACK: F-RTO and Eifel whether there was a loss at all, RACK which data is lost,
    /// PRR how much may be sent.
    pub(crate) fn recover(&mut self, segment: &Segment, before: Delivery, advanced: bool, sacked: bool) {
        if sacked {
            self.undo_if_spurious(segment, Una::Unchanged);
        }
        self.frto_acknowledged(advanced, sacked);
        if self.uses_rack() {
            self.rack_detect_losses();
            self.model_losses();
        }
        let after = self.delivery();
        let safe = if advanced && after.lost <= before.lost { SafeAck::Yes } else { SafeAck::No };
        let delivered = after.since(&before);
        self.reduce_proportionally(delivered, safe);
    }

    /// RFC 6298 §3 (Karn): measures by data sent once, or by the echoed timestamp (RFC 7323 §4). Returns the sample in
    /// microseconds; 0 without one.
    #[inline(always)]
    pub(crate) fn measure_round_trip(&mut self, sent_at: Option<u32>, time: Option<Timestamps>) -> u32 {
        let sample = match sent_at {
            Some(sent_at) => (self.now_us()).wrapping_sub(sent_at),
            None => match self.echo_age_ms(time) {
                Some(elapsed_ms) if elapsed_ms <= 1 << 20 => elapsed_ms.max(1) * 1_000,
                _ => return 0,
            },
        };
        self.take_round_trip(sample);
        sample
    }

    /// Takes a sample, microseconds.
    #[inline(always)]
    pub(crate) fn take_round_trip(&mut self, sample_us: u32) {
        self.env.counters.count_round_trip(sample_us);
        self.tcb.measure_round_trip(sample_us, self.tick());
    }

    /// Updates recovery and congestion window after `acked` bytes, of which `news` were not known to have arrived.
    fn advance_recovery(&mut self, ack: SeqNum, acked: u32, news: u32, rtt_us: u32) {
        let mss = self.tcb.mss() as u32;
        let full = ack.at_or_after(self.tcb.recover());
        match self.tcb.recovery() {
            Recovery::Open => {
                self.tcb.forget_duplicate_acks();
                if !self.is_reducing() {
                    self.grow_window(acked, news, rtt_us);
                }
                if self.tcb.prediction.is_closed() {
                    self.predict();
                }
            }
            Recovery::Fast if full => {
                // RFC 6582 §3.2 (3), full; RFC 6675 §5: the window is ssthresh.
                if !self.is_rate_based() {
                    self.tcb.set_cwnd(match self.tcb.has(flag::SACK) {
                        true => self.tcb.ssthresh(),
                        false => self.tcb.ssthresh().min(self.tcb.flight().max(mss) + mss),
                    });
                }
                self.mtu_recovered();
                self.leave_recovery();
            }
            Recovery::Fast if !self.tcb.has(flag::SACK) => {
                // RFC 6582 §3.2 (3), partial: the next segment is lost too. An ACK of a part of a retransmission says
                // nothing of the rest: a peer that divides its ACKs would get a segment for each byte (RFC 3465 §2.3).
                let cold = self.demand_cold();
                let delivered = cold.prr.acknowledged(acked);
                if cold.scoreboard.high_rxt.at_or_before(ack) {
                    self.tcb.set(flag::RETRANSMIT);
                }
                self.reduce_proportionally(delivered, SafeAck::No);
            }
            Recovery::Fast => {}
            Recovery::Loss => {
                let mut window = self.window();
                if window.in_slow_start() && !self.is_rate_based() {
                    window.slow_start(acked);
                    self.set_window(window);
                }
                if full {
                    self.leave_recovery();
                }
            }
        }
    }

    pub(crate) fn leave_recovery(&mut self) {
        self.tcb.leave_recovery();
        let nxt = self.tcb.snd_nxt();
        if let Some(cold) = self.cold() {
            cold.rack.on_recovered();
            cold.frto = Frto::Off;
            if let Some(undo) = cold.undo.as_mut() {
                undo.until(nxt);
            }
        }
        self.model_recovered();
        self.shared.cold.release_if_quiet(self.env.arena, self.tcb);
        self.predict();
    }

    /// Takes the SACK blocks of an ACK. Returns true when they report anything new.
    pub(crate) fn take_sack(&mut self, segment: &Segment) -> bool {
        let blocks = segment.header.options.sack();
        if blocks.is_empty() || !self.tcb.has(flag::SACK) || self.tcb.flight() == 0 {
            return false;
        }
        let (una, nxt) = (self.tcb.snd_una(), self.tcb.snd_nxt());
        if self.uses_rack() || self.is_rate_based() {
            let news = self.demand_cold().scoreboard.news(una, nxt, blocks);
            self.model_sacked(&news);
            if self.uses_rack() {
                self.all_delivered(&news, segment);
            }
        }
        self.demand_cold().scoreboard.update(una, nxt, blocks)
    }

    /// RFC 5681 §2: returns true when a segment with SEG.ACK = SND.UNA is a duplicate ACK. RFC 6675 §2: with SACK it must
    /// report something new.
    pub(crate) fn is_duplicate_ack(&self, segment: &Segment, window: u32, sacked: bool) -> bool {
        if self.tcb.has(flag::SACK) {
            return sacked;
        }
        segment.len == 0 && segment.sequence_len() == 0 && self.tcb.flight() > 0 && window == self.tcb.snd_wnd()
    }

    /// A duplicate ACK: fast retransmit, fast recovery (RFC 5681 §3.2, RFC 6675 §5).
    pub(crate) fn duplicate_ack(&mut self) {
        self.tcb.count_duplicate_ack();
        match self.tcb.recovery() {
            // RFC 8985 §6.2: time decides.
            Recovery::Open if self.uses_rack() => {}
            Recovery::Open => {
                let mss = self.tcb.mss() as u32;
                let sack = self.tcb.has(flag::SACK);
                let lost = sack && self.cold().is_some_and(|cold| cold.scoreboard.is_first_lost(mss));
                if lost || self.tcb.dup_acks() as u32 >= super::sack::DUP_THRESH {
                    self.enter_fast_recovery();
                }
            }
            Recovery::Fast if !self.tcb.has(flag::SACK) => {
                // RFC 6582 §3.2 (4): a segment has left the network.
                let mss = self.tcb.mss() as u32;
                self.demand_cold().prr.duplicate(mss);
                self.reduce_proportionally(mss, SafeAck::No);
            }
            Recovery::Fast | Recovery::Loss => {}
        }
        self.mark_data();
    }

    pub(crate) fn enter_fast_recovery(&mut self) {
        let sack = self.tcb.has(flag::SACK);
        self.env.counters.count(if sack { Counter::TcpSackRecovery } else { Counter::TcpRenoRecovery });
        self.env.counters.count(Counter::TcpFastRetrans);
        self.remember_windows();
        self.mtu_lost();
        self.model_episode(Episode::Loss);
        self.tcb.enter_recovery(Recovery::Fast);
        self.reduce_window();
        let (una, mss, duplicates) = (self.tcb.snd_una(), self.tcb.mss() as u32, self.tcb.dup_acks() as u32);
        let flight = self.tcb.flight();
        let cold = self.demand_cold();
        cold.scoreboard.high_rxt = una;
        cold.probe = Probe::default();
        cold.prr = if sack { Prr::default() } else { Prr::without_sack(duplicates, mss) };
        self.tcb.set(flag::RETRANSMIT);
        if !sack {
            // The last of the duplicate ACKs is counted below.
            self.begin_reduction_from(flight.saturating_sub(duplicates.saturating_sub(1) * mss));
            self.model_lost(una, una + mss);
            self.reduce_proportionally(mss, SafeAck::No);
        }
        self.predict();
    }

    /// RFC 9293 §3.10.7.4: SND.WND, SND.WL1. A window from an old segment is taken only when it is larger, or zero (Linux).
    #[inline(always)]
    pub(crate) fn update_window(&mut self, field: u16, sequence: SeqNum, una: Una) {
        let window = u32::from(field) << self.tcb.send_scale();
        let newer = sequence.after(self.tcb.snd_wl1());
        let same = sequence == self.tcb.snd_wl1();
        if !(una == Una::Advanced || newer || (same && (window > self.tcb.snd_wnd() || window == 0))) {
            return;
        }
        if self.tcb.take_window(sequence, window) {
            if self.tcb.has(flag::PERSIST) {
                self.reborrow().leave_persist();
            }
            self.mark_data_if_any();
        }
    }
}
