//! A connection between two packets, for a tool that follows it (`ringway trace`).
//!
//! Promises: observing changes nothing. What a connection waits for is asked of the planner (`output`), which alone knows
//! the rules. Does not do: half-open connections and TIME-WAIT, of which only the record is known.

use ringway_shm::{Flow, WaitsFor};

use crate::env::Env;

use super::connection::Connection;
use super::demux::{FlowKey, Target};
use super::info::{SocketSummary, TcpInfo, of_key};
use super::sack::Search;
use super::sack_blocks::Sizes;
use super::state::State;
use super::tcb::{Recovery, flag};
use super::{Tcp, cork};

/// See the module's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// State, queues and timer.
    pub summary: SocketSummary,
    /// Its values; `None`: half open or in TIME-WAIT.
    pub info: Option<TcpInfo>,
    /// What it waits for before it sends more.
    pub waits: WaitsFor,
    /// A tail loss probe (RFC 8985 §7) is due or has no answer yet.
    pub probing: bool,
}

impl Tcp {
    /// The connection of a flow as it is now, orphans too.
    pub(crate) fn observe(&mut self, env: &mut Env, flow: &Flow) -> Option<Observation> {
        let key = FlowKey { local: flow.local.0, local_port: flow.local.1, remote: flow.remote.0, remote_port: flow.remote.1 };
        let record = |state, retransmits, waits| {
            let summary = SocketSummary { retransmits, ..of_key(state, &key) };
            Some(Observation { summary, info: None, waits, probing: false })
        };
        match self.target_of(&key)? {
            Target::Connection(index) => {
                let waits = self.connection(env, index).waits_for();
                let tcb = &self.tcbs[index as usize];
                let probing = self.shared.cold.get(tcb.cold()).is_some_and(|cold| !cold.probe.is_quiet());
                let info = Some(self.info_of(self.now, env.ip, tcb));
                Some(Observation { summary: self.summary(index, tcb), info, waits, probing })
            }
            Target::HalfOpen(index) => record(State::SynReceived, self.syn_queue.get(index)?.retries, WaitsFor::Handshake),
            Target::TimeWait(_) => record(State::TimeWait, 0, WaitsFor::Nothing),
        }
    }
}

impl Connection<'_, '_> {
    /// What the connection waits for before it sends more.
    pub(crate) fn waits_for(&mut self) -> WaitsFor {
        let acknowledged = self.tcb.flight() == 0;
        match self.tcb.state() {
            State::SynSent | State::SynReceived if !self.tcb.sends_data() => WaitsFor::Handshake,
            _ if !self.tcb.sends_data() => WaitsFor::Nothing,
            _ if self.has_to_send() => {
                // The planner notes what limits it, for the growth of the window at the next ACK.
                let limited = self.tcb.has(flag::CWND_LIMITED);
                let waits = self.holds_back();
                self.tcb.assign(flag::CWND_LIMITED, limited);
                waits
            }
            _ if acknowledged => WaitsFor::Application,
            _ => WaitsFor::Acknowledgment,
        }
    }

    /// Why what is to be sent does not leave.
    fn holds_back(&mut self) -> WaitsFor {
        if self.tcb.has(flag::RETRANSMIT) {
            return WaitsFor::Turn;
        }
        if self.pacing_rate().is_some() && self.departs_later() {
            return WaitsFor::Pacing;
        }
        let (segment, pipe) = (self.segment_bytes(), self.pipe());
        self.tcb.clear(flag::CWND_LIMITED);
        let looks_for_lost = self.tcb.recovery() != Recovery::Open && !self.is_frto_waiting();
        if looks_for_lost && self.plan_again(pipe, segment, Search::Lost).is_some() {
            return WaitsFor::Turn;
        }
        let is_lost_held = self.tcb.has(flag::CWND_LIMITED);
        if self.plan_new(pipe, Sizes { segment, packet: segment }).is_some() {
            return WaitsFor::Turn;
        }
        let unsent = self.tcb.unsent();
        let offered = self.tcb.snd_wnd().saturating_sub(self.tcb.snd_nxt() - self.tcb.snd_una());
        let corked = self.tcb.has(flag::CORK) && !cork::is_over(self.shared, self.tcb);
        match () {
            () if is_lost_held || self.tcb.has(flag::CWND_LIMITED) => WaitsFor::CongestionWindow,
            () if unsent == 0 => WaitsFor::Acknowledgment,
            () if offered < unsent.min(segment) => WaitsFor::PeerWindow,
            () if corked => WaitsFor::Cork,
            () => WaitsFor::Nagle,
        }
    }
}
