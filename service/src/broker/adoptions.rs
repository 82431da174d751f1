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
//! connections; programs offer them. One that this very service has handed over comes back when an operator asks (`ringway handover --to stack`).

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};

use ringway_channel::SlotRef;
use ringway_channel::attach::ControlConnection;
use ringway_engine::{RegionId, Wanted, WorkerHandle, clock};
use ringway_shm::{Duration, Flow, Instant};

use super::handovers::{Work, answer, lock};
use crate::devices::wait_for_packets;
use crate::handover::adopt::{self, Ends};

/// Connections that cross together: one wait is for all of them.
const TOGETHER: usize = 64;
/// Connections that an operator has asked for may come back for so long.
const RECALLED: Duration = Duration::from_secs(10);
/// Requests of operators that count at the same time.
const RECALLS_MAX: usize = 64;

/// A connection of the kernel's that a program offers.
pub(super) struct Offered {
    pub(super) control: Arc<ControlConnection>,
    pub(super) worker: WorkerHandle,
    pub(super) region: RegionId,
    /// A fresh one.
    pub(super) slot: SlotRef,
    /// It has the connection.
    pub(super) socket: OwnedFd,
    /// This very service has handed it over: it comes back only where an operator has asked for it.
    pub(super) is_recalled: bool,
}

/// What operators have asked for lately.
#[derive(Clone, Default)]
pub(super) struct Recalls(Arc<Mutex<Vec<(Wanted, Instant)>>>);

impl Recalls {
    pub(super) fn add(&self, wanted: Wanted, now: Instant) {
        let mut recalls = lock(&self.0);
        recalls.retain(|(_, until)| now < *until);
        if recalls.len() == RECALLS_MAX {
            recalls.remove(0);
        }
        recalls.push((wanted, now + RECALLED));
    }

    pub(super) fn clear(&self) {
        lock(&self.0).clear();
    }

    /// Was this connection of process `pid` asked for?
    fn include(&self, ends: Ends, pid: u32, now: Instant) -> bool {
        let [local, remote] = ends.map(|end| SocketAddr::new(end.ip, end.port));
        let names = |wanted: &Wanted| match *wanted {
            Wanted::All => true,
            Wanted::Process(number) => number == pid,
            Wanted::Port(port) => [local.port(), remote.port()].contains(&port),
            Wanted::Flow(one, other) => [[one, other], [other, one]].contains(&[local, remote]),
        };
        lock(&self.0).iter().any(|(wanted, until)| now < *until && names(wanted))
    }
}

impl Work {
    /// Has the connections of kernel sockets go on in slots, and answers their programs in the order in which they have asked.
    pub(super) fn adopt_all(&self, uid: u32, batch: Vec<Offered>) {
        let adopts = self.adopts();
        let (batch, others): (Vec<_>, Vec<_>) = batch.into_iter().partition(|offered| offered.is_recalled || adopts);
        for offered in others {
            // A program that has gone wants no answer.
            offered.control.deny("connections stay with the kernel (policy.adopt)").ok();
        }
        for together in batch.chunks(TOGETHER) {
            let expected: Vec<Result<Ends, String>> = together.iter().map(|offered| self.expect(offered)).collect();
            let barrier = if expected.iter().any(Result::is_ok) { barrier() } else { Ok(()) };
            for (offered, expected) in together.iter().zip(expected) {
                let adopted = expected.and_then(|ends| self.cross(offered, ends, barrier.clone()));
                match &adopted {
                    Ok(()) => {
                        tracing::debug!(target: "ringway::handover", uid, "a connection of user {uid} is the stack's again")
                    }
                    // Most are offered again.
                    Err(text) => {
                        tracing::debug!(target: "ringway::handover", uid, "a connection of user {uid} stays with the kernel: {text}")
                    }
                }
                answer(Some(&offered.control), &adopted);
            }
        }
    }

    /// The packets of the connection are the stack's, which is silent about them.
    fn expect(&self, offered: &Offered) -> Result<Ends, String> {
        if !self.is_served(&offered.socket) {
            return Err("the socket belongs to another network namespace".to_owned());
        }
        let ends = adopt::look(offered.socket.as_fd()).map_err(|refusal| refusal.to_string())?;
        let pid = offered.control.credentials().pid;
        if offered.is_recalled && !self.recalls.include(ends, pid, clock::now()) {
            return Err("this service has handed it over, and it was not asked for".to_owned());
        }
        offered.worker.expect(ends).map_err(gone)?.map_err(|refused| refused.to_string())?;
        let retaken = lock(&self.steering).retake_flow(&flow_of(ends)).map_err(|error| error.to_string());
        retaken.map(|()| ends).or_else(|text| self.give_up(offered, ends, text))
    }

    /// No packet can reach the kernel socket any more, if `barrier` says so.
    fn cross(&self, offered: &Offered, ends: Ends, barrier: Result<(), String>) -> Result<(), String> {
        let crossed = barrier.and_then(|()| {
            let (taken, quiet) = adopt::take(offered.socket.as_fd(), ends).map_err(|refusal| refusal.to_string())?;
            offered.worker.adopt(offered.region, offered.slot, quiet).map_err(gone)?.map_err(|refused| refused.to_string())?;
            Ok(taken)
        });
        match crossed {
            Ok(taken) => {
                if let Err(error) = taken.let_go() {
                    tracing::warn!(target: "ringway::handover", "a kernel socket whose connection the stack has is not fresh again: {error}");
                }
                Ok(())
            }
            Err(text) => self.give_up(offered, ends, text),
        }
    }

    /// The kernel goes on.
    fn give_up<T>(&self, offered: &Offered, ends: Ends, text: String) -> Result<T, String> {
        let left = self.leave_flow(&flow_of(ends));
        offered.worker.give_up(ends).map_err(gone)?;
        left.and(Err(text))
    }
}

fn barrier() -> Result<(), String> {
    wait_for_packets().map_err(|error| format!("the kernel does not wait for its readers: {error}"))
}

fn gone(_: ringway_engine::Gone) -> String {
    "the worker has stopped".to_owned()
}

fn flow_of([local, remote]: Ends) -> Flow {
    Flow { local: (local.ip, local.port), remote: (remote.ip, remote.port) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_stack::SocketAddress;

    #[test]
    fn what_an_operator_asks_for_may_come_back_for_ten_seconds() {
        let end = |last, port| SocketAddress { ip: [10, 0, 0, last].into(), port };
        let ends = [end(1, 80), end(2, 50_000)];
        let (ours, peer) = ("10.0.0.1:80".parse().expect("one"), "10.0.0.2:50000".parse().expect("one"));
        let now = clock::now();
        let included = |wanted| {
            let recalls = Recalls::default();
            recalls.add(wanted, now);
            assert!(!recalls.include(ends, 7, now + RECALLED), "{wanted:?}: it is over");
            recalls.include(ends, 7, now)
        };
        for wanted in [Wanted::All, Wanted::Process(7), Wanted::Port(80), Wanted::Port(50_000), Wanted::Flow(peer, ours)] {
            assert!(included(wanted), "{wanted:?}");
        }
        for wanted in [Wanted::Process(8), Wanted::Port(81), Wanted::Flow(ours, ours)] {
            assert!(!included(wanted), "{wanted:?}");
        }
        let recalls = Recalls::default();
        (0..=RECALLS_MAX as u16).for_each(|port| recalls.add(Wanted::Port(80 + port), now));
        assert!(!recalls.include(ends, 7, now), "the oldest one counts no more");
        recalls.add(Wanted::All, now);
        recalls.clear();
        assert!(!recalls.include(ends, 7, now));
    }
}
