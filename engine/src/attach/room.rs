//! What happens when an application has nearly as many sockets as it may have.
//!
//! Promises: a handshake that could not be accepted does not begin (its SYN is dropped, as by a full accept queue of the
//! kernel's, and counted); nobody looks again and again whether there is room: what comes back says so. Does not do: sharing
//! the room among an application's listeners, each of which may take all of it at the same moment.

use super::region::Region;
use crate::core::Core;
use crate::quota::Quota;

/// With room for so many a listener need not be told how much there is: more cannot be in its two queues.
const PLENTY: u32 = 2 * super::request::BACKLOG_MAX;

impl Region {
    /// Sockets were taken or have come back.
    pub(super) fn note_room(&mut self, core: &mut Core) {
        let left = self.quotas.sockets.saturating_sub(self.sockets.count()).min(self.channel.free_accepted());
        let room = if left > PLENTY { u32::MAX } else { left };
        if room != self.room {
            self.room = room;
            if room == 0 {
                core.metrics.hit(Quota::SocketsOfGroup, self.number);
            }
            for at in 0..self.listeners.len() {
                let Some(socket) = self.sockets.get(self.listeners[at]) else { continue };
                let second = socket.listening.as_ref().and_then(|listening| listening.second);
                for id in [socket.id, second].into_iter().flatten() {
                    core.stack.set_room(id, room);
                }
            }
        }
        if left > 0 {
            for listener in std::mem::take(&mut self.without_room) {
                self.retry_later(listener);
            }
        }
    }
}
