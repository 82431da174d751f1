//! Output: the choice of the next segment, and its writing.
//!
//! Read RFC 9293 §3.8.6.2.1, §3.7.4 (Nagle), RFC 6675 §5 (C) first. All headers of connections are written here. A packet is
//! as large as the link takes (a super-segment of several MSS, with a partial checksum, when the link has segmentation) and
//! as the windows allow. Payload is shared with the send queue when the link gathers, otherwise copied once.

use ringway_shm::{Arena, Burst, Checksum, Class, Frame, Segmentation, SegmentationKind, Slot};

use crate::admission::FrameUse;
use crate::ip::{LinkInfo, OutputError};
use crate::stats::Counter;
use crate::wire::checksum;
use crate::wire::tcp::{ACK, CHECKSUM_OFFSET, CWR, FIN, HEADER_BYTES_MAX, Header, PSH, SACK_BLOCKS_MAX, Timestamps};

use super::connection::Connection;
use super::cork;
use super::push::PushGroup;
use super::sack::Search;
use super::sack_blocks::Sizes;
use super::send_queue::{Shape, for_each_piece, mark_sent};
use super::state::State;
use super::tcb::{Recovery, Tcb, flag};
use super::urgent::is_sending_urgent;
use super::windows::Windows;
use crate::wire::sequence::SeqNum;

/// Space for link, IP and TCP headers in front of payload, rounded up.
pub const HEADROOM: usize = 128;
/// Payloads up to this length share the small frame of their header.
pub(crate) const INLINE_BYTES: usize = 100;
/// Maximum bytes of a packet with segmentation: the IP length field.
const PACKET_BYTES_MAX: u32 = 65_535;

/// One segment (or super-segment) to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) sequence: SeqNum,
    /// Payload bytes.
    pub(crate) len: u32,
    pub(crate) fin: bool,
    pub(crate) again: bool,
    /// A tail loss probe.
    pub(crate) probe: bool,
    /// Payload of each full segment that it is split into; a path MTU probe and the data of a SYN are one segment, however
    /// large.
    pub(crate) segment: u32,
}

/// Result of a connection's turn to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing more can be sent now.
    Done,
    /// The quantum is used up.
    More,
    /// No frame was free.
    NoFrame,
}

/// Reason for not writing a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteError {
    NoFrame,
    NoRoute,
}

impl Connection<'_, '_> {
    /// Runs the connection's turn to send data, and marks it again if it has more to send.
    #[inline(never)]
    pub(crate) fn transmit_quantum(&mut self, out: &mut [Burst], quantum: &mut usize) -> Progress {
        let turn = self.transmit_data(out, quantum);
        if turn != Progress::Done {
            self.mark_data();
        } else if self.owes_ack() {
            // The data that was to carry it was not sent.
            self.mark_control();
        }
        turn
    }

    /// Sends what windows and `quantum` (bytes) allow.
    fn transmit_data(&mut self, out: &mut [Burst], quantum: &mut usize) -> Progress {
        if !self.tcb.sends_data() {
            return Progress::Done;
        }
        self.restart_after_idle();
        let mut sizes = self.refresh_template();
        let rate = self.pacing_rate();
        if let Some(rate) = rate {
            sizes.packet = sizes.packet.min(super::pacing::quantum(rate, sizes.segment));
        }
        if is_sending_urgent(&self.shared.cold, self.tcb) {
            // An urgent pointer is right for one segment only.
            sizes.packet = sizes.segment;
        }
        let (flight, full) = (self.tcb.flight(), sizes);
        if self.tcb.is_accurate() {
            sizes = sizes.beside(self.option_due_bytes());
        }
        let mut group = PushGroup::default();
        while self.has_to_send()
            && (rate.is_none() || self.may_depart(sizes.packet))
            && let Some(plan) = self.next_transmission(sizes)
        {
            if *quantum == 0 {
                return Progress::More;
            }
            let push = self.ends_push_group(&plan, &mut group) || self.ends_data(&plan);
            match self.send_planned(&plan, push, out) {
                Ok(()) => {
                    *quantum = quantum.saturating_sub(plan.len.max(1) as usize);
                    sizes = full;
                    if let Some(rate) = rate {
                        self.departed(plan.len, rate);
                    }
                }
                Err(WriteError::NoFrame) => {
                    self.env.counters.count(Counter::DropNoFrame);
                    return Progress::NoFrame;
                }
                // The retransmission timer tries again.
                Err(WriteError::NoRoute) => break,
            }
        }
        self.persist_if_blocked();
        self.postpone_probe(flight);
        self.look_at_clock();
        self.tell_of_sending();
        self.sample_sent(flight);
        self.arm();
        Progress::Done
    }

