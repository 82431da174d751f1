//! Connections of the kernel's that go on in the stack: from the kernel socket into a slot, and steering in between.
//!
//! ```text
//!   program --Handover{slot, back} + socket, for each--> a thread for its user, for all of them together:
//!       kernel socket: may it?
//!       worker: expect ----> the stack is silent for the flow
//!       steering: its packets are the stack's; what was on its way to the kernel has been there
//!       kernel socket: in repair mode, and nothing is under way
//!       worker: adopt ----> the slot has the connection
//!       kernel socket: closed, without a packet
//!   <-- Done, or Refused: the kernel goes on; Denied: no connection is wanted
//! ```
//! Promises: no byte is acknowledged by the one and read by the other: the kernel socket is read when no packet can reach it any more. Does not do: choosing
//! connections; programs offer them.

use std::os::fd::AsFd;

use ringway_shm::Flow;
use rustix::thread::{MembarrierCommand, membarrier};

use super::handovers::{HandedOver, KernelSocket, Work, answer, lock};
use crate::handover::adopt::{self, Ends};

/// Connections that cross together: one wait is for all of them.
const TOGETHER: usize = 64;

impl Work {
    /// Has the connections of kernel sockets go on in slots, and answers their programs in the order in which they have asked.
    pub(super) fn adopt_all(&self, uid: u32, batch: Vec<HandedOver>) {
        if !self.adopts() {
            for control in batch.iter().filter_map(|handed| handed.control.as_deref()) {
                // A program that has gone wants no answer.
                control.deny("connections stay with the kernel (policy.adopt)").ok();
            }
            return;
        }
        let mut batch = batch.into_iter();
        loop {
            let together: Vec<HandedOver> = batch.by_ref().take(TOGETHER).collect();
            if together.is_empty() {
                return;
            }
            let expected: Vec<Result<Ends, String>> = together.iter().map(|handed| self.expect(handed)).collect();
            let barrier = if expected.iter().any(Result::is_ok) { barrier() } else { Ok(()) };
            for (handed, expected) in together.iter().zip(expected) {
                let adopted = expected.and_then(|ends| self.cross(handed, ends, barrier.clone()));
                match &adopted {
                    Ok(()) => {
                        tracing::debug!(target: "ringway::handover", uid, "a connection of user {uid} is the stack's again")
                    }
                    // Most are offered again.
                    Err(text) => {
                        tracing::debug!(target: "ringway::handover", uid, "a connection of user {uid} stays with the kernel: {text}")
                    }
                }
                answer(handed.control.as_deref(), &adopted);
            }
        }
    }

    /// The packets of the connection are the stack's, which is silent about them.
    fn expect(&self, handed: &HandedOver) -> Result<Ends, String> {
        let KernelSocket::Connected(socket) = &handed.socket else { return Err("it has no connection".to_owned()) };
        if !self.is_served(socket) {
            return Err("the socket belongs to another network namespace".to_owned());
        }
        let ends = adopt::look(socket.as_fd()).map_err(|refusal| refusal.to_string())?;
        handed.worker.expect(ends).map_err(gone)?.map_err(|refused| refused.to_string())?;
        let retaken = lock(&self.steering).retake_flow(&flow_of(ends)).map_err(|error| error.to_string());
        retaken.map(|()| ends).or_else(|text| self.give_up(handed, ends, text))
    }

    /// No packet can reach the kernel socket any more, if `barrier` says so.
    fn cross(&self, handed: &HandedOver, ends: Ends, barrier: Result<(), String>) -> Result<(), String> {
        let KernelSocket::Connected(socket) = &handed.socket else { return Err("it has no connection".to_owned()) };
        let crossed = barrier.and_then(|()| {
            let (taken, quiet) = adopt::take(socket.as_fd(), ends).map_err(|refusal| refusal.to_string())?;
            handed.worker.adopt(handed.region, handed.slot, quiet).map_err(gone)?.map_err(|refused| refused.to_string())?;
            Ok(taken)
        });
        match crossed {
            Ok(taken) => {
                if let Err(error) = taken.let_go() {
                    tracing::warn!(target: "ringway::handover", "a kernel socket whose connection the stack has is not fresh again: {error}");
                }
                Ok(())
            }
            Err(text) => self.give_up(handed, ends, text),
        }
    }

    /// The kernel goes on.
    fn give_up<T>(&self, handed: &HandedOver, ends: Ends, text: String) -> Result<T, String> {
        let left = self.leave_flow(&flow_of(ends));
        handed.worker.give_up(ends).map_err(gone)?;
        left.and(Err(text))
    }
}

/// Waits until packets that went to the kernel before have been there: the decision and TCP's work on a packet are in one section of RCU, and a global
/// barrier waits until all of them have ended (membarrier(2)).
fn barrier() -> Result<(), String> {
    membarrier(MembarrierCommand::Global).map_err(|error| format!("the kernel does not wait for its readers: {error}"))
}

fn gone(_: ringway_engine::Gone) -> String {
    "the worker has stopped".to_owned()
}

fn flow_of([local, remote]: Ends) -> Flow {
    Flow { local: (local.ip, local.port), remote: (remote.ip, remote.port) }
}
