use super::*;

const MSS: u32 = 1_000;

/// Acknowledges `count` windows of ten segments each, `marked` of them with a mark.
fn windows(dctcp: &mut Dctcp, first: u32, count: u32, marked: u32) {
    for n in first..first + count {
        let nxt = SeqNum(n * 10 * MSS + 10 * MSS);
        for segment in 1..=10 {
            let mark = if segment <= marked { MSS } else { 0 };
            dctcp.on_ack(SeqNum(n * 10 * MSS + segment * MSS), nxt, MSS, mark);
        }
    }
}

/// RFC 8257 §3.3: alpha begins at 1, moves by a sixteenth of the difference per window, and ends at the share of marks.
#[test]
fn alpha() {
    let mut dctcp = Dctcp::default();
    assert_eq!(dctcp.alpha(), 1_024);
    windows(&mut dctcp, 0, 2, 0);
    assert_eq!(dctcp.alpha(), 960);
    windows(&mut dctcp, 2, 200, 0);
    assert_eq!(dctcp.alpha(), 0);
    windows(&mut dctcp, 202, 300, 3);
    assert!((270..=307).contains(&dctcp.alpha()), "{}", dctcp.alpha());
    windows(&mut dctcp, 502, 300, 10);
    assert!(dctcp.alpha() > 1_000, "{}", dctcp.alpha());
}

/// RFC 8257 §3.3 (9): the window falls by half of the share of marks, to two segments at least.
#[test]
fn reduction() {
    let mut dctcp = Dctcp::default();
    let window = Window { cwnd: 100 * MSS, ssthresh: 0, mss: MSS };
    assert_eq!(dctcp.on_ecn(&window), 50 * MSS);
    windows(&mut dctcp, 0, 500, 2);
    let reduced = dctcp.on_ecn(&window);
    assert!((89 * MSS..=91 * MSS).contains(&reduced), "{reduced}");
    assert_eq!(dctcp.on_ecn(&Window { cwnd: 2 * MSS, ..window }), 2 * MSS);
}
