//! Neighbor table: link addresses by IP address. Read RFC 826, RFC 1122 §2.3.2, RFC 4861 §7.3 first.
//!
//! One state machine for three sources: the kernel's table (`told`), ARP (`heard`), and neighbor discovery (`advertised`,
//! `noticed`). A miss sends up to three requests, a second apart, and holds a few packets for the answer. An entry becomes
//! stale after a minute. When next used it is believed for five seconds more, in which TCP may confirm that packets arrive
//! (`confirm`), so that flowing traffic causes no requests; then the neighbor is probed, and dropped when it does not
//! answer. The table is bounded: when full, the entry that expires first is dropped. It writes no packets: its owner takes
//! requests, released and failed packets from it.
//!
//! ```text
//!            lookup            answer              60 s            lookup           5 s
//!   (none) ---------> Asked ---------> Reachable ---------> Stale ---------> Delay ------> Probed
//!      ^                | 3 unanswered   ^  ^                 | 10 min         |            | |
//!      +----------------+----------------|--|-----------------+----------------|------------+ |
//!                                        |  +---- answer, or TCP confirms -----+--------------+
//!                                       (Told by the kernel: until told otherwise)
//! ```

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::IpAddr;

use ringway_shm::{Burst, Duration, Instant};

use crate::address::MacAddress;

/// An interface and an address on its link.
pub(crate) type Key = (u32, IpAddr);

/// Limits of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Maximum number of entries.
    pub(crate) entries: usize,
    /// Maximum number of packets that wait for one neighbor.
    pub(crate) held_each: usize,
    /// Maximum number of waiting packets.
    pub(crate) held: usize,
}

/// Action for the rest of the stack.
#[derive(Debug)]
pub(crate) enum Task {
    /// Send a request for the address: to all, or (to confirm) to the neighbor itself.
    Ask(Key, Option<MacAddress>),
    /// These packets (from the IP header on) can leave now.
    Release(Key, MacAddress, Burst),
    /// No host has the address; these packets cannot leave.
    Fail(Burst),
    /// A neighbor did not answer.
    Lost(Instant, Key),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asked { tries: u8 },
    Reachable(MacAddress),
    Stale(MacAddress),
    Delay(MacAddress),
    Probed { mac: MacAddress, tries: u8 },
    Told(MacAddress),
}

#[derive(Debug)]
struct Entry {
    state: State,
    deadline: Option<Instant>,
    held: Burst,
}

/// The table; see the module's text.
#[derive(Debug)]
pub(crate) struct NeighborTable {
    limits: Limits,
    entries: BTreeMap<Key, Entry>,
    deadlines: BTreeSet<(Instant, Key)>,
    tasks: VecDeque<Task>,
    held: usize,
    asked: usize,
    /// Number of entries in Delay or Probed.
    doubted: usize,
    dropped: u64,
    changed: bool,
    /// Per interface: times for IPv6 neighbors from its routers.
    times: Vec<Times>,
}

/// Lifetime of a reachable neighbor, and interval of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) reachable: Duration,
    pub(crate) retransmit: Duration,
}

/// What a neighbor advertisement says.
#[derive(Clone, Copy)]
pub(crate) struct Advertised {
    /// The neighbor's link address, if it names one.
    pub(crate) mac: Option<MacAddress>,
    /// It answers our question.
    pub(crate) solicited: bool,
    /// It replaces a link address that is known.
    pub(crate) overrides: bool,
}

impl NeighborTable {
    pub(crate) fn new(limits: Limits) -> NeighborTable {
        NeighborTable {
            limits,
            entries: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            tasks: VecDeque::new(),
            held: 0,
            asked: 0,
            doubted: 0,
            dropped: 0,
            changed: false,
            times: Vec::new(),
        }
    }

    /// What there is beyond a smaller limit goes when the next entry comes.
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Sets a router's values: time for which the IPv6 neighbors of an interface count as reachable, and interval of
    /// requests.
    pub(crate) fn set_times(&mut self, interface: u32, times: Times) {
        let at = interface as usize;
        if self.times.len() <= at {
            self.times.resize(at + 1, TIMES);
        }
        self.times[at] = times;
    }

