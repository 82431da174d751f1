//! Groups and their processes: the number of each in its region.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use super::AttachLimits;
use super::admission::Standing;
use crate::live::Live;
use crate::printable;
use ringway_channel::attach::{Credentials, Peer};
use ringway_channel::{ProcessTable, Shape};
use ringway_engine::{Allowance, Quota, RegionId, RegionMemory, RegionRequest, Rights, Ruling, WorkerHandle};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Generations that are looked back.
const ANCESTORS: usize = 64;

/// A process of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ProcessKey {
    pub(super) region: RegionId,
    /// Its number in the region.
    pub(super) index: u32,
}

/// What a group that is made belongs to, and may have.
#[derive(Clone, Copy)]
pub(super) struct NewGroup {
    /// Its user.
    pub(super) owner: u32,
    pub(super) allowance: Allowance,
}

/// An application group.
pub(super) struct Group {
    token: [u8; 16],
    owner: u32,
    /// Its first program, for people.
    pub(super) program: String,
    pub(super) memory: OwnedFd,
    pub(super) doorbell: OwnedFd,
    processes: ProcessTable,
    /// What the rules of the configuration say of it.
    ruling: Ruling,
    /// Of each number the pid that the worker was last told is gone; it may still stand in the process table.
    told_gone: BTreeMap<u32, u32>,
}

impl Group {
    fn is_reserved_for(&self, index: u32, pid: u32) -> bool {
        self.processes.reserved().contains(&(index, pid))
    }

    /// Returns true if a process of this group can have made process `pid`: it is of the group's user, or
    /// root made the group and its processes give up their rights.
    fn may_have(&self, pid: u32) -> bool {
        pid != 1 && (self.owner == 0 || user_of(pid).is_none_or(|user| user == self.owner))
    }

    /// A child is announced that is not known yet.
    fn expects_child(&self) -> bool {
        self.processes.reserved().iter().any(|(index, pid)| self.told_gone.get(index) != Some(pid))
    }
}

struct Process {
    pid: u32,
    /// It has attached itself; else it is the child of one.
    has_attached: bool,
    /// Readable when it is dead. `None`: not watched yet.
    pidfd: Option<OwnedFd>,
}

impl Process {
    fn child(pid: u32) -> Process {
        Process { pid, has_attached: false, pidfd: None }
    }
}

/// All groups and processes.
pub(super) struct Members {
    worker: WorkerHandle,
    shape: Shape,
    limits: Live<AttachLimits>,
    groups: BTreeMap<RegionId, Group>,
    processes: BTreeMap<ProcessKey, Process>,
}

impl Members {
    pub(super) fn new(worker: WorkerHandle, shape: Shape, limits: Live<AttachLimits>) -> Members {
        Members { worker, shape, limits, groups: BTreeMap::new(), processes: BTreeMap::new() }
    }

    /// Returns the relation of process `pid` to the group with this token, if there is one.
    pub(super) fn standing(&self, token: &[u8; 16], pid: u32) -> Option<Standing> {
        let (region, group) = self.groups.iter().find(|(_, group)| group.token == *token)?;
        let is_reserved = || group.processes.reserved().iter().any(|&(_, expected)| expected == pid);
        Some(Standing { owner: group.owner, is_kin: is_reserved() || self.descends(*region, pid) })
    }

    /// Returns true if a process of the group that still runs is an ancestor of process `pid`, or is that process.
    fn descends(&self, region: RegionId, pid: u32) -> bool {
        let dead = self.dead();
        let alive = self.processes.iter().filter(|(key, _)| key.region == region && !dead.contains(key));
        let members: Vec<u32> = alive.map(|(_, process)| process.pid).collect();
        let lineage = std::iter::successors(Some(pid), |&pid| parent_of(pid));
        lineage.take(ANCESTORS).take_while(|&pid| pid > 1).any(|pid| members.contains(&pid))
    }

