//! What is counted of each connection for `TCP_INFO`, beside its control block.
//!
//! Read RFC 4898 for the meaning of the counters. Two parts: a [`Tally`] for every connection, in an array that is indexed
//! like the control blocks (what each segment counts is one addition), and a [`Ledger`] from a pool for those that
//! have something rarer to tell: retransmissions, limits, a rate, a tuned receive window. Nothing here decides what is
//! sent but `ledger.receive`, which is `receive_tuning`'s,
//! `ledger.send_buffer_locked`, which is `send_tuning`'s, `ledger.read_shut`, which is `close`'s, and `ledger.patience`, which is
//! `ack`'s.

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

const _: () = assert!(size_of::<Tally>() == 40, "there is one for each connection");

impl Tally {
    pub(super) fn new(tick: u32) -> Tally {
        Tally {
            segments_in: 0,
            segments_out: 0,
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

/// The tallies of all connections of a stack.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    tallies: Vec<Tally>,
    ledgers: Vec<Ledger>,
    free: Vec<u32>,
}

impl Tallies {
    /// A connection's block is used from now on; there will be `most` at most.
    pub(crate) fn begin(&mut self, index: u32, tick: u32, most: u32) {
        debug_assert!(index as usize <= self.tallies.len(), "blocks are taken in order");
        if index as usize == self.tallies.len() {
            table::append(&mut self.tallies, Tally::new(tick), most);
        } else {
            self.tallies[index as usize] = Tally::new(tick);
        }
    }

    /// Asks for the memory of an entry.
    #[inline]
    pub(crate) fn touch(&self, index: u32) {
        let tally = &self.tallies[index as usize];
        prefetch(tally);
        prefetch(&tally.ledger);
    }

    /// What is counted of every connection.
    #[inline]
    pub(crate) fn of(&self, index: u32) -> &Tally {
        &self.tallies[index as usize]
    }

    /// As [`of`](Tallies::of), to be changed.
    #[inline]
    pub(crate) fn of_mut(&mut self, index: u32) -> &mut Tally {
        &mut self.tallies[index as usize]
    }

    /// What there is to tell of some.
    #[inline]
    pub(crate) fn ledger(&self, index: u32) -> Option<&Ledger> {
        match self.of(index).ledger {
            NONE => None,
            ledger => self.ledgers.get(ledger as usize),
        }
    }

    /// As [`ledger`](Tallies::ledger), to be changed.
    #[inline]
    pub(crate) fn ledger_mut(&mut self, index: u32) -> Option<&mut Ledger> {
        match self.of(index).ledger {
            NONE => None,
            ledger => self.ledgers.get_mut(ledger as usize),
        }
    }

    /// As [`ledger_mut`](Tallies::ledger_mut), opened now if there is none.
    pub(crate) fn demand(&mut self, index: u32, tcb: &mut Tcb) -> &mut Ledger {
        let tally = &mut self.tallies[index as usize];
        tcb.has_ledger = true;
        if tally.ledger == NONE {
            tally.ledger = self.free.pop().unwrap_or_else(|| {
                self.ledgers.push(Ledger::default());
                self.ledgers.len() as u32 - 1
            });
        }
        &mut self.ledgers[tally.ledger as usize]
    }

    /// Bytes of all entries.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        self.tallies.len() * size_of::<Tally>() + self.ledgers.len() * size_of::<Ledger>()
    }

    /// The connection is gone.
    pub(crate) fn end(&mut self, index: u32) {
        let ledger = core::mem::replace(&mut self.tallies[index as usize].ledger, NONE);
        if ledger != NONE {
            self.ledgers[ledger as usize] = Ledger::default();
            self.free.push(ledger);
        }
    }
}

impl Connection<'_, '_> {
    /// What is counted of every connection.
    #[inline]
    pub(crate) fn tally(&mut self) -> &mut Tally {
        self.shared.tallies.of_mut(self.index)
    }

    /// What there is to tell of some, opened now if there is nothing yet.
    pub(crate) fn ledger(&mut self) -> &mut Ledger {
        self.shared.tallies.demand(self.index, self.tcb)
    }

    /// `packets` have arrived, with `len` bytes of payload together. Returns the tally.
    #[inline]
    pub(crate) fn tally_arrival(&mut self, packets: u32, len: u32) -> &mut Tally {
        let tick = self.tick();
        let tally = self.tally();
        tally.segments_in = tally.segments_in.wrapping_add(packets);
        if len > 0 {
            tally.data_segments_in = tally.data_segments_in.wrapping_add(packets);
            tally.data_received_at = tick;
        }
        tally
    }

    /// `segments` leave, with `len` bytes of payload together. Returns the tally.
    #[inline]
    pub(crate) fn tally_departure(&mut self, segments: u32, len: u32) -> &mut Tally {
        let tick = self.tick();
        let tally = self.tally();
        tally.segments_out = tally.segments_out.wrapping_add(segments);
        if len > 0 {
            tally.data_segments_out = tally.data_segments_out.wrapping_add(segments);
            tally.data_sent_at = tick;
        }
        tally
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
        if let Some(ledger) = self.shared.tallies.ledger_mut(self.index)
            && ledger.timeout_since != 0
        {
            ledger.timeout_ms = ledger.timeout_ms.wrapping_add(tick.wrapping_sub(ledger.timeout_since));
            ledger.timeout_since = 0;
        }
    }
}
