//! What a group uses of its region, for quotas.

use super::super::layout::{BULK_CHUNK, LARGE_CHUNK, MIDDLE_CHUNK, PROCESSES, ROOM_CHUNK, SMALL_CHUNK};
use super::Attachment;
use ringway_shm::sync::Ordering;

impl Attachment {
    /// Says how many processes the group may have. A process asks before it forks; one that does not ask meets the service.
    pub fn limit_processes(&self, most: u32) {
        self.map.numbers().processes_max.0.store(most.min(PROCESSES), Ordering::Relaxed);
    }

    /// How many processes the group says that it has.
    pub fn processes(&self) -> u32 {
        self.map.processes().used().count() as u32
    }

    /// How often a process has forked without a number for the child, modulo 2^32, as the group says.
    pub fn forks_refused(&self) -> u32 {
        self.map.numbers().forks_refused.0.load(Ordering::Relaxed)
    }

    /// Bytes of the region that are not free: tables, and chunks that hold something. Large and small send chunks are counted
    /// from when they reach the worker, the small ones like large ones.
    pub fn used_bytes(&self) -> usize {
        let shape = self.shape();
        let (large, small) = self.rx.free();
        let (bulk, middle) = self.rooms.free_of_each();
        let bytes = |count: u32, size: usize| count as usize * size;
        let send = bytes(shape.tx_large, LARGE_CHUNK) + bytes(shape.tx_small, SMALL_CHUNK);
        let send_used = bytes(self.waiting_tx(), LARGE_CHUNK).min(send);
        let bulk_send = bytes(shape.tx_bulk.saturating_sub(self.lent_tx()), BULK_CHUNK);
        let receive = bytes(large, LARGE_CHUNK) + bytes(small, SMALL_CHUNK);
        let rooms = bytes(bulk, ROOM_CHUNK) + bytes(middle, MIDDLE_CHUNK);
        shape.bytes().saturating_sub(receive + rooms + bulk_send + send - send_used)
    }
}
