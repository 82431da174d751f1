//! How tables that are indexed by connection grow: in place.
//!
//! A table asks for the room of all that it may ever hold when its first entry comes. Where memory is given when it is
//! touched, that costs address space alone, and more connections cost no copy: a doubled table would hold up a turn,
//! need the memory of three tables at once, and leave holes. Where so much cannot be had it grows by an eighth.

use alloc::vec::Vec;

/// Entries that a small table gets at least.
const STEP_MIN: usize = 64;
/// Where the whole table cannot be had: one in so many of its entries at a time.
const STEP_SHARE: usize = 8;

/// Appends an entry to a table that will have `most` at most.
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
