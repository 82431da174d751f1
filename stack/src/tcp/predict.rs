//! Header prediction: what nearly all segments are, told by one compare, and what they do, without the questions that
//! were answered when the word was computed.
//!
//! Read RFC 9293 §3.10.7.4, RFC 7323 appendix A and "An Analysis of TCP Processing Overhead" (Clark et al.) first. The word
//! at byte 12 of the header (data offset and flags) of the next segment is known while a connection is established and
//! nothing is unusual; it is 0 otherwise, which no segment has. There are two short ways: [`Connection::receive_plain`]
//! for packets of one frame with timestamps and no other option on connections that remember nothing unusual
//! ([`Connection::settle`]), and [`Connection::predicted`] for all others whose word is right. Both do what the long way in
//! `input` would do, in its order; what they cannot do they leave untouched.

use ringway_shm::{Frame, Note};

use crate::stats::Counter;
use crate::wire::tcp::{ACK, PSH, Timestamps};

use super::cold::Cold;
use super::connection::Connection;
use super::ecn::EcnMode;
use super::segment::{Segment, frame_memory};
use super::sequence::SeqNum;
use super::state::State;
use super::tcb::{Recovery, Tcb, flag};

/// Bytes of a header with timestamps and no other option.
pub(crate) const PLAIN_BYTES: usize = 32;
/// Bytes of its options.
const PLAIN_OPTIONS: u32 = 12;
/// The data offset of such a header.
pub(crate) const PLAIN_WORDS: u32 = 8;
/// RFC 7323 appendix A: how such a header pads its timestamps.
pub(crate) const TIMESTAMPS_LAYOUT: u32 = 0x0101_080a;

/// PSH in the word.
const PUSHED: u32 = (PSH as u32) << 16;

/// The header of a segment with timestamps and no other option, read where it lies and when it is needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain<'a> {
    bytes: &'a [u8; PLAIN_BYTES],
    /// As [`Segment::word`](super::segment::Segment), with PSH.
    word: u32,
}

