//! A control block from an image that has passed the check.
//!
//! Promises: without frames for the queues nothing of the connection is left behind (the caller frees the block). Each value
//! goes through a function of its owner in `tcb`, so the conditions of the fast paths hold: the block starts with a closed
//! prediction, and `predict` opens it at the end.

use ringway_shm::arena::LARGE_BYTES;
use ringway_shm::{Arena, Class, Frame, FrameQueue, Note};

use super::image::Model;
use super::{ConnectionImage, Deadlines, Purpose, Rebase, Receiving, Recovering, Sending, Settings};
use crate::admission::FrameUse;
use crate::tcp::connect::FRAME_PAYLOAD_MAX;
use crate::tcp::connection::Connection;
use crate::tcp::output::HEADROOM;
use crate::tcp::segment::frame_memory;
use crate::tcp::send_queue::SMALL_PAYLOAD;
use crate::tcp::state::State;
use crate::tcp::tcb::{SendSpace, TimerKind, flag};
use crate::wire::sequence::SeqNum;
use crate::wire::tcp::{HEADER_BYTES, TIMESTAMPS_BYTES};

/// Largest piece of a send queue, bytes: a frame of any arena holds it.
pub(super) const EXTENT_MAX: usize = LARGE_BYTES;

/// A frame with a copy of `bytes`, if `user` may take one.
fn copy(arena: &Arena, bytes: &[u8], user: FrameUse) -> Option<Frame> {
    let class = if bytes.len() <= SMALL_PAYLOAD { Class::Small } else { Class::Large };
    if !user.may_take(arena, class) {
        return None;
    }
    let mut frame = arena.alloc(class)?;
    if class == Class::Large {
        frame.reserve(if bytes.len() + HEADROOM <= LARGE_BYTES { HEADROOM } else { 0 });
    }
    frame.extend(bytes.len()).copy_from_slice(bytes);
    Some(frame)
}

/// Frames with a copy of `bytes`, the first of which has the number `start`; and their memory.
fn copy_all(arena: &Arena, bytes: &[u8], start: SeqNum, user: FrameUse) -> Option<(FrameQueue, u32)> {
    let (mut frames, mut memory, mut sequence) = (FrameQueue::default(), 0, start);
    for piece in bytes.chunks(LARGE_BYTES) {
        let Some(frame) = copy(arena, piece, user) else {
            frames.clear(arena);
            return None;
        };
        memory += frame_memory(&frame);
        frames.push_back(frame, Note { sequence: sequence.0, ..Note::default() });
        sequence += piece.len() as u32;
    }
    Some((frames, memory))
}

impl Connection<'_, '_> {
    /// Makes this block, which is new and in no table, the connection of `image`. Returns false when too few frames are free.
    pub(super) fn restore(&mut self, image: &ConnectionImage) -> bool {
        let by = self.arriving();
        let tcb = &mut *self.tcb;
        (tcb.local_port, tcb.remote_port) = (image.local.port, image.remote.port);
        tcb.assign(flag::ORPHAN, image.is_orphan);
        tcb.assign(flag::FIN_QUEUED, image.state.is_write_closed());
        if matches!(image.state, State::CloseWait | State::Closing | State::LastAck) {
            tcb.set_peer_ended();
        }
        tcb.set_state(image.state);
        self.restore_settings(&image.settings);
        self.restore_terms(image);
        self.import_counts(&image.counts, by);
        if let Some(elapsed) = image.settings.more_for {
            let arrived = self.stats().segments_in;
            self.demand_cold().more_since = Some(arrived.wrapping_sub(elapsed));
        }
        if !(self.restore_receiving(&image.receiving) && self.restore_sending(image, by)) {
            return false;
        }
        self.restore_recovering(&image.recovering, by);
        self.restore_deadlines(&image.deadlines);
        self.resume();
        true
    }

    fn restore_settings(&mut self, settings: &Settings) {
        let tcb = &mut *self.tcb;
        tcb.assign(flag::NO_DELAY, settings.no_delay);
        tcb.assign(flag::CORK, settings.cork);
        tcb.assign(flag::QUICK_ACK, settings.quick_ack);
        tcb.set_delays_acks(settings.delays_acks);
        (tcb.tos, tcb.ttl) = (settings.type_of_service, settings.time_to_live);
        tcb.set_send_buffer(settings.send_buffer);
        tcb.set_receive_buffer(settings.receive_buffer);
        if settings.timeouts != crate::tcp::cold::Timeouts::default() {
            self.demand_cold().timeouts = settings.timeouts;
        }
        if settings.pacing_rate_max != 0 {
            self.demand_cold().pacing.rate_max = settings.pacing_rate_max;
        }
        if settings.is_send_buffer_locked {
            self.rare().send_buffer_locked = true;
        }
        if settings.is_read_shut {
            self.rare().read_shut = true;
        }
        self.remember_offer_limit(settings.maximum_segment_size);
    }

