//! What is counted of each connection for `TCP_INFO`, beside its control block.
//!
//! Read RFC 4898 for the meaning of the counters. Three parts: a word in the control block, which is enough for who has been
//! opened and has said nothing; a [`Tally`] for whoever exchanges data (what each segment counts is one addition); and a
//! [`Ledger`] for those that have something rarer to tell: retransmissions, limits, a rate, a tuned receive window. Nothing
//! here decides what is sent but `ledger.receive`, which is `receive_tuning`'s, `ledger.send_buffer_locked`, which is
//! `send_tuning`'s, `ledger.read_shut`, which is `close`'s, and `ledger.patience`, which is `ack`'s.

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
/// Of a connection's word: no tally yet; below it the segments that have come, and those that have left.
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
    /// When payload last came, tick.
    pub(crate) data_received_at: u32,
    /// When payload last left, tick.
    pub(crate) data_sent_at: u32,
    pub(crate) clock: Clock,
    /// The size of the peer's segments, and that of the last one if it was smaller and looked full.
    pub(crate) receive_mss: u16,
    pub(crate) smaller: u16,
    ledger: u32,
}

const _: () = assert!(size_of::<Tally>() == 40, "there is one for each connection that has said something");

impl Tally {
    /// Of a connection with this word, which was opened at `tick`.
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

    /// `packets` have arrived, with `len` bytes of payload together.
    #[inline]
    pub(super) fn arrived(&mut self, packets: u32, len: u32, tick: u32) {
        self.segments_in = self.segments_in.wrapping_add(packets);
        if len > 0 {
            self.data_segments_in = self.data_segments_in.wrapping_add(packets);
            self.data_received_at = tick;
        }
    }

    /// `segments` leave, with `len` bytes of payload together.
    #[inline]
    pub(super) fn departed(&mut self, segments: u32, len: u32, tick: u32) {
        self.segments_out = self.segments_out.wrapping_add(segments);
        if len > 0 {
            self.data_segments_out = self.data_segments_out.wrapping_add(segments);
            self.data_sent_at = tick;
        }
    }
}

/// See the module's text. Times that add up are ticks (milliseconds), as Linux's are jiffies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ledger {
    /// Payload bytes sent again, and in how many segments (with SYNs).
    pub(crate) retransmitted_bytes: u64,
    pub(crate) retransmitted_segments: u32,
    /// Times that data arrived at the peer in another order than it was sent.
    pub(crate) reordered: u32,
    /// How far at most, segments.
    pub(crate) reordering: u32,
    /// Segments that the peer reports to have received twice.
    pub(crate) duplicates: u32,
    /// Packets that have arrived out of order.
    pub(crate) out_of_order: u32,
    /// Retransmission timeouts, episodes of them, and how long those have lasted.
    pub(crate) timeouts: u16,
    pub(crate) timeout_episodes: u16,
    pub(crate) timeout_ms: u32,
    /// When the running episode began, tick; 0: none runs.
    timeout_since: u32,
    pub(crate) window_limited_ms: u32,
    pub(crate) buffer_limited_ms: u32,
    pub(crate) rate: Sampler,
    pub(crate) receive: ReceiveTuning,
    /// SO_SNDBUF was set.
    pub(crate) send_buffer_locked: bool,
    /// TCP_MAXSEG of when our SYN was sent; 0: not set.
    pub(crate) offer_limit: u16,
    /// The application reads no more.
    pub(crate) read_shut: bool,
    /// With the application, whose answer an ACK may wait for.
    pub(crate) patience: Patience,
}

/// When a connection was opened, as long as nothing came since; `tick` is now.
fn opened_at(tcb: &Tcb, tick: u32) -> u32 {
    if tcb.last_received == 0 { tick.max(1) } else { tcb.last_received }
}

/// The tallies of a stack. A connection's word ([`Tcb::tally`](Tcb)) is where its own is, or [`OPENED`] and more.
#[derive(Debug)]
pub(crate) struct Tallies {
    tallies: Vec<Tally>,
    free: Vec<u32>,
    ledgers: Vec<Ledger>,
    free_ledgers: Vec<u32>,
    connections_max: u32,
}

