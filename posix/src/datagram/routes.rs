//! Datagram destinations that are the stack's: the worker's answers, kept for a short time because routes may change.
//!
//! Promises: a datagram that the stack would send from another address, or through another interface, than requested
//! (IP_PKTINFO) is not the stack's; the kernel sends it, or returns the error.

use crate::Posix;
use crate::address::is_kernels;
use crate::channel::{Channel, ControlAnswer, Request};
use crate::fd_table::SocketRef;
use crate::reasons::Fallback;
use ringway_shm::{Duration, Instant};
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;

/// Route of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) remote: IpAddr,
    /// Requested source address.
    pub(crate) source: Option<IpAddr>,
    /// Requested interface number; 0: any.
    pub(crate) interface: u32,
}

impl From<IpAddr> for Way {
    fn from(remote: IpAddr) -> Way {
        Way { remote, source: None, interface: 0 }
    }
}

/// Answers about some routes, with their end of life.
#[derive(Default)]
pub(crate) struct Routes {
    entries: Mutex<Vec<(Way, bool, Instant)>>,
}

impl Routes {
    pub(super) fn look_up(&self, way: Way, now: Instant) -> Option<bool> {
        let entries = self.entries.try_lock().ok()?;
        entries.iter().find(|(known, _, until)| *known == way && *until > now).map(|(_, ours, _)| *ours)
    }

    pub(super) fn note(&self, way: Way, ours: bool, until: Instant) {
        // Another thread is busy here, or this is a signal handler: the next caller asks again.
        let Ok(mut entries) = self.entries.try_lock() else { return };
        entries.retain(|(known, ..)| *known != way);
        if entries.len() == ROUTES_MAX {
            entries.remove(0);
        }
        entries.push((way, ours, until));
    }
}

impl Posix {
    /// Returns true if an interface of the stack leads there in this way. Asks through `socket`, or through a temporary
    /// one.
    pub(super) fn leads(&self, channel: &dyn Channel, socket: Option<SocketRef>, remote: SocketAddr, way: Way) -> bool {
        let now = self.kernel.now();
        if let Some(known) = self.routes.look_up(way, now) {
            return known;
        }
        let ask = |request| match socket {
            Some(socket) => self.ask(channel, socket, request, &mut []),
            None => self.ask_once(channel, request),
        };
        let Some(answer) = ask(Request::Route { remote, interface: way.interface }) else { return false };
        let owns = |source| ask(Request::Owns { local: SocketAddr::new(source, 0) }) == Some(ControlAnswer::Done);
        let ours = answer == ControlAnswer::Done && way.source.is_none_or(owns);
        // Groups are the kernel's in most cases, and that is no news.
        if !ours && !is_kernels(remote.ip()) {
            self.fall_back("sendto", &remote, Fallback::NotOurs);
        }
        self.routes.note(way, ours, now + ROUTE_LIFE);
        ours
    }
}

const ROUTES_MAX: usize = 64;
/// Time for which senders may not know of a changed route.
const ROUTE_LIFE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests;
