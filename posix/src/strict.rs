//! The only place that decides whether something may be the kernel's.
//!
//! Promises: every way to the kernel that is not the program's own wish (a dead or silent service, no space, a
//! destination or an option that the stack does not serve) comes through here; in strict mode it is ENETDOWN instead.
//! Loopback, link-local addresses, multicast and connections to the machine's own addresses are always the kernel's, in
//! strict mode too. Does not do: looking at started programs (`preload/src/reach.rs`).

use crate::Posix;
use crate::address::{Parsed, SocketName, is_kernels, parse};
use crate::errno::{Answer, Errno};
use crate::reasons::Fallback;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};

impl Posix {
    /// Leaves `what` of `call` to the kernel: counts it, logs it if configured, and refuses it in strict mode.
    ///
    /// # Errors
    /// ENETDOWN: it may not be the kernel's.
    pub(crate) fn yield_to_kernel(&self, call: &str, what: &dyn Display, reason: Fallback) -> Answer<()> {
        self.fall_back(call, what, reason);
        self.may_be_kernels(reason)
    }

    /// Like [`yield_to_kernel`](Posix::yield_to_kernel), as the result of a call that returns `None` for the kernel's
    /// call.
    pub(crate) fn leave<T>(&self, call: &str, what: &dyn Display, reason: Fallback) -> Option<Answer<T>> {
        self.yield_to_kernel(call, what, reason).err().map(Err)
    }

    /// Like [`leave`](Posix::leave), for traffic to `remote`.
    pub(crate) fn leave_towards<T>(&self, call: &str, remote: SocketAddr, reason: Fallback) -> Option<Answer<T>> {
        let is_own = self.settings.strict && reason == Fallback::NotOurs && self.is_machines(remote.ip());
        self.leave(call, &remote, if is_own { Fallback::Loopback } else { reason })
    }

    /// Returns true if this machine's kernel has the address, so that traffic to it does not leave the machine.
    fn is_machines(&self, ip: IpAddr) -> bool {
        let domain = if ip.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let Ok(probe) = self.kernel.socket(domain, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) else { return false };
        let name = SocketName::new(SocketAddr::new(ip, 0), ip.is_ipv6());
        let is_own = self.kernel.bind(probe, name.bytes()).is_ok();
        self.kernel.close(probe).ok();
        is_own
    }

    /// # Errors
    /// ENETDOWN: not for this reason. EACCES: a rule denies it, to the kernel too.
    pub(crate) fn may_be_kernels(&self, reason: Fallback) -> Answer<()> {
        match reason {
            Fallback::Loopback | Fallback::LinkLocal | Fallback::Multicast => Ok(()),
            Fallback::Denied => Err(Errno::ACCES),
            _ if self.settings.strict => Err(Errno::NETDOWN),
            _ => Ok(()),
        }
    }

    /// Checks whether a connection with `peer`, or a datagram to it, may be the kernel's.
    ///
    /// # Errors
    /// ENETDOWN: it may not.
    pub(crate) fn may_kernel_reach(&self, peer: &[u8]) -> Answer<()> {
        match parse(peer) {
            Parsed::Inet { address, .. } if self.settings.strict && !is_kernels(address.ip()) => {
                if self.is_machines(address.ip()) { Ok(()) } else { self.may_be_kernels(Fallback::NotOurs) }
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
