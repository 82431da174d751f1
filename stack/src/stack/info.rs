//! `TCP_INFO` of a connection.

use ringway_shm::Instant;

use super::Stack;
use crate::event::SocketId;
use crate::tcp::TcpInfo;

impl Stack {
    /// Returns the `TCP_INFO` of a connection as of the last call that brought the time.
    pub fn info(&self, id: SocketId) -> Option<TcpInfo> {
        self.tcp.info(None, &self.ip, id)
    }

    /// Returns the `TCP_INFO` of a connection: its clocks go on while nothing happens.
    pub fn info_at(&self, now: Instant, id: SocketId) -> Option<TcpInfo> {
        self.tcp.info(Some(now), &self.ip, id)
    }
}
