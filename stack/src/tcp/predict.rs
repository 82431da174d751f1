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

/// The header of a segment with timestamps and no other option.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain {
    /// As [`Segment::word`](super::segment::Segment), with PSH.
    word: u32,
    /// Remote and local, as one number.
    pub(crate) ports: u32,
    sequence: SeqNum,
    acknowledgment: SeqNum,
    window: u16,
    time: Timestamps,
}

impl Plain {
    /// The word without PSH.
    #[inline]
    fn kind(&self) -> u32 {
        self.word & !PUSHED
    }

    /// Whether the word is what the connection expects.
    #[inline]
    pub(crate) fn is_predicted(&self, tcb: &Tcb) -> bool {
        self.kind() == tcb.pred_word
    }

    /// The header at the start of `bytes`, if it is of this layout.
    #[inline]
    pub(crate) fn parse(bytes: &[u8]) -> Option<Plain> {
        let fixed: &[u8; PLAIN_BYTES] = bytes.first_chunk()?;
        let read = |at: usize| u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
        let word = read(12);
        if read(20) != TIMESTAMPS_LAYOUT || word >> 28 != PLAIN_WORDS {
            return None;
        }
        Some(Plain {
            word: word & 0xffff_0000,
            ports: read(0),
            sequence: SeqNum(read(4)),
            acknowledgment: SeqNum(read(8)),
            window: word as u16,
            time: Timestamps { value: read(24), echo: read(28) },
        })
    }
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

    /// A packet of one frame that starts at the TCP header `plain`, not marked by ECN and with the predicted word, is for
    /// this connection. It comes back, and nothing has happened, unless it is the next segment of a connection with nothing unusual.
    #[inline(always)]
    pub(crate) fn receive_plain(&mut self, plain: &Plain, mut frame: Frame) -> Result<(), Frame> {
        #[cfg(test)]
        if self.shared.long_way_only {
            return Err(frame);
        }
        if !self.settle() {
            return Err(frame);
        }
        let len = (frame.len() - PLAIN_BYTES) as u32;
        let tcb = &*self.tcb;
        let ack = plain.acknowledgment;
        let acked = ack - tcb.snd_una;
        let expected = tcb.ecn_mode() == EcnMode::Off
            && plain.sequence == tcb.rcv_nxt
            && acked <= tcb.flight()
            && len <= tcb.receive_window()
            && plain.time.value.wrapping_sub(tcb.ts_recent).cast_signed() >= 0
            && if len == 0 { acked != 0 } else { self.fits(frame_memory(&frame), true) };
        if !expected {
            return Err(frame);
        }
        let tally = self.tally_arrival(1, len);
        let has_ledger = tally.has_ledger();
        if len != 0 {
            tally.measure_segment(len, PLAIN_OPTIONS, PLAIN_OPTIONS, plain.word & PUSHED != 0);
        }
        if plain.sequence.at_or_before(self.tcb.last_ack_sent) {
            self.tcb.ts_recent = plain.time.value;
        }
        if acked != 0 {
            self.acknowledge_plain(ack, acked, plain.time);
            if self.tcb.unsent() > 0 || self.tcb.has(flag::RETRANSMIT | flag::FIN_QUEUED) {
                self.mark_data();
            }
        }
        self.update_window(plain.window, plain.sequence, acked != 0);
        if len != 0 {
            frame.pull(PLAIN_BYTES);
            self.append_frame(frame, Note { sequence: plain.sequence.0, ..Note::default() });
            self.received_in_order(len);
            self.ack_soon(plain.word & PUSHED != 0);
            self.signal();
        } else {
            self.env.counters.count(Counter::TcpPureAcks);
        }
        if has_ledger {
            self.measure_plain(acked, len, plain.time);
        }
        self.tcb.last_received = self.tick().max(1);
        self.env.counters.count(Counter::TcpHpHits);
        #[cfg(test)]
        {
            self.shared.shortest += 1;
        }
        Ok(())
    }

    /// As [`acknowledge`](Connection::acknowledge) outside recovery when the connection has settled: `acked` bytes.
    #[inline(always)]
    fn acknowledge_plain(&mut self, ack: SeqNum, acked: u32, time: Timestamps) {
        let before_space = self.tcb.send_space();
        let freed = self.tcb.free_plain(self.env.arena, ack);
        let rtt_us = self.measure_round_trip(freed.sent_at, Some(time));
        self.tcb.snd_una = ack;
        self.tcb.bytes_acked += u64::from(acked);
        if self.tcb.backoff != 0 {
            self.tcb.backoff = 0;
            self.tally_answer();
        }
        self.tcb.snd_sml = self.tcb.snd_sml.latest(ack);
        self.grow_window(acked, acked, rtt_us);
        if self.tcb.flight() == 0 {
            self.tcb.clear(flag::PERSIST);
            self.tcb.rto_deadline = 0;
        } else {
            self.restart_rto_plain();
        }
        if self.tcb.flight() + self.tcb.unsent() == 0 {
            self.stop_clock();
        }
        if before_space < self.tcb.send_buffer as usize / 3 {
            self.resume_writer();
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
