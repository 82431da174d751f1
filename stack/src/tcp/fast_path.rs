//! Header prediction: one comparison recognizes nearly all segments, and their processing skips the checks that were made
//! when the word was computed.
//!
//! Read RFC 9293 §3.10.7.4, RFC 7323 appendix A and "An Analysis of TCP Processing Overhead" (Clark et al.) first. The word
//! at byte 12 of the header (data offset and flags) of the next segment is known while a connection is established and
//! nothing is unusual; otherwise it is 0, which no segment has. The fast path takes packets of one frame with timestamps and no
//! other option, on connections without unusual state ([`Connection::settle`]). It decides whether a segment needs no further
//! check, and calls the same functions as the slow path in `input`, in the same order. It leaves other segments untouched.
//!
//! This fast path and the one out, `fast_send`, check one more mark in the same word, [`FAST_PATH`], for the rest of the state.
//!
//! The compiler keeps the promise. Only this file opens a [`Prediction`]. The control block keeps what a prediction relies on in
//! [`WordCondition`] and [`MarkCondition`], which change only together with the prediction. The flags and the bits that count
//! (`tcb`) have setters that close it. What a cold object holds is looked at for each segment, as there is no mark then.

use ringway_shm::{Frame, Note};

use crate::stats::Counter;
use crate::wire::tcp::timestamped::{self, Received};
use crate::wire::tcp::{ACK, PSH, TIMESTAMPS_BYTES};

use super::acknowledged::Una;
use super::cold::{self, Cold};
use super::connection::Connection;
use super::ecn::EcnMode;
use super::receive_queue::Order;
use super::segment::frame_memory;
use super::state::State;
use super::tcb::{Recovery, flag};

/// Size of the options, bytes.
const FAST_OPTIONS: u32 = TIMESTAMPS_BYTES as u32;

/// Bit of the predicted word, in the place of the window: timestamps are on, ECN is off, nothing paces, there is no cold
/// object, and there are statistics. A change of one of these clears the mark; [`Connection::may_become_fast`] sets it again.
const FAST_PATH: u32 = 1;

/// PSH in the word.
const PUSHED: u32 = (PSH as u32) << 16;

/// The word at byte 12 of the next header, with [`FAST_PATH`] in the place of the window; 0: the slow path takes every
/// segment.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct Prediction(u32);

impl Prediction {
    /// No segment has this word.
    pub(super) const CLOSED: Prediction = Prediction(0);

    /// Sends the next segments to the slow path, until [`Connection::predict`] opens the word again.
    #[inline(always)]
    pub(super) fn close(&mut self) {
        self.0 = 0;
    }

    /// Clears the mark.
    #[inline(always)]
    pub(super) fn unmark(&mut self) {
        self.0 &= !FAST_PATH;
    }

    /// Returns true when no segment has the word.
    #[inline(always)]
    pub(super) fn is_closed(self) -> bool {
        self.0 == 0
    }

    /// Returns true with the mark.
    #[inline(always)]
    pub(super) fn is_marked(self) -> bool {
        self.0 & FAST_PATH != 0
    }

    /// Returns true when the word is that of a header with timestamps and no other option.
    #[inline(always)]
    pub(super) fn is_timestamped(self) -> bool {
        self.0 >> 28 == timestamped::WORDS
    }
}

/// A value that the predicted word relies on: a change closes it.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct WordCondition<T>(T);

impl<T: Copy + PartialEq> WordCondition<T> {
    pub(super) const fn new(value: T) -> WordCondition<T> {
        WordCondition(value)
    }

    #[inline(always)]
    pub(super) fn get(&self) -> T {
        self.0
    }

    #[inline(always)]
    pub(super) fn set(&mut self, value: T, prediction: &mut Prediction) {
        if self.0 != value {
            self.0 = value;
            prediction.close();
        }
    }
}

/// A value that the mark relies on and the rest of the word does not: a change clears the mark.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct MarkCondition<T>(T);

impl<T: Copy> MarkCondition<T> {
    pub(super) const fn new(value: T) -> MarkCondition<T> {
        MarkCondition(value)
    }

    #[inline(always)]
    pub(super) fn get(&self) -> T {
        self.0
    }

    #[inline(always)]
    pub(super) fn set(&mut self, value: T, prediction: &mut Prediction) {
        self.0 = value;
        prediction.unmark();
    }
}

#[inline(always)]
fn is_pushed(header: &Received) -> bool {
    header.word & PUSHED != 0
}

/// The word that a connection in the usual state expects of such a header.
#[inline(always)]
fn expected_word(header: &Received) -> u32 {
    header.word & !PUSHED | FAST_PATH
}

