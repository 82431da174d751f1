//! Keeps for the kernel the sockets that BPF programs of cgroups see: of the whole group, since its processes share their sockets.
//!
//! Promises: a process is looked at before it is welcomed, and the processes of a worker that works again and again. What has been the
//! kernel's for a group stays so. Does not do: asking the kernel; see `cgroups`.

use std::collections::BTreeMap;

use ringway_engine::{Guard, RegionId, WorkerHandle};

use super::members::{Members, ProcessKey};
use crate::cgroups::{Cgroups, Finding};

/// Processes that are looked at together; the next look begins behind them.
const LOOKED_AT_MAX: usize = 256;

/// The one that was told: where programs are not respected, the operator alone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    Worker,
    Operator,
}

/// The groups of a broker.
pub(super) struct Confined {
    cgroups: Cgroups,
    worker: WorkerHandle,
    /// One broker tells for all.
    tells: bool,
    /// What each was told of a group's sockets.
    guards: BTreeMap<(RegionId, Told), Guard>,
    last: Option<ProcessKey>,
}

impl Confined {
    pub(super) fn new(cgroups: Cgroups, worker: WorkerHandle, tells: bool) -> Confined {
        Confined { cgroups, worker, tells, guards: BTreeMap::new(), last: None }
    }

    /// The parts of a process's sockets that are seen, when it wants to attach.
    pub(super) fn examine(&self, pid: u32) -> Finding {
        self.cgroups.of(vec![pid]).pop().unwrap_or_default()
    }

    /// Has the worker leave to the kernel what is seen of one of the group's processes.
    ///
    /// # Errors
    /// The worker has stopped.
    pub(super) fn obey(&mut self, region: RegionId, program: &str, found: &Finding) -> Result<(), String> {
        if found.guard.is_empty() {
            return Ok(());
        }
        let is_respected = self.cgroups.is_respected();
        let told = if is_respected { Told::Worker } else { Told::Operator };
        let guard = self.guards.entry((region, told)).or_default();
        if guard.contains(found.guard) {
            return Ok(());
        }
        *guard = *guard | found.guard;
        if self.tells {
            tracing::warn!(target: "ringway::firewall", "{}", self.cgroups.sentence(program, found));
        }
        match is_respected {
            true => self.worker.guard(region, found.guard).map_err(|_| "the worker has stopped".to_owned()),
            false => Ok(()),
        }
    }

    /// Looks at the processes again, some of them where they are many.
    pub(super) fn look_again(&mut self, members: &Members) {
        if !self.cgroups.is_on() {
            return;
        }
        self.guards.retain(|(region, _), _| members.has_group(*region));
        let some = members.after(self.last, LOOKED_AT_MAX);
        self.last = if some.len() < LOOKED_AT_MAX { None } else { some.last().map(|(process, _)| *process) };
        let found = self.cgroups.of(some.iter().map(|(_, pid)| *pid).collect());
        for ((process, _), found) in some.into_iter().zip(found) {
            // A worker that has stopped serves nothing.
            self.obey(process.region, &members.program(process.region), &found).ok();
        }
    }
}
