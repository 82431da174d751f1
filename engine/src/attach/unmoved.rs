//! Connections that programs were asked for and do not give, as none of their threads runs code of the library's: one sleeps, one computes.
//!
//! Promises: what is named is held by the process that is named, and no process that has it has filtered its system calls. Does not do: taking the kernel
//! socket; the service does where it may ([`Host::take`](crate::Host::take)). A program can write any number into its slot: it names a descriptor of its
//! own.

use ringway_channel::{CONFINED, Flags, ProcessDescriptor, SlotIndex};

use super::Attachments;
use super::region::Region;
use super::socket::Kind;
use crate::command::RegionId;
use crate::core::Core;
use crate::handover::Unmoved;

impl Attachments {
    /// Names what programs have not given, when it is time.
    pub(super) fn name_unmoved(&mut self, core: &mut Core) {
        if self.departures.take_at.take_if(|at| *at <= core.now).is_none() {
            return;
        }
        for number in self.live.clone() {
            if let Some(region) = self.region(number) {
                region.name_unmoved(core);
            }
        }
    }
}

impl Region {
    fn name_unmoved(&mut self, core: &mut Core) {
        for index in self.sockets.slots() {
            let socket = self.sockets.get(index).expect("it has just been listed");
            let (slot, lives) = (socket.slot, socket.kind == Kind::Connection && socket.id.is_some());
            let is_wanted = lives && self.channel.slot(index).flags().has(Flags::WANTED);
            if let (true, Some(place)) = (is_wanted, self.place_of(index)) {
                core.unmoved.push(Unmoved { region: RegionId(self.number), slot, place });
            }
        }
    }

    /// Where the slot's kernel socket is, if it may be taken from there.
    pub(super) fn place_of(&self, index: SlotIndex) -> Option<ProcessDescriptor> {
        let slot = self.channel.slot(index);
        let place = slot.place().filter(|_| slot.app_flags() & CONFINED == 0)?;
        self.channel.is_held_by(index, place.process).then_some(place)
    }
}
