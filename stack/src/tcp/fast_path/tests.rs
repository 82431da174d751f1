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
