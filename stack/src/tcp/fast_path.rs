//! Header prediction: one comparison recognizes nearly all segments, and their processing skips the checks that were made
//! when the word was computed.
//!
//! Read RFC 9293 §3.10.7.4, RFC 7323 appendix A and "An Analysis of TCP Processing Overhead" (Clark et al.) first. The word
//! at byte 12 of the header (data offset and flags) of the next segment is known while a connection is established and
//! nothing is unusual; otherwise it is 0, which no segment has. There are two fast paths: [`Connection::receive_fast`] for
//! packets of one frame with timestamps and no other option on connections without unusual state ([`Connection::settle`]),
//! and [`Connection::predicted`] for all others with a matching word. Both do the same as the slow path in `input`, in its
//! order; segments that they cannot process they leave untouched.
//!
//! The shortest fast paths, this one and `small`, check one more mark in the same word, [`FAST_PATH`], for the rest of the
//! state.

use ringway_shm::{Frame, Note};

use crate::stats::Counter;
use crate::wire::tcp::{ACK, PSH, Timestamps};

use super::cold::{self, Cold};
use super::connection::Connection;
use super::ecn::EcnMode;
use super::segment::{Segment, frame_memory};
use super::sequence::SeqNum;
use super::state::State;
use super::tcb::{Recovery, flag};

/// Size of a header with timestamps and no other option, bytes.
pub(crate) const FAST_BYTES: usize = 32;
/// Size of its options, bytes.
const FAST_OPTIONS: u32 = 12;
/// The data offset of such a header.
pub(crate) const FAST_WORDS: u32 = 8;
/// RFC 7323 appendix A: padding of the timestamps in such a header.
pub(crate) const TIMESTAMPS_LAYOUT: u32 = 0x0101_080a;

/// Bit of the predicted word, in the place of the window: timestamps are on, ECN is off, nothing paces, and there is no cold
/// object. Code that changes one of these clears the mark; [`Connection::may_become_fast`] sets it again.
pub(crate) const FAST_PATH: u32 = 1;

/// PSH in the word.
const PUSHED: u32 = (PSH as u32) << 16;

/// The header of a segment with timestamps and no other option, read in place when needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FastHeader<'a> {
    bytes: &'a [u8; FAST_BYTES],
    /// Same as [`Segment::word`](super::segment::Segment), with PSH.
    word: u32,
}

impl FastHeader<'_> {
    /// The header at the start of `bytes`, if it has this layout.
    #[inline(always)]
    pub(crate) fn parse(bytes: &[u8]) -> Option<FastHeader<'_>> {
        let bytes: &[u8; FAST_BYTES] = bytes.first_chunk()?;
        let plain = FastHeader { bytes, word: read(bytes, 12) & 0xffff_0000 };
        (read(bytes, 20) == TIMESTAMPS_LAYOUT && plain.word >> 28 == FAST_WORDS).then_some(plain)
    }

    /// The word that a connection in the plain state expects of such a header.
    #[inline(always)]
    fn kind(&self) -> u32 {
        self.word & !PUSHED | FAST_PATH
    }

    #[inline(always)]
    fn is_pushed(&self) -> bool {
        self.word & PUSHED != 0
    }

    #[inline(always)]
    fn sequence(&self) -> SeqNum {
        SeqNum(read(self.bytes, 4))
    }

    #[inline(always)]
    fn acknowledgment(&self) -> SeqNum {
        SeqNum(read(self.bytes, 8))
    }

    #[inline(always)]
    fn window(&self) -> u16 {
        read(self.bytes, 12) as u16
    }

    #[inline(always)]
    fn time(&self) -> Timestamps {
        Timestamps { value: read(self.bytes, 24), echo: read(self.bytes, 28) }
    }
}

