//! Connection statistics for `TCP_INFO`, outside the control block.
//!
//! Read RFC 4898 for the meaning of the counters. Three parts: a word in the control block, enough for a connection that was
//! opened without data; a [`ConnStats`] for one that exchanges data (each count of a segment is one addition); and a [`RareStats`]
//! for rarer state: retransmissions, limits, a rate, a tuned receive window. Only these fields decide what is sent:
//! `RareStats::receive` (`receive_tuning`), `RareStats::send_buffer_locked` (`send_tuning`), `RareStats::read_shut` (`close`), and
//! `RareStats::interactive` (`ack`).

use alloc::vec::Vec;

use ringway_shm::prefetch;

use super::chrono::Chrono;
use super::connection::Connection;
use super::handover::{Rebase, part::parts};
use super::interactive::Interactive;
use super::receive_mss;
use super::receive_tuning::ReceiveTuning;
use super::sampling::Sampler;
use super::table;
use super::tcb::Tcb;

/// No rare statistics.
const NONE: u32 = u32::MAX;
/// In a connection's word: no statistics yet; the lower bits count the segments that have arrived and left.
pub(super) const OPENED: u32 = 1 << 31;
const ARRIVED_SHIFT: u32 = 16;
const ARRIVALS_MAX: u32 = (OPENED >> ARRIVED_SHIFT) - 1;
const DEPARTED: u32 = u16::MAX as u32;

/// See the module's text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnStats {
    pub(crate) segments_in: u32,
    pub(crate) segments_out: u32,
    pub(crate) data_segments_in: u32,
    pub(crate) data_segments_out: u32,
    /// Tick when payload last arrived.
    pub(crate) data_received_at: u32,
    /// Tick when payload last left.
    pub(crate) data_sent_at: u32,
    pub(crate) clock: Chrono,
    /// Size of the peer's segments, and that of the last one if it was smaller and looked full.
    pub(crate) receive_mss: u16,
    pub(crate) smaller: u16,
    rare: u32,
}

const _: () = assert!(size_of::<ConnStats>() == 40, "there is one for each connection that has exchanged data");

impl ConnStats {
    /// Returns the statistics of a connection with this word, opened at `tick`.
    pub(super) fn new(word: u32, tick: u32) -> ConnStats {
        ConnStats {
            segments_in: (word & !OPENED) >> ARRIVED_SHIFT,
            segments_out: word & DEPARTED,
            data_segments_in: 0,
            data_segments_out: 0,
            data_received_at: tick,
            data_sent_at: tick,
            clock: Chrono::default(),
            receive_mss: receive_mss::SIZE_DEFAULT,
            smaller: 0,
            rare: NONE,
        }
    }

    /// Counts `packets` that have arrived, with `len` bytes of payload together.
    #[inline]
    pub(super) fn arrived(&mut self, packets: u32, len: u32, tick: u32) {
        self.segments_in = self.segments_in.wrapping_add(packets);
        if len > 0 {
            self.data_segments_in = self.data_segments_in.wrapping_add(packets);
            self.data_received_at = tick;
        }
    }

    /// Counts `segments` that leave, with `len` bytes of payload together.
    #[inline]
    pub(super) fn departed(&mut self, segments: u32, len: u32, tick: u32) {
        self.segments_out = self.segments_out.wrapping_add(segments);
        if len > 0 {
            self.data_segments_out = self.data_segments_out.wrapping_add(segments);
            self.data_sent_at = tick;
        }
    }
}

/// The counts of a connection that goes to another stack; times in milliseconds, relative to now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    segments_in: u32,
    segments_out: u32,
    data_segments_in: u32,
    data_segments_out: u32,
    data_received_at: u32,
    data_sent_at: u32,
    receive_mss: u16,
    smaller: u16,
}

parts!(Counts {
    segments_in,
    segments_out,
    data_segments_in,
    data_segments_out,
    data_received_at,
    data_sent_at,
    receive_mss,
    smaller
});

/// See the module's text. Accumulated times are ticks (milliseconds), where Linux has jiffies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RareStats {
    /// Payload bytes retransmitted, and number of segments (with SYNs).
    pub(crate) retransmitted_bytes: u64,
    pub(crate) retransmitted_segments: u32,
    /// Number of times that data arrived at the peer out of order.
    pub(crate) reordered: u32,
    /// Largest displacement, segments.
    pub(crate) reordering: u32,
    /// Segments that the peer reports as received twice.
    pub(crate) duplicates: u32,
    /// Packets received out of order.
    pub(crate) out_of_order: u32,
    /// Retransmission timeouts, episodes of them, and the episodes' duration.
    pub(crate) timeouts: u16,
    pub(crate) timeout_episodes: u16,
    pub(crate) timeout_ms: u32,
    /// Tick at which the running episode began; 0: none.
    timeout_since: u32,
    pub(crate) window_limited_ms: u32,
    pub(crate) buffer_limited_ms: u32,
    pub(crate) rate: Sampler,
    pub(crate) receive: ReceiveTuning,
    /// SO_SNDBUF was set.
    pub(crate) send_buffer_locked: bool,
    /// TCP_MAXSEG when our SYN was sent; 0: not set.
    pub(crate) offer_limit: u16,
    /// The application has ended reading.
    pub(crate) read_shut: bool,
    /// State of the delay of ACKs until the application's answer.
    pub(crate) interactive: Interactive,
}

