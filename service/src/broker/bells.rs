//! The bells of wait contexts, by the keys under which a process shows them to the brokers of other workers.
//!
//! Promises: a key cannot be guessed; a bell that no worker rings any more is forgotten. Does not do: counting them; a
//! region has only so many contexts.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ringway_shm::channel::attach::BellKey;
use rustix::rand::{GetRandomFlags, getrandom};

/// Forgotten bells are looked for when there are twice as many as after the last search, but not among fewer than these.
const FEW: usize = 64;

/// The bells of all brokers of a service.
#[derive(Clone, Default)]
pub(crate) struct Bells(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    ringers: HashMap<BellKey, Weak<OwnedFd>>,
    search_at: usize,
}

impl Bells {
    /// Notes the eventfd of a bell; returns its key.
    pub(super) fn note(&self, ringer: &Arc<OwnedFd>) -> io::Result<BellKey> {
        let mut key = BellKey::default();
        getrandom(&mut key, GetRandomFlags::empty())?;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.ringers.len() >= known.search_at {
            known.ringers.retain(|_, ringer| ringer.strong_count() > 0);
            known.search_at = (known.ringers.len() * 2).max(FEW);
        }
        known.ringers.insert(key, Arc::downgrade(ringer));
        Ok(key)
    }

    /// The eventfd of the bell with this key.
    pub(super) fn find(&self, key: &BellKey) -> Option<Arc<OwnedFd>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).ringers.get(key)?.upgrade()
    }
}
