use super::*;

fn block(left: u32, right: u32) -> SackBlock {
    SackBlock { left: SeqNum(left), right: SeqNum(right) }
}

fn outstanding(una: u32, nxt: u32) -> Outstanding {
    Outstanding { una: SeqNum(una), nxt: SeqNum(nxt), mss: 100, lost_before: SeqNum(una) }
}

/// Blocks merge, repeat without effect, and vanish below SND.UNA; invalid blocks change nothing.
#[test]
fn blocks() {
    let mut board = Scoreboard::default();
    let update = |board: &mut Scoreboard, left, right| board.update(SeqNum(1_000), SeqNum(2_000), &[block(left, right)]);
    assert!(update(&mut board, 1_100, 1_200));
    assert!(!update(&mut board, 1_100, 1_200));
    assert!(update(&mut board, 1_300, 1_400));
    assert!(update(&mut board, 1_200, 1_300));
    assert_eq!((board.sacked(), board.blocks.len()), (300, 1));
    for (left, right) in [(1_500, 1_400), (900, 950), (1_900, 2_001), (1_000, 1_050)] {
        assert!(!update(&mut board, left, right));
    }
    board.acknowledge(SeqNum(1_350));
    assert_eq!(board.sacked(), 50);
    board.acknowledge(SeqNum(1_400));
    assert!(board.is_empty());
}

/// RFC 6675: a byte is lost with more than two segments SACKed above it, or three separate blocks.
#[test]
fn is_lost() {
    let mut board = Scoreboard::default();
    board.update(SeqNum(0), SeqNum(2_000), &[block(100, 300)]);
    assert!(!board.is_first_lost(100));
    board.update(SeqNum(0), SeqNum(2_000), &[block(300, 301)]);
    assert!(board.is_first_lost(100));
    board.clear();
    board.update(SeqNum(0), SeqNum(2_000), &[block(100, 110), block(200, 210), block(300, 310)]);
    assert!(board.is_first_lost(100));
}

/// Ten segments, the first and third lost, five SACKed: checks the estimate in flight and the next segments.
#[test]
fn pipe_and_next_segment() {
    let mut board = Scoreboard::default();
    let out = outstanding(0, 1_000);
    board.update(out.una, out.nxt, &[block(100, 200), block(300, 700)]);
    // 700..1000 is not lost; 0..100 and 200..300 are, not yet retransmitted.
    assert_eq!(board.pipe(&out), 300);
    assert_eq!(board.next_segment(&out, Search::Lost), Some((SeqNum(0), SeqNum(100))));
    board.high_rxt = SeqNum(100);
    assert_eq!(board.pipe(&out), 400);
    assert_eq!(board.next_segment(&out, Search::Lost), Some((SeqNum(200), SeqNum(300))));
    board.high_rxt = SeqNum(300);
    assert_eq!(board.pipe(&out), 500);
    assert_eq!(board.next_segment(&out, Search::Lost), None);
}

/// After a timeout all data below `recover` that is not SACKed is lost and is retransmitted in order.
#[test]
fn after_a_timeout() {
    let mut board = Scoreboard::default();
    let out = Outstanding { lost_before: SeqNum(800), ..outstanding(0, 1_000) };
    board.update(out.una, out.nxt, &[block(300, 400)]);
    assert_eq!(board.pipe(&out), 200);
    assert_eq!(board.next_segment(&out, Search::Lost), Some((SeqNum(0), SeqNum(300))));
    board.high_rxt = SeqNum(300);
    assert_eq!(board.next_segment(&out, Search::Lost), Some((SeqNum(400), SeqNum(800))));
    board.high_rxt = SeqNum(800);
    assert_eq!(board.next_segment(&out, Search::Lost), None);
    assert_eq!(board.pipe(&out), 900);
}
