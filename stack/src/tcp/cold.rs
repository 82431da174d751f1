//! Pooled state that only some connections need: out-of-order data, SACK scoreboard, state of RACK and CUBIC, timeouts of
//! their own. Taken on demand, given back when quiet. A recycled object keeps the capacity of its lists, so that no segment
//! allocates memory.

use alloc::boxed::Box;
use alloc::vec::Vec;

use ringway_shm::{Arena, Slot};

use super::accurate::Accurate;
use super::congestion::cubic::Cubic;
use super::congestion::dctcp::Dctcp;
use super::ecn::EcnState;
use super::fast_open::Early;
use super::frto::Frto;
use super::mtu_probe::MtuProbe;
use super::pacing::Pacing;
use super::prr::Prr;
use super::rack::Rack;
use super::rate_based::RateBased;
use super::reassembly::Reassembly;
use super::sack::Scoreboard;
use super::tcb::Tcb;
use super::tlp::Probe;
use super::undo::Undo;
use super::urgent::Marks;
use crate::config::PathMtuDiscovery;
use crate::wire::tcp::SackBlock;

/// No cold object.
pub(crate) const NONE: u32 = u32::MAX;

/// Limits that an application has set; milliseconds, 0: the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Timeouts {
    pub(crate) keepalive_idle_ms: u32,
    pub(crate) keepalive_interval_ms: u32,
    pub(crate) keepalive_probes: u8,
    pub(crate) user_timeout_ms: u32,
    pub(crate) syn_retries: u8,
    /// `Some(0)`: an orphan does not wait.
    pub(crate) fin_timeout_ms: Option<u32>,
    /// Bytes that may be queued and not sent yet.
    pub(crate) not_sent_low_water: u32,
    pub(crate) path_mtu_discovery: PathMtuDiscovery,
}

super::handover::part::parts!(Timeouts {
    keepalive_idle_ms,
    keepalive_interval_ms,
    keepalive_probes,
    user_timeout_ms,
    syn_retries,
    fin_timeout_ms,
    not_sent_low_water,
    path_mtu_discovery
});

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Cold {
    pub(crate) reassembly: Reassembly,
    pub(crate) scoreboard: Scoreboard,
    pub(crate) cubic: Cubic,
    pub(crate) dctcp: Dctcp,
    pub(crate) timeouts: Timeouts,
    pub(crate) rack: Rack,
    pub(crate) probe: Probe,
    pub(crate) prr: Prr,
    pub(crate) undo: Option<Undo>,
    pub(crate) frto: Frto,
    pub(crate) mtu_probe: MtuProbe,
    pub(crate) ecn: EcnState,
    pub(crate) accurate: Option<Accurate>,
    pub(crate) fast_open: Early,
    pub(crate) pacing: Pacing,
    pub(crate) urgent: Marks,
    pub(crate) rate_based: Option<Box<RateBased>>,
    /// A range that has arrived twice and is to be reported.
    pub(crate) duplicate: Option<SackBlock>,
    /// Hints: slots of the send queue of the last retransmission, of the last arrival, and of RACK's search for losses.
    pub(crate) cursors: [Slot; 3],
    /// Segments that had arrived when MSG_MORE was given; `None`: it is not.
    pub(crate) more_since: Option<u32>,
    /// Tick of the last answer to an invalid segment; 0: never.
    pub(crate) answered_at: u32,
    /// The peer knows a TSval that is ahead of ours by so much: the connection has come from another stack (`handover`).
    pub(crate) clock_ahead: u32,
    /// TS.Recent is not known: the first timestamp of the peer's is it.
    pub(crate) learns_time: bool,
    next_free: u32,
}

/// All cold objects of a stack.
#[derive(Debug, Default)]
pub(crate) struct ColdPool {
    objects: Vec<Cold>,
    free: Option<u32>,
}

impl Cold {
    fn new() -> Cold {
        Cold {
            reassembly: Reassembly::default(),
            scoreboard: Scoreboard::default(),
            cubic: Cubic::default(),
            dctcp: Dctcp::default(),
            timeouts: Timeouts::default(),
            rack: Rack::default(),
            probe: Probe::default(),
            prr: Prr::default(),
            undo: None,
            frto: Frto::Off,
            mtu_probe: MtuProbe::default(),
            ecn: EcnState::default(),
            accurate: None,
            fast_open: Early::Off,
            pacing: Pacing::default(),
            urgent: Marks::default(),
            rate_based: None,
            duplicate: None,
            cursors: [Slot::NONE; 3],
            more_since: None,
            answered_at: 0,
            clock_ahead: 0,
            learns_time: false,
            next_free: NONE,
        }
    }

