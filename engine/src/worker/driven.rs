//! For code that drives a worker itself, in virtual time: what a service asks through [`WorkerHandle`](super::WorkerHandle).

use std::io;

use ringway_shm::Instant;
use ringway_stack::TcpConfig;

use super::Worker;
use crate::command::{RegionMemory, RegionRequest};

impl Worker {
    /// Makes a channel for an application group.
    ///
    /// # Errors
    /// The system has no memory or descriptors, or all groups are in use.
    pub fn attach_region(&mut self, request: RegionRequest) -> io::Result<RegionMemory> {
        let made = self.attachments.make(request)?;
        self.attachments.attach(made, &mut self.core, &self.idle)
    }

    /// Returns the time of the next iteration that has something to do although nothing arrives.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        self.core.stack.forget_ended_delays();
        self.next_timeout(self.core.now)
    }

    /// Changes TCP's settings for connections from now on.
    pub fn set_tcp_config(&mut self, tcp: TcpConfig) {
        self.core.follow_config(&tcp);
        self.core.stack.set_tcp_config(tcp);
    }
}