    fn times(&self, (interface, ip): Key) -> Times {
        let said = self.times.get(interface as usize).filter(|_| ip.is_ipv6());
        said.copied().unwrap_or(TIMES)
    }

    /// Returns true when a neighbor is known, or being resolved.
    #[cfg(test)]
    pub(crate) fn knows(&self, key: Key) -> bool {
        self.entries.contains_key(&key)
    }

    /// Returns the link address of a neighbor; `None`: it is being resolved.
    pub(crate) fn lookup(&mut self, now: Instant, key: Key) -> Option<MacAddress> {
        match self.entries.get(&key).map(|entry| entry.state) {
            Some(State::Reachable(mac) | State::Told(mac) | State::Delay(mac) | State::Probed { mac, .. }) => Some(mac),
            Some(State::Stale(mac)) => {
                self.set(key, State::Delay(mac), Some(now + DELAY_TIME));
                Some(mac)
            }
            Some(State::Asked { .. }) => None,
            None => {
                // Other hosts can cause requests (a SYN from an invented neighbor): leave space for the rest.
                if self.asked < self.limits.entries.div_ceil(2) {
                    self.set(key, State::Asked { tries: 1 }, Some(now + self.times(key).retransmit));
                    self.tasks.push_back(Task::Ask(key, None));
                }
                None
            }
        }
    }

    /// Probes a neighbor whose packets seem to get lost: doubts its ARP entry, and broadcasts the request, since the link
    /// address itself may be wrong. Meanwhile the entry stays in use.
    pub(crate) fn suspect(&mut self, now: Instant, key: Key) {
        if let Some(State::Reachable(mac) | State::Stale(mac) | State::Delay(mac)) =
            self.entries.get(&key).map(|entry| entry.state)
        {
            self.set(key, State::Probed { mac, tries: 1 }, Some(now + self.times(key).retransmit));
            self.tasks.push_back(Task::Ask(key, None));
        }
    }

    /// Returns true when `confirm` has something to do for any neighbor.
    #[inline]
    pub(crate) fn has_doubted(&self) -> bool {
        self.doubted > 0
    }

    /// RFC 4861 §7.3.1: confirms the neighbor; packets sent through it have arrived.
    pub(crate) fn confirm(&mut self, now: Instant, key: Key) {
        if let Some(State::Delay(mac) | State::Probed { mac, .. }) = self.entries.get(&key).map(|entry| entry.state) {
            self.set(key, State::Reachable(mac), Some(now + self.times(key).reachable));
        }
    }

    /// Holds the first packet of `packets` until the neighbor answers. When too many wait, the oldest is dropped.
    pub(crate) fn hold(&mut self, key: Key, packets: &mut Burst) {
        let Some(entry) = self.entries.get_mut(&key).filter(|_| self.limits.held_each > 0) else {
            packets.drop_packet();
            self.dropped += 1;
            return;
        };
        if entry.held.packets() >= self.limits.held_each || (self.held >= self.limits.held && !entry.held.is_empty()) {
            entry.held.drop_packet();
            self.held -= 1;
            self.dropped += 1;
        }
        if self.held >= self.limits.held {
            packets.drop_packet();
            self.dropped += 1;
            return;
        }
        move_packet(packets, &mut entry.held);
        self.held += 1;
    }

    /// Sets or removes an entry of the kernel's table.
    pub(crate) fn told(&mut self, key: Key, mac: Option<MacAddress>) {
        match mac {
            Some(mac) => self.answer(key, mac, State::Told(mac), None),
            None => self.forget(key),
        }
    }

    /// Handles a sender in ARP. A new neighbor is added only with `learn` (RFC 826: the packet was for us).
    pub(crate) fn heard(&mut self, now: Instant, key: Key, mac: MacAddress, learn: bool) {
        let known = self.entries.get(&key).map(|entry| entry.state);
        if known.is_none() && !learn || matches!(known, Some(State::Told(_))) {
            return;
        }
        self.answer(key, mac, State::Reachable(mac), Some(now + self.times(key).reachable));
    }