    /// Returns true when segments may take the fast path: no gap on either side, and no probe or retransmission with an ACK
    /// that matters.
    pub(crate) fn is_undisturbed(&self) -> bool {
        self.reassembly.is_empty()
            && self.scoreboard.is_empty()
            && self.rack.is_idle()
            && self.probe.is_quiet()
            && self.ecn.is_undisturbed()
            && !self.urgent.awaits_byte()
    }

    /// Returns true when dropping the object loses nothing.
    fn is_quiet(&self) -> bool {
        self.is_at_rest()
            && self.rack.is_quiet()
            && self.cubic.is_quiet()
            && self.timeouts == Timeouts::default()
            && self.answered_at == 0
    }

    /// Returns true when segments may take the fast paths: only results of earlier losses and timeouts of the
    /// application are left.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_at_rest()
            && self.rack.is_settled()
            && self.timeouts.not_sent_low_water == 0
            && self.timeouts.path_mtu_discovery == PathMtuDiscovery::default()
    }

    fn is_at_rest(&self) -> bool {
        self.reassembly.is_empty()
            && self.scoreboard.is_empty()
            && self.rack.is_idle()
            && self.probe.is_quiet()
            && self.duplicate.is_none()
            && self.undo.is_none()
            && self.mtu_probe.is_quiet()
            && self.ecn == EcnState::default()
            && self.accurate.is_none()
            && self.pacing.is_quiet()
            && self.rate_based.is_none()
            && self.dctcp == Dctcp::default()
            && self.fast_open.is_off()
            && self.urgent == Marks::default()
            && self.more_since.is_none()
            && self.clock_ahead == 0
            && !self.learns_time
    }
}

impl ColdPool {
    /// The object at `index`, which may be [`NONE`].
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&Cold> {
        if index == NONE { None } else { self.objects.get(index as usize) }
    }

    /// Returns true when the object, if there is one, allows the fast paths.
    pub(crate) fn is_settled(&self, index: u32) -> bool {
        self.get(index).is_none_or(Cold::is_settled)
    }

    /// Like [`get`](ColdPool::get), mutable.
    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Cold> {
        if index == NONE { None } else { self.objects.get_mut(index as usize) }
    }

    /// The object of a connection, taken now if it has none; from then on the fast paths must check it.
    pub(crate) fn demand(&mut self, tcb: &mut Tcb) -> &mut Cold {
        if tcb.cold() == NONE {
            let index = match self.free {
                Some(free) => {
                    let next = self.objects[free as usize].next_free;
                    self.free = (next != NONE).then_some(next);
                    free
                }
                None => {
                    self.objects.push(Cold::new());
                    self.objects.len() as u32 - 1
                }
            };
            tcb.set_cold(index);
        }
        &mut self.objects[tcb.cold() as usize]
    }

    /// Bytes of all objects, without their lists.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        self.objects.len() * size_of::<Cold>()
    }

    /// Gives the object back when dropping it loses nothing.
    pub(crate) fn release_if_quiet(&mut self, arena: &Arena, tcb: &mut Tcb) {
        if self.get(tcb.cold()).is_some_and(Cold::is_quiet) {
            self.release(arena, tcb);
        }
    }

    /// Gives the object back with all its contents.
    pub(crate) fn release(&mut self, arena: &Arena, tcb: &mut Tcb) {
        let next_free = self.free.unwrap_or(NONE);
        let Some(cold) = self.get_mut(tcb.cold()) else { return };
        cold.reassembly.clear(arena);
        cold.scoreboard.clear();
        cold.cubic = Cubic::default();
        cold.dctcp = Dctcp::default();
        cold.timeouts = Timeouts::default();
        cold.rack.reset();
        cold.probe = Probe::default();
        cold.prr = Prr::default();
        cold.undo = None;
        cold.frto = Frto::Off;
        cold.mtu_probe = MtuProbe::default();
        cold.ecn = EcnState::default();
        cold.accurate = None;
        cold.fast_open = Early::Off;
        cold.pacing = Pacing::default();
        cold.urgent = Marks::default();
        cold.rate_based = None;
        cold.duplicate = None;
        cold.cursors = [Slot::NONE; 3];
        cold.answered_at = 0;
        cold.clock_ahead = 0;
        cold.more_since = None;
        cold.next_free = next_free;
        self.free = Some(tcb.cold());
        tcb.set_cold(NONE);
    }
}
