//! A flood: what is done with more SYNs or datagrams than the worker can handle.
//!
//! Read RFC 4987 first. A cookie (`stack/src/tcp/cookie.rs`) makes a SYN cost no memory; it still costs an answer, which takes
//! far longer than dropping it. A datagram costs its delivery. Where more come than the worker handles, the device
//! has no room, and loses segments of open connections as well. So the worker drops before the stack sees them, and as many as it
//! must to keep up:
//! ```text
//! full bursts one after the other, mostly SYNs -> a flood: in every full burst the SYNs of sources that send many are dropped
//! still one after the other (many sources)     -> all SYNs of full bursts, but those of known sources
//! a burst that is not full                     -> all are answered
//! ```
//! The same with datagrams. A source is known once a connection from there was accepted ([`KnownSources`]).
//! Promises: segments of open connections are not dropped, and nothing behind which no other packets wait; a source that opens
//! connections now and then is answered beside any number of SYNs from a few sources, and a known one beside SYNs from everywhere.
//! Does not do: tell an unknown source from a forged one; there each SYN has the same chance.

use std::net::IpAddr;

use ringway_shm::{Burst, Duration, Frame, Instant};
use ringway_stack::Medium;
use ringway_stack::wire::classify::{Payload, classify};
use ringway_stack::wire::{ipv4, tcp};

use crate::known_sources::KnownSources;
use crate::metrics::Work;

/// So many full bursts in a row begin a flood: half of a packet ring of the default size.
const FULL_BURSTS: u32 = 64;
/// So many full bursts in a row with more than half of their packets left, and all of the flood's kind are dropped.
const VAIN_BURSTS: u32 = 4;
/// A flood is over when for so long nothing was dropped.
const CALM: Duration = Duration::from_secs(1);

/// Packets of which a flood is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// SYNs that ask for a connection.
    Syn,
    /// UDP datagrams.
    Datagram,
}

impl Kind {
    /// What counts those that are dropped.
    pub(super) fn counter(self) -> Work {
        match self {
            Kind::Syn => Work::SynsDropped,
            Kind::Datagram => Work::DatagramsDropped,
        }
    }
}

/// The floods of one interface.
#[derive(Default)]
pub(super) struct Flood {
    /// Full bursts in a row.
    full: u32,
    /// Those of them that were nearly as full after the drops.
    in_vain: u32,
    /// There is a flood until then, if nothing more is dropped.
    until: Instant,
    /// Made at the first flood.
    sources: Option<Box<Sources>>,
    /// A flood has begun that the operator has not been told of.
    untold: Option<Kind>,
    /// Empty: room for what is left of a burst.
    kept: Burst,
    /// Empty between bursts: room for what is dropped.
    dropped: Burst,
}

impl Flood {
    /// A burst has been received. Returns true if [`shed`](Self::shed) must look at it.
    #[inline]
    pub(super) fn is_suspected(&mut self, now: Instant, full: bool) -> bool {
        if !full {
            (self.full, self.in_vain) = (0, 0);
            return false;
        }
        self.full = self.full.saturating_add(1);
        self.full >= FULL_BURSTS || now < self.until
    }

    /// Takes what a flood has too much out of `received`, a full burst. Returns those packets and their kind; the caller drops them.
    #[cold]
    pub(super) fn shed(
        &mut self,
        now: Instant,
        medium: Medium,
        received: &mut Burst,
        known: &KnownSources,
    ) -> Option<(Kind, &mut Burst)> {
        let before = received.packets();
        let kind = most_of(medium, received)?;
        let begins = now >= self.until;
        let every = self.in_vain >= VAIN_BURSTS;
        let sources = self.sources.get_or_insert_default();
        while let Some(head) = received.front() {
            let drops = kind_and_source(medium, head).is_some_and(|(its, source)| {
                its == kind && (sources.sends_many(known.hash(source)) || every && !known.contains(source))
            });
            if drops {
                self.dropped.append_packet(received);
            } else {
                self.kept.append_packet(received);
            }
        }
        std::mem::swap(received, &mut self.kept);
        let dropped = self.dropped.packets();
        if !every && dropped * 2 < before {
            self.in_vain += 1;
        }
        self.untold = if begins { Some(kind) } else { self.untold };
        self.until = if begins || dropped > 0 { now + CALM } else { self.until };
        Some((kind, &mut self.dropped))
    }

    /// The flood that has begun, once for each.
    pub(super) fn take_untold(&mut self) -> Option<Kind> {
        self.untold.take()
    }
}

/// The kind of at least half of the packets; `None`: there is none.
fn most_of(medium: Medium, received: &Burst) -> Option<Kind> {
    let (mut syns, mut datagrams) = (0, 0);
    for head in received.heads() {
        match kind_and_source(medium, head) {
            Some((Kind::Syn, _)) => syns += 1,
            Some((Kind::Datagram, _)) => datagrams += 1,
            None => {}
        }
    }
    let (kind, count) = if syns >= datagrams { (Kind::Syn, syns) } else { (Kind::Datagram, datagrams) };
    (count * 2 >= received.packets()).then_some(kind)
}

/// What a packet that may be part of a flood is, and where it comes from; `None`: it is none.
fn kind_and_source(medium: Medium, head: &Frame) -> Option<(Kind, IpAddr)> {
    let Some(Payload::Ip(packet)) = classify(medium, head.bytes()) else { return None };
    let kind = match packet.protocol {
        _ if packet.is_fragment => return None,
        ipv4::PROTOCOL_TCP => {
            let flags = *packet.payload.get(tcp::FLAGS_OFFSET)?;
            (flags & (tcp::SYN | tcp::ACK | tcp::RST) == tcp::SYN).then_some(Kind::Syn)?
        }
        ipv4::PROTOCOL_UDP => Kind::Datagram,
        _ => return None,
    };
    Some((kind, packet.source))
}

/// Counters of each row. A flood whose sources are all different leaves less in a counter than [`MANY`].
const COUNTERS: usize = 4096;
/// Packets after which all counters are halved.
const WINDOW: u32 = 16_384;
/// More packets than this among those counted are many.
const MANY: u16 = 128;

/// How many of the last packets came from each source: a count-min sketch of two rows. A source that shares one counter with one that
/// sends many is told from it by the other. The hash is keyed ([`KnownSources::hash`]), so that none can be chosen that shares both.
struct Sources {
    rows: [[u16; COUNTERS]; 2],
    counted: u32,
}

impl Default for Sources {
    fn default() -> Sources {
        Sources { rows: [[0; COUNTERS]; 2], counted: 0 }
    }
}

impl Sources {
    /// Counts a packet; `hash` is its source's. Returns true if the source has sent many.
    fn sends_many(&mut self, hash: u64) -> bool {
        self.counted += 1;
        if self.counted >= WINDOW {
            self.counted = 0;
            self.rows.as_flattened_mut().iter_mut().for_each(|counter| *counter /= 2);
        }
        let hash = hash as usize;
        let [first, second] = &mut self.rows;
        let (first, second) = (&mut first[hash % COUNTERS], &mut second[hash / COUNTERS % COUNTERS]);
        // Only the lesser one grows: what the other counts more is not this source's.
        let count = (*first).min(*second).saturating_add(1);
        (*first, *second) = ((*first).max(count), (*second).max(count));
        count > MANY
    }
}

#[cfg(test)]
mod tests;
