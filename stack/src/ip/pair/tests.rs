use super::Pair;
use crate::family::{Family, in_both_families};

/// A pair returns its two addresses.
fn both_ends_come_back(family: Family) {
    let pair = Pair::of(family.local(), family.remote());
    assert_eq!((pair.local(), pair.remote()), (family.local(), family.remote()));
}

in_both_families! { both_ends_come_back }