    /// RFC 4861 §7.2.5: handles a neighbor advertisement. It adds no new neighbor.
    pub(crate) fn advertised(&mut self, now: Instant, key: Key, advertised: Advertised) {
        let Advertised { mac, solicited, overrides } = advertised;
        let Some(state) = self.entries.get(&key).map(|entry| entry.state) else { return };
        if matches!(state, State::Told(_)) {
            return;
        }
        let differs = state.mac().is_some() && mac.is_some_and(|mac| state.mac() != Some(mac));
        if differs && !overrides {
            if let State::Reachable(old) = state {
                self.answer(key, old, State::Stale(old), Some(now + STALE_TIME));
                self.changed = true;
            }
            return;
        }
        let Some(mac) = mac.or(state.mac()) else { return };
        if solicited {
            self.answer(key, mac, State::Reachable(mac), Some(now + self.times(key).reachable));
        } else if differs || state.is_asked() {
            self.answer(key, mac, State::Stale(mac), Some(now + STALE_TIME));
        }
    }

    /// RFC 4861 §7.2.3, §6.2.6, §6.3.4, §8.3: handles a link address named in a message. Whether that neighbor receives our
    /// packets is unknown.
    pub(crate) fn noticed(&mut self, now: Instant, key: Key, mac: MacAddress) {
        let known = self.entries.get(&key).map(|entry| entry.state);
        if matches!(known, Some(State::Told(_))) || known.and_then(State::mac) == Some(mac) {
            return;
        }
        self.answer(key, mac, State::Stale(mac), Some(now + STALE_TIME));
    }