/// The word at byte `at`.
#[inline(always)]
fn read(bytes: &[u8; FAST_BYTES], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl Connection<'_, '_> {
    /// Computes the header-prediction word; 0 when anything is unusual.
    pub(crate) fn predict(&mut self) {
        let quiet = self.tcb.state == State::Established
            && self.tcb.recovery == Recovery::Open
            && self.tcb.dup_acks == 0
            && !self.tcb.has(flag::ORPHAN)
            && self.shared.cold.get(self.tcb.cold).is_none_or(Cold::is_undisturbed);
        if !quiet {
            self.tcb.pred_word = 0;
            return;
        }
        let (ace, option_words) = self.predicted_ace();
        let header_words = if self.tcb.has(flag::TIMESTAMPS) { 8 } else { 5 } + option_words;
        self.tcb.pred_word = (header_words << 28) | ((ACK as u32) << 16) | ace;
        self.mark_fast();
    }

    /// Sets the mark in the predicted word if nothing else needs a check.
    fn mark_fast(&mut self) {
        if self.tcb.pred_word >> 28 == FAST_WORDS && self.is_fast() {
            self.tcb.pred_word |= FAST_PATH;
        }
    }

    /// The conditions of [`FAST_PATH`] besides the rest of the word.
    pub(crate) fn is_fast(&self) -> bool {
        let tcb = &*self.tcb;
        tcb.has(flag::TIMESTAMPS)
            && tcb.ecn_mode() == EcnMode::Off
            && tcb.cold == cold::NONE
            && self.pacing_rate().is_none()
            && tcb.has_stats()
    }

    /// Returns true when the shortest fast path may be taken though the mark is missing: the cold object has nothing against
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
        let Some(plain) = FastHeader::parse(frame.bytes()) else { return Err(frame) };
        let expected = self.tcb.pred_word;
        if plain.kind() != expected && (plain.kind() != expected | FAST_PATH || !self.reborrow().may_become_fast()) {
            return Err(frame);
        }
        debug_assert!(
            self.tcb.pred_word & FAST_PATH == 0 || self.is_fast(),
            "code that changes a condition of the mark clears it"
        );
        let len = (frame.len() - FAST_BYTES) as u32;
        let tcb = &*self.tcb;
        let (sequence, acked, memory) = (plain.sequence(), plain.acknowledgment() - tcb.snd_una, frame_memory(&frame));
        let expected = sequence == tcb.rcv_nxt
            && acked <= tcb.flight()
            && len <= tcb.receive_window()
            && !tcb.is_time_old(plain.time().value)
            && if len == 0 { acked != 0 } else { self.fits(memory, true) };
        if !expected {
            return Err(frame);
        }
        let pushed = plain.is_pushed();
        // True when all that was sent is acknowledged, and nothing waits.
        let ends = acked == self.tcb.flight() && self.tcb.unsent() == 0;
        self.count_fast(len, ends, pushed);
        self.tcb.remember_time(sequence, plain.time().value);
        if acked != 0 {
            self.acknowledge_fast(&plain, ends);
            self.update_window(plain.window(), sequence, true);
        } else {
            self.update_window(plain.window(), sequence, false);
        }
        if self.tcb.has_rare_stats || len >= u32::from(self.tcb.mss) {
            let time = plain.time();
            self.reborrow().measure_fast(acked, len, time);
        }
        if len != 0 {
            frame.pull(FAST_BYTES);
            self.append_measured(frame, memory, Note { sequence: sequence.0, ..Note::default() });
            self.received_in_order(len);
            self.ack_soon(pushed);
            self.signal();
        } else {
            self.env.counters.count(Counter::TcpPureAcks);
        }
        self.tcb.last_received = self.tick().max(1);
        self.env.counters.count(Counter::TcpHpHits);
        #[cfg(test)]
        {
            self.shared.shortest += 1;
        }
        Ok(())
    }

    /// Counts a segment that brings `len` bytes in order, `pushed` or not; `ends` says that nothing is left to be sent or
    /// acknowledged.
    #[inline(always)]
    fn count_fast(&mut self, len: u32, ends: bool, pushed: bool) {
        let tick = self.tick();
        let stats = self.known_stats();
        stats.arrived(1, len, tick);
        if len != 0 {
            stats.measure_segment(len, FAST_OPTIONS, FAST_OPTIONS, pushed);
        }
        if ends && let Some(limited) = stats.clock.stop(tick) {
            self.reborrow().count_limited(limited);
        }
    }

    /// Like [`acknowledge`](Connection::acknowledge) outside recovery, on a settled connection; `ends` says that nothing is
    /// left to be sent or acknowledged.
    #[inline(always)]
    fn acknowledge_fast(&mut self, plain: &FastHeader, ends: bool) {
        if self.tcb.is_nearly_full() {
            return self.reborrow().acknowledge_nearly_full(plain, ends);
        }
        self.take_acknowledgment(plain, ends);
    }

    /// Like [`acknowledge_fast`](Connection::acknowledge_fast), with a nearly full send buffer.
    #[inline(never)]
    fn acknowledge_nearly_full(&mut self, plain: &FastHeader, ends: bool) {
        self.take_acknowledgment(plain, ends);
        self.resume_writer();
    }

    #[inline(always)]
    fn take_acknowledgment(&mut self, plain: &FastHeader, ends: bool) {
        let ack = plain.acknowledgment();
        let acked = ack - self.tcb.snd_una;
        let freed = self.tcb.free_fast(self.env.arena, ack);
        let rtt_us = self.measure_round_trip(freed.sent_at, Some(plain.time()));
        self.advance(ack, acked);
        self.grow_window(acked, acked, rtt_us);
        if ends && !self.tcb.has(flag::RETRANSMIT | flag::FIN_QUEUED | flag::PERSIST) {
            self.tcb.rto_deadline = 0;
        } else {
            self.go_on_sending();
        }
    }

    /// Restarts the timer for data in flight, and queues the connection when more may be sent.
    #[inline(always)]
    fn go_on_sending(&mut self) {
        if self.tcb.flight() == 0 {
            self.tcb.clear(flag::PERSIST);
            self.tcb.rto_deadline = 0;
        } else {
            self.restart_rto_fast();
        }
        if self.tcb.unsent() > 0 || self.tcb.has(flag::RETRANSMIT | flag::FIN_QUEUED) {
            self.reborrow().mark_data();
        }
    }

    /// Measures a segment that has acknowledged `acked` bytes and brought `len` in order, for connections with more
    /// statistics.
    #[inline(never)]
    fn measure_fast(&mut self, acked: u32, len: u32, time: Timestamps) {
        if acked != 0 {
            self.sample_acknowledged();
        }
        if len != 0 {
            self.measure_arrival(Some(time), len);
        }
    }

    /// Takes a segment that is the next of an established connection, in order, with nothing unusual.
    #[inline]
    pub(crate) fn predicted(&mut self, segment: &mut Segment) -> bool {
        #[cfg(test)]
        if self.shared.long_way_only {
            return false;
        }
        let tcb = &*self.tcb;
        let ack = segment.acknowledgment();
        let expected = segment.word == tcb.pred_word & !FAST_PATH
            && segment.sequence == tcb.rcv_nxt
            && ack - tcb.snd_una <= tcb.snd_nxt - tcb.snd_una
            && segment.len <= tcb.receive_window();
        if !expected || (segment.len == 0 && ack == tcb.snd_una) {
            return false;
        }
        if let Some(timestamps) = segment.header.options.timestamps {
            if tcb.is_time_old(timestamps.value) {
                return false;
            }
            self.tcb.remember_time(segment.sequence, timestamps.value);
        } else if tcb.has(flag::TIMESTAMPS) {
            return false;
        }
        if segment.len > 0 && !self.has_receive_room(segment.memory, true) {
            return false;
        }
        let advanced = ack.after(self.tcb.snd_una);
        if advanced {
            self.count_marked(segment);
            let delivered = ack - self.tcb.snd_una;
            self.acknowledge(ack, segment);
            if self.tcb.is_accurate() {
                self.on_ace(segment, delivered);
            }
            self.model_acknowledged();
            self.mark_data_if_any();
        }
        self.update_window(segment.header.window, segment.sequence, advanced);
        if segment.ecn != 0 {
            self.count_arrival(segment, segment.len);
        }
        if segment.len > 0 {
            let (frames, len) = (core::mem::take(&mut segment.payload), core::mem::take(&mut segment.len));
            self.append_in_order(frames, len, false);
            self.measure_arrival(segment.header.options.timestamps, len);
            self.ack_soon(segment.header.flags & PSH != 0);
            self.signal();
        } else {
            self.env.counters.count(Counter::TcpPureAcks);
        }
        self.tcb.last_received = self.tick().max(1);
        true
    }
}

#[cfg(test)]
mod tests;
