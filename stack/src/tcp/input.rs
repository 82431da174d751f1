//! Processing of a segment that arrives for a connection. Read RFC 9293 §3.10.7.3-3.10.7.4 first: the steps are the RFC's,
//! in its order. Header prediction (`predict`) runs before them: one comparison that covers every unusual condition.
//!
//! Input changes state, moves payload into queues and marks work for transmission; it writes nothing.

use ringway_shm::FrameQueue;

use crate::event::SocketError;
use crate::stats::Counter;
use crate::wire::tcp::{ACK, FIN, PSH, RST, SYN};

use super::acknowledged::Una;
use super::connection::Connection;
use super::reassembly::Insertion;
use super::receive_queue::Order;
use super::segment::Segment;
use super::state::State;
use super::tcb::{Recovery, flag};
use crate::wire::sequence::SeqNum;

/// RFC 7323 §5.5: TS.Recent is invalid after 24 days without a segment.
const TIMESTAMP_LIFETIME_MS: u32 = 24 * 24 * 3_600 * 1_000;

/// Reason for dropping a segment; the reasons are counters.
pub(crate) type Drop = Counter;

impl Connection<'_, '_> {
    /// Processes a segment of this connection. Payload that is left in it afterwards belongs to the caller.
    pub(crate) fn receive(&mut self, segment: &mut Segment) {
        self.note_arrival(segment.packets.into(), segment.len);
        if self.tcb.cold() != super::cold::NONE {
            self.take_peers_clock(&mut segment.header);
        }
        if segment.len > 0 {
            self.measure_receive_mss(&segment.header, segment.packet_len.into());
        }
        let result = match self.tcb.state() {
            State::SynSent => self.on_segment_in_syn_sent(segment),
            State::Closed | State::Listen | State::TimeWait => Err(Drop::DropNoSocket),
            _ => self.on_segment(segment),
        };
        match result {
            Ok(()) => {}
            Err(reason) => self.env.counters.count(reason),
        }
        self.tcb.segment_arrived(self.tick());
        self.arm();
    }

    /// RFC 9293 §3.10.7.4: a segment arrives in SYN-RECEIVED or a synchronized state.
    fn on_segment(&mut self, segment: &mut Segment) -> Result<(), Drop> {
        if self.is_early_syn_again(segment) {
            self.remember_syn(segment);
            self.ack_now();
            return Ok(());
        }
        if self.completes_simultaneous_open(segment) {
            return self.on_syn_ack_in_syn_received(segment);
        }
        self.check_timestamps(segment)?;
        let payload = segment.len;
        let is_last_again = payload > 0 && segment.end() == self.tcb.rcv_nxt();
        if let Err(reason) = self.first_check_sequence(segment) {
            if is_last_again {
                // RFC 9768 §3.2.1 counts all marks, also those of duplicates.
                self.count_arrival(segment, payload);
            }
            return Err(reason);
        }
        self.second_check_reset(segment)?;
        self.fourth_check_syn(segment)?; // third: security and compartment are not used
        self.fifth_check_ack(segment)?;
        self.remember_timestamp(segment);
        self.count_arrival(segment, payload);
        self.note_option(segment);
        self.sixth_check_urg(segment);
        let fin = self.seventh_process_text(segment)?;
        self.eighth_check_fin(fin);
        Ok(())
    }

    /// Steps six to eight for data that came with a SYN-ACK.
    pub(crate) fn take_text(&mut self, segment: &mut Segment) -> Result<(), Drop> {
        self.sixth_check_urg(segment);
        let fin = self.seventh_process_text(segment)?;
        self.eighth_check_fin(fin);
        Ok(())
    }

    /// RFC 7323 §5.3: PAWS, and segments that should carry timestamps but do not (§3.2).
    fn check_timestamps(&mut self, segment: &Segment) -> Result<(), Drop> {
        if !self.tcb.has(flag::TIMESTAMPS) || segment.has(RST) {
            return Ok(());
        }
        let Some(timestamps) = segment.header.options.timestamps else {
            return if self.shared.config.timestamps_required { Err(Drop::DropUnacceptable) } else { Ok(()) };
        };
        if self.tcb.is_time_old(timestamps.value) && !self.is_recent_time_invalid() && !segment.has(SYN) {
            self.answer_invalid(segment, Counter::TcpAckSkippedPaws);
            return Err(Drop::PawsEstab);
        }
        Ok(())
    }

