use super::*;
use alloc::vec::Vec;

/// Asks for `acks` ACKs, every delay of which is useless; returns the numbers of the delayed ones.
fn in_vain(interactive: &mut Interactive, acks: u32) -> Vec<u32> {
    let mut waited = Vec::new();
    for n in 0..acks {
        if interactive.waits() {
            waited.push(n);
            interactive.was_in_vain();
        }
    }
    waited
}

/// There are 64 ACKs between two delays, then twice as many each time, up to 32,768.
#[test]
fn waits_in_vain_become_rare() {
    let waited = in_vain(&mut Interactive::default(), 140_000);
    let gaps: Vec<u32> = waited.windows(2).map(|pair| pair[1] - pair[0] - 1).collect();
    assert_eq!(gaps, [64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 32_768, 32_768]);
}

/// An application that is late with one answer in hundreds makes 64 ACKs go at once each time; a long history of useless
/// delays is forgotten after as many useful ones.
#[test]
fn one_slow_answer_among_many() {
    let mut interactive = Interactive::default();
    in_vain(&mut interactive, 64 + 128 + 256 + 3);
    for _ in 0..3 {
        while !interactive.waits() {}
        assert_eq!((0..511).filter(|_| interactive.waits()).count(), 511);
        interactive.was_in_vain();
        assert_eq!((0..64).filter(|_| interactive.waits()).count(), 0);
    }
}
