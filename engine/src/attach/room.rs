//! Limits for an application that has nearly as many sockets as it may have.
//!
//! Promises: a handshake that could not be accepted does not begin (its SYN is dropped and counted, as by a full accept
//! queue of the kernel's). Space is not polled: returned sockets update it. Does not do: sharing the space among an
//! application's listeners, each of which may take all of it at the same moment.

use super::region::Region;
use crate::core::Core;
use crate::quota::Quota;

/// With more space than this a listener needs no limit: its two queues cannot hold more.
const PLENTY: u32 = 2 * super::request::BACKLOG_MAX;

impl Region {
    /// Updates the listeners' space after sockets were taken or came back.
    pub(super) fn note_room(&mut self, core: &mut Core) {
        let left = self.quotas.sockets.saturating_sub(self.sockets.count()).min(self.channel.free_accepted());
        let room = if self.leaving {
            0
        } else if left > PLENTY {
            u32::MAX
        } else {
            left
        };
        if room != self.room {
            self.room = room;
            if room == 0 && !self.leaving {
                core.metrics.hit(Quota::SocketsOfGroup, self.number);
            }
            self.set_rooms(core);
        }
        if left > 0 {
            for listener in std::mem::take(&mut self.without_room) {
                self.retry_later(listener);
            }
        }
    }

    /// Tells the stack the listeners' space. One that is about to leave a port to the kernel has none.
    pub(super) fn set_rooms(&mut self, core: &mut Core) {
        for at in 0..self.listeners.len() {
            let Some(socket) = self.sockets.get(self.listeners[at]) else { continue };
            let Some(listening) = &socket.listening else { continue };
            let is_parting = listening.owned.iter().any(|ip| core.ports.is_parting(*ip, listening.port));
            let room = if is_parting { 0 } else { self.room };
            for id in [socket.id, listening.second].into_iter().flatten() {
                core.stack.set_room(id, room);
            }
        }
    }
}
