//! `TCP_INFO` of a connection, and what it is like between two packets.

use alloc::vec::Vec;

use ringway_shm::{Flow, Instant};

use super::Stack;
use crate::env::Env;
use crate::event::SocketId;
use crate::tcp::{EndedConnection, Observation, TcpInfo};

impl Stack {
    /// Returns the `TCP_INFO` of a connection as of the last call that brought the time.
    pub fn info(&self, id: SocketId) -> Option<TcpInfo> {
        self.tcp.info(None, &self.ip, id)
    }

    /// Returns the `TCP_INFO` of a connection: its clocks go on while nothing happens.
    pub fn info_at(&self, now: Instant, id: SocketId) -> Option<TcpInfo> {
        self.tcp.info(Some(now), &self.ip, id)
    }

    /// Returns what the TCP connection of a flow is like as of the last call that brought the time. Changes nothing.
    pub fn observe(&mut self, flow: &Flow) -> Option<Observation> {
        let (tcp, env) = env!(self);
        tcp.observe(env, flow)
    }

    /// From now on connections that end are kept for [`take_ends`](Self::take_ends), or not: take them often then.
    pub fn want_ends(&mut self, are_wanted: bool) {
        self.tcp.want_ends(are_wanted);
    }

    /// Returns true if ends are kept.
    pub fn wants_ends(&self) -> bool {
        self.tcp.wants_ends()
    }

    /// Returns the connections that have ended since the last call.
    #[inline]
    pub fn take_ends(&mut self) -> Vec<EndedConnection> {
        self.tcp.take_ends()
    }
}
