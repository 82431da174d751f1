use super::choose;

/// Number of 3000 connections that each worker gets.
fn shares(busy: [u32; 3]) -> [u32; 3] {
    let mut shares = [0; 3];
    (0..3_000).for_each(|turn| shares[choose(turn, 3, |worker| busy[worker as usize]) as usize] += 1);
    shares
}

/// Workers with equal or similar load get equal shares.
#[test]
fn equals_take_turns() {
    for busy in [[0, 0, 0], [1_000, 700, 900], [250, 0, 0]] {
        assert_eq!(shares(busy), [1_000; 3], "{busy:?}");
    }
}

/// A busy worker passes three of four connections to the least busy.
#[test]
fn a_busy_one_gives_turns_away() {
    assert_eq!(shares([900, 200, 210]), [250, 1_750, 1_000]);
    assert_eq!(shares([900, 800, 0]), [250, 250, 2_500]);
}
