//! Connection statistics for `TCP_INFO`, outside the control block.
//!
//! Read RFC 4898 for the meaning of the counters. Three parts: a word in the control block, enough for a connection that was
//! opened without data; a [`Tally`] for one that exchanges data (each count of a segment is one addition); and a [`Ledger`]
//! for rarer state: retransmissions, limits, a rate, a tuned receive window. Only these fields decide what is sent:
//! `ledger.receive` (`receive_tuning`), `ledger.send_buffer_locked` (`send_tuning`), `ledger.read_shut` (`close`), and
//! `ledger.patience` (`ack`).

use alloc::vec::Vec;

use ringway_shm::prefetch;

use super::clocks::Clock;
use super::connection::Connection;
use super::patience::Patience;
use super::receive_mss;
use super::receive_tuning::ReceiveTuning;
use super::sampling::Sampler;
use super::table;
use super::tcb::Tcb;

/// No ledger.
const NONE: u32 = u32::MAX;
/// In a connection's word: no tally yet; the lower bits count the segments that have arrived and left.
pub(super) const OPENED: u32 = 1 << 31;
const ARRIVED_SHIFT: u32 = 16;
const ARRIVALS_MAX: u32 = (OPENED >> ARRIVED_SHIFT) - 1;
const DEPARTED: u32 = u16::MAX as u32;

/// See the module's text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally {
    pub(crate) segments_in: u32,
    pub(crate) segments_out: u32,
    pub(crate) data_segments_in: u32,
    pub(crate) data_segments_out: u32,
    /// Tick when payload last arrived.
    pub(crate) data_received_at: u32,
    /// Tick when payload last left.
    pub(crate) data_sent_at: u32,
    pub(crate) clock: Clock,
    /// Size of the peer's segments, and that of the last one if it was smaller and looked full.
    pub(crate) receive_mss: u16,
    pub(crate) smaller: u16,
    ledger: u32,
}

const _: () = assert!(size_of::<Tally>() == 40, "there is one for each connection that has exchanged data");

impl Tally {
    /// Tally of a connection with this word, opened at `tick`.
    pub(super) fn new(word: u32, tick: u32) -> Tally {
        Tally {
            segments_in: (word & !OPENED) >> ARRIVED_SHIFT,
            segments_out: word & DEPARTED,
            data_segments_in: 0,
            data_segments_out: 0,
            data_received_at: tick,
            data_sent_at: tick,
            clock: Clock::default(),
            receive_mss: receive_mss::SIZE_DEFAULT,
            smaller: 0,
            ledger: NONE,
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

/// See the module's text. Accumulated times are ticks (milliseconds), where Linux has jiffies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ledger {
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
    pub(crate) patience: Patience,
}

/// Tick at which a connection was opened, as long as nothing has arrived since; `tick` is now.
fn opened_at(tcb: &Tcb, tick: u32) -> u32 {
    if tcb.last_received == 0 { tick.max(1) } else { tcb.last_received }
}

/// The tallies of a stack. A connection's word ([`Tcb::tally`](Tcb)) is the index of its tally, or [`OPENED`] and counts.
#[derive(Debug)]
pub(crate) struct Tallies {
    tallies: Vec<Tally>,
    free: Vec<u32>,
    ledgers: Vec<Ledger>,
    free_ledgers: Vec<u32>,
    connections_max: u32,
}

impl Tallies {
    /// No tallies yet; there will be `connections_max` at most.
    pub(crate) fn new(connections_max: u32) -> Tallies {
        Tallies { tallies: Vec::new(), free: Vec::new(), ledgers: Vec::new(), free_ledgers: Vec::new(), connections_max }
    }

    /// Prefetches an entry.
    #[inline]
    pub(crate) fn touch(&self, tcb: &Tcb) {
        if let Some(tally) = self.of(tcb) {
            prefetch(tally);
            prefetch(&tally.ledger);
        }
    }

    /// The tally of a connection that has exchanged data.
    #[inline]
    pub(crate) fn of(&self, tcb: &Tcb) -> Option<&Tally> {
        self.tallies.get(tcb.tally as usize)
    }

    /// The counts of any connection at `tick`.
    pub(crate) fn read(&self, tcb: &Tcb, tick: u32) -> Tally {
        self.of(tcb).copied().unwrap_or_else(|| Tally::new(tcb.tally, opened_at(tcb, tick)))
    }

    /// Makes a tally for a connection.
    fn open(&mut self, tcb: &mut Tcb, tick: u32) -> &mut Tally {
        let tally = Tally::new(tcb.tally, opened_at(tcb, tick));
        tcb.tally = self.free.pop().unwrap_or(self.tallies.len() as u32);
        let place = tcb.tally as usize;
        if place == self.tallies.len() {
            table::append(&mut self.tallies, tally, self.connections_max);
        } else {
            self.tallies[place] = tally;
        }
        &mut self.tallies[place]
    }

    /// The ledger of a connection, if it has one.
    #[inline]
    pub(crate) fn ledger(&self, tcb: &Tcb) -> Option<&Ledger> {
        self.ledgers.get(self.of(tcb)?.ledger as usize)
    }

    /// Like [`ledger`](Tallies::ledger), mutable.
    #[inline]
    pub(crate) fn ledger_mut(&mut self, tcb: &Tcb) -> Option<&mut Ledger> {
        let ledger = self.of(tcb)?.ledger;
        self.ledgers.get_mut(ledger as usize)
    }

    /// Like [`ledger_mut`](Tallies::ledger_mut); makes one now, at `tick`, if there is none.
    pub(crate) fn demand(&mut self, tcb: &mut Tcb, tick: u32) -> &mut Ledger {
        tcb.has_ledger = true;
        if !tcb.has_tally() {
            self.open(tcb, tick);
        }
        let tally = &mut self.tallies[tcb.tally as usize];
        if tally.ledger == NONE {
            tally.ledger = self.free_ledgers.pop().unwrap_or_else(|| {
                self.ledgers.push(Ledger::default());
                self.ledgers.len() as u32 - 1
            });
        }
        &mut self.ledgers[tally.ledger as usize]
    }

    /// Size of all entries in bytes.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        size_of_val(&*self.tallies) + size_of_val(&*self.ledgers)
    }

    /// Frees the entries of a connection that is gone.
    pub(crate) fn end(&mut self, tcb: &mut Tcb) {
        let place = core::mem::replace(&mut tcb.tally, OPENED);
        let Some(tally) = self.tallies.get_mut(place as usize) else { return };
        let ledger = core::mem::replace(&mut tally.ledger, NONE);
        self.free.push(place);
        if ledger != NONE {
            self.ledgers[ledger as usize] = Ledger::default();
            self.free_ledgers.push(ledger);
        }
    }
}

impl Tcb {
    /// Returns true when the connection has a tally.
    pub(crate) fn has_tally(&self) -> bool {
        self.tally < OPENED
    }

