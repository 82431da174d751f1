//! Growth of the tables that are indexed by connection: in place.
//!
//! With its first entry a table reserves space for its maximum size. When the system gives memory on first touch, that costs
//! address space only, and growth needs no copy: a doubled table would stall the stack, need the memory of three tables at
//! once, and leave holes. When the reservation fails, the table grows by an eighth.

use alloc::vec::Vec;

/// Minimum number of entries that a small table grows by.
const STEP_MIN: usize = 64;
/// Without the full reservation: a table grows by one in this many of its entries.
const STEP_SHARE: usize = 8;

/// Appends an entry to a table that will have `most` entries at most.
pub(crate) fn append<T>(table: &mut Vec<T>, entry: T, most: u32) {
    if table.len() == table.capacity() {
        make_room(table, most as usize);
    }
    table.push(entry);
}

#[cold]
fn make_room<T>(table: &mut Vec<T>, most: usize) {
    let len = table.len();
    if len < most && table.try_reserve_exact(most - len).is_ok() {
        return;
    }
    table.reserve_exact((len / STEP_SHARE).max(STEP_MIN));
}

#[cfg(test)]
mod tests;
