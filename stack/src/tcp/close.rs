//! Closing: FIN, reset, orphans, FIN-WAIT-2 and the entry into TIME-WAIT.
//!
//! Read RFC 9293 §3.6, §3.10.4-3.10.5, RFC 2525 §2.17 first.

use crate::stats::Counter;
use crate::wire::tcp::{ACK, Header, RST};

use super::connection::Connection;
use super::state::State;
use super::tcb::flag;
use crate::wire::sequence::SeqNum;

impl Connection<'_, '_> {
    /// RFC 9293 §3.10.4: ends sending; a FIN follows the queued data.
    pub(crate) fn shutdown_write(&mut self) {
        match self.tcb.state() {
            State::SynSent | State::SynReceived => {
                self.tcb.set(flag::FIN_QUEUED);
                self.open_waiting();
                if self.tcb.is_early() {
                    self.mark_data();
                }
            }
            State::Established => {
                self.tcb.set(flag::FIN_QUEUED);
                self.enter(State::FinWait1);
                self.mark_data();
            }
            State::CloseWait => {
                self.tcb.set(flag::FIN_QUEUED);
                self.enter(State::LastAck);
                self.mark_data();
            }
            _ => {}
        }
    }

    /// Ends reading for the application. Data that comes after our FIN, too, is answered with RST (RFC 1122 §4.2.2.13;
    /// Linux, tcp_rcv_state_process); before that it is taken, and may still be read.
    pub(crate) fn shutdown_read(&mut self) {
        self.rare().read_shut = true;
    }

    /// Returns true when received data has no reader.
    pub(crate) fn refuses_text(&self) -> bool {
        let is_shut = || self.shared.conn_stats.rare(self.tcb).is_some_and(|rare| rare.read_shut);
        self.tcb.has(flag::ORPHAN) || (matches!(self.tcb.state(), State::FinWait1 | State::FinWait2) && is_shut())
    }

    /// Gives the connection up for the application; queued data is still sent.
    pub(crate) fn close(&mut self) {
        let unread = self.tcb.unread() > 0;
        self.tcb.set(flag::ORPHAN);
        self.tcb.clear_receive_queue(self.env.arena);
        match self.tcb.state() {
            State::Closed | State::TimeWait | State::Listen | State::SynSent => self.end(),
            // RFC 2525 §2.17: unread data is discarded.
            _ if unread => {
                self.env.counters.count(Counter::TcpAbortOnClose);
                self.reset();
                self.end();
            }
            State::FinWait2 => self.await_fin(),
            _ => self.shutdown_write(),
        }
        self.predict();
    }

    /// RFC 9293 §3.10.5: sends RST and forgets everything.
    pub(crate) fn abort(&mut self) {
        self.tcb.set(flag::ORPHAN);
        match self.tcb.state() {
            State::Closed | State::Listen | State::SynSent | State::TimeWait => {}
            // Both ends have sent everything. These states begin here with the call, in the RFC with the FIN's departure.
            State::Closing | State::LastAck if self.tcb.is_fin_sent() => {}
            _ => self.reset(),
        }
        self.end();
    }

    /// Sends a RST that the peer must accept.
    pub(crate) fn reset(&mut self) {
        if matches!(self.tcb.state(), State::Closed | State::TimeWait) {
            return;
        }
        self.env.counters.count(Counter::TcpOutRsts);
        ringway_probes::tcp_send_reset(|| (self.tcb.key().ends(),));
        // RFC 7323 §3.2: a RST of a connection with timestamps should carry one.
        let header = Header { flags: RST | ACK, window: 0, ..self.header(self.tcb.snd_nxt()) };
        self.shared.replies.push(self.tcb.key(), self.tcb.tos, header);
    }

    /// Enters FIN-WAIT-2: our FIN is acknowledged.
    pub(crate) fn enter_fin_wait_2(&mut self) {
        self.enter(State::FinWait2);
        if self.tcb.has(flag::ORPHAN) {
            self.await_fin();
        }
    }

    /// An orphan waits for the peer's FIN, but not for ever.
    fn await_fin(&mut self) {
        let own_ms = self.shared.cold.get(self.tcb.cold()).and_then(|cold| cold.timeouts.fin_timeout_ms);
        if own_ms == Some(0) {
            // Linux: a timeout of 0 means no wait; what may still come is reset.
            self.reset();
            self.end();
            return;
        }
        let wait_ms = own_ms.map_or(self.shared.config.fin_timeout.as_millis(), u64::from);
        self.tcb.start_idle(self.deadline(wait_ms * 1_000));
        self.arm();
    }

    /// Both FINs are acknowledged: a TIME-WAIT record replaces the control block.
    pub(crate) fn enter_time_wait(&mut self) {
        self.tcb.clear_send_queue(self.env.arena);
        self.tcb.stop_timers();
        self.enter(State::TimeWait);
        self.shared.ended.push(self.index);
        self.signal();
    }

    /// Handles an ICMP error that says the destination is unreachable: a failure while opening, a hint later (RFC 5461).
    pub(crate) fn on_unreachable(&mut self, error: crate::event::SocketError, sequence: SeqNum) {
        let outstanding = sequence.within(self.tcb.snd_una(), self.tcb.flight());
        // Linux: an early connection (RFC 7413) that an application has accepted counts as established.
        let accepted_early = self.tcb.state() == State::SynReceived && self.tcb.is_early() && self.tcb.is_accepted();
        if outstanding && !accepted_early && matches!(self.tcb.state(), State::SynSent | State::SynReceived) {
            self.fail(error);
        }
    }

    /// RFC 4861 §7.3.1: confirms that the peer is reachable.
    #[inline(always)]
    pub(crate) fn confirm_neighbor(&mut self) {
        if self.env.ip.has_doubted_neighbors() {
            self.reborrow().confirm_doubted_neighbor();
        }
    }

    /// Out of line, so that the fast path keeps no registers for addresses.
    #[cold]
    #[inline(never)]
    fn confirm_doubted_neighbor(&mut self) {
        let (local, remote) = self.tcb.template.addresses();
        self.env.ip.confirm(self.now, local, remote);
    }
}
