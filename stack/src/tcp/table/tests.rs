use alloc::vec::Vec;

use super::*;

/// The first entry reserves space for all; only an entry beyond the maximum makes the table move.
#[test]
fn a_table_grows_in_place() {
    let mut table = Vec::new();
    append(&mut table, 0_u32, 100_000);
    let place = table.as_ptr();
    (1..100_000).for_each(|number| append(&mut table, number, 100_000));
    assert_eq!((table.as_ptr(), table.capacity()), (place, 100_000));
    append(&mut table, 100_000, 100_000);
    assert_eq!((table.len(), table.capacity()), (100_001, 112_500));
    assert!(table.into_iter().eq(0..=100_000));
}

/// More entries than addresses: the table grows in steps.
#[test]
fn a_table_that_cannot_be_had_grows_in_steps() {
    let mut table: Vec<[u64; 1 << 18]> = Vec::new();
    make_room(&mut table, u32::MAX as usize);
    assert!(table.capacity() < u32::MAX as usize);
}