    /// Returns true when data, a FIN or a retransmission waits to be sent.
    #[inline(always)]
    pub(crate) fn has_to_send(&self) -> bool {
        let tcb = &*self.tcb;
        let is_asked = |tcb: &Tcb| tcb.has(flag::RETRANSMIT) || !tcb.is_fin_sent();
        tcb.unsent() > 0 || tcb.recovery() != Recovery::Open || tcb.has(flag::RETRANSMIT | flag::FIN_QUEUED) && is_asked(tcb)
    }

    /// Makes the header template current if possible. Returns the present sizes of a segment and a packet.
    fn refresh_template(&mut self) -> Sizes {
        let segment = self.segment_bytes();
        let alone = Sizes { segment, packet: segment };
        if self.tcb.template.generation != self.env.ip.generation() {
            match self.renew_template() {
                Ok(()) => {}
                Err(OutputError::Unresolved | OutputError::NoRoute) => return alone,
            }
        }
        let link = self.env.ip.link(self.tcb.template.interface as u32);
        if !link.segments() {
            return alone;
        }
        let limit = link.segmentation_max_bytes.min(PACKET_BYTES_MAX);
        let payload = limit - (self.tcb.template.network_header_len() + HEADER_BYTES_MAX) as u32;
        let packet = (payload - payload % segment).min(segment.saturating_mul(link.segmentation_max_segments)).max(segment);
        Sizes { segment, packet }
    }

    /// The best layout for data that is queued now, in frames that all senders may take.
    pub(crate) fn extent_shape(&self) -> Shape {
        let mss = self.tcb.mss() as usize;
        if self.tcb.template.generation != self.env.ip.generation() {
            return Shape { bytes_max: mss, sum: true, first: FrameUse::Sending };
        }
        let template = &self.tcb.template;
        let bytes_max = if template.link_segments() { usize::MAX } else { mss };
        Shape { bytes_max, sum: !template.link_sums(), first: FrameUse::Sending }
    }

    /// As what the next frame to send is taken.
    #[inline(always)]
    pub(crate) fn first_frame_use(&self) -> FrameUse {
        if self.shared.backlog.starves_senders && self.tcb.send_memory() == 0 { FrameUse::First } else { FrameUse::Sending }
    }

    /// Plans the next transmission; `None` when nothing may be sent.
    pub(crate) fn next_transmission(&mut self, sizes: Sizes) -> Option<Plan> {
        if self.tcb.has(flag::RETRANSMIT)
            && let Some(plan) = self.plan_urgent(sizes.segment)
        {
            return Some(plan);
        }
        let pipe = self.pipe();
        if self.tcb.recovery() != Recovery::Open
            && !self.is_frto_waiting()
            && let Some(plan) = self.plan_again(pipe, sizes.segment, Search::Lost)
        {
            return Some(plan);
        }
        if self.tcb.cold() != super::cold::NONE
            && let Some(plan) = self.plan_mtu_probe(pipe)
        {
            return Some(plan);
        }
        let new = self.plan_new(pipe, sizes);
        if new.is_none() && self.tcb.recovery() == Recovery::Fast {
            return self.plan_again(pipe, sizes.segment, Search::Rescue);
        }
        new
    }

