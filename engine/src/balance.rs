//! Several workers: the load of this one, and the flow groups that it hands over to a less busy one.
//!
//! ```text
//!   every 100 ms of work   share of the time that it was busy -> Division::weigh -> groups that are better elsewhere
//!   hand over              its connections in these groups are kept here, then the groups are steered to the other worker
//!   for a second after it  connections that still come here to a listener in one of them are kept too, before the answer
//!   while any are kept     those that have ended are forgotten, some at each look
//! ```
//! A connection stays with its worker from its SYN to the end of TIME-WAIT; only the groups' new connections move. If
//! more connections are in TIME-WAIT than can be kept, those are dropped, as in Linux beyond
//! net.ipv4.tcp_max_tw_buckets. Promises: no packet of a connection comes to another worker; a hand-over stops the
//! worker for at most [`FLOWS_MAX`] system calls; a worker that is alone only counts its busy time, and a sleeping one
//! does nothing here. Does not do: deciding; see [`Division::weigh`](crate::Division::weigh).

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use ringway_shm::flow_group::GROUPS;
use ringway_shm::{Duration, Flow, GroupSet, Instant};
use ringway_stack::{Counter, State};

use crate::core::Core;
use crate::metrics::Work;

/// Shortest time between two looks.
const INTERVAL: Duration = Duration::from_millis(100);
/// Weight of the newest look in the average.
const WEIGHT: f64 = 0.25;
/// After a pause of this length the looks before it count nothing.
const SILENCE: Duration = Duration::from_millis(300);
/// Time for which packets steered here earlier may still be on their way.
const LATE: Duration = Duration::from_secs(1);
/// Maximum number of connections that one hand-over may keep.
pub(crate) const FLOWS_MAX: u32 = 4096;
/// Number of kept connections checked at each look.
const LOOKED_AT: usize = 1024;

/// See the module documentation.
pub(crate) struct Balance {
    /// True if there are other workers.
    divided: bool,
    /// Start of the iteration that has found work.
    busy_since: Option<Instant>,
    busy: Duration,
    /// Recent share of time that the worker was busy.
    load: f64,
    looked_at: Instant,
    /// Groups that were handed over recently, and the end of "recently".
    leaving: GroupSet,
    leaving_until: Instant,
    /// Connections in groups that belong to other workers, or did once.
    kept: BTreeSet<Flow>,
    /// The kept connection that was checked last.
    last: Option<Flow>,
    /// SYN cookies sent until the last look.
    cookies: u64,
}

impl Balance {
    pub(crate) fn new(now: Instant, core: &mut Core) -> Balance {
        Balance {
            divided: core.ports.division().is_some(),
            busy_since: None,
            busy: Duration::ZERO,
            load: 0.0,
            looked_at: now,
            leaving: GroupSet::NONE,
            leaving_until: Instant::ZERO,
            kept: BTreeSet::new(),
            last: None,
            cookies: 0,
        }
    }

    /// Begins an iteration: if the one before found work, the time until now was busy.
    #[inline]
    pub(crate) fn turn_begins(&mut self, core: &mut Core) {
        if let Some(since) = self.busy_since.take() {
            let took = core.now.since(since);
            self.busy = self.busy + took;
            core.metrics.turn_took(took);
        }
    }

    /// Keeps the new connections of received packets in groups that are leaving; runs before anything is answered.
    #[inline]
    pub(crate) fn keep_migrating_flows(&mut self, core: &mut Core) {
        if self.leaving == GroupSet::NONE {
            return;
        }
        if core.now >= self.leaving_until {
            self.leaving = GroupSet::NONE;
            return core.stack.watch_groups(GroupSet::NONE);
        }
        for flow in std::mem::take(core.stack.migrating_flows()) {
            if core.ports.is_shared(flow.local) && !self.kept.contains(&flow) {
                self.keep(core, flow);
            }
        }
    }

    /// Ends an iteration. Returns the recent load when the worker's programs should learn it.
    #[inline]
    pub(crate) fn turn_ends(&mut self, core: &mut Core, worked: bool) -> Option<f64> {
        if !worked {
            return None;
        }
        self.busy_since = Some(core.now);
        if core.now < self.looked_at + INTERVAL {
            return None;
        }
        self.measure(core);
        self.divided.then(|| {
            self.forget_ended(core);
            self.weigh(core);
            self.load
        })
    }

