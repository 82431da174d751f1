//! `TCP_INFO` of a connection, and what it is like between two packets.

use ringway_shm::{Flow, Instant};

use super::Stack;
use crate::env::Env;
use crate::event::SocketId;
use crate::tcp::{Observation, TcpInfo};

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
}
