//! What attachments may use while they work: the stack, the port table, the counters, the time.

use std::collections::HashMap;
use std::net::IpAddr;

use ringway_shm::{Arena, Class, Duration, Instant};
use ringway_stack::{SocketId, Stack, TcpConfig};

use crate::command::RegionId;
use crate::metrics::Metrics;
use crate::port_table::PortTable;

/// Bytes that are queued at a time, and that a connection may always have queued unless frames are
/// very short.
const PIECE: usize = 64 << 10;

/// How a connection ended, as far as its port is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It never was: nothing is under way.
    Refused,
    /// Given up by one side; the other's last segments may be under way.
    Reset,
    /// The peer closed first and has acknowledged our FIN: it sends nothing any more.
    Finished,
    /// TIME-WAIT follows.
    Closed,
}

impl Ending {
    /// Of a connection that is closed on both sides.
    pub(crate) fn closed(time_wait: bool) -> Ending {
        if time_wait { Ending::Closed } else { Ending::Finished }
    }
}

/// How long the port of a connection that was reset stays ours.
const RESET_HOLD: Duration = Duration::from_secs(2);

/// The worker's state without its devices and applications.
pub(crate) struct Core {
    /// Time of the turn.
    pub(crate) now: Instant,
    pub(crate) stack: Stack,
    /// Where all frames come from.
    pub(crate) arena: Arena,
    pub(crate) ports: PortTable,
    pub(crate) metrics: Metrics,
    /// How long a closed connection may hold its port.
    pub(crate) time_wait: Duration,
    /// Size of a connection's buffers, unless it asks for another, bytes.
    pub(crate) buffer_bytes: u32,
    /// Children that processes have told of: region, process index, process id.
    pub(crate) forks: Vec<(RegionId, u32, u32)>,
    /// Connections that no application has any more, and the ports that they still use.
    orphans: HashMap<SocketId, (IpAddr, u16)>,
}

impl Core {
    pub(crate) fn new(now: Instant, stack: Stack, arena: Arena, ports: PortTable, metrics: Metrics, tcp: &TcpConfig) -> Core {
        Core {
            now,
            stack,
            arena,
            ports,
            metrics,
            time_wait: tcp.time_wait,
            buffer_bytes: tcp.receive_buffer_bytes,
            forks: Vec::new(),
            orphans: HashMap::new(),
        }
    }

    /// Bytes that a connection with room for `space` more may queue now. Half of the frames are for
    /// whoever wants them, the next three eighths for connections that have little queued, the last
    /// eighth for what arrives: so nobody's unread or unacknowledged bytes stop the others.
    pub(crate) fn send_allowance(&self, space: usize) -> usize {
        let free = u64::from(self.arena.free(Class::Large)) * 8;
        let all = u64::from(self.arena.capacity(Class::Large));
        if free > all * 4 {
            return space.min(PIECE);
        }
        let queued = (self.buffer_bytes as usize).saturating_sub(space);
        if free > all { space.min(PIECE.saturating_sub(queued)) } else { 0 }
    }

    /// The application has left a connection that lives on; its port is given back when it ends.
    pub(crate) fn adopt(&mut self, id: SocketId, port: Option<(IpAddr, u16)>) {
        if let Some(port) = port {
            self.orphans.insert(id, port);
        }
    }

    /// A connection without an application has ended.
    pub(crate) fn bury(&mut self, id: SocketId, ending: Ending) {
        if let Some((ip, port)) = self.orphans.remove(&id) {
            self.release_port(ip, port, ending);
        }
    }

    /// Gives back the port of a connection when nothing of it can arrive any more: the kernel's TCP
    /// must not see it.
    pub(crate) fn release_port(&mut self, ip: IpAddr, port: u16, ending: Ending) {
        match ending {
            Ending::Refused | Ending::Finished => self.ports.remove(ip, port),
            Ending::Reset => self.ports.remove_late(self.now, self.time_wait.min(RESET_HOLD), ip, port),
            Ending::Closed => self.ports.remove_late(self.now, self.time_wait, ip, port),
        }
    }
}
