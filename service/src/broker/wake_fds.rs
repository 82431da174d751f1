//! The wake descriptors of wait contexts, by the keys under which a process shows them to the brokers of other workers.
//!
//! Promises: a key cannot be guessed; a wake descriptor that no worker rings any more is forgotten; one user does not take all
//! descriptors of the service. Each wake descriptor is one: an eighth of what the service may have is for one user's, a quarter for
//! all users'. Beyond that a process still gets as many as it cannot do without.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ringway_channel::attach::{WakeFdKey, WakeFdKind, make_wake_fd};
use ringway_engine::{Quota, Usage};
use rustix::process::{Resource, getrlimit};
use rustix::rand::{GetRandomFlags, getrandom};

use super::members::ProcessKey;
use crate::live::Live;

/// So many wake descriptors a process gets whatever others have: one, and one that its threads share.
const ALWAYS: usize = 2;

/// The wake descriptors of all brokers of a service.
#[derive(Clone)]
pub(crate) struct WakeFds {
    known: Arc<Mutex<HashMap<WakeFdKey, Known>>>,
    limits: Live<WakeFdLimits>,
}

/// Limits of the number of wake descriptors, one descriptor each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WakeFdLimits {
    /// Of one user.
    pub(crate) per_user: u64,
    /// Of all users.
    pub(crate) all: u64,
}

impl WakeFdLimits {
    /// As configured, else shares of the descriptors that this process may have.
    pub(crate) fn new(per_user: Option<u64>, all: Option<u64>) -> WakeFdLimits {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        WakeFdLimits { per_user: per_user.unwrap_or(descriptors / 8), all: all.unwrap_or(descriptors / 4) }
    }
}

/// Why there is no wake descriptor.
#[derive(Debug)]
pub(super) struct Unmade {
    /// Which quota is used up.
    pub(super) quota: Quota,
    pub(super) text: String,
}

struct Known {
    ringer: Weak<OwnedFd>,
    uid: u32,
    process: ProcessKey,
}

/// A wake descriptor that has just been made.
pub(super) struct Made {
    /// The end that rings it.
    pub(super) ringer: Arc<OwnedFd>,
    /// The application's end.
    pub(super) wake_fd: OwnedFd,
    pub(super) key: WakeFdKey,
}

impl WakeFds {
    pub(crate) fn new(limits: impl Into<Live<WakeFdLimits>>) -> WakeFds {
        WakeFds { known: Arc::default(), limits: limits.into() }
    }

    /// A new wake descriptor for a process of user `uid`.
    pub(super) fn make(&self, uid: u32, process: ProcessKey, kind: WakeFdKind) -> Result<Made, Unmade> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, wake_fd| wake_fd.ringer.strong_count() > 0);
        let (theirs, all) = (known.values().filter(|wake_fd| wake_fd.uid == uid).count() as u64, known.len() as u64);
        let own = known.values().filter(|wake_fd| wake_fd.process == process).count();
        let limits = self.limits.get();
        let hit = if own < ALWAYS {
            None
        } else if theirs >= limits.per_user {
            Some((Quota::WaitContextsOfUser, "limits.wait_contexts_per_user"))
        } else {
            (all >= limits.all).then_some((Quota::WaitContexts, "limits.wait_contexts"))
        };
        if let Some((quota, key)) = hit {
            let text = format!("user {uid} has {theirs} wait contexts and all users {all}, and may have no more ({key})");
            return Err(Unmade { quota, text });
        }
        let none_left = |error: io::Error| Unmade {
            quota: Quota::WaitContexts,
            text: format!("no descriptors are left for a wait context: {error}"),
        };
        let (ringer, wake_fd) = make_wake_fd(kind).map_err(none_left)?;
        let mut key = WakeFdKey::default();
        getrandom(&mut key, GetRandomFlags::empty()).map_err(|error| none_left(error.into()))?;
        let ringer = Arc::new(ringer);
        known.insert(key, Known { ringer: Arc::downgrade(&ringer), uid, process });
        Ok(Made { ringer, wake_fd, key })
    }

    /// Returns the users' numbers of wake descriptors. `None`: they are being looked at just now.
    pub(crate) fn usage(&self) -> Option<Vec<Usage>> {
        let known = self.known.try_lock().ok()?;
        let mut users: BTreeMap<u32, u64> = BTreeMap::new();
        let alive = known.values().filter(|wake_fd| wake_fd.ringer.strong_count() > 0);
        alive.for_each(|wake_fd| *users.entry(wake_fd.uid).or_default() += 1);
        let (all, limits) = (users.values().sum(), self.limits.get());
        let of_user = |(holder, used)| Usage {
            quota: Quota::WaitContextsOfUser,
            holder,
            used: Some(used),
            limit: limits.per_user,
            hits: None,
        };
        let of_all = Usage { quota: Quota::WaitContexts, holder: 0, used: Some(all), limit: limits.all, hits: None };
        Some(users.into_iter().map(of_user).chain([of_all]).collect())
    }

    /// Finds the end that rings the wake descriptor with this key.
    pub(super) fn find(&self, key: &WakeFdKey) -> Option<Arc<OwnedFd>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(key)?.ringer.upgrade()
    }
}

#[cfg(test)]
mod tests;