    /// Gives `peer` a number in the region of its group, which is made when there is none: the one that it wants, or that is reserved
    /// for its number or its `name`, or a free one. A group that is made is as `of_group` says.
    pub(super) fn join(
        &mut self,
        token: [u8; 16],
        peer: Credentials,
        of_group: NewGroup,
        (wanted, name): (Option<u32>, u32),
    ) -> Result<(ProcessKey, &Group), String> {
        let found = self.groups.iter().find(|(_, group)| group.token == token).map(|(region, _)| *region);
        let region = match found {
            Some(region) => region,
            None => self.make_group(token, Credentials { uid: of_group.owner, ..peer }, of_group.allowance)?,
        };
        let group = self.groups.get(&region).ok_or("the group is gone")?;
        let index = group.processes.claim(peer.pid, wanted.or_else(|| group.processes.reserved_as(name))).ok_or_else(|| {
            // A worker that has stopped counts nothing.
            self.worker.quota_hit(Quota::ProcessesOfGroup, region.0).ok();
            "the application has too many processes (limits.processes_per_group)"
        })?;
        let process = ProcessKey { region, index };
        if self.is_full(process) {
            self.refuse_process(process, peer.pid);
            return Err("the application has too many processes (limits.processes_per_group)".to_owned());
        }
        let group = self.groups.get(&region).ok_or("the group is gone")?;
        let entry = self.processes.entry(process).or_insert_with(|| Process::child(peer.pid));
        if entry.pid != peer.pid {
            // Another process's number, reported wrongly when it was reserved: watch the real holder.
            *entry = Process::child(peer.pid);
        }
        entry.has_attached = true;
        Ok((process, group))
    }

    fn make_group(&mut self, token: [u8; 16], peer: Credentials, allowance: Allowance) -> Result<RegionId, String> {
        let theirs = self.groups.values().filter(|group| group.owner == peer.uid).count();
        if peer.uid != 0 && theirs >= self.limits.get().groups_per_user as usize {
            self.hit(Quota::GroupsOfUser, peer.uid);
            return Err(format!("user {} has {theirs} applications attached (limits.groups_per_user)", peer.uid));
        }
        let (pid, program) = if Peer::is_foreign(peer.pid) {
            (0, "(another PID namespace)".to_owned())
        } else {
            (peer.pid, program_name(peer.pid))
        };
        let described = format!("{program}[{pid}]");
        let request = RegionRequest { token, uid: peer.uid, pid, program, rights: Rights::Shown, allowance };
        let made =
            self.worker.attach_region(request).map_err(|error| format!("no shared memory for this application: {error}"))?;
        let RegionMemory { region, memory, doorbell, .. } = made;
        let processes = ProcessTable::new(memory.as_fd(), self.shape)
            .map_err(|error| format!("the shared memory cannot be mapped: {error}"))?;
        let told_gone = BTreeMap::new();
        let ruling = Ruling { allowance, ..Ruling::default() };
        let group = Group { token, owner: peer.uid, program: described, memory, doorbell, processes, ruling, told_gone };
        self.groups.insert(region, group);
        Ok(region)
    }

    /// Gives the worker the eventfd of a wait context.
    pub(super) fn context(&self, process: ProcessKey, context: u32, ringer: Arc<OwnedFd>) -> Result<(), String> {
        self.worker.context_wake_fd(process.region, context, ringer).map_err(|_| "the worker has stopped".to_owned())
    }

    pub(super) fn pid(&self, process: ProcessKey) -> Option<u32> {
        self.processes.get(&process).map(|known| known.pid)
    }

    pub(super) fn is_watched(&self, process: ProcessKey) -> bool {
        self.processes.get(&process).is_some_and(|known| known.pidfd.is_some())
    }

    /// What watches a process.
    pub(super) fn pidfd(&self, process: ProcessKey) -> Option<OwnedFd> {
        self.processes.get(&process)?.pidfd.as_ref()?.try_clone().ok()
    }

    pub(super) fn set_pidfd(&mut self, process: ProcessKey, pidfd: OwnedFd) {
        if let Some(known) = self.processes.get_mut(&process) {
            known.pidfd = Some(pidfd);
        }
    }