    /// Plans a transmission that the congestion window does not limit: a probe, the first lost segment, or without RACK the
    /// first unacknowledged one. `None`: everything has been acknowledged meanwhile.
    fn plan_urgent(&mut self, segment: u32) -> Option<Plan> {
        self.tcb.clear(flag::RETRANSMIT);
        if self.tcb.flight() == 0 {
            return None;
        }
        let cold = self.shared.cold.get(self.tcb.cold());
        if cold.is_some_and(|cold| cold.probe.due) {
            return Some(self.plan_probe(segment));
        }
        let lost = cold.and_then(|cold| cold.rack.lost.first());
        let (start, end) = lost.map_or((self.tcb.snd_una(), self.tcb.snd_una() + segment), |lost| (lost.start, lost.end));
        Some(self.plan_range(start, end.earliest(start + segment), segment))
    }

    /// RFC 6675 NextSeg: plans one segment of a lost range (or, to rescue, of one that may be lost).
    pub(crate) fn plan_again(&mut self, pipe: u32, segment: u32, search: Search) -> Option<Plan> {
        let mss = self.tcb.mss() as u32;
        if pipe.saturating_add(mss) > self.tcb.cwnd().max(mss) {
            self.tcb.set(flag::CWND_LIMITED);
            return None;
        }
        let outstanding = self.tcb.outstanding();
        let cold = self.shared.cold.get(self.tcb.cold())?;
        let (start, end) = if self.uses_rack() {
            cold.rack.lost.first().map(|lost| (lost.start, lost.end))?
        } else {
            cold.scoreboard.next_segment(&outstanding, search)?
        };
        Some(self.plan_range(start, end.earliest(start + segment), segment))
    }

    /// Plans a retransmission of `start..end`, which may reach beyond the data to the FIN.
    pub(crate) fn plan_range(&self, start: SeqNum, end: SeqNum, segment: u32) -> Plan {
        let data_end = end.earliest(self.tcb.snd_end()).earliest(self.tcb.snd_nxt()).latest(start);
        let fin = self.tcb.is_fin_sent() && data_end == self.tcb.snd_end();
        Plan { sequence: start, len: data_end - start, fin, again: true, probe: false, segment }
    }

    /// Plans new data, as much as windows, Nagle and silly-window avoidance allow in one packet.
    pub(crate) fn plan_new(&mut self, pipe: u32, sizes: Sizes) -> Option<Plan> {
        let segment = sizes.segment;
        let packet = if self.has_cwr_to_send() { segment } else { sizes.packet };
        let tcb = &mut *self.tcb;
        let unsent = tcb.unsent();
        let fin = tcb.has(flag::FIN_QUEUED) && !tcb.is_fin_sent();
        if unsent == 0 {
            tcb.clear(flag::CWND_LIMITED);
            return fin.then_some(Plan { sequence: tcb.snd_nxt(), len: 0, fin, again: false, probe: false, segment });
        }
        let Windows { offered, room } = tcb.windows(pipe, segment);
        let usable = offered.min(room);
        tcb.assign(flag::CWND_LIMITED, room < offered && room < unsent);
        let mut len = unsent.min(usable).min(packet);
        // Partial segments only at the end of the data.
        if len < unsent && len >= segment {
            len -= len % segment;
        }
        // Linux: neither Nagle nor a cork holds urgent data.
        let may_send = tcb.may_send(len, unsent, segment, fin)
            || len == unsent && (is_sending_urgent(&self.shared.cold, tcb) || cork::is_over(self.shared, tcb));
        if !may_send {
            len -= len % segment;
        }
        // Less than a segment of the congestion window is left: wait for the next ACK.
        if len == 0 || (len < segment && len < unsent && room < offered) {
            return None;
        }
        let fin = fin && len == unsent;
        Some(Plan { sequence: tcb.snd_nxt(), len, fin, again: false, probe: false, segment })
    }