    fn restore_terms(&mut self, image: &ConnectionImage) {
        let terms = &image.terms;
        let tcb = &mut *self.tcb;
        tcb.set_mss(terms.mss);
        tcb.set_scales(terms.send_scale, terms.receive_scale);
        tcb.assign(flag::SACK, terms.sack);
        tcb.assign(flag::TIMESTAMPS, terms.timestamps.is_some());
        tcb.set_ecn_mode(terms.ecn);
        if let Some(clock) = terms.timestamps {
            tcb.set_ts_recent(clock.recent.unwrap_or(0));
            let ahead = clock.now.wrapping_sub(self.timestamp());
            if ahead != 0 {
                self.demand_cold().clock_ahead = ahead;
            }
            if clock.recent.is_none() {
                self.demand_cold().learns_time = true;
            }
        }
        if terms.ecn_state != Default::default() {
            self.demand_cold().ecn = terms.ecn_state;
        }
        if terms.accurate.is_some() {
            self.demand_cold().accurate = terms.accurate;
        }
    }

    fn restore_receiving(&mut self, receiving: &Receiving) -> bool {
        let by = self.arriving();
        let (arena, nxt) = (self.env.arena, SeqNum(receiving.nxt));
        self.tcb.resume_receiving(nxt, SeqNum(receiving.edge), SeqNum(receiving.last_ack_sent));
        let unread = receiving.unread.len() as u32;
        let fin = u32::from(self.tcb.has_peer_ended());
        let Some(queue) = copy_all(arena, &receiving.unread, nxt - fin - unread, FrameUse::Unread) else { return false };
        self.tcb.resume_received(queue, receiving);
        if !receiving.gaps.is_empty() || receiving.fin.is_some() {
            self.demand_cold().reassembly.fin = receiving.fin.map(SeqNum);
        }
        for gap in &receiving.gaps {
            let Some((frames, memory)) = copy_all(arena, &gap.data, SeqNum(gap.start), FrameUse::Gaps) else { return false };
            self.demand_cold().reassembly.hold(gap, frames);
            self.tcb.hold_out_of_order(memory);
        }
        if !receiving.gaps.is_empty() {
            self.demand_cold().reassembly.resume(receiving.told);
        }
        if receiving.duplicate.is_some() {
            self.demand_cold().duplicate = receiving.duplicate;
        }
        let mut tuning = receiving.tuning;
        tuning.rebase(by);
        if receiving.tuning != Default::default() {
            self.rare().receive = tuning;
        }
        if receiving.interactive != Default::default() {
            self.rare().interactive = receiving.interactive;
        }
        true
    }

    fn restore_sending(&mut self, image: &ConnectionImage, by: Rebase) -> bool {
        let sending: &Sending = &image.sending;
        let arena = self.env.arena;
        let una = SeqNum(sending.una);
        self.tcb.resume_sending(&SendSpace {
            una,
            nxt: SeqNum(sending.nxt),
            // The FIN is behind the queue, and acknowledged.
            start: if image.state == State::FinWait2 { una - 1 } else { una },
            wnd: sending.wnd,
            wl1: SeqNum(sending.wl1),
            sml: SeqNum(sending.sml),
            max_window: sending.max_window,
            bytes_acked: sending.bytes_acked,
        });
        for extent in &sending.extents {
            let Some(frame) = copy(arena, &extent.data, FrameUse::Sending) else { return false };
            self.tcb.resume_extent(arena, frame, extent, by);
        }
        let next = self.tcb.extent_at(arena, self.tcb.snd_nxt(), ringway_shm::Slot::NONE);
        self.tcb.set_next_unsent(next);
        if sending.urgent != Default::default() {
            self.demand_cold().urgent = sending.urgent;
        }
        true
    }