impl Plain<'_> {
    /// The header at the start of `bytes`, if it is of this layout.
    #[inline(always)]
    pub(crate) fn parse(bytes: &[u8]) -> Option<Plain<'_>> {
        let bytes: &[u8; PLAIN_BYTES] = bytes.first_chunk()?;
        let plain = Plain { bytes, word: read(bytes, 12) & 0xffff_0000 };
        (read(bytes, 20) == TIMESTAMPS_LAYOUT && plain.word >> 28 == PLAIN_WORDS).then_some(plain)
    }

    /// Whether the word is what the connection expects.
    #[inline(always)]
    pub(crate) fn is_predicted(&self, tcb: &Tcb) -> bool {
        self.kind() == tcb.pred_word
    }

    /// The word without PSH.
    #[inline(always)]
    fn kind(&self) -> u32 {
        self.word & !PUSHED
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
fn read(bytes: &[u8; PLAIN_BYTES], at: usize) -> u32 {
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
        let (ace, option_words) = self.predicted_ace();
        let header_words = if self.tcb.has(flag::TIMESTAMPS) { 8 } else { 5 } + option_words;
        self.tcb.pred_word = if quiet { (header_words << 28) | ((ACK as u32) << 16) | ace } else { 0 };
    }

    /// A packet of one frame, not marked by ECN, is for this connection. It comes back, and nothing has happened, unless it is
    /// the next segment of a connection with nothing unusual.
    #[inline(always)]
    pub(crate) fn receive_plain(&mut self, mut frame: Frame) -> Result<(), Frame> {
        #[cfg(test)]
        if self.shared.long_way_only {
            return Err(frame);
        }
        let Some(plain) = Plain::parse(frame.bytes()) else { return Err(frame) };
        if !plain.is_predicted(self.tcb) || !self.settle() {
            return Err(frame);
        }
        let len = (frame.len() - PLAIN_BYTES) as u32;
        let tcb = &*self.tcb;
        let (sequence, acked) = (plain.sequence(), plain.acknowledgment() - tcb.snd_una);
        let expected = tcb.ecn_mode() == EcnMode::Off
            && sequence == tcb.rcv_nxt
            && acked <= tcb.flight()
            && len <= tcb.receive_window()
            && plain.time().value.wrapping_sub(tcb.ts_recent).cast_signed() >= 0
            && if len == 0 { acked != 0 } else { self.fits(frame_memory(&frame), true) };
        if !expected {
            return Err(frame);
        }
        let pushed = plain.is_pushed();
        self.tally_plain(len, acked, pushed);
        if sequence.at_or_before(self.tcb.last_ack_sent) {
            self.tcb.ts_recent = plain.time().value;
        }
        if acked != 0 {
            self.acknowledge_plain(&plain);
            if self.tcb.unsent() > 0 || self.tcb.has(flag::RETRANSMIT | flag::FIN_QUEUED) {
                self.apart().mark_data();
            }
        }
        self.update_window(plain.window(), sequence, acked != 0);
        if self.tcb.has_ledger || len >= u32::from(self.tcb.mss) {
            let time = plain.time();
            self.apart().measure_plain(acked, len, time);
        }
        if len != 0 {
            frame.pull(PLAIN_BYTES);
            self.append_frame(frame, Note { sequence: sequence.0, ..Note::default() });
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

    /// What is counted of a segment that brings `len` bytes in order, acknowledges `acked`, and is `pushed` or not.
    #[inline(always)]
    fn tally_plain(&mut self, len: u32, acked: u32, pushed: bool) {
        let tick = self.tick();
        let ends = acked == self.tcb.flight() && self.tcb.unsent() == 0;
        let tally = self.tally_arrival(1, len);
        if len != 0 {
            tally.measure_segment(len, PLAIN_OPTIONS, PLAIN_OPTIONS, pushed);
        }
        if ends && let Some(limited) = tally.clock.stop(tick) {
            self.apart().count_limited(limited);
        }
    }

    /// As [`acknowledge`](Connection::acknowledge) outside recovery when the connection has settled.
    #[inline(always)]
    fn acknowledge_plain(&mut self, plain: &Plain) {
        let ack = plain.acknowledgment();
        let acked = ack - self.tcb.snd_una;
        let was_nearly_full = self.tcb.is_nearly_full();
        let freed = self.tcb.free_plain(self.env.arena, ack);
        let rtt_us = self.measure_round_trip(freed.sent_at, Some(plain.time()));
        self.tcb.snd_una = ack;
        self.tcb.bytes_acked += u64::from(acked);
        if self.tcb.backoff != 0 {
            self.tcb.backoff = 0;
            self.apart().tally_answer();
        }
        self.tcb.snd_sml = self.tcb.snd_sml.latest(ack);
        self.grow_window(acked, acked, rtt_us);
        if self.tcb.flight() == 0 {
            self.tcb.clear(flag::PERSIST);
            self.tcb.rto_deadline = 0;
        } else {
            self.restart_rto_plain();
        }
        if was_nearly_full {
            self.apart().resume_writer();
        }
    }

    /// A segment that has acknowledged `acked` bytes and brought `len` in order: what those learn from it of whom there is
    /// more to tell.
    #[inline(never)]
    fn measure_plain(&mut self, acked: u32, len: u32, time: Timestamps) {
        if acked != 0 {
            self.sample_acknowledged();
        }
        if len != 0 {
            self.measure_arrival(Some(time), len);
        }
    }

    /// The next segment of an established connection, in order, with nothing unusual.
    #[inline]
    pub(crate) fn predicted(&mut self, segment: &mut Segment) -> bool {
        #[cfg(test)]
        if self.shared.long_way_only {
            return false;
        }
        let tcb = &*self.tcb;
        let ack = segment.acknowledgment();
        let expected = segment.word == tcb.pred_word
            && segment.sequence == tcb.rcv_nxt
            && ack - tcb.snd_una <= tcb.snd_nxt - tcb.snd_una
            && segment.len <= tcb.receive_window();
        if !expected || (segment.len == 0 && ack == tcb.snd_una) {
            return false;
        }
        if let Some(timestamps) = segment.header.options.timestamps {
            if (timestamps.value.wrapping_sub(tcb.ts_recent) as i32) < 0 {
                return false;
            }
            if segment.sequence.at_or_before(tcb.last_ack_sent) {
                self.tcb.ts_recent = timestamps.value;
            }
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
                self.heed_ace(segment, delivered);
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