impl Tallies {
    /// None yet; there will be `connections_max` at most.
    pub(crate) fn new(connections_max: u32) -> Tallies {
        Tallies { tallies: Vec::new(), free: Vec::new(), ledgers: Vec::new(), free_ledgers: Vec::new(), connections_max }
    }

    /// Asks for the memory of an entry.
    #[inline]
    pub(crate) fn touch(&self, tcb: &Tcb) {
        if let Some(tally) = self.of(tcb) {
            prefetch(tally);
            prefetch(&tally.ledger);
        }
    }

    /// What is counted of whoever has said something.
    #[inline]
    pub(crate) fn of(&self, tcb: &Tcb) -> Option<&Tally> {
        self.tallies.get(tcb.tally as usize)
    }

    /// What is counted of any connection at `tick`.
    pub(crate) fn read(&self, tcb: &Tcb, tick: u32) -> Tally {
        self.of(tcb).copied().unwrap_or_else(|| Tally::new(tcb.tally, opened_at(tcb, tick)))
    }

    /// Gives a connection a tally.
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

    /// What there is to tell of some.
    #[inline]
    pub(crate) fn ledger(&self, tcb: &Tcb) -> Option<&Ledger> {
        self.ledgers.get(self.of(tcb)?.ledger as usize)
    }

    /// As [`ledger`](Tallies::ledger), to be changed.
    #[inline]
    pub(crate) fn ledger_mut(&mut self, tcb: &Tcb) -> Option<&mut Ledger> {
        let ledger = self.of(tcb)?.ledger;
        self.ledgers.get_mut(ledger as usize)
    }

    /// As [`ledger_mut`](Tallies::ledger_mut), opened now, at `tick`, if there is none.
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

    /// Bytes of all entries.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        size_of_val(&*self.tallies) + size_of_val(&*self.ledgers)
    }

    /// The connection is gone.
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
    /// Whether it has said something.
    pub(crate) fn has_tally(&self) -> bool {
        self.tally < OPENED
    }

    /// Counts segments without payload while there is no tally and the word can tell of them. Returns whether it did.
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
    /// What is counted of whoever has said something, opened now if there is nothing yet.
    pub(crate) fn tally(&mut self) -> &mut Tally {
        if self.tcb.has_tally() {
            return self.known_tally();
        }
        let tick = self.tick();
        self.shared.tallies.open(self.tcb, tick)
    }

    /// As [`tally`](Connection::tally), of a connection that has one: who takes the shortest ways does.
    #[inline]
    pub(crate) fn known_tally(&mut self) -> &mut Tally {
        &mut self.shared.tallies.tallies[self.tcb.tally as usize]
    }

    /// What there is to tell of some, opened now if there is nothing yet.
    pub(crate) fn ledger(&mut self) -> &mut Ledger {
        let tick = self.tick();
        self.shared.tallies.demand(self.tcb, tick)
    }

    /// `packets` have arrived, with `len` bytes of payload together. A handshake needs no tally: until the millisecond after it
    /// is over nothing has happened since.
    pub(crate) fn tally_arrival(&mut self, packets: u32, len: u32) {
        let tick = self.tick();
        let opens = len == 0 && opened_at(self.tcb, tick) == tick.max(1);
        if !(opens && self.tcb.count_opened(packets, 0)) {
            self.tally().arrived(packets, len, tick);
        }
    }

    /// `segments` leave, with `len` bytes of payload together. Who has only sent headers needs no tally.
    pub(crate) fn tally_departure(&mut self, segments: u32, len: u32) {
        if !(len == 0 && self.tcb.count_opened(0, segments)) {
            let tick = self.tick();
            self.tally().departed(segments, len, tick);
        }
    }

    /// The retransmission timer has expired.
    pub(crate) fn tally_timeout(&mut self) {
        let tick = self.tick().max(1);
        let ledger = self.ledger();
        ledger.timeouts = ledger.timeouts.saturating_add(1);
        if ledger.timeout_since == 0 {
            ledger.timeout_since = tick;
            ledger.timeout_episodes = ledger.timeout_episodes.saturating_add(1);
        }
    }

    /// Something was acknowledged after a timeout.
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