    /// Estimate of the bytes in flight.
    pub(crate) fn pipe(&self) -> u32 {
        // A SYN that data follows does not count.
        let flight = self.tcb.flight().saturating_sub((self.tcb.state() == State::SynReceived) as u32);
        let board = self.shared.cold.get(self.tcb.cold()).map(|cold| &cold.scoreboard);
        if let Some(cold) = self.shared.cold.get(self.tcb.cold())
            && self.uses_rack()
        {
            return flight.saturating_sub(cold.scoreboard.sacked() + cold.rack.lost.bytes());
        }
        match (self.tcb.recovery(), board) {
            (Recovery::Loss, Some(board)) => board.pipe(&self.tcb.outstanding()),
            (Recovery::Fast, Some(board)) if self.tcb.has(flag::SACK) => board.pipe(&self.tcb.outstanding()),
            (Recovery::Fast, _) => {
                // The first segment is lost, unless it was retransmitted.
                let lost = if self.tcb.has(flag::RETRANSMIT) { self.tcb.mss() as u32 } else { 0 };
                let duplicates = self.shared.cold.get(self.tcb.cold()).map_or(0, |cold| cold.prr.duplicates);
                flight.saturating_sub(lost).saturating_sub(duplicates)
            }
            // RFC 3042: each of the first two duplicate ACKs lets a new segment out.
            (Recovery::Open, board) if self.tcb.dup_acks() > 0 => {
                let left = self.tcb.dup_acks().min(2) as u32 * self.tcb.mss() as u32;
                flight.saturating_sub(left.max(board.map_or(0, |b| b.sacked())))
            }
            _ => flight,
        }
    }

    /// Writes a planned segment and moves SND.NXT or the retransmission state.
    fn send_planned(&mut self, plan: &Plan, push: bool, out: &mut [Burst]) -> Result<(), WriteError> {
        let mut header = self.header(plan.sequence);
        if plan.segment < u32::from(self.tcb.mss()) {
            // The rest of the space is for SACK blocks.
            self.tell_gaps_beside_data(&mut header);
        }
        header.flags |= if plan.fin { FIN } else { 0 };
        let end = plan.sequence + plan.len;
        header.flags |= if push { PSH } else { 0 };
        let tells = plan.len > 0 && !plan.again && self.has_to_tell_reduction();
        header.flags |= if tells { CWR } else { 0 };
        if self.tcb.is_accurate() {
            self.tell_counters_beside_data(&mut header, plan);
        }
        self.write(&header, Some(plan), out)?;
        if tells {
            self.reduction_told();
        }
        let sequence_end = end + plan.fin as u32;
        if plan.again {
            self.retransmitted(plan, sequence_end);
        } else {
            self.tcb.advance_next(sequence_end, (!plan.len.is_multiple_of(plan.segment)).then_some(end));
        }
        if self.tcb.has(flag::QUICK_ACK) && !plan.again {
            self.end_quick_acks();
        }
        self.model_sent(plan);
        if self.uses_prr() {
            let prr = &mut self.demand_cold().prr;
            if plan.again { prr.sent_again(plan.len) } else { prr.sent(plan.len) }
        }
        if plan.probe {
            self.probe_sent(plan);
        }
        self.ack_sent();
        if self.tcb.rto_deadline() == 0 || self.tcb.has(flag::PERSIST) {
            self.restart_rto();
        }
        Ok(())
    }

    /// The header that all segments after the handshake share; the caller adds flags.
    pub(crate) fn header(&mut self, sequence: SeqNum) -> Header {
        let window = self.advertise_window();
        let mut header = Header {
            source_port: self.tcb.local_port,
            destination_port: self.tcb.remote_port,
            sequence,
            acknowledgment: self.tcb.rcv_nxt(),
            flags: ACK,
            window,
            ..Header::default()
        };
        if self.tcb.has(flag::TIMESTAMPS) {
            header.options.timestamps = Some(Timestamps { value: self.timestamp(), echo: self.tcb.ts_recent() });
        }
        self.mark_header(&mut header);
        if self.tcb.cold() != super::cold::NONE {
            self.point_at_urgent(&mut header);
            self.tell_peers_clock(&mut header);
        }
        header
    }

    /// Writes a pure ACK with SACK blocks; when there are many, other ACKs go in front of it.
    pub(crate) fn write_ack(&mut self, out: &mut [Burst]) -> Result<(), WriteError> {
        self.refresh_template();
        self.write_earlier_gaps(out)?;
        let mut header = self.header(self.tcb.snd_nxt());
        if let Some(duplicate) = self.shared.cold.get(self.tcb.cold()).and_then(|cold| cold.duplicate) {
            header.options.push_sack(duplicate);
        }
        self.write_sack(&mut header, SACK_BLOCKS_MAX);
        self.reflect_syn_ack(&mut header);
        self.tell_counters(&mut header, u32::MAX);
        self.write(&header, None, out)?;
        self.duplicate_reported();
        self.ack_sent();
        Ok(())
    }

