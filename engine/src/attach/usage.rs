//! The use that users and groups make of their quotas, as tools are told.
//!
//! Promises: it is counted when the statistics are written, not while anything is done. Does not do: holding the quotas.

use std::collections::BTreeMap;

use ringway_shm::stats::{Holder, HolderRecord, QuotaRecord};

use super::Attachments;
use super::region::Region;
use crate::core::Core;
use crate::quota::{COUNT, QUOTAS, Quota, QuotaInfo, Scope, Usage, UsageSource};

/// So often a group can say at once that forks of its processes found no number.
const FORKS_REFUSED_MAX: u32 = 1 << 16;

impl Attachments {
    /// Another one that tells of quotas.
    pub(crate) fn show_usage(&mut self, source: UsageSource) {
        self.elsewhere = Some(source);
    }

    /// Writes what is used.
    pub(crate) fn write_usage(&mut self, core: &mut Core) {
        self.note_hits(core);
        if core.metrics.is_written() {
            let holders = self.usage(core);
            core.metrics.write_holders(&holders);
        }
    }

    /// Counts what was refused elsewhere: by the stack, and by processes that obey.
    fn note_hits(&mut self, core: &mut Core) {
        let hits = core.metrics.hits();
        for owner in core.stack.owners() {
            hits.raise_to(Quota::HalfOpenOfUser, owner.owner, owner.hits);
        }
        for region in self.regions.iter_mut().flatten() {
            let refused = region.channel.forks_refused();
            let more = refused.wrapping_sub(region.forks_refused).min(FORKS_REFUSED_MAX);
            region.forks_refused = refused;
            hits.add(Quota::ProcessesOfGroup, region.number, more.into());
        }
        self.over.drain(..).for_each(|region| hits.forget_group(region));
    }

    /// All holders: the service, users, groups.
    pub(crate) fn usage(&mut self, core: &mut Core) -> Vec<HolderRecord> {
        let mut service = Sheet::of(Scope::Service);
        let mut users: BTreeMap<u32, Sheet> = BTreeMap::new();
        let groups = self.live.len() + self.pinned.len();
        let (orphans, orphans_max) = core.orphans();
        let (ports, ports_max) = core.ports.reserved();
        service.set(Quota::Groups, groups as u64, self.regions_max as u64);
        service.set(Quota::Orphans, orphans as u64, orphans_max.into());
        service.set(Quota::Ports, ports, ports_max.unwrap_or(u64::MAX));
        for (uid, usage) in self.of_users(core) {
            let sheet = users.entry(uid).or_insert_with(|| Sheet::of(Scope::User));
            usage.into_iter().for_each(|usage| sheet.set(usage.quota, usage.used, usage.limit));
        }
        for Usage { quota, holder, used, limit, hits } in self.elsewhere.as_mut().map_or_else(Vec::new, |source| source()) {
            hits.into_iter().for_each(|total| core.metrics.hits().raise_to(quota, holder, total));
            let sheet = match quota.info().scope {
                Scope::Service => &mut service,
                Scope::User => users.entry(holder).or_insert_with(|| Sheet::of(Scope::User)),
                Scope::Group => continue,
            };
            sheet.set(quota, used, limit);
        }
        let hits = core.metrics.hits();
        let mut records = vec![service.record(Holder::Service, |quota| hits.of(quota, 0))];
        records.extend(users.into_iter().map(|(uid, sheet)| sheet.record(Holder::User(uid), |quota| hits.of(quota, uid))));
        for region in self.regions.iter().flatten() {
            records.push(region.sheet().record(region.holder(), |quota| hits.of(quota, region.number)));
        }
        records
    }

    /// Of each user that has a group, or that peers hold memory of.
    fn of_users(&self, core: &Core) -> BTreeMap<u32, Vec<Usage>> {
        let owners = self.regions.iter().flatten().map(|region| region.owner.uid);
        let uids = owners.chain(self.pinned.iter().map(|pinned| pinned.uid));
        let mut users: BTreeMap<u32, Vec<Usage>> = uids.map(|uid| (uid, Vec::new())).collect();
        let half_open = core.stack.owners();
        for (&uid, list) in &mut users {
            let most = if uid == 0 { u64::MAX } else { self.regions_per_user_max as u64 };
            let waiting = half_open.iter().find(|owner| owner.owner == uid).map_or(0, |owner| owner.half_open);
            let mut add = |quota, used: u64, limit| list.push(Usage { quota, holder: uid, used: Some(used), limit, hits: None });
            add(Quota::GroupsOfUser, self.groups_of(uid) as u64, most);
            add(Quota::PortsOfUser, core.ports.reserved_of(uid).into(), core.ports.per_user().into());
            add(Quota::HalfOpenOfUser, waiting.into(), core.stack.half_open_per_owner_max().into());
        }
        users
    }
}

impl Region {
    fn holder(&self) -> Holder {
        let owner = &self.owner;
        Holder::Group { region: self.number, uid: owner.uid, pid: owner.pid, program: owner.program.clone() }
    }

    fn sheet(&self) -> Sheet {
        let mut sheet = Sheet::of(Scope::Group);
        let quotas = &self.quotas;
        sheet.set(Quota::SocketsOfGroup, u64::from(self.sockets()), u64::from(quotas.sockets));
        sheet.set(Quota::ProcessesOfGroup, u64::from(self.channel.processes()), quotas.processes.into());
        sheet.set(Quota::MemoryOfGroup, self.channel.used_bytes() as u64, self.channel.shape().bytes() as u64);
        sheet.set(Quota::RequestsOfGroup, None, quotas.requests_per_second.into());
        sheet.set(Quota::ChunksOfSocket, None, quotas.chunk_bytes.into());
        sheet
    }
}

/// The quotas of one holder: what is used, and the most; `None` where it is not counted, or is no quota of such holders.
struct Sheet([Known; COUNT]);

type Known = Option<(Option<u64>, Option<u64>)>;

impl Sheet {
    /// With all quotas of a scope, of which nothing is known yet.
    fn of(scope: Scope) -> Sheet {
        let mut sheet = Sheet([None; COUNT]);
        let quotas = QUOTAS.iter().filter(|info| info.scope == scope);
        quotas.for_each(|info| sheet.0[info.quota as usize] = Some((None, None)));
        sheet
    }

    fn set(&mut self, quota: Quota, used: impl Into<Option<u64>>, limit: u64) {
        self.0[quota as usize] = Some((used.into(), Some(limit).filter(|&limit| limit < u64::MAX)));
    }

    fn record(self, holder: Holder, hits: impl Fn(Quota) -> u64) -> HolderRecord {
        let quota =
            |(known, info): (Known, &QuotaInfo)| known.map(|(used, limit)| QuotaRecord { used, limit, hits: hits(info.quota) });
        HolderRecord { holder, quotas: self.0.into_iter().zip(QUOTAS).map(quota).collect() }
    }
}
