//! The quotas: what one user, one application group, or all of a service may use up.
//!
//! One table ([`QUOTAS`]) names every quota with its configuration key, unit, scope, default, and the counter that says how
//! often it was hit. The configuration, the statistics file and `ringway nstat` follow it. Does not do: enforcement; each quota
//! is held where the thing is given out.

use std::collections::BTreeMap;

use crate::verdict::Allowance;

/// Whose use a quota bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// All users of the service together.
    Service,
    /// One user: all groups that its processes have made.
    User,
    /// One application group.
    Group,
}

/// The unit of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Bytes.
    Bytes,
    /// Things in a second.
    PerSecond,
}

/// The default of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standard {
    /// A number.
    Number(u64),
    /// The value that the machine or other keys give; the text tells how.
    Auto(&'static str),
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct QuotaInfo {
    /// Which one.
    pub quota: Quota,
    /// Its key in the section `limits` of the configuration.
    pub key: &'static str,
    /// Whose use it bounds.
    pub scope: Scope,
    /// Its unit.
    pub unit: Unit,
    /// Its default.
    pub standard: Standard,
    /// The counter of hits, as `ringway nstat` shows it.
    pub counter: &'static str,
}

macro_rules! quotas {
    ($($(#[$doc:meta])* $quota:ident, $key:literal, $scope:ident, $unit:ident, $standard:expr, $counter:literal;)*) => {
        /// A quota; the table says more.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(usize)]
        pub enum Quota {
            $($(#[$doc])* $quota,)*
        }

        /// All quotas, in the order of the enum.
        pub const QUOTAS: &[QuotaInfo] = &[$(QuotaInfo {
            quota: Quota::$quota,
            key: $key,
            scope: Scope::$scope,
            unit: Unit::$unit,
            standard: $standard,
            counter: $counter,
        },)*];
    };
}

quotas! {
    /// Application groups.
    Groups, "groups", Service, Count, Standard::Number(64), "RingwayQuotaGroupsHits";
    /// Connections that no program has any more.
    Orphans, "orphans", Service, Count, Standard::Number(131_072), "RingwayQuotaOrphansHits";
    /// Kernel sockets that programs have shown.
    ShownSockets, "shown_sockets", Service, Count, Standard::Number(8_192), "RingwayQuotaShownSocketsHits";
    /// Wait contexts, one descriptor each.
    WaitContexts, "wait_contexts", Service, Count, Standard::Auto("a quarter of RLIMIT_NOFILE"), "RingwayQuotaWaitContextsHits";
    /// Ports that the service has chosen for connections, one descriptor each.
    Ports, "ports", Service, Count, Standard::Auto("three quarters of RLIMIT_NOFILE"), "RingwayQuotaPortsHits";
    /// Connections of processes to the broker.
    Connections, "attach_connections", Service, Count, Standard::Number(4_096), "RingwayQuotaConnectionsHits";
    /// Packets of served ports that go on to the kernel.
    KernelPackets, "kernel_packets_per_second", Service, PerSecond, Standard::Number(0), "RingwayQuotaKernelPacketsHits";
    /// Application groups of a user.
    GroupsOfUser, "groups_per_user", User, Count, Standard::Number(16), "RingwayQuotaUserGroupsHits";
    /// Kernel sockets that a user has shown.
    ShownSocketsOfUser, "shown_sockets_per_user", User, Count, Standard::Number(2_048), "RingwayQuotaUserShownSocketsHits";
    /// Wait contexts of a user.
    WaitContextsOfUser, "wait_contexts_per_user", User, Count,
        Standard::Auto("an eighth of RLIMIT_NOFILE"), "RingwayQuotaUserWaitContextsHits";
    /// Connections of a user to the broker that have said nothing yet.
    SilentOfUser, "silent_connections_per_user", User, Count, Standard::Number(64), "RingwayQuotaUserSilentHits";
    /// Ports that the service has chosen for connections of a user.
    PortsOfUser, "ports_per_user", User, Count, Standard::Number(131_072), "RingwayQuotaUserPortsHits";
    /// Half-open connections of a user's listeners.
    HalfOpenOfUser, "half_open_per_user", User, Count, Standard::Number(3_072), "RingwayQuotaUserHalfOpenHits";
    /// Sockets of a group.
    SocketsOfGroup, "sockets_per_group", Group, Count, Standard::Number(131_072), "RingwayQuotaGroupSocketsHits";
    /// Processes of a group.
    ProcessesOfGroup, "processes_per_group", Group, Count, Standard::Number(4_032), "RingwayQuotaGroupProcessesHits";
    /// Requests of a group in a second.
    RequestsOfGroup, "requests_per_second", Group, PerSecond, Standard::Number(10_000_000), "RingwayQuotaGroupRequestsHits";
    /// Memory of a group: its region.
    MemoryOfGroup, "memory_per_group_mib", Group, Bytes,
        Standard::Auto("what the section memory makes of it"), "RingwayQuotaGroupMemoryHits";
    /// Bytes in chunks that one socket of a group holds in one direction.
    ChunksOfSocket, "chunk_bytes_per_socket", Group, Bytes, Standard::Number(1_048_576), "RingwayQuotaSocketChunksHits";
}

/// The number of quotas.
pub const COUNT: usize = QUOTAS.len();

impl Quota {
    /// Its row of the table.
    pub const fn info(self) -> &'static QuotaInfo {
        &QUOTAS[self as usize]
    }

    /// Its default as a number.
    ///
    /// # Panics
    /// When the default is none.
    pub const fn default_number(self) -> u64 {
        match self.info().standard {
            Standard::Number(number) => number,
            Standard::Auto(_) => panic!("the default is no number"),
        }
    }
}

/// One holder's use of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Which quota.
    pub quota: Quota,
    /// The user's number; where the scope is the service, 0.
    pub holder: u32,
    /// The amount that the holder uses; `None`: that is not counted.
    pub used: Option<u64>,
    /// The most it may use.
    pub limit: u64,
    /// How often it was hit so far, where no worker is told of each time.
    pub hits: Option<u64>,
}

/// Tells what users have of quotas that a worker does not count itself. Called in the worker's thread; must not block.
pub type UsageSource = Box<dyn FnMut() -> Vec<Usage> + Send>;

/// One user's quotas of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserQuotas {
    /// Application groups; root may have as many as there are.
    pub groups: u32,
    /// Ports that the service chooses for its connections.
    pub ports: u32,
}

/// One application group's quotas of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupQuotas {
    /// Sockets.
    pub sockets: u32,
    /// Processes.
    pub processes: u32,
    /// Requests in a second.
    pub requests_per_second: u32,
    /// Bytes that one socket holds in chunks, in one direction.
    pub chunk_bytes: u32,
}

impl GroupQuotas {
    /// These, or what `allowance` leaves of them.
    pub(crate) fn allowed(self, allowance: Allowance) -> GroupQuotas {
        GroupQuotas { sockets: self.sockets.min(allowance.sockets), processes: self.processes.min(allowance.processes), ..self }
    }
}

impl Default for UserQuotas {
    fn default() -> UserQuotas {
        UserQuotas { groups: 256, ports: Quota::PortsOfUser.default_number() as u32 }
    }
}

impl Default for GroupQuotas {
    fn default() -> GroupQuotas {
        let default = |quota: Quota| quota.default_number() as u32;
        GroupQuotas {
            sockets: default(Quota::SocketsOfGroup),
            processes: default(Quota::ProcessesOfGroup),
            requests_per_second: default(Quota::RequestsOfGroup),
            chunk_bytes: default(Quota::ChunksOfSocket),
        }
    }
}

/// Holders whose hits are remembered one by one; the sums count all.
const HOLDERS_MAX: usize = 8_192;

/// Counters of hits on quotas: by all, and by each holder.
#[derive(Debug, Default)]
pub(crate) struct Hits {
    sums: [u64; COUNT],
    /// By quota and user, region, or 0 for the service.
    of: BTreeMap<(Quota, u32), u64>,
}

impl Hits {
    /// `holder` is a user's number, a region's, or 0, as the scope says.
    pub(crate) fn add(&mut self, quota: Quota, holder: u32, count: u64) {
        if count == 0 {
            return;
        }
        self.sums[quota as usize] += count;
        if let Some(known) = self.place(quota, holder) {
            let before = *known;
            *known += count;
            tell(quota, holder, before, *known);
        }
    }

    /// As `add`, where the total of one holder is counted elsewhere.
    pub(crate) fn raise_to(&mut self, quota: Quota, holder: u32, total: u64) {
        let before = match self.place(quota, holder) {
            Some(known) if total > *known => std::mem::replace(known, total),
            _ => return,
        };
        self.sums[quota as usize] += total - before;
        tell(quota, holder, before, total);
    }

    fn place(&mut self, quota: Quota, holder: u32) -> Option<&mut u64> {
        let known = self.of.len() < HOLDERS_MAX || self.of.contains_key(&(quota, holder));
        known.then(|| self.of.entry((quota, holder)).or_default())
    }

    pub(crate) fn sums(&self) -> &[u64; COUNT] {
        &self.sums
    }

    pub(crate) fn of(&self, quota: Quota, holder: u32) -> u64 {
        self.of.get(&(quota, holder)).copied().unwrap_or(0)
    }

    /// Forgets a group that is over; the sums stay.
    pub(crate) fn forget_group(&mut self, region: u32) {
        for info in QUOTAS.iter().filter(|info| info.scope == Scope::Group) {
            self.of.remove(&(info.quota, region));
        }
    }
}

/// Logs the first hit, the second, the fourth and so on. Those of a group are a matter of course: it is made to wait.
fn tell(quota: Quota, holder: u32, before: u64, hits: u64) {
    if before > 0 && before.ilog2() == hits.ilog2() {
        return;
    }
    let QuotaInfo { key, scope, .. } = quota.info();
    match scope {
        Scope::Service => tracing::warn!(target: "ringway::quota", hits, "limits.{key} is reached, {hits} times now"),
        Scope::User => {
            tracing::warn!(target: "ringway::quota", uid = holder, hits, "user {holder} has reached limits.{key}, {hits} times now");
        }
        Scope::Group => {
            tracing::debug!(target: "ringway::quota", application = holder, hits, "application {holder} has reached limits.{key}, {hits} times now");
        }
    }
}

#[cfg(test)]
mod tests;
