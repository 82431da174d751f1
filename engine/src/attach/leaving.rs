//! All sockets go home: the end of a service that is told to end. See docs/handover.md.
//!
//! ```text
//!   now        listeners take nothing more, and their ports are shut for what is new
//!   drain_s    programs are asked for their connections
//!   1 s before the limit: for what they have not accepted, which goes into accept queues of the kernel's
//!   at last    ports are the kernel's
//! ```
//! Promises: what has not gone home by then is counted. Does not do: the course of one connection (`super::handover`).

use ringway_channel::{Flags, SlotIndex, State};
use ringway_shm::{Duration, Instant};

use super::Attachments;
use super::region::Region;
use super::socket::Kind;
use crate::command::Reply;
use crate::core::Core;
use crate::handover::Left;
use crate::metrics::Work;

/// All sockets are to go home.
pub(super) struct Leaving {
    /// When the programs are asked for what has not ended by itself; `None`: they are asked.
    pub(super) asks_at: Option<Instant>,
    /// When they are asked for what they have not accepted; `None`: they are asked.
    empties_at: Option<Instant>,
    until: Instant,
    reply: Reply<Left>,
}

impl Leaving {
    /// Programs are asked for what has not ended by itself after `drain`, for `limit` at most.
    pub(super) fn new(now: Instant, drain: Duration, limit: Duration, reply: Reply<Left>) -> Leaving {
        let asks_at = now + drain;
        let until = asks_at + limit;
        // What a program accepts before, it has from the stack with all that it has sent and received.
        let empties_at = until - EMPTYING.min(Duration::from_nanos(limit.as_nanos() / 2));
        Leaving { asks_at: Some(asks_at), empties_at: Some(empties_at), until, reply }
    }
}

impl Attachments {
    /// Goes on with the way home of all sockets.
    pub(super) fn follow_leaving(&mut self, core: &mut Core) {
        if self.departures.leaving.is_none() {
            return;
        }
        let owes = core.stack.records().0 > 0 || core.sending_orphans().next().is_some();
        let staying: u32 = self.regions.iter_mut().flatten().map(|region| region.staying()).sum();
        let stay = staying + self.departures.expected;
        let Some(leaving) = self.departures.leaving.as_mut() else { return };
        let is_over = |leaving: &mut Leaving| (!owes && stay == 0) || leaving.until <= core.now;
        let is_due = |at: &mut Option<Instant>| at.take_if(|at| *at <= core.now).is_some();
        let (asks, empties) = (is_due(&mut leaving.asks_at), is_due(&mut leaving.empties_at));
        if asks {
            for number in self.live.clone() {
                if let Some(region) = self.region(number) {
                    region.wants_all = true;
                    region.want(|_, _| true);
                }
            }
            self.departures.take_at = Some(core.now + TAKE_AFTER);
        }
        if empties {
            for number in self.live.clone() {
                if let Some(region) = self.region(number) {
                    region.want_waiting();
                }
            }
        }
        let Some(Leaving { reply, .. }) = self.departures.leaving.take_if(is_over) else { return };
        reply.answer(Left { connections: stay + core.sending_orphans().count() as u32 });
    }
}

impl Region {
    /// Accepts no connection any more: new ones are the kernel's listener's.
    pub(super) fn leave(&mut self, core: &mut Core) {
        self.leaving = true;
        self.note_room(core);
        for slot in self.listeners.clone() {
            let Some(listening) = self.sockets.get(slot).and_then(|socket| socket.listening.as_ref()) else { continue };
            let port = listening.port;
            for ip in listening.owned.clone() {
                let stay = core.peers_of(ip, port);
                core.ports.leave_new(ip, port, &stay);
            }
        }
    }

    /// Gives ports that connect nothing any more to the kernel's sockets, which have been bound all the time.
    pub(super) fn leave_ports(&mut self, core: &mut Core) {
        for slot in self.sockets.slots() {
            let Some(socket) = self.sockets.get(slot) else { continue };
            let kind = socket.kind;
            let (id, listening) = (socket.id, socket.listening.as_deref_mut());
            let Some(listening) = listening.filter(|listening| !listening.local.is_empty()) else { continue };
            let (port, second) = (listening.port, listening.second.take());
            // It serves nothing any more.
            listening.local.clear();
            for ip in std::mem::take(&mut listening.owned) {
                match kind {
                    Kind::Datagram => core.ports.remove_datagrams(ip, port),
                    _ => {
                        core.ports.leave(ip, port);
                        core.ports.remove(ip, port);
                    }
                }
            }
            if kind == Kind::Listener {
                // One that has nothing to reset stays in the stack without room: a SYN that is still in a device's ring finds silence there, and
                // the next one is the kernel's.
                let waits = |id: &ringway_stack::SocketId| core.stack.readiness(*id).readable;
                let resets: Vec<_> = [id, second].into_iter().flatten().filter(waits).collect();
                resets.into_iter().for_each(|id| core.stack.close(core.now, id));
                self.sockets.get(slot).expect("it was there").id = None;
            }
            core.metrics.add(Work::SocketsHandedOver, 1);
            self.channel.set_flags(slot, Flags::MOVED);
            self.channel.signal(slot);
        }
    }

    /// Number of connections of programs that are in the stack or on their way.
    fn staying(&mut self) -> u32 {
        let slots = self.sockets.slots();
        let stays = |slot: &SlotIndex| {
            let socket = self.sockets.get(*slot).expect("it has just been listed");
            let lives = socket.kind == Kind::Connection && socket.id.is_some();
            self.movings.has(*slot) || (lives && self.channel.slot(*slot).state() != State::Closed)
        };
        slots.into_iter().filter(stays).count() as u32
    }

    /// Asks for what waits at listeners: a process that has one puts it into the accept queue of its kernel socket.
    fn want_waiting(&mut self) {
        for &slot in &self.listeners {
            self.channel.set_flags(slot, Flags::EMPTIES);
        }
        if !self.listeners.is_empty() {
            self.wish();
        }
    }
}

/// What waits at a listener goes into the kernel's queue so long before the service ends.
const EMPTYING: Duration = Duration::from_secs(1);
/// A program that runs gives what it is asked for within this time.
pub(super) const TAKE_AFTER: Duration = Duration::from_secs(1);
