//! A connection while the stack works on it: its control block and the state that all connections share.
//!
//! The mechanisms (input, acknowledged, ack, retransmit, output, close, timeout) are `impl`s of [`Connection`], one per
//! file. This file has what all of them use: marking for transmission, arming the timer, events for the application, ending.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use ringway_shm::{Fifo, Instant};

use crate::admission::Backlog;
use crate::config::TcpConfig;
use crate::env::Env;
use crate::event::{Event, SocketError, SocketId};
use crate::stats::Counter;
use crate::timer::{Moment, TimerWheel};

use super::cold::{Cold, ColdPool};
use super::congestion::Window;
use super::isn::Secrets;
use super::replies::Replies;
use super::rtt::Timing;
use super::state::State;
use super::tcb::{Tcb, flag};

/// State that all connections of a stack share.
pub(crate) struct Shared {
    pub(crate) config: TcpConfig,
    /// The time of this call.
    pub(crate) moment: Moment,
    pub(crate) timing: Timing,
    /// Tick at which the shortest ACK delay ends, if it begins now.
    pub(crate) shortest_delay_ends: u32,
    pub(crate) cold: ColdPool,
    /// The first slow start of each connection that has sent something.
    pub(crate) slow_starts: super::slow_starts::SlowStarts,
    /// Congestion controls that the program has added.
    pub(crate) own_controls: super::congestion::controller::OwnControls,
    /// Connection statistics, by connection index.
    pub(crate) conn_stats: super::conn_stats::ConnStatsTable,
    pub(crate) timers: TimerWheel,
    pub(crate) secrets: Secrets,
    pub(crate) replies: Replies,
    pub(crate) fast_open: super::fast_open::Shared,
    /// Connections with control work: SYN, ACK, probe.
    pub(crate) control: Fifo<u32>,
    /// Connections with data to send.
    pub(crate) data: Fifo<u32>,
    /// Connections with an application that waits because no frame was free.
    pub(crate) starved: BTreeSet<u32>,
    /// What applications leave unread.
    pub(crate) backlog: Backlog,
    /// Connections with an ACK that waits for the shortest delay, and the tick at which that ends.
    pub(crate) delayed: Fifo<(u32, u32)>,
    /// Connections that have ended or entered TIME-WAIT in this call and must be removed from the tables.
    pub(crate) ended: Vec<u32>,
    /// Switches the fast paths off, to show that they change no result.
    #[cfg(test)]
    pub(crate) long_way_only: bool,
    /// Segments that have taken the fast paths, in and out.
    #[cfg(test)]
    pub(crate) fast_segments: u64,
}

/// See the module's text.
pub(crate) struct Connection<'a, 'e> {
    pub(crate) index: u32,
    pub(crate) now: Instant,
    pub(crate) tcb: &'a mut Tcb,
    pub(crate) shared: &'a mut Shared,
    pub(crate) env: &'a mut Env<'e>,
}

impl<'e> Connection<'_, 'e> {
    /// Reborrows for out-of-line calls, so that the caller's hot locals stay in registers on the fast paths.
    #[inline(always)]
    pub(crate) fn reborrow(&mut self) -> Connection<'_, 'e> {
        Connection { index: self.index, now: self.now, tcb: self.tcb, shared: self.shared, env: self.env }
    }
}

impl Connection<'_, '_> {
    /// The connection's id.
    pub(crate) fn id(&self) -> SocketId {
        SocketId { index: self.index, generation: self.tcb.generation }
    }

    /// The connection's cold object, if it has one.
    #[inline]
    pub(crate) fn cold(&mut self) -> Option<&mut Cold> {
        self.shared.cold.get_mut(self.tcb.cold())
    }

    /// Like [`cold`](Connection::cold), taken now if there is none.
    pub(crate) fn demand_cold(&mut self) -> &mut Cold {
        self.shared.cold.demand(self.tcb)
    }

    /// Returns true when only the control block decides about the fast paths ([`Cold::is_settled`]). Drops the
    /// state that can be dropped.
    pub(crate) fn settle(&mut self) -> bool {
        if self.tcb.cold() == super::cold::NONE {
            return true;
        }
        self.forget_old_answer();
        let una = self.tcb.snd_una();
        if let Some(cold) = self.cold() {
            cold.rack.xmit_times.acknowledge(una);
        }
        self.shared.cold.release_if_quiet(self.env.arena, self.tcb);
        let Some(cold) = self.cold() else { return true };
        let is_settled = cold.is_settled();
        if is_settled {
            // Start points of the search for lost segments: the fast paths do not move them.
            cold.cursors = Default::default();
        }
        is_settled
    }

    /// Queues the connection for control work in the next transmission.
    #[inline]
    pub(crate) fn mark_control(&mut self) {
        if !self.tcb.has(flag::ON_CONTROL) {
            self.tcb.set(flag::ON_CONTROL);
            self.shared.control.push_back(self.index);
        }
    }

    /// Requests an ACK in the next transmission.
    #[inline]
    pub(crate) fn ack_now(&mut self) {
        self.tcb.set(flag::ACK_NOW);
        self.mark_control();
    }

    /// Queues the connection for data in the next transmission, as far as windows allow.
    #[inline]
    pub(crate) fn mark_data(&mut self) {
        if !self.tcb.has(flag::ON_DATA) {
            self.tcb.set(flag::ON_DATA);
            self.shared.data.push_back(self.index);
        }
    }

