//! RACK: loss detection by time. Read RFC 8985 §3, §6.2 first; the steps and names are the RFC's.
//!
//! A segment is lost when one that was sent sufficiently later has arrived. Xmit times come from the extents of the send
//! queue and their parts (first transmissions), and from `again` (retransmissions, as exact ranges).
//!
//! Division of work: RACK finds the lost bytes, and thereby the start of recovery; `sack` records the data that has arrived;
//! the congestion control algorithm sets the window; `output` sends lost bytes before new ones. Without SACK, or with RACK
//! switched off, `sack` finds the losses (RFC 6675).

use ringway_shm::Slot;

use crate::stats::Counter;

use super::connection::Connection;
use super::handover::{Rebase, part::parts};
use super::prr::SafeAck;
use super::ranges::Ranges;
use super::tcb::{Recovery, TimerKind, flag};
use super::xmit_times::XmitTimes;
use crate::wire::sequence::SeqNum;

/// RFC 8985 §6.2.4: number of recoveries for which a larger window is kept.
const REO_WND_PERSIST: u8 = 16;

/// See the module's text. Times are microseconds modulo 2^32.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rack {
    /// RACK.xmit_ts and RACK.end_seq: of the segments that have arrived, the one sent last.
    newest: Option<(u32, SeqNum)>,
    /// RACK.rtt
    rtt_us: u32,
    /// RACK.reordering_seen
    pub(crate) reordering_seen: bool,
    /// RACK.reo_wnd_mult
    reo_wnd_mult: u8,
    /// RACK.reo_wnd_persist
    reo_wnd_persist: u8,
    /// RACK.dsack_round
    dsack_round: Option<SeqNum>,
    /// Since the last look, bytes have arrived that were sent before the last timeout (or other start of recovery) and never
    /// retransmitted.
    original_delivered: bool,
    /// First transmissions before this have been found lost or arrived.
    pub(crate) judged: Option<SeqNum>,
    /// Lost and not retransmitted since.
    pub(crate) lost: Ranges<()>,
    /// Retransmitted, with the time, and not found lost since.
    pub(crate) again: Ranges<u32>,
    /// Xmit times of first transmissions that were not sent with the rest of their extent.
    pub(crate) xmit_times: XmitTimes,
}

impl Default for Rack {
    fn default() -> Rack {
        Rack {
            newest: None,
            rtt_us: 0,
            reordering_seen: false,
            reo_wnd_mult: 1,
            reo_wnd_persist: 0,
            dsack_round: None,
            original_delivered: false,
            judged: None,
            lost: Ranges::default(),
            again: Ranges::default(),
            xmit_times: XmitTimes::default(),
        }
    }
}

parts!(Rack {
    newest,
    rtt_us,
    reordering_seen,
    reo_wnd_mult,
    reo_wnd_persist,
    dsack_round,
    original_delivered,
    judged,
    lost,
    again,
    xmit_times
});

/// End of recovery, and RACK.fack.
struct Marks {
    recover: SeqNum,
    fack: SeqNum,
}

/// Result of RACK_detect_loss for a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Lost,
    /// Lost if no ACK comes for this many microseconds.
    Wait(u32),
    /// No segment sent later has arrived.
    Unknown,
}

