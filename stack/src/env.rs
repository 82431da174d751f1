//! What one layer lends to another for one call, so that functions take one value for it.

use ringway_shm::{Arena, Fifo, Instant};

use crate::event::Event;
use crate::ip::Ip;
use crate::stats::Counters;

/// Environment that the façade lends to a protocol for one call.
pub(crate) struct Env<'a> {
    pub(crate) ip: &'a mut Ip,
    pub(crate) arena: &'a Arena,
    pub(crate) counters: &'a mut Counters,
    pub(crate) events: &'a mut Fifo<Event>,
}

impl Env<'_> {
    /// IP, and its environment at `now`.
    pub(crate) fn ip_at(&mut self, now: Instant) -> (&mut Ip, IpEnv<'_>) {
        (self.ip, IpEnv { now, arena: self.arena, counters: self.counters })
    }
}

/// Environment that the façade or a transport protocol lends to IP for one call.
pub(crate) struct IpEnv<'a> {
    pub(crate) now: Instant,
    pub(crate) arena: &'a Arena,
    pub(crate) counters: &'a mut Counters,
}
