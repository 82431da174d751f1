//! The fast path out: all unsent data is one message, in one extent and no larger than a segment, on a connection with
//! nothing unusual. A small message is queued on a fast path too, when nothing unsent is before it.
//!
//! The headers are written in front of the message, into the frame that holds it, which becomes the packet: no plan, no
//! header by parts, no second look at windows, no second frame and no copy. The send queue keeps the frame until it is
//! acknowledged; it is not written to again, and a retransmission copies or shares it. `output` would send the same segment;
//! every other case is left to it untouched.

use ringway_shm::{Burst, Checksum, Note, Slot};

use crate::source::Source;
use crate::stats::Counter;
use crate::wire::checksum;
use crate::wire::tcp::timestamped::{self, Sent};
use crate::wire::tcp::{ACK, CHECKSUM_OFFSET, PSH, Timestamps};

use super::connection::Connection;
use super::ecn::EcnMode;
use super::output::checksum_field;
use super::send_queue::{PUSHED, SMALL_PAYLOAD, SUM_VALID};
use super::tcb::flag;
use super::windows::Windows;

/// Flags that need the slow path.
const UNUSUAL: u16 = flag::FIN_QUEUED | flag::RETRANSMIT | flag::PROBE | flag::PERSIST | flag::CORK | flag::QUICK_ACK;

impl Connection<'_, '_> {
    /// Sends all unsent data, if the conditions of the module's text hold, and returns its length; otherwise changes
    /// nothing.
    #[inline]
    pub(crate) fn transmit_small(&mut self, out: &mut [Burst]) -> Option<u32> {
        let len = self.small_message()?;
        let (start, flight, now_us) = (self.tcb.snd_nxt(), self.tcb.flight(), self.now_us());
        let below = self.tcb.template.len();
        let sums = !self.tcb.template.link_sums();
        // One extent holds all of it, and its packet has no other part.
        let judge = |queued: usize, note: Note| {
            let is_whole = queued == len as usize && note.sequence == start.0;
            is_whole.then_some(Note { sent_at: now_us, flags: note.flags | PUSHED, ..note })
        };
        let (arena, slot) = (self.env.arena, self.tcb.next_unsent());
        let sum = if sums { Some(arena.note(slot)) } else { None };
        let mut frame = arena.packet_of(slot, below + timestamped::BYTES, judge, |headers, payload| {
            let (network, transport) = headers.split_at_mut(below);
            self.tcb.template.fill(network, timestamped::BYTES + payload.len());
            let payload_sum = sum.map(|note| match note.flags & SUM_VALID {
                0 => checksum::sum(payload),
                _ => note.sum,
            });
            let window = self.advertise_window();
            self.write_fast(transport, window, (timestamped::BYTES + payload.len()) as u16, payload_sum);
        })?;
        if !sums {
            frame.set_checksum(Checksum::Partial { start: below as u16, offset: CHECKSUM_OFFSET as u16 });
        }
        out[self.tcb.template.interface as usize].push(frame);
        // All that was queued is sent: nothing is behind it.
        self.tcb.set_next_unsent(Slot::NONE);
        self.tcb.clear(flag::CWND_LIMITED);
        self.tcb.advance_next(start + len, Some(start + len));
        self.env.counters.count(Counter::TcpOutSegs);
        let tick = self.tick();
        let stats = self.known_stats();
        stats.departed(1, len, tick);
        if let Some(limited) = stats.clock.all_sent(tick) {
            self.reborrow().count_limited(limited);
        }
        self.ack_sent();
        if self.tcb.rto_deadline() == 0 {
            self.start_rto();
        } else {
            self.postpone_probe(flight);
        }
        if flight != 0 {
            // Alone it is less than a segment.
            self.sample_sent(flight);
        }
        #[cfg(test)]
        {
            self.shared.fast_segments += 1;
        }
        Some(len)
    }

    /// Queues a message that fits a small frame, when nothing unsent is in front of it on a connection with nothing unusual
    /// and there is space; otherwise changes nothing.
    #[inline(always)]
    pub(crate) fn queue_small(&mut self, count: usize, source: &mut dyn Source) -> bool {
        let tcb = &*self.tcb;
        let is_open = tcb.prediction.is_marked()
            && !tcb.has(flag::FIN_QUEUED)
            && count.wrapping_sub(1) < SMALL_PAYLOAD
            && count < usize::from(tcb.mss())
            && tcb.unsent() == 0
            && count <= tcb.send_space();
        if !is_open {
            return false;
        }
        // Where frames are scarce, the long way says which sender may take one.
        let shape = self.extent_shape();
        if self.tcb.enqueue_small(self.env.arena, shape, count, source) == 0 {
            return false;
        }
        self.mark_data();
        true
    }

    /// Length of the unsent data, if it can be sent now as one segment without further checks.
    #[inline]
    fn small_message(&self) -> Option<u32> {
        #[cfg(test)]
        if self.shared.long_way_only {
            return None;
        }
        let tcb = &*self.tcb;
        if tcb.has(UNUSUAL) || !(tcb.prediction.is_marked() || self.may_send_fast()) {
            return None;
        }
        debug_assert!(!tcb.prediction.is_marked() || self.is_fast(), "a change of a condition of the mark clears it");
        if tcb.template.generation != self.env.ip.generation() || tcb.template.is_tagged_ipv6() {
            return None;
        }
        let (len, flight, mss) = (tcb.unsent(), tcb.flight(), u32::from(tcb.mss()));
        // Nothing is lost or doubled: all that is in flight counts.
        let Windows { offered, room } = tcb.windows(flight, mss);
        if len.wrapping_sub(1) >= mss - 1 || len > offered.min(room) {
            return None;
        }
        if flight == 0 {
            return (!self.was_idle()).then_some(len);
        }
        tcb.nagle_allows().then_some(len)
    }

    /// Returns true when the fast path may be taken though the mark in the predicted word is missing: the cold object has
    /// nothing against it.
    #[inline(never)]
    fn may_send_fast(&self) -> bool {
        let tcb = &*self.tcb;
        tcb.has_stats()
            && tcb.prediction.is_timestamped()
            && tcb.ecn_mode() == EcnMode::Off
            && self.shared.cold.is_settled(tcb.cold())
            && self.pacing_rate().is_none()
    }

    /// Writes a header with timestamps and no other option, and with its checksum if the payload's sum is given.
    #[inline]
    fn write_fast(&self, bytes: &mut [u8], window: u16, transport_len: u16, payload_sum: Option<u16>) {
        let tcb = &*self.tcb;
        let time = Timestamps { value: self.timestamp(), echo: tcb.ts_recent() };
        let header = Sent::new((tcb.local_port, tcb.remote_port), (tcb.snd_nxt(), tcb.rcv_nxt()), ACK | PSH, window, time);
        let pseudo = checksum::add(tcb.template.pseudo_sum, transport_len);
        header.emit(checksum_field(pseudo, payload_sum.map(|payload| (header.sum(), payload))), bytes);
    }
}