/// Tick at which a connection was opened, as long as nothing has arrived since; `tick` is now.
fn opened_at(tcb: &Tcb, tick: u32) -> u32 {
    if tcb.last_received() == 0 { tick.max(1) } else { tcb.last_received() }
}

/// The statistics of a stack's connections. A connection's word ([`Tcb::stats`](Tcb)) is the index of its statistics, or [`OPENED`] and counts.
#[derive(Debug)]
pub(crate) struct ConnStatsTable {
    conn_stats: Vec<ConnStats>,
    free: Vec<u32>,
    rare: Vec<RareStats>,
    free_ledgers: Vec<u32>,
    connections_max: u32,
}

impl ConnStatsTable {
    /// From now on there will be `connections_max` entries at most.
    pub(crate) fn set_max(&mut self, connections_max: u32) {
        self.connections_max = connections_max;
    }

    /// Makes a table without entries; there will be `connections_max` at most.
    pub(crate) fn new(connections_max: u32) -> ConnStatsTable {
        ConnStatsTable { conn_stats: Vec::new(), free: Vec::new(), rare: Vec::new(), free_ledgers: Vec::new(), connections_max }
    }

    /// Prefetches an entry.
    #[inline]
    pub(crate) fn touch(&self, tcb: &Tcb) {
        if let Some(stats) = self.of(tcb) {
            prefetch(stats);
            prefetch(&stats.rare);
        }
    }

    /// The statistics of a connection that has exchanged data.
    #[inline]
    pub(crate) fn of(&self, tcb: &Tcb) -> Option<&ConnStats> {
        self.conn_stats.get(tcb.stats() as usize)
    }

    /// Like [`of`](ConnStatsTable::of), mutable.
    #[inline]
    pub(crate) fn of_mut(&mut self, tcb: &Tcb) -> Option<&mut ConnStats> {
        self.conn_stats.get_mut(tcb.stats() as usize)
    }

    /// The counts of any connection at `tick`.
    pub(crate) fn read(&self, tcb: &Tcb, tick: u32) -> ConnStats {
        self.of(tcb).copied().unwrap_or_else(|| ConnStats::new(tcb.stats(), opened_at(tcb, tick)))
    }

    /// Makes the statistics of a connection.
    fn open(&mut self, tcb: &mut Tcb, tick: u32) -> &mut ConnStats {
        let stats = ConnStats::new(tcb.stats(), opened_at(tcb, tick));
        let place = self.free.pop().unwrap_or(self.conn_stats.len() as u32);
        tcb.set_stats(place);
        let place = place as usize;
        if place == self.conn_stats.len() {
            table::append(&mut self.conn_stats, stats, self.connections_max);
        } else {
            self.conn_stats[place] = stats;
        }
        &mut self.conn_stats[place]
    }

    /// The rare statistics of a connection, if it has any.
    #[inline]
    pub(crate) fn rare(&self, tcb: &Tcb) -> Option<&RareStats> {
        self.rare.get(self.of(tcb)?.rare as usize)
    }

    /// Like [`rare`](ConnStatsTable::rare), mutable.
    #[inline]
    pub(crate) fn rare_mut(&mut self, tcb: &Tcb) -> Option<&mut RareStats> {
        let rare = self.of(tcb)?.rare;
        self.rare.get_mut(rare as usize)
    }

    /// Like [`rare_mut`](ConnStatsTable::rare_mut); makes them now, at `tick`, if there are none.
    pub(crate) fn demand(&mut self, tcb: &mut Tcb, tick: u32) -> &mut RareStats {
        tcb.has_rare_stats = true;
        if !tcb.has_stats() {
            self.open(tcb, tick);
        }
        let stats = &mut self.conn_stats[tcb.stats() as usize];
        if stats.rare == NONE {
            stats.rare = self.free_ledgers.pop().unwrap_or_else(|| {
                self.rare.push(RareStats::default());
                self.rare.len() as u32 - 1
            });
        }
        &mut self.rare[stats.rare as usize]
    }