    /// Updates the average load; after a long sleep it starts anew.
    fn measure(&mut self, core: &mut Core) {
        let passed = core.now.since(self.looked_at);
        let busy = std::mem::replace(&mut self.busy, Duration::ZERO).as_nanos();
        self.looked_at = core.now;
        core.metrics.add(Work::BusyNanos, busy);
        let share = (busy as f64 / passed.as_nanos().max(1) as f64).min(1.0);
        let before = if passed > SILENCE { 0.0 } else { self.load };
        self.load = before + (share - before) * WEIGHT;
    }

    fn weigh(&mut self, core: &mut Core) {
        let Some(division) = core.ports.division() else { return };
        let groups = division.weigh(core.now, self.load);
        core.metrics.set(Work::FlowGroups, division.groups().iter().count() as u64);
        let cookies = core.stack.counters().get(Counter::SyncookiesSent);
        // The clients that hold our cookies are unknown here, and the other worker would refuse them.
        if groups != GroupSet::NONE && cookies == self.cookies {
            self.hand_over(core, groups);
        }
        self.cookies = cookies;
        core.metrics.set(Work::FlowsKept, self.kept.len() as u64);
    }

    /// Hands over as many of `groups` as have few enough connections here.
    fn hand_over(&mut self, core: &mut Core, groups: GroupSet) {
        let (groups, flows) = choose(groups, flows_of(core, groups));
        let new: Vec<Flow> = flows.into_iter().filter(|flow| !self.kept.contains(flow)).collect();
        let Some(division) = core.ports.division() else { return };
        if groups == GroupSet::NONE || division.hand_over(core.now, groups, &new).is_err() {
            return core.metrics.add(Work::HandOversRefused, 1);
        }
        core.metrics.add(Work::FlowGroupsHandedOver, groups.iter().count() as u64);
        self.kept.extend(new);
        self.leaving = self.leaving.union(groups);
        self.leaving_until = core.now + LATE;
        core.stack.watch_groups(self.leaving);
    }

    fn keep(&mut self, core: &mut Core, flow: Flow) {
        match core.ports.division().map(|division| division.keep(&flow)) {
            Some(Ok(())) => drop(self.kept.insert(flow)),
            _ => core.metrics.add(Work::FlowsNotKept, 1),
        }
    }

    /// Checks the next of the kept connections; an ended one is steered with its group again.
    fn forget_ended(&mut self, core: &mut Core) {
        let from = self.last.map_or(Unbounded, Excluded);
        let next: Vec<Flow> = self.kept.range((from, Unbounded)).take(LOOKED_AT).copied().collect();
        self.last = next.last().copied().filter(|_| next.len() == LOOKED_AT);
        for flow in next.into_iter().filter(|flow| !core.stack.knows(flow)) {
            self.kept.remove(&flow);
            if let Some(division) = core.ports.division() {
                division.forget(&flow);
            }
        }
    }
}

/// Connections in `groups` to listeners of all workers.
fn flows_of(core: &Core, groups: GroupSet) -> Vec<(Flow, State)> {
    let mut flows = Vec::new();
    core.stack.for_each_flow(&mut |flow, state| {
        if groups.contains(flow.group()) && core.ports.is_shared(flow.local) {
            flows.push((*flow, state));
        }
    });
    flows
}

/// Those of `groups` that can go, and the `flows` to keep for that: all of these groups' flows or, if these are too
/// many, all that are not in TIME-WAIT.
fn choose(groups: GroupSet, mut flows: Vec<(Flow, State)>) -> (GroupSet, Vec<Flow>) {
    let all = few_enough(groups, &flows);
    if all.0 == groups {
        return all;
    }
    flows.retain(|(_, state)| *state != State::TimeWait);
    few_enough(groups, &flows)
}

/// Those of `groups`, from the first on, that have at most [`FLOWS_MAX`] of `flows` together, and these flows.
fn few_enough(groups: GroupSet, flows: &[(Flow, State)]) -> (GroupSet, Vec<Flow>) {
    let mut counts = [0; GROUPS];
    flows.iter().for_each(|(flow, _)| counts[flow.group().index()] += 1);
    let mut left = FLOWS_MAX;
    let few = groups.iter().filter(|group| {
        let fits = counts[group.index()] <= left;
        left -= if fits { counts[group.index()] } else { 0 };
        fits
    });
    let few: GroupSet = few.collect();
    let flows = flows.iter().map(|(flow, _)| *flow).filter(|flow| few.contains(flow.group()));
    (few, flows.collect())
}

#[cfg(test)]
mod tests;