    /// RFC 7323 §4.3 (3). Runs after the check of the ACK field, so that a blind sender must know that too.
    fn remember_timestamp(&mut self, segment: &Segment) {
        if let Some(timestamps) = segment.header.options.timestamps
            && self.tcb.has(flag::TIMESTAMPS)
            && (!self.tcb.is_time_old(timestamps.value) || self.is_recent_time_invalid())
        {
            // Until it is one of a segment out of order may not be old either.
            if self.tcb.remember_time(segment.sequence, timestamps.value)
                && let Some(cold) = self.cold()
            {
                cold.learns_time = false;
            }
        }
    }

    /// RFC 7323 §5.5: any SEG.TSval takes the place of TS.Recent, because it has not changed for too long. Nor is it known of a connection whose first
    /// stack did not tell it.
    fn is_recent_time_invalid(&self) -> bool {
        let idle_ms = self.tick().wrapping_sub(self.tcb.last_received());
        idle_ms >= TIMESTAMP_LIFETIME_MS || self.shared.cold.get(self.tcb.cold()).is_some_and(|cold| cold.learns_time)
    }

    /// First, check sequence number: trims the segment to the window, or ACKs and drops it.
    fn first_check_sequence(&mut self, segment: &mut Segment) -> Result<(), Drop> {
        let (nxt, window) = (self.tcb.rcv_nxt(), self.tcb.receive_window());
        let len = segment.sequence_len();
        let acceptable = match (len, window) {
            (0, 0) => segment.sequence == nxt,
            (0, _) => segment.sequence.within(nxt, window) || segment.sequence == nxt + window,
            (_, 0) => false,
            _ => segment.sequence.within(nxt, window) || (segment.end() - 1).within(nxt, window),
        };
        // RFC 9293 §3.10.7.4: with a zero window ACKs (and RST, URG) at RCV.NXT are still valid.
        let covers = segment.sequence.before(nxt) && segment.end().after(nxt + window);
        if !(acceptable || covers || window == 0 && segment.sequence == nxt) {
            if segment.has(SYN) {
                // RFC 5961 §4.2; a segment with SYN is no duplicate of data.
                self.reflect_again(segment);
                self.challenge_ack();
            } else if !segment.has(RST) {
                self.report_duplicate(segment.sequence, segment.end().earliest(nxt), Counter::TcpDsackOldSent);
                self.answer_invalid(segment, Counter::TcpAckSkippedSeq);
            }
            return Err(Drop::DropOutOfWindow);
        }
        if segment.has(SYN) || segment.has(RST) {
            return Ok(());
        }
        if segment.sequence.before(nxt) {
            self.report_duplicate(segment.sequence, nxt, Counter::TcpDsackOldSent);
            segment.trim_front(self.env.arena, nxt - segment.sequence);
            self.ack_now();
        }
        let room = (nxt + window) - segment.sequence;
        if segment.len > room {
            segment.truncate(self.env.arena, room);
            self.ack_now();
        }
        Ok(())
    }

    /// Second, check the RST bit (RFC 5961 §3.2).
    fn second_check_reset(&mut self, segment: &Segment) -> Result<(), Drop> {
        if !segment.has(RST) {
            return Ok(());
        }
        if segment.sequence != self.tcb.rcv_nxt() {
            self.challenge_ack();
            return Err(Drop::DropUnacceptable);
        }
        ringway_probes::tcp_receive_reset(|| (segment.key.ends(),));
        match self.tcb.state() {
            State::SynReceived if self.tcb.is_early() => {
                self.early_reset();
                self.fail(SocketError::Reset);
            }
            State::SynReceived => self.fail(SocketError::Refused),
            _ => self.fail(SocketError::Reset),
        }
        Err(Drop::DropUnacceptable)
    }

    /// Fourth, check the SYN bit (RFC 5961 §4.2).
    fn fourth_check_syn(&mut self, segment: &Segment) -> Result<(), Drop> {
        if !segment.has(SYN) {
            return Ok(());
        }
        self.env.counters.count(Counter::TcpSynChallenge);
        self.challenge_ack();
        Err(Drop::DropUnacceptable)
    }

