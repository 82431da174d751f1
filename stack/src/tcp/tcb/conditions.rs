//! What the prediction relies on: reading is free, and each change closes the prediction or clears its mark.

use crate::config::CongestionControl;

use super::{Tcb, flag};
use crate::tcp::ecn::EcnMode;
use crate::tcp::state::State;

impl Tcb {
    /// Returns true when any of the flags is set.
    #[inline]
    pub(crate) fn has(&self, flags: u16) -> bool {
        self.flags & flags != 0
    }

    /// Sets flags.
    #[inline(always)]
    pub(crate) fn set(&mut self, flags: u16) {
        self.change(self.flags | flags, flags);
    }

    /// Clears flags.
    #[inline(always)]
    pub(crate) fn clear(&mut self, flags: u16) {
        self.change(self.flags & !flags, flags);
    }

    /// Sets or clears flags.
    #[inline(always)]
    pub(crate) fn assign(&mut self, flags: u16, on: bool) {
        self.change(if on { self.flags | flags } else { self.flags & !flags }, flags);
    }

    /// Replaces the flags, of which only `flags` may have changed.
    #[inline(always)]
    fn change(&mut self, all: u16, flags: u16) {
        self.flags = all;
        if flags & flag::OF_PREDICTION != 0 {
            self.prediction.close();
        }
    }

    /// All flags.
    #[inline]
    pub(crate) fn flags(&self) -> u16 {
        self.flags
    }

    /// The connection's state.
    #[inline(always)]
    pub(crate) fn state(&self) -> State {
        self.state.get()
    }

    /// Changes the state.
    #[inline]
    pub(crate) fn set_state(&mut self, state: State) {
        ringway_probes::tcp_set_state(|| (self.key().ends(), self.state().linux(), state.linux()));
        self.state.set(state, &mut self.prediction);
    }

    /// Probes, of keepalive or of a zero window, without an answer.
    #[inline(always)]
    pub(crate) fn probes(&self) -> u8 {
        self.probes.get()
    }

    /// Sets the number of [`probes`](Tcb::probes).
    #[inline(always)]
    pub(crate) fn set_probes(&mut self, count: u8) {
        self.probes.set(count, &mut self.prediction);
    }

    /// Index in the cold pool or [`NONE`](crate::tcp::cold::NONE).
    #[inline(always)]
    pub(crate) fn cold(&self) -> u32 {
        self.cold.get()
    }

    /// Sets the index in the cold pool, for the pool.
    pub(crate) fn set_cold(&mut self, index: u32) {
        self.cold.set(index, &mut self.prediction);
    }

    /// Index of the statistics, or the counts before there are any: see `conn_stats`.
    #[inline(always)]
    pub(crate) fn stats(&self) -> u32 {
        self.stats.get()
    }

    /// Sets the word of the statistics, for `conn_stats`.
    pub(crate) fn set_stats(&mut self, word: u32) {
        self.stats.set(word, &mut self.prediction);
    }

    /// The congestion control.
    #[inline(always)]
    pub(crate) fn congestion(&self) -> CongestionControl {
        self.algorithm.get()
    }

    /// Sets the congestion control.
    pub(crate) fn set_congestion(&mut self, algorithm: CongestionControl) {
        self.algorithm.set(algorithm, &mut self.prediction);
    }

    /// The negotiated mode (in SYN-SENT: the one that our SYN asks for).
    #[inline]
    pub(crate) fn ecn_mode(&self) -> EcnMode {
        match self.error_and_timer >> 6 {
            0 => EcnMode::Off,
            1 => EcnMode::Classic,
            2 => EcnMode::Accurate,
            _ => EcnMode::AccurateUnmarked,
        }
    }

    /// Sets the mode: as negotiated, or restricted because of a path that garbles marks.
    pub(crate) fn set_ecn_mode(&mut self, mode: EcnMode) {
        self.prediction.unmark();
        self.error_and_timer = (self.error_and_timer & 0x3f) | ((mode as u8) << 6);
    }
}
