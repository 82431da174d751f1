//! Attaching to the service that the environment names.

use super::Attached;
use crate::channel::{Attach, Channel, NotAttached};
use crate::fallback::Fd;
use crate::first_use::FirstUse;
use ringway_channel as shm;
use ringway_channel::attach::{AttachError, Door, Membership, WORKERS_MAX, path_of_worker};
use std::io::ErrorKind;
use std::sync::atomic::Ordering;

/// Parameters from `ringway run`: the service, and the group of this process.
struct Invitation {
    door: Door,
    token: [u8; 16],
    /// What the first service has said of this process.
    membership: FirstUse<Membership>,
}

/// Makes an `Attach` from what RINGWAY_SOCKET names and the value of RINGWAY_GROUP (32 hexadecimal digits).
pub fn from_environment(door: Door, group: &str) -> Box<dyn Attach> {
    Box::new(Invitation { door, token: token_of(group), membership: FirstUse::new() })
}

/// Parses a group token; all invalid tokens stand for one group.
fn token_of(group: &str) -> [u8; 16] {
    let mut token = [0; 16];
    match u128::from_str_radix(group, 16) {
        Ok(number) => token.copy_from_slice(&number.to_be_bytes()),
        Err(_) => token[..group.len().min(16)].copy_from_slice(&group.as_bytes()[..group.len().min(16)]),
    }
    token
}

impl Attached {
    /// Attaches a forked child that has not done so yet; returns false if that fails.
    pub(super) fn is_attached_itself(&self) -> bool {
        if self.must_reattach.swap(false, Ordering::AcqRel) && !self.reattach() {
            self.must_reattach.store(true, Ordering::Release);
            return false;
        }
        true
    }

    fn reattach(&self) -> bool {
        self.clients.iter().all(|client| client.reattach().is_ok())
    }
}

impl Attach for Invitation {
    fn attach(&self, floor: Fd, earlier: u32) -> Result<Box<dyn Channel>, NotAttached> {
        let mut clients = Vec::new();
        let path = self.door.path().map_err(|error| NotAttached::Kernel(error.to_string()))?;
        let membership = self.membership.get().copied().unwrap_or_default();
        for worker in 0..WORKERS_MAX {
            match shm::Client::attach_again(&path_of_worker(&path, worker), self.token, membership, floor) {
                Ok(client) => clients.push(client),
                Err(AttachError::System(error)) if worker > 0 && error.kind() == ErrorKind::NotFound => break,
                Err(AttachError::Denied(reason)) => return Err(NotAttached::Denied(reason)),
                Err(error) => return Err(NotAttached::Kernel(error.to_string())),
            }
        }
        if let Some(client) = clients.first() {
            self.membership.get_or_init(|| Box::new(client.membership()));
        }
        Ok(Box::new(Attached::new(clients, earlier)))
    }

    fn service(&self) -> String {
        self.door.service()
    }
}
