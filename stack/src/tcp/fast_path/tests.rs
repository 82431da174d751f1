use alloc::vec;

use super::*;
use crate::wire::tcp::{FIN, Header, SYN, Timestamps};

/// The word includes every flag except PSH.
#[test]
fn the_word_tells_flags_apart() {
    let parse = |flags| {
        let time = Some(Timestamps::default());
        let mut header = Header { flags, ..Header::default() };
        header.options.timestamps = time;
        let mut bytes = vec![0; header.len()];
        header.emit(&mut bytes);
        Received::parse(&bytes).map(|header| expected_word(&header))
    };
    assert_eq!(parse(ACK), parse(ACK | PSH));
    for flag in [FIN, SYN, 1 << 2, 1 << 5, 1 << 6, 1 << 7] {
        assert_ne!(parse(ACK), parse(ACK | flag));
    }
}

/// A value of the word closes it when it changes, and only then; a value of the mark clears that.
#[test]
fn conditions_close_what_relies_on_them() {
    let mut prediction = Prediction(ACK as u32 | FAST_PATH);
    let mut of_word = WordCondition::new(1);
    let mut of_mark = MarkCondition::new(1);
    of_word.set(1, &mut prediction);
    assert!(prediction.is_marked());
    of_mark.set(2, &mut prediction);
    assert_eq!((prediction.is_marked(), prediction.is_closed()), (false, false));
    of_word.set(2, &mut prediction);
    assert_eq!((prediction.is_closed(), of_word.get(), of_mark.get()), (true, 2, 2));
}
