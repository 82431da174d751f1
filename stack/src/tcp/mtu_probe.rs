//! Packetization-layer path MTU discovery: the path's packet size limit, found without ICMP.
//!
//! Read RFC 4821 §7 and RFC 8899 §5 first; like Linux's tcp_mtu_probing. After [`SUSPECT_AFTER`] timeouts in a row the path
//! may drop large segments (a black hole): the segment size falls to the base, and to half of it with each further timeout.
//! From there single larger segments of real data search the size between what has passed and what has not. A probe that is
//! lost alone indicates no congestion: the window reduction for its loss is undone. Sizes are payload bytes of a full
//! segment.

use crate::config::MtuProbing;
use crate::stats::Counter;

use super::connection::Connection;
use super::output::Plan;
use super::retransmit::SUSPECT_AFTER;
use super::tcb::Recovery;
use crate::wire::sequence::SeqNum;

/// The search ends when the sizes are this close; Linux: tcp_probe_threshold.
const CLOSE_ENOUGH: u16 = 8;
/// Smallest size assumed of a path; Linux: tcp_mtu_probe_floor.
const FLOOR: u16 = 48;
/// Segments that the window must hold for a lone loss to be repaired without a timeout (RFC 4821 §7.2).
const WINDOW_SEGMENTS_MIN: u32 = 11;

/// Search state for the segment size that the path passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MtuProbe {
    /// The size that passes and the largest that may; `None`: no search.
    search: Option<(u16, u16)>,
    /// The probe in flight: its start and its size.
    under_way: Option<(SeqNum, u16)>,
    /// Size of the probe that began this episode of recovery by its loss.
    failed: Option<u16>,
}

impl MtuProbe {
    /// Returns true when dropping it loses nothing.
    pub(crate) fn is_quiet(&self) -> bool {
        *self == MtuProbe::default()
    }

    /// The size to try next.
    fn next_size(&self) -> Option<u16> {
        let (low, high) = self.search?;
        let idle = self.under_way.is_none() && self.failed.is_none();
        (idle && high - low >= CLOSE_ENOUGH).then(|| low + (high - low).div_ceil(2))
    }

    /// Notes that everything before `una` has arrived; returns the size that has passed.
    fn acknowledge(&mut self, una: SeqNum) -> Option<u16> {
        let (start, size) = self.under_way?;
        if una.before(start + u32::from(size)) {
            return None;
        }
        self.under_way = None;
        let (_, high) = self.search?;
        self.search = Some((size, high));
        Some(size)
    }

    /// Notes that the segment at `una` is lost. Returns true when it was the probe.
    fn lose(&mut self, una: SeqNum) -> bool {
        let Some((_, size)) = self.under_way.take_if(|(start, _)| *start == una) else { return false };
        self.search = self.search.map(|(low, _)| (low, size - 1));
        self.failed = Some(size);
        true
    }
}

impl Connection<'_, '_> {
    /// Starts the search on a new connection if that is configured.
    pub(crate) fn begin_mtu_search(&mut self) {
        if self.shared.config.mtu_probing == MtuProbing::Always {
            self.search_from(self.shared.config.mtu_base_mss);
        }
    }

    /// Handles a retransmission timeout, one of `backoff` in a row (RFC 4821 §7.7).
    pub(crate) fn mtu_timed_out(&mut self) {
        let una = self.tcb.snd_una();
        if let Some(cold) = self.cold() {
            cold.mtu_probe.lose(una);
            cold.mtu_probe.failed = None;
        }
        if self.tcb.backoff() < SUSPECT_AFTER || self.shared.config.mtu_probing == MtuProbing::Off {
            return;
        }
        let base = self.shared.config.mtu_base_mss;
        let known = self.shared.cold.get(self.tcb.cold()).and_then(|cold| cold.mtu_probe.search);
        self.search_from(known.map_or(base, |(low, _)| (low / 2).min(base)));
    }