    /// A child was told of. `Some`: it must be watched.
    pub(super) fn forked(&mut self, region: RegionId, index: u32, pid: u32) -> Option<ProcessKey> {
        let process = ProcessKey { region, index };
        let group = self.groups.get(&region)?;
        // A late report may be about a number that another process has by now.
        if self.processes.contains_key(&process) || !group.is_reserved_for(index, pid) {
            return None;
        }
        if pid == 0 {
            self.tell_gone(process, pid);
            return None;
        }
        // An application may lie, but not tie its region to the life of another user's process.
        if !group.may_have(pid) {
            return None;
        }
        if self.is_full(process) {
            self.refuse_process(process, pid);
            return None;
        }
        self.processes.insert(process, Process::child(pid));
        Some(process)
    }

    /// Returns true if the group of a process that is not known yet has as many processes as it may have. Those that obey have asked
    /// before they forked.
    fn is_full(&self, process: ProcessKey) -> bool {
        let allowed = self.groups.get(&process.region).map_or(0, |group| group.ruling.allowance.processes);
        let processes_max = allowed.min(self.limits.get().processes_per_group);
        let range = ProcessKey { index: 0, ..process }..=ProcessKey { index: u32::MAX, ..process };
        !self.processes.contains_key(&process) && self.processes.range(range).count() >= processes_max as usize
    }

    /// Gives up the number of a process beyond the quota: its sockets end.
    fn refuse_process(&mut self, process: ProcessKey, pid: u32) {
        self.hit(Quota::ProcessesOfGroup, process.region.0);
        self.tell_gone(process, pid);
    }

    fn hit(&self, quota: Quota, holder: u32) {
        // A worker that has stopped counts nothing.
        self.worker.quota_hit(quota, holder).ok();
    }

    /// A child was shown for which number `index` was reserved; `number`: it lives, under this one in the service's PID
    /// namespace. `Some`: it must be watched.
    pub(super) fn met(&mut self, region: RegionId, index: u32, number: Option<u32>) -> Option<ProcessKey> {
        let process = ProcessKey { region, index };
        let group = self.groups.get(&region)?;
        // Once the service has written its own name for the child, a second sign tells nothing new.
        let is_unmet = |&(reserved, name): &(u32, u32)| reserved == index && (name == 0 || Peer::is_foreign(name));
        let unmet = group.processes.reserved().into_iter().find(is_unmet);
        let (_, name) = unmet.filter(|_| !self.processes.contains_key(&process))?;
        let Some(number) = number else {
            self.tell_gone(process, name);
            return None;
        };
        if !group.may_have(number) {
            return None;
        }
        if self.is_full(process) {
            self.refuse_process(process, number);
            return None;
        }
        group.processes.keep_for(index, number);
        self.processes.insert(process, Process::child(number));
        Some(process)
    }

    /// The process's last connection has ended, and it may live on.
    pub(super) fn disconnected(&self, process: ProcessKey) {
        if let (Some(known), Some(group)) = (self.processes.get(&process), self.groups.get(&process.region)) {
            group.processes.keep_for(process.index, known.pid);
        }
    }