impl Connection<'_, '_> {
    /// Computes the header-prediction word; 0 when anything is unusual.
    pub(crate) fn predict(&mut self) {
        let quiet = self.tcb.state() == State::Established
            && self.tcb.recovery() == Recovery::Open
            && self.tcb.dup_acks() == 0
            && self.tcb.probes() == 0
            && !self.tcb.has(flag::ORPHAN)
            && self.shared.cold.get(self.tcb.cold()).is_none_or(Cold::is_undisturbed);
        if !quiet {
            self.tcb.prediction.close();
            return;
        }
        let header_words = if self.tcb.has(flag::TIMESTAMPS) { timestamped::WORDS } else { 5 };
        self.tcb.prediction = Prediction((header_words << 28) | ((ACK as u32) << 16));
        self.mark_fast();
    }

    /// Sets the mark in the predicted word if nothing else needs a check.
    fn mark_fast(&mut self) {
        if self.tcb.prediction.is_timestamped() && self.is_fast() {
            self.tcb.prediction.0 |= FAST_PATH;
        }
    }

    /// The conditions of [`FAST_PATH`] besides the rest of the word.
    pub(crate) fn is_fast(&self) -> bool {
        let tcb = &*self.tcb;
        tcb.has(flag::TIMESTAMPS)
            && tcb.ecn_mode() == EcnMode::Off
            && tcb.cold() == cold::NONE
            && self.pacing_rate().is_none()
            && tcb.has_stats()
    }

    /// Returns true when the fast path may be taken though the mark is missing: the cold object has nothing against
    /// it.
    #[inline(never)]
    fn may_become_fast(&mut self) -> bool {
        let is_open = self.tcb.ecn_mode() == EcnMode::Off && self.settle();
        if is_open {
            self.stats();
            self.mark_fast();
        }
        is_open
    }

    /// Takes a packet of one frame, without an ECN mark, for this connection. Returns it untouched unless it is the next
    /// segment of a connection with nothing unusual.
    #[inline(always)]
    pub(crate) fn receive_fast(&mut self, mut frame: Frame) -> Result<(), Frame> {
        #[cfg(test)]
        if self.shared.long_way_only {
            return Err(frame);
        }
        let Some(header) = Received::parse(frame.bytes()) else { return Err(frame) };
        let (word, expected) = (expected_word(&header), self.tcb.prediction.0);
        if word != expected && (word != expected | FAST_PATH || !self.reborrow().may_become_fast()) {
            return Err(frame);
        }
        debug_assert!(!self.tcb.prediction.is_marked() || self.is_fast(), "a change of a condition of the mark clears it");
        let (len, memory) = ((frame.len() - timestamped::BYTES) as u32, frame_memory(&frame));
        let acked = header.acknowledgment() - self.tcb.snd_una();
        if !self.is_expected(&header, acked, len, memory) {
            return Err(frame);
        }
        self.note_fast(len, is_pushed(&header));
        self.tcb.remember_time(header.sequence(), header.time().value);
        if acked == 0 {
            self.update_window(header.window(), header.sequence(), Una::Unchanged);
        } else {
            self.acknowledge_in_order(acked, header.time());
            self.update_window(header.window(), header.sequence(), Una::Advanced);
        }
        if len == 0 {
            self.env.counters.count(Counter::TcpPureAcks);
        } else {
            let (echo, pushed, sequence) = (header.time().echo, is_pushed(&header), header.sequence());
            frame.pull(timestamped::BYTES);
            self.append_frame(frame, memory, Note { sequence: sequence.0, ..Note::default() });
            self.received_in_order(len);
            self.deliver(len, Some(echo), pushed);
        }
        self.tcb.segment_arrived(self.tick());
        self.env.counters.count(Counter::TcpHpHits);
        #[cfg(test)]
        {
            self.shared.fast_segments += 1;
        }
        Ok(())
    }

    /// Returns true when the segment with this header, which acknowledges `acked` bytes and brings `len` in this much memory,
    /// passes all checks of the slow path: it is the next in order, its ACK is valid and its timestamp current, and it brings
    /// data that fits or a new ACK.
    #[inline(always)]
    fn is_expected(&self, header: &Received, acked: u32, len: u32, memory: u32) -> bool {
        let tcb = &*self.tcb;
        header.sequence() == tcb.rcv_nxt()
            && acked <= tcb.flight()
            && len <= tcb.receive_window()
            && !tcb.is_time_old(header.time().value)
            && if len == 0 { acked != 0 } else { self.fits(memory, Order::InOrder) }
    }

    /// Counts a segment that brings `len` bytes in order, `pushed` or not.
    #[inline(always)]
    fn note_fast(&mut self, len: u32, pushed: bool) {
        let tick = self.tick();
        let stats = self.known_stats();
        stats.arrived(1, len, tick);
        if len != 0 {
            stats.measure_segment(len, FAST_OPTIONS, FAST_OPTIONS, pushed);
        }
    }
}

#[cfg(test)]
mod tests;