    fn restore_recovering(&mut self, recovering: &Recovering, by: Rebase) {
        let tcb = &mut *self.tcb;
        tcb.set_congestion(recovering.model.control());
        tcb.set_cwnd(recovering.cwnd);
        tcb.set_ssthresh(recovering.ssthresh);
        tcb.resume_recovery(recovering.recovery, SeqNum(recovering.recover), recovering.dup_acks);
        tcb.assign(flag::CWND_LIMITED, recovering.is_cwnd_limited);
        tcb.assign(flag::RETRANSMIT, recovering.retransmits);
        tcb.set_notes_most(recovering.notes_most);
        let cold = self.demand_cold();
        cold.scoreboard.clone_from(&recovering.scoreboard);
        cold.rack = recovering.rack.clone();
        cold.rack.rebase(by);
        cold.probe = recovering.probe;
        cold.prr = recovering.prr;
        cold.undo = recovering.undo;
        cold.undo.iter_mut().for_each(|undo| undo.rebase(by));
        cold.frto = recovering.frto;
        cold.mtu_probe = recovering.mtu_probe;
        match &recovering.model {
            Model::NewReno | Model::Bbr(None) => {}
            Model::Cubic(cubic) => {
                cold.cubic = *cubic;
                cold.cubic.rebase(by);
            }
            Model::Dctcp(dctcp) => cold.dctcp = *dctcp,
            Model::Bbr(Some(measured)) => self.begin_measured(measured),
        }
    }

    fn restore_deadlines(&mut self, deadlines: &Deadlines) {
        let now = self.tick();
        let deadline = |ms: Option<u32>| ms.map_or(0, |ms| now.wrapping_add(ms).max(1));
        let tick = |ms: Option<u32>| ms.map_or(0, |ms| now.wrapping_sub(ms).max(1));
        let tcb = &mut *self.tcb;
        tcb.resume_round_trips(deadlines.srtt_us, deadlines.rttvar_us, deadlines.min_rtt_us.unwrap_or(u32::MAX), now);
        let until = deadline(deadlines.retransmission_ms);
        match deadlines.purpose {
            Purpose::Retransmission => tcb.start_rto(until, TimerKind::Retransmission),
            Purpose::Probe => tcb.start_rto(until, TimerKind::Probe),
            Purpose::Reordering => tcb.start_rto(until, TimerKind::Reordering),
            Purpose::Persist => tcb.start_persist(until),
        }
        tcb.resume_backoff(deadlines.backoff);
        tcb.set_probes(deadlines.probes);
        if deadlines.silent_ms.is_some() {
            tcb.segment_arrived(tick(deadlines.silent_ms));
        }
        if deadlines.idle_ms.is_some() {
            tcb.start_idle(deadline(deadlines.idle_ms));
        }
        tcb.assign(flag::ACK_PENDING, deadlines.is_ack_pending);
        if deadlines.is_ack_pending && deadlines.delayed_ack_ms.is_some() {
            tcb.start_ack_delay(deadline(deadlines.delayed_ack_ms));
        }
        tcb.assign(flag::ACK_NOW, deadlines.owes_ack);
        tcb.assign(flag::PROBE, deadlines.owes_probe);
        if deadlines.answered_ms.is_some() {
            self.demand_cold().answered_at = tick(deadlines.answered_ms);
        }
    }

    /// Limits segments to what this stack's link and path take; larger ones in flight go again.
    fn fit_to_new_path(&mut self) {
        let (local, remote) = self.tcb.template.addresses();
        let Some(path) = self.env.ip.route(remote, Some(local)) else { return };
        let gathers = self.env.ip.link(path.interface).gathers;
        let options = if self.tcb.has(flag::TIMESTAMPS) { TIMESTAMPS_BYTES as u16 } else { 0 };
        let largest = path.transport_max().saturating_sub(HEADER_BYTES as u16);
        let largest = if gathers { largest } else { largest.min(FRAME_PAYLOAD_MAX) } - options;
        if self.cold().is_some_and(|cold| cold.mtu_probe.exceeds(largest)) {
            self.mtu_search_ends_at(largest);
        }
        if self.tcb.mss() > largest {
            self.tcb.set_mss(largest);
            if self.tcb.flight() > 0 {
                self.resend_all();
            }
        }
    }

    /// Marks the work that waits, arms the wheel, and opens the fast paths as far as they may be.
    fn resume(&mut self) {
        self.fit_to_new_path();
        self.shared.cold.release_if_quiet(self.env.arena, self.tcb);
        if self.tcb.flight() > 0 && self.tcb.rto_deadline() == 0 {
            self.restart_rto();
        }
        self.arm_again();
        if self.owes_ack() || self.tcb.has(flag::PROBE) {
            self.mark_control();
        }
        self.mark_data_if_any();
        self.predict();
    }
}
