//! Urgent data: a mark in the stream, in both directions.
//!
//! Read RFC 9293 §3.8.5 and RFC 6093 first. On the wire the urgent pointer names the byte behind the urgent data (RFC 9293
//! MUST-62; Linux: tcp_stdurg=0); the last byte before it is what sockets call the urgent one. The bytes stay in the stream
//! here: the application side decides what a socket makes of the mark (out of line, in line, SIGURG). It gets
//! [`Event::Urgent`] before it sees the bytes around the mark.

use ringway_shm::Arena;

use crate::env::Env;
use crate::event::{Event, SocketId, Urgent};
use crate::wire::tcp::{Header, URG};

use super::Tcp;
use super::cold::ColdPool;
use super::connection::Connection;
use super::segment::Segment;
use super::tcb::{Tcb, flag};
use crate::wire::sequence::SeqNum;

/// Urgent data of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    received: Option<Received>,
    /// SND.UP: the sequence number behind the last urgent byte written.
    send: Option<SeqNum>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Received {
    /// Sequence number of the last urgent byte.
    sequence: SeqNum,
    /// Its position in the stream, modulo 2^32.
    at: u32,
    /// The byte itself, once it has arrived.
    byte: Option<u8>,
}

impl Marks {
    /// Returns true when every segment must be checked, because the urgent byte is announced and has not arrived.
    pub(crate) fn awaits_byte(&self) -> bool {
        self.received.is_some_and(|received| received.byte.is_none())
    }

    /// Returns true when an urgent byte is not before `read`, up to which the application has read, or not before `una`.
    pub(crate) fn are_pending(&self, read: SeqNum, una: SeqNum) -> bool {
        self.received.is_some_and(|received| !received.sequence.before(read)) || self.send.is_some_and(|up| up.after(una))
    }
}

impl Connection<'_, '_> {
    /// Sixth, check the URG bit. Linux: old pointers are ignored, the newest one counts.
    pub(crate) fn sixth_check_urg(&mut self, segment: &Segment) {
        let before = self.cold().and_then(|cold| cold.urgent.received);
        if !(segment.has(URG) || before.is_some()) || !self.tcb.state().receives_data() || self.tcb.has(flag::ORPHAN) {
            return;
        }
        let mut mark = before;
        if segment.has(URG) {
            let sequence = segment.header.sequence + u32::from(segment.header.urgent).saturating_sub(1);
            let is_old = sequence.before(self.tcb.rcv_nxt());
            if !is_old && before.is_none_or(|before| sequence.after(before.sequence)) {
                let at = (self.tcb.bytes_received() as u32).wrapping_add(sequence - self.tcb.rcv_nxt());
                mark = Some(Received { sequence, at, byte: None });
            }
        }
        let Some(mut found) = mark else { return };
        if found.byte.is_none() && found.sequence.within(segment.sequence, segment.len) {
            found.byte = byte_at(self.env.arena, segment, found.sequence - segment.sequence);
        }
        if Some(found) != before {
            self.demand_cold().urgent.received = Some(found);
            self.predict();
            self.signal_urgent();
        }
    }

    /// Queues the event before earlier ones: an application must know the mark before it learns of readable bytes.
    fn signal_urgent(&mut self) {
        if self.tcb.is_accepted() {
            let (socket, user_token) = (self.id(), self.tcb.user_token);
            self.env.events.push_front(Event::Urgent { socket, user_token });
        }
    }

    /// Drops a mark that lies behind the data that the application has read.
    pub(crate) fn forget_read_mark(&mut self) {
        let read = self.tcb.rcv_nxt() - self.tcb.unconsumed();
        if let Some(cold) = self.shared.cold.get_mut(self.tcb.cold())
            && cold.urgent.received.take_if(|mark| mark.sequence.before(read)).is_some()
        {
            self.shared.cold.release_if_quiet(self.env.arena, self.tcb);
        }
    }

    /// RFC 9293 §3.10.2: makes data up to `ahead` bytes behind the end of the queue urgent.
    fn mark_urgent(&mut self, ahead: i32) {
        let end = self.tcb.snd_end();
        let up = if ahead < 0 { end - ahead.unsigned_abs() } else { end + ahead.unsigned_abs() };
        self.demand_cold().urgent.send = Some(up);
        self.mark_data_if_any();
    }

    /// Sets URG and the urgent pointer, as long as the segment begins before the end of the urgent data.
    pub(crate) fn point_at_urgent(&mut self, header: &mut Header) {
        let una = self.tcb.snd_una();
        let Some(cold) = self.shared.cold.get_mut(self.tcb.cold()) else { return };
        let Some(up) = cold.urgent.send else { return };
        if up.at_or_before(una) {
            cold.urgent.send = None;
        } else if header.sequence.before(up) {
            // RFC 6093 §2.1: a segment farther away points as far as the field allows.
            header.urgent = u16::try_from(up - header.sequence).unwrap_or(u16::MAX);
            header.flags |= URG;
        }
    }
}

impl Tcp {
    /// See [`Stack::urgent`](crate::Stack::urgent).
    pub(crate) fn urgent(&self, id: SocketId) -> Option<Urgent> {
        let tcb = self.resolve(id)?;
        let mark = self.shared.cold.get(tcb.cold())?.urgent.received?;
        Some(Urgent { at: mark.at, byte: mark.byte })
    }

    /// See [`Stack::mark_urgent`](crate::Stack::mark_urgent).
    pub(crate) fn mark_urgent(&mut self, env: &mut Env, id: SocketId, ahead: i32) {
        if let Some(mut connection) = self.named(env, id)
            && connection.tcb.state().accepts_data()
        {
            connection.mark_urgent(ahead);
        }
    }
}

/// Returns true when urgent data waits or is in flight.
pub(crate) fn is_sending_urgent(pool: &ColdPool, tcb: &Tcb) -> bool {
    pool.get(tcb.cold()).and_then(|cold| cold.urgent.send).is_some_and(|up| up.after(tcb.snd_una()))
}

/// The byte at `offset` in the payload.
fn byte_at(arena: &Arena, segment: &Segment, offset: u32) -> Option<u8> {
    let (mut slot, mut offset) = (segment.payload.front(), offset as usize);
    while slot.is_some() {
        let len = arena.queued_len(slot);
        if offset < len {
            return arena.share(slot, offset, 1).payload().first();
        }
        offset -= len;
        slot = arena.next(slot);
    }
    None
}

super::handover::part::parts!(Marks { received, send });
super::handover::part::parts!(Received { sequence, at, byte });