impl Rack {
    /// Returns true when dropping it loses nothing.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_idle() && !self.reordering_seen && self.reo_wnd_mult == 1 && self.xmit_times.is_empty()
    }

    /// Returns true when ACKs of data in order need no processing.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_idle() && self.judged.is_none() && self.dsack_round.is_none()
    }

    /// Returns true when nothing is lost or was retransmitted.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.lost.is_empty() && self.again.is_empty()
    }

    /// Drops what lies before `una`.
    pub(crate) fn acknowledge(&mut self, una: SeqNum) {
        self.judged = self.judged.filter(|judged| judged.after(una));
        self.lost.acknowledge(una);
        self.again.acknowledge(una);
        self.xmit_times.acknowledge(una);
        if self.dsack_round.is_some_and(|round| una.at_or_after(round)) {
            self.dsack_round = None;
        }
    }

    /// Returns true when bytes that were never retransmitted have arrived since the last call.
    pub(crate) fn take_original_delivered(&mut self) -> bool {
        core::mem::take(&mut self.original_delivered)
    }

    /// Takes back all losses: the data is in flight.
    pub(crate) fn nothing_lost(&mut self) {
        self.lost.clear();
        self.judged = None;
        self.newest = None;
    }

    /// Empties it but keeps its memory.
    pub(crate) fn reset(&mut self) {
        let Rack { mut lost, mut again, mut xmit_times, .. } = core::mem::take(self);
        lost.clear();
        again.clear();
        xmit_times.clear();
        *self = Rack { lost, again, xmit_times, ..Rack::default() };
    }

    /// Moves its times to another clock.
    pub(crate) fn rebase(&mut self, by: Rebase) {
        self.newest = self.newest.map(|(at, end)| (by.us(at), end));
        self.again.change_values(|at| by.us(at));
        self.xmit_times.rebase(by);
    }

    /// Returns true when it speaks of data in flight only.
    pub(crate) fn is_sound(&self, una: SeqNum, nxt: SeqNum) -> bool {
        let most = (nxt - una) as usize;
        self.judged.is_none_or(|judged| judged - una <= nxt - una)
            && self.lost.is_sound(una, nxt, most)
            && self.again.is_sound(una, nxt, most)
            && self.xmit_times.is_sound(una, nxt)
    }

    /// RACK_update: takes the arrival of a segment sent at `sent_at`. Each arrival renews RACK.rtt; the segment sent last is
    /// kept for comparison.
    fn update(&mut self, now_us: u32, sent_at: u32, end: SeqNum) {
        self.rtt_us = now_us.wrapping_sub(sent_at);
        if self.newest.is_none_or(|newest| sent_after((sent_at, end), newest)) {
            self.newest = Some((sent_at, end));
        }
    }

    /// Takes the arrival of bytes up to `end` that were sent once, at `sent_at`. Returns true when higher ones had arrived
    /// before (RACK_detect_reordering).
    fn original_arrived(&mut self, now_us: u32, sent_at: u32, end: SeqNum, marks: &Marks) -> bool {
        self.original_delivered |= end.at_or_before(marks.recover);
        self.update(now_us, sent_at, end);
        end.before(marks.fack)
    }

    /// Like [`original_arrived`](Rack::original_arrived), for the parts of `start..end` that were never retransmitted,
    /// though other bytes of the extent were.
    fn originals_arrived(&mut self, now_us: u32, sent_at: u32, (start, end): (SeqNum, SeqNum), marks: &Marks) -> bool {
        let mut once = Ranges::default();
        self.again.for_each_outside(start, end, &mut |start, end| {
            self.lost.for_each_outside(start, end, &mut |start, end| once.add(start, end, ()));
        });
        let mut reordered = false;
        for range in once.iter() {
            reordered |= self.original_arrived(now_us, sent_at, range.end, marks);
        }
        reordered
    }

    fn judge(&self, now_us: u32, reo_wnd_us: u32, sent_at: u32, end: SeqNum) -> Verdict {
        if !self.newest.is_some_and(|newest| sent_after(newest, (sent_at, end))) {
            return Verdict::Unknown;
        }
        let waited = now_us.wrapping_sub(sent_at);
        match (self.rtt_us.saturating_add(reo_wnd_us)).saturating_sub(waited) {
            0 => Verdict::Lost,
            remaining => Verdict::Wait(remaining),
        }
    }

    /// Step 4 (RACK_update_reo_wnd): grows the window for a DSACK, once per round trip.
    pub(crate) fn on_dsack(&mut self, nxt: SeqNum) {
        if self.dsack_round.is_none() {
            self.dsack_round = Some(nxt);
            self.reo_wnd_mult = self.reo_wnd_mult.saturating_add(1);
            self.reo_wnd_persist = REO_WND_PERSIST;
        }
    }

    /// Step 4: counts the end of fast or RTO recovery.
    pub(crate) fn on_recovered(&mut self) {
        self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
        if self.reo_wnd_persist == 0 {
            self.reo_wnd_mult = 1;
        }
    }
}

/// Largest reordering reported, segments (Linux: tcp_max_reordering).
const REORDERING_MAX: u32 = 300;

/// RACK_sent_after
fn sent_after(a: (u32, SeqNum), b: (u32, SeqNum)) -> bool {
    let later = a.0.wrapping_sub(b.0).cast_signed();
    later > 0 || (later == 0 && a.1.after(b.1))
}

impl Connection<'_, '_> {
    /// Returns true when RACK finds this connection's losses.
    #[inline]
    pub(crate) fn uses_rack(&self) -> bool {
        self.tcb.has(flag::SACK) && self.shared.config.rack
    }