    /// Fifth, check the ACK field.
    fn fifth_check_ack(&mut self, segment: &Segment) -> Result<(), Drop> {
        if !segment.has(ACK) {
            return Err(Drop::DropUnacceptable);
        }
        let ack = segment.acknowledgment();
        if self.tcb.state() == State::SynReceived {
            self.ack_in_syn_received(segment)?;
        }
        if ack.after(self.tcb.snd_nxt()) {
            // RFC 5961 §5.2 with RFC 9293: an ACK of something not yet sent.
            self.challenge_ack();
            return Err(Drop::DropUnacceptable);
        }
        if ack.before(self.tcb.snd_una() - self.tcb.max_window().max(1)) {
            self.challenge_ack();
            return Err(Drop::DropUnacceptable);
        }
        let advanced = ack.after(self.tcb.snd_una());
        let window = (segment.header.window as u32) << self.tcb.send_scale();
        let before = self.delivery();
        self.count_marked(segment);
        self.on_ece(segment);
        if advanced {
            self.acknowledge(ack, segment);
        }
        let dsack = self.take_dsack(segment);
        self.probe_acknowledged(segment, advanced, dsack);
        let sacked = self.take_sack(segment);
        if !advanced && ack == self.tcb.snd_una() && self.is_duplicate_ack(segment, window, sacked) {
            self.duplicate_ack();
        }
        let unusual = sacked || self.tcb.prediction.is_closed();
        if unusual && (self.tcb.has(flag::SACK) || self.is_reducing()) {
            self.recover(segment, before, advanced, sacked);
        }
        if self.tcb.is_accurate() {
            let delivered = self.delivery().since(&before);
            self.on_ace(segment, delivered);
        }
        if sacked && self.tcb.recovery() == Recovery::Open {
            self.predict();
        }
        self.model_acknowledged();
        if ack.at_or_after(self.tcb.snd_una()) {
            let una = if advanced { Una::Advanced } else { Una::Unchanged };
            self.update_window(segment.header.window, segment.sequence, una);
        }
        if segment.len == 0 && !segment.has(FIN) {
            self.env.counters.count(Counter::TcpPureAcks);
        }
        self.count_probes(0);
        self.check_fin_acknowledged()
    }

    /// RFC 9293, fifth, SYN-RECEIVED STATE: our SYN is acknowledged, or the segment is invalid.
    fn ack_in_syn_received(&mut self, segment: &Segment) -> Result<(), Drop> {
        let ack = segment.acknowledgment();
        if !ack.after(self.tcb.snd_una()) || ack.after(self.tcb.snd_nxt()) {
            self.shared.replies.reset(self.now, self.env, segment);
            return Err(Drop::DropUnacceptable);
        }
        self.established(segment);
        self.check_reflection(segment);
        Ok(())
    }

    /// Queues the connection when data, a FIN or a retransmission waits.
    #[inline(always)]
    pub(crate) fn mark_data_if_any(&mut self) {
        if self.has_to_send() {
            self.reborrow().mark_data();
        }
    }

    /// Handles an ACK that may cover our FIN.
    fn check_fin_acknowledged(&mut self) -> Result<(), Drop> {
        if !(self.tcb.is_fin_sent() && self.tcb.snd_una() == self.tcb.snd_nxt()) {
            return Ok(());
        }
        match self.tcb.state() {
            State::FinWait1 => self.enter_fin_wait_2(),
            State::Closing => self.enter_time_wait(),
            State::LastAck => self.end_in_order(),
            _ => {}
        }
        Ok(())
    }

    /// Seventh, process the segment text. Returns true when a FIN comes next in order.
    fn seventh_process_text(&mut self, segment: &mut Segment) -> Result<bool, Drop> {
        let fin = segment.has(FIN);
        if !self.tcb.state().receives_data() {
            return Ok(false);
        }
        if segment.len == 0 {
            if fin && segment.sequence != self.tcb.rcv_nxt() {
                self.demand_cold().reassembly.fin = Some(segment.sequence);
                self.ack_now();
                self.predict();
                return Ok(false);
            }
            return Ok(fin);
        }
        if self.refuses_text() {
            return Err(self.refuse_text(segment));
        }
        self.on_ce(segment);
        let order = if segment.sequence == self.tcb.rcv_nxt() { Order::InOrder } else { Order::OutOfOrder };
        if !self.has_receive_room(segment.memory, order) {
            return Err(Drop::TcpOfoDrop);
        }
        let (frames, len) = (core::mem::take(&mut segment.payload), core::mem::take(&mut segment.len));
        self.report_held(segment.sequence, len);
        if order == Order::OutOfOrder {
            self.queue_out_of_order(segment, len, frames);
            return Ok(false);
        }
        if self.cold().is_some_and(|cold| cold.reassembly.held(segment.sequence, len).is_some()) {
            // The data held came first.
            self.queue_out_of_order(segment, len, frames);
            self.signal();
            return Ok(self.fill_from_reassembly());
        }
        self.append_frames(frames, len, segment.memory);
        self.received_in_order(len);
        let times = segment.header.options.timestamps.filter(|_| self.tcb.has(flag::TIMESTAMPS));
        self.deliver(len, times.map(|times| times.echo), segment.has(PSH));
        if self.tcb.has(flag::CORK) {
            // MSG_MORE holds nothing from now on, and the ACK rides on it.
            self.mark_data_if_any();
        }
        Ok(self.fill_from_reassembly() || fin)
    }

