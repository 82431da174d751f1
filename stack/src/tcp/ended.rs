//! Connections that have ended, as they were then, for a tool that listens (`ringway ss -E`).
//!
//! Promises: an end costs a test of a flag while no tool listens; each connection comes once, when its control block is closed or becomes a
//! TIME-WAIT record. Does not do: half-open connections, and those that go on in the kernel.

use alloc::vec::Vec;

use crate::env::Env;

use super::Tcp;
use super::info::{SocketSummary, TcpInfo};

/// See the module's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedConnection {
    /// State, queues and names.
    pub summary: SocketSummary,
    /// Its values.
    pub info: TcpInfo,
}

/// Connections that have ended and were not taken yet.
#[derive(Default)]
pub(super) struct Ends {
    are_wanted: bool,
    noted: Vec<EndedConnection>,
}

impl Tcp {
    /// From now on ends are noted, or not.
    pub(crate) fn want_ends(&mut self, are_wanted: bool) {
        if self.ends.are_wanted != are_wanted {
            self.ends = Ends { are_wanted, noted: Vec::new() };
        }
    }

    /// Returns true if ends are noted.
    pub(crate) fn wants_ends(&self) -> bool {
        self.ends.are_wanted
    }

    /// Takes the connections that have ended since the last call.
    #[inline]
    pub(crate) fn take_ends(&mut self) -> Vec<EndedConnection> {
        core::mem::take(&mut self.ends.noted)
    }

    /// Notes the end of a connection that still has its values.
    pub(super) fn note_end(&mut self, env: &Env, index: u32) {
        if self.ends.are_wanted {
            let tcb = &self.tcbs[index as usize];
            let ended = EndedConnection { summary: self.summary(index, tcb), info: self.info_of(self.now, env.ip, tcb) };
            self.ends.noted.push(ended);
        }
    }
}
