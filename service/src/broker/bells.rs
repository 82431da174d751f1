//! The bells of wait contexts, by the keys under which a process shows them to the brokers of other workers.
//!
//! Promises: a key cannot be guessed; a bell that no worker rings any more is forgotten; one user does not take all
//! descriptors of the service. Each bell is one: an eighth of what the service may have is for one user's, a quarter for
//! all users'. Beyond that a process still gets as many as it cannot do without.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ringway_shm::channel::attach::{BellKey, BellKind, make_bell};
use rustix::process::{Resource, getrlimit};
use rustix::rand::{GetRandomFlags, getrandom};

use super::members::ProcessKey;

/// So many bells a process gets whatever others have: one, and one that its threads share.
const ALWAYS: usize = 2;

/// The bells of all brokers of a service.
#[derive(Clone, Default)]
pub(crate) struct Bells(Arc<Mutex<HashMap<BellKey, Known>>>);

struct Known {
    ringer: Weak<OwnedFd>,
    uid: u32,
    process: ProcessKey,
}

/// A bell that has just been made.
pub(super) struct Made {
    /// What rings it.
    pub(super) ringer: Arc<OwnedFd>,
    /// The application's end.
    pub(super) bell: OwnedFd,
    pub(super) key: BellKey,
}

impl Bells {
    /// A new bell for a process of user `uid`; the text says why there is none.
    pub(super) fn make(&self, uid: u32, process: ProcessKey, kind: BellKind) -> Result<Made, String> {
        let limit = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |limit| limit as usize);
        self.make_within(limit, uid, process, kind)
    }

    fn make_within(&self, descriptors: usize, uid: u32, process: ProcessKey, kind: BellKind) -> Result<Made, String> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, bell| bell.ringer.strong_count() > 0);
        let theirs = known.values().filter(|bell| bell.uid == uid).count();
        let own = known.values().filter(|bell| bell.process == process).count();
        if own >= ALWAYS && (theirs >= descriptors / 8 || known.len() >= descriptors / 4) {
            return Err(format!(
                "user {uid} has {theirs} wait contexts, all users {}: no descriptors are left for more",
                known.len()
            ));
        }
        let none_left = |error: std::io::Error| format!("no descriptors are left for a wait context: {error}");
        let (ringer, bell) = make_bell(kind).map_err(none_left)?;
        let mut key = BellKey::default();
        getrandom(&mut key, GetRandomFlags::empty()).map_err(|error| none_left(error.into()))?;
        let ringer = Arc::new(ringer);
        known.insert(key, Known { ringer: Arc::downgrade(&ringer), uid, process });
        Ok(Made { ringer, bell, key })
    }

    /// What rings the bell with this key.
    pub(super) fn find(&self, key: &BellKey) -> Option<Arc<OwnedFd>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key)?.ringer.upgrade()
    }
}

#[cfg(test)]
mod tests;