    /// Writes one packet with its headers and payload.
    pub(crate) fn write(&mut self, header: &Header, plan: Option<&Plan>, out: &mut [Burst]) -> Result<(), WriteError> {
        let fresh = self.tcb.template.generation == self.env.ip.generation();
        let interface = match fresh {
            true => self.tcb.template.interface as u32,
            false => {
                let (local, remote) = self.tcb.template.addresses();
                self.env.ip.route(remote, Some(local)).ok_or(WriteError::NoRoute)?.interface
            }
        };
        let link = self.env.ip.link(interface);
        let len = plan.map_or(0, |plan| plan.len);
        let (mut first, shared) = self.build(header, plan, &link)?;
        let transport_len = first.len() + if shared.is_some() { len as usize } else { 0 };
        let unmarked = self.tcb.ect() != 0 && !self.is_markable(plan);
        let segments = plan.map_or(1, |plan| len.div_ceil(plan.segment).max(1));
        self.env.counters.add(Counter::TcpOutSegs, segments as u64);
        self.note_departure(segments, len);
        if fresh {
            self.tcb.template.push_headers(&mut first, transport_len);
            if self.tcb.template.is_cuttable() {
                self.number_packet(&mut first, segments);
            }
            if unmarked {
                self.tcb.template.clear_ecn(first.bytes_mut());
            }
            out[interface as usize].push(first);
            for_each_shared(self.env.arena, shared, plan, &mut |frame| out[interface as usize].push(frame));
        } else {
            let whole = !self.may_be_cut();
            let scratch = &mut self.shared.replies.scratch;
            scratch.push(first);
            for_each_shared(self.env.arena, shared, plan, &mut |frame| scratch.push(frame));
            let mut flow = self.tcb.flow();
            flow.tos -= if unmarked { flow.tos & super::ecn::CE } else { 0 };
            let (ip, mut env) = self.env.ip_at(self.now);
            if whole {
                ip.send(&mut env, &flow, scratch, out);
            } else {
                ip.send_fragmentable(&mut env, &flow, scratch, out);
            }
        }
        Ok(())
    }

    /// Builds the first frame of a packet (TCP header, checksum, and payload unless that is shared). Returns also where
    /// shared payload begins.
    fn build(&mut self, header: &Header, plan: Option<&Plan>, link: &LinkInfo) -> Result<(Frame, Option<Slot>), WriteError> {
        let (arena, header_len) = (self.env.arena, header.len());
        let len = plan.map_or(0, |plan| plan.len) as usize;
        let inline = len <= INLINE_BYTES;
        let class = if inline || link.gathers { Class::Small } else { Class::Large };
        let mut first = arena.alloc(class).ok_or(WriteError::NoFrame)?;
        first.reserve(HEADROOM);
        let start = self.find(plan);
        let pushed = header.flags & PSH != 0 && plan.is_some_and(|plan| plan.sequence + plan.len == self.tcb.snd_end());
        let mut sum = 0;
        let mut written = 0;
        let now_us = self.now_us();
        let mut next = start;
        if let Some(plan) = plan.filter(|plan| plan.len > 0) {
            if !plan.again {
                self.note_part(start, plan.sequence, now_us);
            }
            next = for_each_piece(arena, start, plan.sequence, plan.len, &mut |piece| {
                let is_last = written + piece.len == len;
                mark_sent(arena, &piece, now_us, plan.again, pushed && is_last);
                let view = || arena.share(piece.slot, piece.offset, piece.len);
                if !link.sends_partial_checksums {
                    let part = piece.sum.unwrap_or_else(|| view().payload().sum());
                    sum = checksum::add_at(sum, written, part);
                }
                if inline || !link.gathers {
                    view().payload().copy_to(first.extend(piece.len));
                }
                written += piece.len;
            });
            debug_assert_eq!(written, len, "the send queue holds all that is planned");
        }
        self.move_cursor(plan, start, next);
        header.emit(first.push(header_len));
        let sum = (!link.sends_partial_checksums).then_some(sum);
        self.finish_checksum(&mut first, header_len, len, sum);
        if let Some(plan) = plan.filter(|plan| plan.len > plan.segment) {
            let is_ipv6 = self.tcb.template.is_ipv6();
            let kind = if is_ipv6 { SegmentationKind::TcpIpv6 } else { SegmentationKind::TcpIpv4 };
            first.set_segmentation(Segmentation { kind, size: plan.segment as u16 });
        }
        let shared = (!inline && link.gathers).then_some(start);
        first.set_continues(shared.is_some());
        Ok((first, shared))
    }