    /// Processes that have died; what watches them will say so too.
    pub(super) fn dead(&self) -> Vec<ProcessKey> {
        let over = |pidfd: &OwnedFd| {
            let mut set = [PollFd::new(pidfd, PollFlags::IN)];
            poll(&mut set, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
        };
        let known = self.processes.iter().filter(|(_, process)| process.pidfd.as_ref().is_some_and(over));
        known.map(|(key, _)| *key).collect()
    }

    /// Has the worker close what a dead process held, before its end is dealt with.
    pub(super) fn tell_dead(&mut self, process: ProcessKey) {
        if let Some(pid) = self.pid(process) {
            self.tell_gone(process, pid);
        }
    }

    /// A process is dead: returns what watched it.
    pub(super) fn leave(&mut self, process: ProcessKey) -> Option<OwnedFd> {
        let known = self.processes.remove(&process)?;
        self.tell_gone(process, known.pid);
        let expects_child = self.groups.get(&process.region).is_some_and(Group::expects_child);
        if !expects_child && !self.has_processes(process.region) {
            self.forget_group(process.region);
        }
        known.pidfd
    }

    /// Groups without a known process, where a child was reserved that has not come.
    pub(super) fn has_empty_groups(&self) -> bool {
        self.groups.keys().any(|region| !self.has_processes(*region))
    }

    /// No process came.
    pub(super) fn forget_empty_groups(&mut self) {
        let empty: Vec<RegionId> = self.groups.keys().copied().filter(|region| !self.has_processes(*region)).collect();
        for region in empty {
            self.forget_group(region);
        }
    }

    pub(super) fn has_group(&self, region: RegionId) -> bool {
        self.groups.contains_key(&region)
    }

    /// The first program of a group, for people.
    pub(super) fn program(&self, region: RegionId) -> String {
        self.groups.get(&region).map(|group| group.program.clone()).unwrap_or_default()
    }

    /// Processes with their pids, `count` at most, those behind `last`.
    pub(super) fn after(&self, last: Option<ProcessKey>, count: usize) -> Vec<(ProcessKey, u32)> {
        let is_behind = |key: &&ProcessKey| last.is_none_or(|last| **key > last);
        let some = self.processes.keys().filter(is_behind).take(count);
        some.map(|key| (*key, self.processes[key].pid)).collect()
    }

    /// All groups.
    pub(super) fn groups(&self) -> Vec<RegionId> {
        self.groups.keys().copied().collect()
    }

    /// The user of a group.
    pub(super) fn owner(&self, region: RegionId) -> u32 {
        self.groups.get(&region).map_or(0, |group| group.owner)
    }

    /// The processes of a group that have attached themselves, in the order of their numbers; all, if those have ended.
    pub(super) fn pids_of(&self, region: RegionId) -> Vec<u32> {
        let range = ProcessKey { region, index: 0 }..=ProcessKey { region, index: u32::MAX };
        let all = self.processes.range(range).map(|(_, process)| process);
        let has_any = all.clone().any(|process| process.has_attached);
        all.filter(|process| process.has_attached || !has_any).map(|process| process.pid).collect()
    }

    /// Rules of the configuration say this of a group now. Returns false if they have said so before.
    pub(super) fn rule(&mut self, region: RegionId, ruling: Ruling) -> bool {
        let Some(group) = self.groups.get_mut(&region) else { return false };
        std::mem::replace(&mut group.ruling, ruling) != ruling
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.groups.is_empty()
    }

    fn has_processes(&self, region: RegionId) -> bool {
        self.processes.keys().any(|process| process.region == region)
    }

    fn forget_group(&mut self, region: RegionId) {
        self.groups.remove(&region);
        // A worker that has stopped has forgotten it too.
        self.worker.detach_region(region).ok();
    }

    fn tell_gone(&mut self, process: ProcessKey, pid: u32) {
        if let Some(group) = self.groups.get_mut(&process.region) {
            group.told_gone.insert(process.index, pid);
        }
        // A worker that has stopped has nothing to close.
        self.worker.process_gone(process.region, process.index, pid).ok();
    }
}

/// A descriptor that becomes readable when the process dies.
pub(super) fn open_pid(pid: u32) -> io::Result<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// `None`: there is no such process.
fn user_of(pid: u32) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(format!("/proc/{pid}")).ok().map(|metadata| metadata.uid())
}

/// proc(5): what stands behind the name, which may have brackets of its own, is state and parent.
fn parent_of(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    status.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// The name that a program has given itself (PR_SET_NAME).
pub(super) fn program_name(pid: u32) -> String {
    std::fs::read(format!("/proc/{pid}/comm")).map(|name| name_of(&name)).unwrap_or_default()
}

/// Reads what a comm file holds: the name and the end of the line.
pub(super) fn name_of(comm: &[u8]) -> String {
    printable(String::from_utf8_lossy(comm).trim_end())
}