    /// Size of all entries in bytes.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        size_of_val(&*self.conn_stats) + size_of_val(&*self.rare)
    }

    /// Frees the entries of a connection that is gone.
    pub(crate) fn end(&mut self, tcb: &mut Tcb) {
        let place = tcb.stats();
        tcb.set_stats(OPENED);
        let Some(stats) = self.conn_stats.get_mut(place as usize) else { return };
        let rare = core::mem::replace(&mut stats.rare, NONE);
        self.free.push(place);
        if rare != NONE {
            self.rare[rare as usize] = RareStats::default();
            self.free_ledgers.push(rare);
        }
    }
}

impl Tcb {
    /// Returns true when the connection has statistics.
    pub(crate) fn has_stats(&self) -> bool {
        self.stats() < OPENED
    }

    /// Counts segments without payload while there are no statistics and the word has space. Returns true when it did.
    fn count_opened(&mut self, arrived: u32, departed: u32) -> bool {
        let (before, arrivals) = (self.stats() & DEPARTED, (self.stats() & !OPENED) >> ARRIVED_SHIFT);
        let can_tell = !self.has_stats() && before + departed <= DEPARTED && arrivals + arrived <= ARRIVALS_MAX;
        if can_tell {
            self.set_stats(self.stats() + (arrived << ARRIVED_SHIFT) + departed);
        }
        can_tell
    }
}

impl Connection<'_, '_> {
    /// The statistics, made now if there are none.
    pub(crate) fn stats(&mut self) -> &mut ConnStats {
        if self.tcb.has_stats() {
            return self.known_stats();
        }
        let tick = self.tick();
        self.shared.conn_stats.open(self.tcb, tick)
    }

    /// Like [`stats`](Connection::stats), for a connection that has them: the fast paths require it.
    #[inline]
    pub(crate) fn known_stats(&mut self) -> &mut ConnStats {
        &mut self.shared.conn_stats.conn_stats[self.tcb.stats() as usize]
    }

    /// The rare statistics, made now if there are none.
    pub(crate) fn rare(&mut self) -> &mut RareStats {
        let tick = self.tick();
        self.shared.conn_stats.demand(self.tcb, tick)
    }

    /// Counts `packets` that have arrived, with `len` bytes of payload together. A handshake needs no statistics: until the
    /// millisecond after it ends nothing else has happened.
    pub(crate) fn note_arrival(&mut self, packets: u32, len: u32) {
        let tick = self.tick();
        let opens = len == 0 && opened_at(self.tcb, tick) == tick.max(1);
        if !(opens && self.tcb.count_opened(packets, 0)) {
            self.stats().arrived(packets, len, tick);
        }
    }

    /// Counts `segments` that leave, with `len` bytes of payload together. A connection that has only sent headers needs no
    /// statistics.
    pub(crate) fn note_departure(&mut self, segments: u32, len: u32) {
        if !(len == 0 && self.tcb.count_opened(0, segments)) {
            let tick = self.tick();
            self.stats().departed(segments, len, tick);
        }
    }

    /// The counts, for another stack.
    pub(crate) fn export_counts(&self, by: Rebase) -> Counts {
        let stats = self.shared.conn_stats.read(self.tcb, self.tick());
        Counts {
            segments_in: stats.segments_in,
            segments_out: stats.segments_out,
            data_segments_in: stats.data_segments_in,
            data_segments_out: stats.data_segments_out,
            data_received_at: by.tick(stats.data_received_at),
            data_sent_at: by.tick(stats.data_sent_at),
            receive_mss: stats.receive_mss,
            smaller: stats.smaller,
        }
    }

    /// Goes on with the counts of another stack.
    pub(crate) fn import_counts(&mut self, counts: &Counts, by: Rebase) {
        let stats = self.stats();
        *stats = ConnStats {
            segments_in: counts.segments_in,
            segments_out: counts.segments_out,
            data_segments_in: counts.data_segments_in,
            data_segments_out: counts.data_segments_out,
            data_received_at: by.tick(counts.data_received_at),
            data_sent_at: by.tick(counts.data_sent_at),
            receive_mss: counts.receive_mss,
            smaller: counts.smaller,
            ..*stats
        };
    }

    /// Counts a retransmission timeout.
    pub(crate) fn note_timeout(&mut self) {
        let tick = self.tick().max(1);
        let rare = self.rare();
        rare.timeouts = rare.timeouts.saturating_add(1);
        if rare.timeout_since == 0 {
            rare.timeout_since = tick;
            rare.timeout_episodes = rare.timeout_episodes.saturating_add(1);
        }
    }

    /// Ends an episode of timeouts: data was acknowledged.
    #[cold]
    pub(crate) fn note_answer(&mut self) {
        let tick = self.tick();
        if let Some(rare) = self.shared.conn_stats.rare_mut(self.tcb)
            && rare.timeout_since != 0
        {
            rare.timeout_ms = rare.timeout_ms.wrapping_add(tick.wrapping_sub(rare.timeout_since));
            rare.timeout_since = 0;
        }
    }
}