    /// Handles what is due at `now`, a bounded amount of it.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        for _ in 0..TIMEOUTS_PER_CALL {
            let Some(&(_, key)) = self.deadlines.first().filter(|(at, _)| *at <= now) else { return };
            let state = self.entries.get(&key).expect("each deadline has its entry").state;
            let retransmit = self.times(key).retransmit;
            match state {
                State::Asked { tries } if tries < ASK_TRIES => {
                    self.set(key, State::Asked { tries: tries + 1 }, Some(now + retransmit));
                    self.tasks.push_back(Task::Ask(key, None));
                }
                State::Probed { mac, tries } if tries < ASK_TRIES => {
                    self.set(key, State::Probed { mac, tries: tries + 1 }, Some(now + retransmit));
                    self.tasks.push_back(Task::Ask(key, Some(mac)));
                }
                State::Reachable(mac) => {
                    // Header templates made from it become stale, so that their users look the neighbor up again.
                    self.changed = true;
                    self.set(key, State::Stale(mac), Some(now + STALE_TIME));
                }
                State::Delay(mac) => {
                    self.set(key, State::Probed { mac, tries: 1 }, Some(now + retransmit));
                    self.tasks.push_back(Task::Ask(key, Some(mac)));
                }
                State::Asked { .. } | State::Probed { .. } => {
                    self.forget(key);
                    self.tasks.push_back(Task::Lost(now, key));
                }
                State::Stale(_) | State::Told(_) => self.forget(key),
            }
        }
    }

    /// Returns the time at which `handle_timeout` has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Returns the next action.
    pub(crate) fn poll_task(&mut self) -> Option<Task> {
        self.tasks.pop_front()
    }

    /// Returns true when a link address changed since the last call, so that headers made from it are stale.
    pub(crate) fn take_changed(&mut self) -> bool {
        core::mem::take(&mut self.changed)
    }

    /// Returns true when packets were dropped since the last [`take_dropped`](NeighborTable::take_dropped).
    #[inline]
    pub(crate) fn has_dropped(&self) -> bool {
        self.dropped > 0
    }

    /// Returns the number of packets dropped since the last call for lack of space or of an answer.
    pub(crate) fn take_dropped(&mut self) -> u64 {
        core::mem::take(&mut self.dropped)
    }

    fn answer(&mut self, key: Key, mac: MacAddress, state: State, deadline: Option<Instant>) {
        let before = self.entries.get(&key).and_then(|entry| entry.state.mac());
        self.changed |= before != Some(mac);
        self.set(key, state, deadline);
        let held = self.take_held(key);
        if !held.is_empty() {
            self.tasks.push_back(Task::Release(key, mac, held));
        }
    }

    fn forget(&mut self, key: Key) {
        let held = self.take_held(key);
        if !held.is_empty() {
            self.dropped += held.packets() as u64;
            self.tasks.push_back(Task::Fail(held));
        }
        let Some(entry) = self.entries.remove(&key) else { return };
        self.changed |= entry.state.mac().is_some();
        self.asked -= usize::from(entry.state.is_asked());
        self.doubted -= usize::from(entry.state.is_doubted());
        if let Some(at) = entry.deadline {
            self.deadlines.remove(&(at, key));
        }
    }

    /// Changes or adds an entry; makes space for it first.
    fn set(&mut self, key: Key, state: State, deadline: Option<Instant>) {
        let is_new = !self.entries.contains_key(&key);
        while is_new && self.entries.len() >= self.limits.entries {
            // Entries of the kernel have no deadline: when they alone fill the table, the first of them is dropped.
            let soonest = self.deadlines.first().map(|(_, key)| *key).or_else(|| self.entries.keys().next().copied());
            let Some(soonest) = soonest else { break };
            self.forget(soonest);
        }
        let entry = self.entries.entry(key).or_insert(Entry { state, deadline: None, held: Burst::default() });
        let was_asked = entry.deadline.is_some() && entry.state.is_asked();
        let was_doubted = entry.deadline.is_some() && entry.state.is_doubted();
        if let Some(old) = entry.deadline.take() {
            self.deadlines.remove(&(old, key));
        }
        self.asked = self.asked + usize::from(state.is_asked()) - usize::from(was_asked);
        self.doubted = self.doubted + usize::from(state.is_doubted()) - usize::from(was_doubted);
        entry.state = state;
        entry.deadline = deadline;
        if let Some(at) = deadline {
            self.deadlines.insert((at, key));
        }
    }

    fn take_held(&mut self, key: Key) -> Burst {
        let held = self.entries.get_mut(&key).map(|entry| core::mem::take(&mut entry.held)).unwrap_or_default();
        self.held -= held.packets();
        held
    }
}

impl State {
    fn mac(self) -> Option<MacAddress> {
        match self {
            State::Asked { .. } => None,
            State::Reachable(mac) | State::Stale(mac) | State::Delay(mac) | State::Probed { mac, .. } | State::Told(mac) => {
                Some(mac)
            }
        }
    }

    /// Returns true when the neighbor's lifetime has ended while it is in use.
    fn is_doubted(self) -> bool {
        matches!(self, State::Delay(_) | State::Probed { .. })
    }

    fn is_asked(self) -> bool {
        matches!(self, State::Asked { .. })
    }
}

/// Moves the first packet of one burst to the end of another.
pub(crate) fn move_packet(from: &mut Burst, to: &mut Burst) {
    while let Some(frame) = from.pop() {
        let last = !frame.continues();
        to.push(frame);
        if last {
            break;
        }
    }
}

/// Interval of requests, and time after the last one (RFC 1122 §2.3.2.1: at most one a second).
const ASK_INTERVAL: Duration = Duration::from_secs(1);
/// Number of requests before the neighbor counts as absent.
const ASK_TRIES: u8 = 3;
/// Lifetime of an answer and interval of requests, unless a router sets others.
const TIMES: Times = Times { reachable: Duration::from_secs(60), retransmit: ASK_INTERVAL };
/// Lifetime of an unused answer.
const STALE_TIME: Duration = Duration::from_secs(600);
/// RFC 4861 §10, DELAY_FIRST_PROBE_TIME.
const DELAY_TIME: Duration = Duration::from_secs(5);
/// Maximum number of entries handled in one call.
const TIMEOUTS_PER_CALL: usize = 256;

#[cfg(test)]
mod tests;