    /// Counts segments without payload while there is no tally and the word has space. Returns true when it did.
    fn count_opened(&mut self, arrived: u32, departed: u32) -> bool {
        let (before, arrivals) = (self.tally & DEPARTED, (self.tally & !OPENED) >> ARRIVED_SHIFT);
        let can_tell = !self.has_tally() && before + departed <= DEPARTED && arrivals + arrived <= ARRIVALS_MAX;
        if can_tell {
            self.tally += (arrived << ARRIVED_SHIFT) + departed;
        }
        can_tell
    }
}

impl Connection<'_, '_> {
    /// The tally, made now if there is none.
    pub(crate) fn tally(&mut self) -> &mut Tally {
        if self.tcb.has_tally() {
            return self.known_tally();
        }
        let tick = self.tick();
        self.shared.tallies.open(self.tcb, tick)
    }

    /// Like [`tally`](Connection::tally), for a connection that has one: the shortest fast paths require it.
    #[inline]
    pub(crate) fn known_tally(&mut self) -> &mut Tally {
        &mut self.shared.tallies.tallies[self.tcb.tally as usize]
    }

    /// The ledger, made now if there is none.
    pub(crate) fn ledger(&mut self) -> &mut Ledger {
        let tick = self.tick();
        self.shared.tallies.demand(self.tcb, tick)
    }

    /// Counts `packets` that have arrived, with `len` bytes of payload together. A handshake needs no tally: until the
    /// millisecond after it ends nothing else has happened.
    pub(crate) fn tally_arrival(&mut self, packets: u32, len: u32) {
        let tick = self.tick();
        let opens = len == 0 && opened_at(self.tcb, tick) == tick.max(1);
        if !(opens && self.tcb.count_opened(packets, 0)) {
            self.tally().arrived(packets, len, tick);
        }
    }

    /// Counts `segments` that leave, with `len` bytes of payload together. A connection that has only sent headers needs no
    /// tally.
    pub(crate) fn tally_departure(&mut self, segments: u32, len: u32) {
        if !(len == 0 && self.tcb.count_opened(0, segments)) {
            let tick = self.tick();
            self.tally().departed(segments, len, tick);
        }
    }

    /// Counts a retransmission timeout.
    pub(crate) fn tally_timeout(&mut self) {
        let tick = self.tick().max(1);
        let ledger = self.ledger();
        ledger.timeouts = ledger.timeouts.saturating_add(1);
        if ledger.timeout_since == 0 {
            ledger.timeout_since = tick;
            ledger.timeout_episodes = ledger.timeout_episodes.saturating_add(1);
        }
    }

    /// Ends an episode of timeouts: data was acknowledged.
    #[cold]
    pub(crate) fn tally_answer(&mut self) {
        let tick = self.tick();
        if let Some(ledger) = self.shared.tallies.ledger_mut(self.tcb)
            && ledger.timeout_since != 0
        {
            ledger.timeout_ms = ledger.timeout_ms.wrapping_add(tick.wrapping_sub(ledger.timeout_since));
            ledger.timeout_since = 0;
        }
    }
}
