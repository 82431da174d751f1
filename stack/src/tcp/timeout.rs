//! Actions of a connection when one of its deadlines expires.
//!
//! Read RFC 9293 §3.8.3-3.8.4 (keepalive) first.

use crate::stats::Counter;
use crate::timer;

use super::connection::Connection;
use super::state::State;
use super::tcb::flag;

impl Connection<'_, '_> {
    /// Handles the wheel's entry for `tick`.
    pub(crate) fn on_timer(&mut self, tick: u32) {
        if self.tcb.timer_tick() != tick {
            // A later entry that an earlier one has replaced.
            return;
        }
        self.tcb.set_timer_tick(0);
        let now = self.tick();
        let due = |deadline: u32| deadline != 0 && timer::is_due(deadline, now);
        if due(self.tcb.ack_deadline()) {
            self.on_delayed_ack();
        }
        if due(self.tcb.rto_deadline()) {
            self.on_rto();
        }
        if due(self.tcb.idle_deadline()) {
            self.on_idle();
        }
        self.arm_again();
    }

    /// RFC 9293 §3.8.6.3: sends the ACK after its delay.
    pub(crate) fn on_delayed_ack(&mut self) {
        self.tcb.stop_ack_delay();
        if self.tcb.has(flag::ACK_PENDING) {
            self.env.counters.count(Counter::DelayedAcks);
            self.waited_in_vain();
            self.ack_now();
        }
    }

    /// Keepalive, or the end of FIN-WAIT-2 for an orphan.
    fn on_idle(&mut self) {
        self.tcb.stop_idle();
        if self.tcb.state() == State::FinWait2 && self.tcb.has(flag::ORPHAN) {
            // Linux: the peer may keep its half open, ours is dropped.
            self.end();
            return;
        }
        if !matches!(self.tcb.state(), State::Established | State::CloseWait | State::FinWait1 | State::FinWait2) {
            return;
        }
        let (idle_ms, interval_ms, probes_max) = self.keepalive();
        let idle_for = self.tick().wrapping_sub(self.tcb.last_received()) as u64;
        if self.tcb.flight() > 0 || self.tcb.unsent() > 0 || idle_for < idle_ms {
            if !self.tcb.has(flag::PERSIST) {
                self.count_probes(0);
            }
            self.tcb.start_idle(self.deadline(idle_ms.saturating_sub(idle_for).max(1) * 1_000));
            return;
        }
        if self.tcb.probes() >= probes_max {
            // RFC 9293 §3.8.4 does not say; as in Linux, a reset goes to the peer in case it is alive.
            self.reset();
            self.give_up();
            return;
        }
        self.count_probes(self.tcb.probes() + 1);
        self.env.counters.count(Counter::TcpKeepAlive);
        self.tcb.set(flag::PROBE);
        self.mark_control();
        self.tcb.start_idle(self.deadline(interval_ms * 1_000));
    }

    /// Sets the number of probes without an answer: while there are any, the next segment is looked at closely.
    pub(crate) fn count_probes(&mut self, count: u8) {
        if self.tcb.probes() != count {
            self.tcb.set_probes(count);
            self.predict();
        }
    }

    /// Idle time and interval in milliseconds, and number of probes.
    fn keepalive(&self) -> (u64, u64, u8) {
        let own = self.shared.cold.get(self.tcb.cold()).map(|cold| cold.timeouts).unwrap_or_default();
        let config = &self.shared.config;
        let choose = |own: u32, default: u64| if own == 0 { default } else { own as u64 };
        (
            choose(own.keepalive_idle_ms, config.keepalive_idle.as_millis()),
            choose(own.keepalive_interval_ms, config.keepalive_interval.as_millis()),
            if own.keepalive_probes == 0 { config.keepalive_probes } else { own.keepalive_probes },
        )
    }

    /// Switches keepalive on or off.
    pub(crate) fn set_keepalive(&mut self, on: bool) {
        if !on {
            self.tcb.stop_idle();
            return;
        }
        let (idle_ms, ..) = self.keepalive();
        self.tcb.start_idle(self.deadline(idle_ms * 1_000));
        self.arm();
    }
}
