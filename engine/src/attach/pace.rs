//! Rates of datagrams: rules of the configuration set them for a socket, a program, a port. Read `stack/src/tcp/shared_rate.rs` first.
//!
//! A message books the time at which it may leave and waits in its socket until then, rounded up to a millisecond. The messages behind it wait too, and
//! the program as it does at a full socket. Promises: a rate that is not used for two milliseconds leaves as much to use; TCP and UDP share a rate
//! of both. Does not do: the sockets of the kernel.

use ringway_channel::SlotIndex;
use ringway_shm::Instant;
use ringway_stack::{SharedRate, SharedRates};

use super::region::Region;
use super::socket::Kind;
use crate::core::Core;
use crate::verdict::{Terms, Verdict};

/// What holds for a socket of UDP that has a rate.
#[derive(Debug)]
pub(super) struct Pace {
    /// The socket's own.
    own: Option<SharedRate>,
    shared: SharedRates,
    /// What the message that waits has booked.
    leaves_at: Option<Instant>,
}

impl Pace {
    fn of(terms: &Terms) -> Option<Box<Pace>> {
        let own = (terms.rate_max > 0).then(|| SharedRate::new(terms.rate_max));
        (own.is_some() || terms.shares()).then(|| Box::new(Pace { own, shared: terms.shared_rates, leaves_at: None }))
    }

    /// Books time for a message; returns when it may leave.
    fn book(&self, now: Instant, bytes: usize) -> Instant {
        let rates = self.own.iter().chain(self.shared.iter().copied().flatten());
        let booked = rates.map(|rate| rate.book(now.as_micros(), bytes as u32)).max().unwrap_or(0);
        if booked <= now.as_micros() { now } else { Instant::from_millis(booked.div_ceil(1_000)) }
    }
}

impl Region {
    /// A socket of UDP has these terms, and the group's.
    pub(super) fn pace_datagrams(&mut self, slot: SlotIndex, terms: Terms) {
        let terms = self.owner.allowance.terms.and(terms);
        let Some(socket) = self.sockets.get(slot).filter(|socket| socket.terms != terms) else { return };
        socket.terms = terms;
        socket.datagrams.pace = Pace::of(&terms);
        if socket.send_blocked {
            self.retry_later(slot);
        }
    }

    /// The same where the rules have changed and have this `verdict`.
    pub(super) fn follow_datagram_terms(&mut self, slot: SlotIndex, verdict: Verdict) {
        if let Verdict::Serve(terms) = verdict {
            self.pace_datagrams(slot, terms);
        }
    }

    /// Returns true if a message of a socket has to wait for its time, which it has booked then.
    #[inline]
    pub(super) fn has_to_wait(&mut self, slot: SlotIndex, bytes: usize, now: Instant) -> bool {
        let Some(pace) = self.sockets.get(slot).and_then(|socket| socket.datagrams.pace.as_deref_mut()) else { return false };
        let at = pace.leaves_at.take().unwrap_or_else(|| pace.book(now, bytes));
        let waits = at > now;
        if waits {
            pace.leaves_at = Some(at);
            self.paced.insert((at, slot));
        }
        waits
    }

    /// The message whose time has come finds no room in the stack: it need not book again.
    pub(super) fn keep_time(&mut self, slot: SlotIndex, now: Instant) {
        if let Some(pace) = self.sockets.get(slot).and_then(|socket| socket.datagrams.pace.as_deref_mut()) {
            pace.leaves_at = Some(now);
        }
    }

    /// Goes on with the sockets whose time has come; returns true if there were any.
    #[cold]
    pub(super) fn send_paced(&mut self, core: &mut Core) -> bool {
        let mut has_sent = false;
        while let Some((_, slot)) = self.paced.first().copied().filter(|(at, _)| *at <= core.now) {
            self.paced.pop_first();
            if self.sockets.get(slot).is_some_and(|socket| socket.kind == Kind::Datagram && socket.send_blocked) {
                self.ready(slot, core);
                has_sent = true;
            }
        }
        has_sent
    }
}
