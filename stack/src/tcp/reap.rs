//! Ended connections: removed from the tables, replaced by a TIME-WAIT record or not, and freed when no application holds
//! them.
//!
//! Read RFC 9293 §3.10.7.4 (TIME-WAIT), §3.3.2 first. A connection that ends queues itself (`Connection::end`, or entering
//! TIME-WAIT) while other code works with the tables; the tables are updated here, before the next segment is processed.
//! Promises: a flow that changes from a connection to a record keeps its entry in the flow table; an application that knows
//! the connection gets [`Event::Closed`] once.

use crate::env::Env;
use crate::event::{Event, SocketId};
use crate::stats::Counter;

use super::Tcp;
use super::demux::{FlowKey, Target};
use super::state::State;
use super::tcb::flag;
use super::time_wait::Record;

impl Tcp {
    /// Removes ended connections from the tables, and frees those that no application holds.
    #[inline]
    pub(super) fn settle(&mut self, env: &mut Env) {
        if !self.shared.ended.is_empty() || !self.shared.fast_open.finished.is_empty() {
            self.reap(env);
        }
    }

    #[inline(never)]
    fn reap(&mut self, env: &mut Env) {
        while let Some(index) = self.shared.ended.pop() {
            self.connection(env, index).leave_early();
            let key = self.tcbs[index as usize].key();
            let hash = self.hasher.hash(&key);
            let waits = self.tcbs[index as usize].state() == State::TimeWait;
            if waits {
                self.note_end(env, index);
                self.enter_time_wait(env, index, hash);
            } else if self.flows.remove(hash, Target::Connection(index)) {
                // One that an application has held since then comes once more.
                self.note_end(env, index);
            }
            if self.tcbs[index as usize].has(flag::ORPHAN)
                && let Some((socket, user_token)) = self.free(env, index)
            {
                let time_wait = waits || self.is_in_time_wait(&key, hash);
                env.events.push_back(Event::Closed { socket, user_token, time_wait });
            }
        }
        if !self.shared.fast_open.finished.is_empty() {
            self.finish_early();
        }
    }

    /// Replaces the control block by a TIME-WAIT record.
    fn enter_time_wait(&mut self, env: &mut Env, index: u32, hash: u32) {
        let mut connection = self.connection(env, index);
        let window = connection.advertise_window();
        let tos = connection.acknowledgment_tos();
        let tcb = &mut *connection.tcb;
        let ts_recent = tcb.has(flag::TIMESTAMPS).then_some(tcb.ts_recent());
        let clock_ahead = connection.shared.cold.get(tcb.cold()).map_or(0, |cold| cold.clock_ahead);
        let record = Record { clock_ahead, ..Record::new(tcb.key(), tcb.snd_nxt(), tcb.rcv_nxt(), window, ts_recent) };
        let owes_ack = tcb.has(flag::ACK_NOW | flag::ACK_PENDING);
        tcb.clear(flag::ACK_NOW | flag::ACK_PENDING);
        tcb.set_state(State::Closed);
        if owes_ack {
            let header = record.acknowledgment(self.shared.secrets.timestamp(self.now));
            self.shared.replies.push(record.key, tos, header);
        }
        let place = self.push_time_wait(env, record);
        if self.flows.replace(hash, Target::Connection(index), Target::TimeWait(place)) {
            env.counters.count(Counter::TimeWaits);
        } else {
            // The flow has left the table before.
            self.time_wait.remove(place);
        }
    }

    /// Adds a record that is in no table yet; drops the oldest one when there are too many.
    fn push_time_wait(&mut self, env: &mut Env, record: Record) -> u32 {
        while let Some((index, oldest)) = self.time_wait.make_room() {
            env.counters.count(Counter::TimeWaitOverflow);
            self.flows.remove(self.hasher.hash(&oldest.key), Target::TimeWait(index));
        }
        self.time_wait.push(self.now, record)
    }

    /// Adds the record of a flow that has none and starts its wait.
    pub(super) fn remember_time_wait(&mut self, env: &mut Env, record: Record, hash: u32) {
        let index = self.push_time_wait(env, record);
        self.flows.insert(hash, Target::TimeWait(index));
    }

    /// Removes a record after its wait.
    pub(super) fn forget_time_wait(&mut self, index: u32, hash: u32) {
        self.time_wait.remove(index);
        self.flows.remove(hash, Target::TimeWait(index));
    }

    fn is_in_time_wait(&self, key: &FlowKey, hash: u32) -> bool {
        let found = self.flows.find(hash, |target| match target {
            Target::TimeWait(index) => self.time_wait.get(index).is_some_and(|record| record.key == *key),
            Target::Connection(_) | Target::HalfOpen(_) => false,
        });
        found.is_some()
    }

    /// Frees a connection that no application holds. Returns its id and the application's name for it, if it was accepted.
    pub(super) fn free(&mut self, env: &mut Env, index: u32) -> Option<(SocketId, u64)> {
        self.shared.starved.remove(&index);
        let mut connection = self.connection(env, index);
        connection.release();
        let named = (connection.id(), connection.tcb.user_token);
        let was_accepted = connection.tcb.is_accepted();
        let tcb = &mut *connection.tcb;
        tcb.clear(u16::MAX);
        tcb.set_timer_tick(0);
        tcb.set_state(State::Closed);
        tcb.generation = tcb.generation.wrapping_add(1);
        self.free.push(index);
        was_accepted.then_some(named)
    }
}
