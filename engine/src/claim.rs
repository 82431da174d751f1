//! Claims: an application's proven right to a port.
//!
//! The service has seen the kernel socket that holds the port, and keeps it: while the claim lives, the port is taken
//! for the whole machine, by the kernel's rules. Does not do: looking at sockets; the service does, in a thread that
//! may wait.

use std::any::Any;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

pub use ringway_channel::attach::Purpose;

/// The right to serve a port; it ends when the last copy is dropped.
#[derive(Clone)]
pub struct Claim {
    /// Purpose of the right.
    pub purpose: Purpose,
    /// Address that the kernel socket is bound to.
    pub local: SocketAddr,
    /// The socket is bound to the IPv6 wildcard and serves IPv4 too.
    pub dual_stack: bool,
    /// Object that holds the port. Dropping it must not wait.
    pub kept: Arc<dyn Any + Send + Sync>,
}

impl std::fmt::Debug for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "claim of {} for {:?}", self.local, self.purpose)
    }
}

impl Claim {
    /// Returns true if the claim is a right to use `ip`:`port` for `purpose`.
    pub(crate) fn covers(&self, purpose: Purpose, ip: IpAddr, port: u16) -> bool {
        let family = self.local.is_ipv4() == ip.is_ipv4() || self.dual_stack;
        let address = self.local.ip() == ip || self.local.ip().is_unspecified() && family;
        self.purpose == purpose && self.local.port() == port && address
    }
}

/// Proof by which an application group shows that a port is its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// A [`Claim`] for each port.
    Shown,
    /// None needed: the group is part of the program that runs the worker.
    Trusted,
}

#[cfg(test)]
mod tests;
