//! Seals on memberships: a process that a service of this name has admitted is admitted by the next one too.
//!
//! ```text
//!   seal = HMAC-SHA256(key of this boot, name, network namespace, token, owner), the first 16 bytes
//! ```
//! A server that has given up its rights, and whose parent sleeps in the kernel, would not be admitted again as what it is. It keeps the
//! seal in its memory, beside the region that the seal stands for; fork copies it, exec does not. Promises: no process can make a seal; one of
//! another service, network namespace or boot is none. Does not do: ending a membership; that takes a new key
//! (docs/isolation.md).

use hmac::{Hmac, Mac};
use ringway_channel::attach::Membership;
use sha2::Sha256;

/// The seals of a service.
#[derive(Clone)]
pub(crate) struct Seals(Hmac<Sha256>);

impl Seals {
    /// Those of the service `name` in the network namespace `network`.
    pub(crate) fn new(key: &[u8; 32], name: &str, network: Option<&str>) -> Seals {
        let mut mac = Hmac::new_from_slice(key).expect("HMAC takes keys of all lengths");
        for part in [name, network.unwrap_or_default()] {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part.as_bytes());
        }
        Seals(mac)
    }

    /// The membership of the processes of a group.
    pub(super) fn membership(&self, token: &[u8; 16], owner: u32) -> Membership {
        let mut seal = [0; 16];
        seal.copy_from_slice(&self.over(token, owner).finalize().into_bytes()[..16]);
        Membership { owner, seal }
    }

    /// Returns true if a service of this name has given this membership in the group to a process.
    pub(super) fn is_right(&self, token: &[u8; 16], membership: &Membership) -> bool {
        self.over(token, membership.owner).verify_truncated_left(&membership.seal).is_ok()
    }

    fn over(&self, token: &[u8; 16], owner: u32) -> Hmac<Sha256> {
        self.0.clone().chain_update(token).chain_update(owner.to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_is_good_for_its_group_and_owner_at_services_of_its_name() {
        let (key, token) = ([7; 32], [1; 16]);
        let seals = Seals::new(&key, "default", Some("net:[1]"));
        let given = seals.membership(&token, 0);
        assert!(Seals::new(&key, "default", Some("net:[1]")).is_right(&token, &given), "the next service");
        let others = [
            Seals::new(&[8; 32], "default", Some("net:[1]")),
            Seals::new(&key, "defaul", Some("tnet:[1]")),
            Seals::new(&key, "default", Some("net:[2]")),
            Seals::new(&key, "default", None),
        ];
        assert!(others.iter().all(|seals| !seals.is_right(&token, &given)));
        assert!(!seals.is_right(&[2; 16], &given) && !seals.is_right(&token, &Membership { owner: 1, ..given }));
        assert!(!seals.is_right(&token, &Membership::default()), "no seal");
    }
}
