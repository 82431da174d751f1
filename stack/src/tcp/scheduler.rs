//! Scheduler of connections that send data, and the amount that one call writes.
//!
//! Connections with data take turns of 64 KiB in the order in which they were marked, until the call has written its budget
//! of 512 KiB. A request that has just arrived waits for the call's writes, and they go through the cache before it is
//! answered: while others send small messages (in the last eight calls) the budget is the configured one. Promises nothing
//! about windows, which are `output`'s.

use ringway_shm::Burst;

use super::Tcp;
use super::connection::Connection;
use super::output::Progress;
use super::tcb::flag;
use crate::env::Env;

/// Bytes that a connection may send before the next one has its turn.
const QUANTUM_BYTES: usize = 64 << 10;
/// Bytes written by one `transmit`.
const BUDGET_BYTES: usize = 512 << 10;
/// Number of calls for which a small message counts.
const SMALL_CALLS: u8 = 8;

/// Record of the calls before.
#[derive(Debug, Default)]
pub(super) struct Scheduler {
    /// Number of further calls for which small messages count.
    small_calls: u8,
}

impl Scheduler {
    /// Starts a call; returns the bytes that it may write.
    fn begin(&mut self, beside_small_bytes: u32) -> usize {
        let beside_small = self.small_calls > 0;
        self.small_calls = self.small_calls.saturating_sub(1);
        if beside_small { (beside_small_bytes as usize).clamp(1, BUDGET_BYTES) } else { BUDGET_BYTES }
    }
}

impl Tcp {
    /// Writes data, each connection in its turn, up to the budget of a call. Returns false when no frame was free.
    #[inline(never)]
    pub(super) fn transmit_data(&mut self, env: &mut Env, out: &mut [Burst]) -> bool {
        let mut budget = self.scheduler.begin(self.shared.config.turn_beside_small_bytes);
        while budget > 0 {
            let Some(index) = self.shared.data.pop_front() else { break };
            let mut connection = self.connection(env, index);
            if !connection.tcb.has(flag::ON_DATA) {
                continue;
            }
            connection.tcb.clear(flag::ON_DATA);
            if let Some(bytes) = connection.transmit_small(out) {
                budget = budget.saturating_sub(bytes as usize);
                self.scheduler.small_calls = SMALL_CALLS;
                continue;
            }
            let granted = QUANTUM_BYTES.min(budget);
            let mut quantum = granted;
            if connection.reborrow().transmit_quantum(out, &mut quantum) == Progress::NoFrame {
                return false;
            }
            let sent = granted - quantum;
            budget -= sent;
            if connection.is_small(sent) {
                self.scheduler.small_calls = SMALL_CALLS;
            }
        }
        true
    }
}

impl Connection<'_, '_> {
    /// Returns true when the `sent` bytes are less than a segment, and all that is in flight.
    fn is_small(&self, sent: usize) -> bool {
        sent.wrapping_sub(1) < usize::from(self.tcb.mss()) - 1 && self.tcb.flight() as usize == sent
    }
}