    /// The extent where a plan's payload begins.
    pub(crate) fn find(&self, plan: Option<&Plan>) -> Slot {
        match plan {
            Some(plan) if plan.again => {
                let hint = self.shared.cold.get(self.tcb.cold()).map_or(Slot::NONE, |cold| cold.cursors[0]);
                self.tcb.extent_at(self.env.arena, plan.sequence, hint)
            }
            _ => self.tcb.next_unsent(),
        }
    }

    fn move_cursor(&mut self, plan: Option<&Plan>, start: Slot, next: Slot) {
        match plan {
            Some(plan) if plan.again => {
                if let Some(cold) = self.cold() {
                    cold.cursors[0] = start;
                }
            }
            Some(plan) if plan.len > 0 => self.tcb.set_next_unsent(next),
            _ => {}
        }
    }

    /// Fills in the checksum, or without `payload_sum` leaves it to the link together with segmentation.
    fn finish_checksum(&self, first: &mut Frame, header_len: usize, len: usize, payload_sum: Option<u16>) {
        let sums = payload_sum.map(|sum| (checksum::sum(&first.bytes()[..header_len]), sum));
        if sums.is_none() {
            first.set_checksum(Checksum::Partial { start: 0, offset: CHECKSUM_OFFSET as u16 });
        }
        let field = checksum_field(self.pseudo_sum((header_len + len) as u16), sums);
        first.bytes_mut()[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2].copy_from_slice(&field.to_be_bytes());
    }

    fn pseudo_sum(&self, len: u16) -> u16 {
        let template = &self.tcb.template;
        if template.generation == self.env.ip.generation() {
            return checksum::add(template.pseudo_sum, len);
        }
        let (local, remote) = template.addresses();
        checksum::pseudo_header(local, remote, super::PROTOCOL, len as u32)
    }

    /// Returns true when the ACK can wait for data that is sent in this pass anyway.
    pub(crate) fn is_ack_carried_by_data(&mut self) -> bool {
        self.tcb.has(flag::ON_DATA)
            && self.tcb.state() != State::SynSent
            && self.tcb.sends_data()
            && !self.has_report_of_its_own()
            && self.next_transmission_exists()
    }

    fn next_transmission_exists(&mut self) -> bool {
        let retransmit = self.tcb.flags() & flag::RETRANSMIT;
        let segment = self.segment_bytes();
        let exists = self.next_transmission(Sizes { segment, packet: segment }).is_some();
        self.tcb.set(retransmit);
        exists
    }
}

/// The checksum field of a segment, from the sums of its pseudo-header and of header and payload; without these two, the
/// link completes it (RFC 9293 §3.1).
#[inline(always)]
pub(crate) fn checksum_field(pseudo: u16, sums: Option<(u16, u16)>) -> u16 {
    match sums {
        Some((header, payload)) => !checksum::add(checksum::add(pseudo, payload), header),
        None => pseudo,
    }
}

/// Calls `push` with the frames behind a packet's first one, which hold the payload from `shared` on.
fn for_each_shared(arena: &Arena, shared: Option<Slot>, plan: Option<&Plan>, push: &mut dyn FnMut(Frame)) {
    let (Some(start), Some(plan)) = (shared, plan) else { return };
    let mut left = plan.len as usize;
    for_each_piece(arena, start, plan.sequence, plan.len, &mut |piece| {
        left -= piece.len;
        let mut frame = arena.share(piece.slot, piece.offset, piece.len);
        frame.set_continues(left > 0);
        push(frame);
    });
}