    /// RFC 2525 §2.17, RFC 1122 §4.2.2.13: refuses data for an application that has closed.
    fn refuse_text(&mut self, segment: &Segment) -> Drop {
        self.shared.replies.reset(self.now, self.env, segment);
        if self.tcb.has(flag::ORPHAN) {
            self.end();
        } else {
            self.fail(SocketError::Reset);
        }
        Drop::TcpAbortOnData
    }

    /// RFC 2883 §4: reports the first part of arriving data that is already held out of order.
    fn report_held(&mut self, sequence: SeqNum, len: u32) {
        let held = self.cold().and_then(|cold| cold.reassembly.held(sequence, len));
        if let Some(held) = held {
            self.report_duplicate(held.left, held.right, Counter::TcpDsackOfoSent);
        }
    }

    /// RFC 5681 §4.2: out-of-order data is acknowledged at once. A FIN behind it is remembered. Data for which the list has no
    /// place is dropped like a lost segment, without an ACK: a peer that leaves many gaps gets no packet for each of its own.
    fn queue_out_of_order(&mut self, segment: &Segment, len: u32, frames: FrameQueue) {
        let arena = self.env.arena;
        let sequence = segment.sequence;
        let rcv_nxt = self.tcb.rcv_nxt();
        match self.demand_cold().reassembly.insert(arena, rcv_nxt, sequence..sequence + len, frames) {
            Insertion::Taken => {
                self.env.counters.count(Counter::TcpOfoQueue);
                let rare = self.rare();
                rare.out_of_order = rare.out_of_order.wrapping_add(segment.packets.into());
                self.tcb.hold_out_of_order(segment.memory);
            }
            Insertion::Held => self.env.counters.count(Counter::TcpOfoDrop),
            Insertion::Refused => return self.env.counters.count(Counter::TcpOfoDrop),
        }
        if segment.has(FIN) {
            self.demand_cold().reassembly.fin = Some(sequence + len);
        }
        self.ack_now();
        self.predict();
    }

    /// Moves out-of-order data that is now in order. Returns true when a FIN comes next.
    fn fill_from_reassembly(&mut self) -> bool {
        let arena = self.env.arena;
        let mut filled = false;
        loop {
            let nxt = self.tcb.rcv_nxt();
            let Some(cold) = self.cold() else { return false };
            let Some((frames, len)) = cold.reassembly.take(arena, nxt) else { break };
            self.tcb.append_held(arena, frames);
            self.received_in_order(len);
            filled = true;
        }
        let nxt = self.tcb.rcv_nxt();
        let fin = self.cold().is_some_and(|cold| cold.reassembly.fin.take_if(|&mut fin| fin == nxt).is_some());
        if filled || fin {
            self.ack_now();
            if self.cold().is_some_and(|cold| cold.reassembly.is_empty()) {
                self.tcb.recount_receive_memory(arena);
                self.shared.cold.release_if_quiet(arena, self.tcb);
            }
            self.predict();
        }
        fin
    }

    /// Eighth, check the FIN bit.
    fn eighth_check_fin(&mut self, fin: bool) {
        if !fin {
            return;
        }
        self.tcb.receive_next(1);
        self.tcb.set_peer_ended();
        self.ack_now();
        match self.tcb.state() {
            State::Established | State::SynReceived => self.enter(State::CloseWait),
            State::FinWait1 => self.enter(State::Closing),
            State::FinWait2 => self.enter_time_wait(),
            _ => {}
        }
        self.signal();
    }
}
