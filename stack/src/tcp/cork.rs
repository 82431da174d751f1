//! Corks: partial segments that wait for more data.
//!
//! TCP_CORK holds them until it is taken off, MSG_MORE until the next send without it or the next packet of the peer, as on
//! Linux (net/ipv4/tcp_output.c, __tcp_push_pending_frames). The retransmission timer ends both (`retransmit`).

use super::connection::{Connection, Shared};
use super::tcb::{Tcb, flag};

/// Returns true when a packet has come since MSG_MORE, and Nagle holds nothing either.
pub(crate) fn is_over(shared: &Shared, tcb: &Tcb) -> bool {
    let since = shared.cold.get(tcb.cold()).and_then(|cold| cold.more_since);
    since.is_some_and(|since| since != shared.conn_stats.read(tcb, 0).segments_in && tcb.nagle_allows())
}

impl Connection<'_, '_> {
    /// Notes whether the cork is MSG_MORE's.
    pub(crate) fn hold_for_more(&mut self, more: bool) {
        if more {
            let since = self.shared.conn_stats.read(self.tcb, 0).segments_in;
            self.demand_cold().more_since = Some(since);
        } else if let Some(cold) = self.cold() {
            cold.more_since = None;
        }
    }

    /// Sends once what the cork holds (Linux, TCP_NAGLE_PUSH).
    pub(crate) fn push_corked(&mut self) {
        if self.tcb.has(flag::CORK) && self.tcb.unsent() > 0 {
            self.tcb.clear(flag::PERSIST);
            self.tcb.set(flag::PROBE);
            self.mark_data();
        }
    }
}
