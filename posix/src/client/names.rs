//! The names of a socket: a reference here, a slot of a worker's region there, a descriptor number in this process.

use super::Attached;
use crate::fallback::Fd;
use crate::fd_table::SocketRef;
use ringway_channel as shm;

impl Attached {
    pub(super) fn worker_of(&self, socket: SocketRef) -> usize {
        let worker = (socket.index & ((1 << self.worker_bits) - 1)) as usize;
        // An earlier service may have had more workers.
        if worker < self.clients.len() { worker } else { 0 }
    }

    pub(super) fn slot_of(&self, socket: SocketRef) -> shm::SlotRef {
        shm::SlotRef { index: socket.index >> self.worker_bits, generation: socket.generation ^ self.salt }
    }

    /// The socket's worker and its slot there.
    pub(super) fn place(&self, socket: SocketRef) -> (&shm::Client, shm::SlotRef) {
        (&self.clients[self.worker_of(socket)], self.slot_of(socket))
    }

    pub(super) fn socket(&self, worker: usize, slot: shm::SlotRef) -> SocketRef {
        SocketRef { index: slot.index << self.worker_bits | worker as u32, generation: slot.generation ^ self.salt }
    }

    pub(super) fn current(&self, socket: SocketRef) -> Option<&shm::slot::SlotShared> {
        let (client, slot) = self.place(socket);
        client.is_current(slot).then(|| client.slot(slot.index))
    }

    /// The socket's slot, and how a descriptor of this process stands there.
    pub(super) fn known_as(&self, socket: SocketRef, fd: Fd) -> Option<(&shm::slot::SlotShared, shm::ProcessDescriptor)> {
        let (client, named) = self.place(socket);
        let place = shm::ProcessDescriptor { process: client.process(), number: fd as u32 };
        client.is_current(named).then(|| (client.slot(named.index), place))
    }
}
