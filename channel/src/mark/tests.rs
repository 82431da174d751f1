//! The word of a mark.

use super::Mark;

/// What the worker writes is what the application reads, and a word of zero is no mark.
#[test]
fn a_word_is_a_mark() {
    for byte in [None, Some(0), Some(255)] {
        let mark = Mark { number: 65_535, at: u32::MAX, byte };
        assert_eq!(Mark::decode(mark.encode()), Some(mark));
    }
    assert_eq!(Mark::decode(0), None);
}