    /// Limits segments to `size` from now on and searches above it.
    fn search_from(&mut self, size: u16) {
        let low = size.max(FLOOR).min(self.tcb.mss());
        let mss = self.tcb.mss();
        let probe = &mut self.demand_cold().mtu_probe;
        let high = probe.search.map_or(mss, |(_, high)| high).max(low);
        *probe = MtuProbe { search: Some((low, high)), ..MtuProbe::default() };
        self.tcb.set_mss(low);
    }

    /// Limits the search to the size that a router has reported.
    pub(crate) fn mtu_search_ends_at(&mut self, mss: u16) {
        if let Some(probe) = self.cold().map(|cold| &mut cold.mtu_probe) {
            probe.search = probe.search.map(|(low, high)| (low.min(mss), high.min(mss)));
            probe.under_way = None;
        }
    }

    /// Plans a probe instead of the next segments, when one is due and its loss would be noticed soon (RFC 4821 §7.2-7.4).
    pub(crate) fn plan_mtu_probe(&mut self, pipe: u32) -> Option<Plan> {
        let cold = self.shared.cold.get(self.tcb.cold())?;
        let size = u32::from(cold.mtu_probe.next_size()?);
        let tcb = &*self.tcb;
        let mss = u32::from(tcb.mss());
        let quiet = tcb.recovery() == Recovery::Open && tcb.dup_acks() == 0 && cold.is_undisturbed();
        let room = tcb.cwnd().saturating_sub(pipe).min(tcb.snd_wnd().saturating_sub(tcb.flight()));
        // Three segments behind it show at once whether it has arrived.
        let noticed = tcb.unsent() >= size + 3 * mss && room >= size && tcb.cwnd() >= WINDOW_SEGMENTS_MIN * mss;
        if !(quiet && noticed) {
            return None;
        }
        let sequence = tcb.snd_nxt();
        self.demand_cold().mtu_probe.under_way = Some((sequence, size as u16));
        Some(Plan { sequence, len: size, fin: false, again: false, probe: false, segment: size })
    }

    /// Handles progress of SND.UNA.
    #[inline]
    pub(crate) fn mtu_acknowledged(&mut self, una: SeqNum) {
        let Some(cold) = self.shared.cold.get_mut(self.tcb.cold()) else { return };
        if let Some(size) = cold.mtu_probe.acknowledge(una) {
            self.tcb.set_mss(size);
            // A loss may have left less than a segment of this size, which would never be sent (RFC 5681 §3.1: two at
            // least).
            let least = 2 * u32::from(size);
            self.tcb.set_cwnd(self.tcb.cwnd().max(least));
            self.tcb.set_ssthresh(self.tcb.ssthresh().max(least));
            self.env.counters.count(Counter::TcpMtupSuccess);
        }
    }

    /// Handles the start of fast recovery: the probe may be what is lost.
    pub(crate) fn mtu_lost(&mut self) {
        let una = self.tcb.snd_una();
        if self.cold().is_some_and(|cold| cold.mtu_probe.lose(una)) {
            self.env.counters.count(Counter::TcpMtupFail);
        }
    }

    /// Handles the end of fast recovery. If only the probe was lost, the window is restored (RFC 4821 §7.6.2).
    pub(crate) fn mtu_recovered(&mut self) {
        let Some(cold) = self.cold() else { return };
        if let Some(size) = cold.mtu_probe.failed.take()
            && cold.undo.is_some_and(|undo| undo.sent_again() <= u32::from(size))
        {
            self.undo(Counter::TcpMtupUndo);
        }
    }
}

impl MtuProbe {
    /// Returns true when it may try segments larger than `largest`.
    pub(crate) fn exceeds(&self, largest: u16) -> bool {
        self.search.is_some_and(|(_, high)| high > largest)
    }

    /// Returns true when every size has a meaning.
    pub(crate) fn is_sound(&self) -> bool {
        let ordered = self.search.is_none_or(|(low, high)| 0 < low && low <= high);
        let is_between = |size| self.search.is_some_and(|(low, high)| low < size && size <= high);
        ordered && self.under_way.is_none_or(|(_, size)| is_between(size))
    }
}

super::handover::part::parts!(MtuProbe { search, under_way, failed });