    /// The current tick.
    #[inline]
    pub(crate) fn tick(&self) -> u32 {
        self.shared.moment.tick
    }

    /// The time in microseconds modulo 2^32.
    #[inline]
    pub(crate) fn now_us(&self) -> u32 {
        self.shared.moment.micros as u32
    }

    /// Current TSval.
    #[inline]
    pub(crate) fn timestamp(&self) -> u32 {
        self.shared.secrets.timestamp_of(self.shared.moment.tick)
    }

    /// The tick `delay_us` microseconds from now; never 0.
    #[inline(always)]
    pub(crate) fn deadline(&self, delay_us: u64) -> u32 {
        self.shared.moment.tick_after(delay_us)
    }

    /// Arms the wheel for the connection's earliest deadline.
    #[inline]
    pub(crate) fn arm(&mut self) {
        // An ACK that is due so soon waits in the queue of `ack`, or the wheel has an entry at or before its time.
        let soon = self.tcb.ack_deadline().wrapping_sub(self.tick()) <= super::ack::SOON_TICKS;
        self.arm_for(if soon { 0 } else { self.tcb.ack_deadline() });
    }

    /// Like [`arm`](Connection::arm), after the wheel's entry has expired: that may have been the entry of an ACK that is
    /// due soon.
    pub(crate) fn arm_again(&mut self) {
        self.arm_for(self.tcb.ack_deadline());
    }

    #[inline]
    fn arm_for(&mut self, ack_deadline: u32) {
        let now = self.tick();
        let mut earliest = self.tcb.rto_deadline();
        for deadline in [ack_deadline, self.tcb.idle_deadline()] {
            let is_earlier = earliest == 0 || deadline.wrapping_sub(now).cast_signed() < earliest.wrapping_sub(now).cast_signed();
            if deadline != 0 && is_earlier {
                earliest = deadline;
            }
        }
        if earliest != 0 {
            self.arm_by(earliest);
        }
    }

    /// Like [`arm`](Connection::arm), when all other deadlines are armed.
    #[inline(always)]
    pub(crate) fn arm_by(&mut self, deadline: u32) {
        let armed = self.tcb.timer_tick();
        if armed == 0 || deadline.wrapping_sub(armed).cast_signed() < 0 {
            self.tcb.set_timer_tick(deadline);
            self.shared.timers.insert(self.index, deadline);
        }
    }

    /// Signals the application that it can proceed, unless an earlier signal is still pending.
    #[inline(always)]
    pub(crate) fn signal(&mut self) {
        if self.tcb.has(flag::SIGNALLED | flag::ORPHAN) || !self.tcb.is_accepted() {
            return;
        }
        self.tcb.set(flag::SIGNALLED);
        self.env.events.push_back(Event::Ready { socket: self.id(), user_token: self.tcb.user_token });
    }

    /// Changes the state; header prediction works in ESTABLISHED only.
    pub(crate) fn enter(&mut self, state: State) {
        self.tcb.set_state(state);
        self.predict();
    }

    /// RFC 9293: "enter the CLOSED state, delete the TCB". Received data stays readable.
    pub(crate) fn end(&mut self) {
        self.tcb.clear_send_queue(self.env.arena);
        self.tcb.stop_timers();
        self.tcb.clear(flag::ACK_NOW | flag::ACK_PENDING | flag::PROBE | flag::RETRANSMIT | flag::FIN_QUEUED | flag::PERSIST);
        self.tcb.set_state(State::Closed);
        self.shared.ended.push(self.index);
    }

    /// Ends without a failure; signals an application that still holds the socket.
    pub(crate) fn end_in_order(&mut self) {
        self.signal();
        self.end();
    }

    /// Ends the connection with `error` and reports it to the application.
    pub(crate) fn fail(&mut self, error: SocketError) {
        let counter = match self.tcb.state() {
            State::SynSent | State::SynReceived => Some(Counter::TcpAttemptFails),
            // RFC 4022: closing connections do not count.
            State::Established | State::CloseWait => Some(Counter::TcpEstabResets),
            _ => None,
        };
        if let Some(counter) = counter {
            self.env.counters.count(counter);
        }
        self.tcb.set_error(error);
        if !self.tcb.has(flag::ORPHAN) && self.tcb.is_accepted() {
            let (socket, user_token) = (self.id(), self.tcb.user_token);
            self.env.events.push_back(Event::Failed { socket, user_token, error });
        }
        self.end();
    }

    /// The congestion window, for the algorithms.
    pub(crate) fn window(&self) -> Window {
        Window { cwnd: self.tcb.cwnd(), ssthresh: self.tcb.ssthresh(), mss: self.tcb.mss() as u32 }
    }

    /// Takes over an algorithm's decision.
    pub(crate) fn set_window(&mut self, window: Window) {
        self.tcb.set_cwnd(window.cwnd);
        self.tcb.set_ssthresh(window.ssthresh);
    }

    /// Frees what the connection holds before its slab index is reused.
    pub(crate) fn release(&mut self) {
        self.tcb.clear_send_queue(self.env.arena);
        self.tcb.clear_receive_queue(self.env.arena);
        self.shared.cold.release(self.env.arena, self.tcb);
        self.shared.conn_stats.end(self.tcb);
    }
}