    /// Steps 1-3 (RACK_update, RACK_detect_reordering) for bytes that are acknowledged or SACKed for the first time.
    /// `echo_age_us`: upper bound of the time since the segment that caused this ACK was sent.
    pub(crate) fn rack_delivered(&mut self, start: SeqNum, end: SeqNum, echo_age_us: Option<u32>) {
        let (now_us, una) = (self.now_us(), self.tcb.snd_una());
        let min_rtt_us = if self.tcb.min_rtt_us() == u32::MAX { 0 } else { self.tcb.min_rtt_us() };
        let (arena, recover) = (self.env.arena, self.tcb.recover());
        let Some(cold) = self.shared.cold.get_mut(self.tcb.cold()) else { return };
        let marks = Marks { recover, fack: cold.scoreboard.highest().map_or(una, |highest| highest.latest(una)) };
        let mut slot = self.tcb.extent_at(arena, start, cold.cursors[1]);
        let mut reordered = None;
        let mut from = start;
        while slot.is_some() && from.before(end) {
            let note = arena.note(slot);
            let last = (SeqNum(note.sequence) + arena.queued_len(slot) as u32).earliest(end);
            cold.cursors[1] = slot;
            while from.before(last) {
                let (sent_at, part_end) = cold.rack.xmit_times.time_of(from, note.sent_at, last);
                let late = match note.retransmits {
                    0 => cold.rack.original_arrived(now_us, sent_at, part_end, &marks),
                    _ => cold.rack.originals_arrived(now_us, sent_at, (from, part_end), &marks),
                };
                reordered = reordered.or(late.then_some(from));
                from = part_end;
            }
            slot = arena.next(slot);
        }
        let rack = &mut cold.rack;
        let again = core::mem::take(&mut rack.again);
        again.for_each_inside(start, end, &mut |range| {
            let age = now_us.wrapping_sub(range.value);
            // Step 1: too young, so the first transmission has arrived.
            let is_ambiguous = age < min_rtt_us || echo_age_us.is_some_and(|echo_age| age < echo_age);
            if !is_ambiguous {
                rack.update(now_us, range.value, range.end);
            }
        });
        rack.again = again;
        rack.lost.remove(start, end);
        rack.again.remove(start, end);
        if let Some(first) = reordered {
            rack.reordering_seen = true;
            let distance = (marks.fack - first).div_ceil(self.tcb.mss() as u32).min(REORDERING_MAX);
            let tick = self.shared.moment.tick;
            let rare = self.shared.conn_stats.demand(self.tcb, tick);
            rare.reordered = rare.reordered.wrapping_add(1);
            rare.reordering = rare.reordering.max(distance);
            self.env.counters.count(Counter::TcpSackReorder);
        }
    }

    /// Step 4: RACK.reo_wnd, microseconds.
    fn reordering_window_us(&self) -> u32 {
        let Some(cold) = self.shared.cold.get(self.tcb.cold()) else { return 0 };
        let certain = self.tcb.recovery() != Recovery::Open || cold.scoreboard.is_first_lost(self.tcb.mss() as u32);
        if certain && !cold.rack.reordering_seen {
            return 0;
        }
        let window = self.tcb.min_rtt_us() as u64 / 4 * cold.rack.reo_wnd_mult as u64;
        window.min(self.tcb.srtt_us() as u64) as u32
    }

    /// Step 5 (RACK_detect_loss): finds losses, starts recovery, arms the reordering timer.
    pub(crate) fn rack_detect_losses(&mut self) {
        let Some(cold) = self.shared.cold.get(self.tcb.cold()) else { return };
        if cold.scoreboard.is_empty() && cold.rack.is_idle() {
            return;
        }
        let (now_us, reo_wnd_us) = (self.now_us(), self.reordering_window_us());
        let wait = self.judge_retransmissions(now_us, reo_wnd_us).max(self.judge_first_transmissions(now_us, reo_wnd_us));
        if self.shared.cold.get(self.tcb.cold()).is_some_and(|cold| !cold.rack.lost.is_empty()) {
            if self.tcb.recovery() == Recovery::Open {
                self.enter_fast_recovery();
            }
            self.mark_data();
        }
        if wait > 0 {
            self.tcb.start_rto(self.deadline(wait as u64), TimerKind::Reordering);
            self.arm();
        }
    }

    /// Returns the wait until the next retransmission may be lost, microseconds; 0: nothing to wait for.
    fn judge_retransmissions(&mut self, now_us: u32, reo_wnd_us: u32) -> u32 {
        let Some(cold) = self.shared.cold.get_mut(self.tcb.cold()) else { return 0 };
        let rack = &mut cold.rack;
        let mut again = core::mem::take(&mut rack.again);
        let mut wait = 0;
        again.retain(&mut |range| match rack.judge(now_us, reo_wnd_us, range.value, range.end) {
            Verdict::Lost => {
                rack.lost.add(range.start, range.end, ());
                self.env.counters.count(Counter::TcpLostRetransmit);
                false
            }
            Verdict::Wait(remaining) => {
                wait = wait.max(remaining);
                true
            }
            Verdict::Unknown => true,
        });
        rack.again = again;
        wait
    }

