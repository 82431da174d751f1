//! Urgent data: the stack's urgent marks for the application, and the application's for the stack.

use std::os::unix::fs::MetadataExt;

use ringway_channel::SlotIndex;
use ringway_stack::SocketId;
use rustix::process::{Pid, Signal, kill_process};

use super::region::Region;
use super::socket::Kind;
use crate::core::Core;

impl Region {
    /// Handles news of urgent data; the mark must be in the channel before its bytes.
    pub(super) fn urgent(&mut self, slot: SlotIndex, id: SocketId, core: &mut Core) {
        if let Some(urgent) = core.stack.urgent(id) {
            self.channel.set_mark(slot, urgent.at, urgent.byte);
            self.tell_owner(slot);
        }
        self.ready(slot, core);
    }

    /// Sends SIGURG to the process that the application has named (F_SETOWN), if it is one of the same user.
    fn tell_owner(&mut self, slot: SlotIndex) {
        let number = self.channel.slot(slot).owner();
        let Some(pid) = i32::try_from(number).ok().and_then(Pid::from_raw) else { return };
        let same_user = std::fs::metadata(format!("/proc/{number}")).is_ok_and(|process| process.uid() == self.owner.uid);
        if same_user && kill_process(pid, Signal::URG).is_err() {
            // The process has ended meanwhile.
            self.channel.slot(slot).set_owner(0);
        }
    }

    /// Marks the data up to `position` as urgent; a part of it may still be in the channel.
    pub(super) fn send_urgent(&mut self, slot: SlotIndex, position: u32, core: &mut Core) {
        let Some(socket) = self.sockets.get(slot) else { return };
        if let (Kind::Connection, Some(id)) = (socket.kind, socket.id) {
            let ahead = position.wrapping_sub(self.channel.tx_copied(slot)).cast_signed();
            core.stack.mark_urgent(id, ahead);
        }
    }
}