    /// Same as `judge_retransmissions`, for first transmissions. They were sent in order: the first that is not lost ends
    /// the search.
    fn judge_first_transmissions(&mut self, now_us: u32, reo_wnd_us: u32) -> u32 {
        let (una, nxt, arena) = (self.tcb.snd_una(), self.tcb.snd_nxt(), self.env.arena);
        let Some(cold) = self.shared.cold.get_mut(self.tcb.cold()) else { return 0 };
        let rack = &mut cold.rack;
        let mut judged = rack.judged.unwrap_or(una);
        let mut slot = self.tcb.extent_at(arena, judged, cold.cursors[2]);
        let mut wait = 0;
        while slot.is_some() && judged.before(nxt) {
            let note = arena.note(slot);
            let last = (SeqNum(note.sequence) + arena.queued_len(slot) as u32).earliest(nxt);
            let (sent_at, end) = rack.xmit_times.time_of(judged, note.sent_at, last);
            let (mut verdict, mut until) = (Verdict::Lost, end);
            cold.scoreboard.for_each_outside(judged, end, &mut |start, end| {
                if verdict == Verdict::Lost {
                    verdict = rack.judge(now_us, reo_wnd_us, sent_at, end);
                    until = if verdict == Verdict::Lost { until } else { start };
                }
            });
            cold.scoreboard.for_each_outside(judged, until, &mut |start, end| {
                let Rack { again, lost, .. } = &mut *rack;
                again.for_each_outside(start, end, &mut |start, end| lost.add(start, end, ()));
            });
            judged = until;
            cold.cursors[2] = slot;
            match verdict {
                Verdict::Lost if end == last => slot = arena.next(slot),
                Verdict::Lost => {}
                Verdict::Wait(remaining) => {
                    wait = remaining;
                    break;
                }
                Verdict::Unknown => break,
            }
        }
        rack.judged = Some(judged);
        wait
    }

    /// RACK_mark_losses_on_RTO (§6.3): marks all that was not sent within the last round trip, and the first segment in any
    /// case.
    pub(crate) fn rack_timed_out(&mut self) {
        let (now_us, una, nxt) = (self.now_us(), self.tcb.snd_una(), self.tcb.snd_nxt());
        let (mss, srtt_us, arena) = (self.tcb.mss() as u32, self.tcb.srtt_us(), self.env.arena);
        let cold = self.shared.cold.demand(self.tcb);
        let rtt_us = if cold.rack.newest.is_some() { cold.rack.rtt_us } else { srtt_us };
        let is_old = |sent_at: u32| now_us.wrapping_sub(sent_at) >= rtt_us;
        let mut end = cold.rack.judged.unwrap_or(una);
        let mut slot = self.tcb.extent_at(arena, end, cold.cursors[2]);
        while slot.is_some() && end.before(nxt) {
            let note = arena.note(slot);
            let last = (SeqNum(note.sequence) + arena.queued_len(slot) as u32).earliest(nxt);
            let (sent_at, part_end) = cold.rack.xmit_times.time_of(end, note.sent_at, last);
            if !is_old(sent_at) {
                break;
            }
            end = part_end;
            slot = if end == last { arena.next(slot) } else { slot };
        }
        if end == self.tcb.snd_end() {
            // A FIN was sent with the last data or later; its time is not known.
            end = nxt;
        }
        let first_end = (una + mss).earliest(nxt);
        end = end.latest(first_end);
        let rack = &mut cold.rack;
        rack.again.retain(&mut |range| !is_old(range.value) && range.start != una);
        rack.lost.clear();
        cold.scoreboard.for_each_outside(una, end, &mut |start, end| {
            let Rack { again, lost, .. } = &mut *rack;
            again.for_each_outside(start, end, &mut |start, end| lost.add(start, end, ()));
        });
        rack.judged = Some(end);
    }

    /// Records the xmit time of the earlier part of the extent at `slot`, before the part at `sequence` is sent now.
    #[inline]
    pub(crate) fn note_part(&mut self, slot: Slot, sequence: SeqNum, now_us: u32) {
        let note = self.env.arena.note(slot);
        let first = SeqNum(note.sequence);
        if first != sequence && note.sent_at != now_us && self.uses_rack() {
            self.demand_cold().rack.xmit_times.split(first, sequence, note.sent_at);
        }
    }

    /// Handles the expiry of the reordering timer.
    pub(crate) fn on_reordering_timer(&mut self) {
        self.restart_rto();
        self.rack_detect_losses();
        self.model_losses();
        self.reduce_proportionally(0, SafeAck::No);
    }
}
