use super::*;

const MSS: u32 = 1_000;

/// RFC 6937 §3.1's case: twenty segments, the first lost, window halved: one segment for every two ACKs.
#[test]
fn proportional() {
    let mut prr = Prr { recover_fs: 20 * MSS, ..Prr::default() };
    let (ssthresh, mut pipe, mut sent) = (10 * MSS, 19 * MSS, 0);
    for _ in 0..19 {
        let count = prr.send_count(MSS, SafeAck::No, Flight { pipe, ssthresh, mss: MSS }) / MSS;
        pipe = pipe - MSS + count * MSS;
        prr.sent(count * MSS);
        sent += count;
    }
    assert!((9..=10).contains(&sent), "{sent}");
    assert!((ssthresh - MSS..=ssthresh).contains(&pipe), "{pipe}");
}

/// With most of the window lost: as much is sent as was delivered, a segment more if SND.UNA moved; never beyond ssthresh.
#[test]
fn conservative_and_slow_start() {
    let mut prr = Prr { recover_fs: 20 * MSS, delivered: 3 * MSS, out: 3 * MSS, ..Prr::default() };
    assert_eq!(prr.send_count(MSS, SafeAck::No, Flight { pipe: 2 * MSS, ssthresh: 10 * MSS, mss: MSS }), MSS);
    prr.sent(MSS);
    assert_eq!(prr.send_count(MSS, SafeAck::Yes, Flight { pipe: 2 * MSS, ssthresh: 10 * MSS, mss: MSS }), 2 * MSS);
    assert_eq!(prr.send_count(9 * MSS, SafeAck::Yes, Flight { pipe: 9 * MSS, ssthresh: 10 * MSS, mss: MSS }), MSS);
}

/// The fast retransmission is sent even if the share rounds to nothing.
#[test]
fn first() {
    let mut prr = Prr { recover_fs: 20 * MSS, ..Prr::default() };
    assert_eq!(prr.send_count(0, SafeAck::No, Flight { pipe: 19 * MSS, ssthresh: 10 * MSS, mss: MSS }), MSS);
}

/// Without SACK duplicate ACKs stand for segments; a partial ACK counts only what they have not (RFC 9937 §5).
#[test]
fn without_sack() {
    let mut prr = Prr::without_sack(3, MSS);
    prr.duplicate(MSS);
    assert_eq!(prr.acknowledged(5 * MSS), MSS);
    assert_eq!(prr.duplicates, 0);
    prr.duplicate(MSS);
    prr.duplicate(MSS);
    assert_eq!((prr.acknowledged(MSS), prr.duplicates), (0, MSS));
}

/// RFC 6675 §5 (3): what the window had allowed before is sent in addition, new data only.
#[test]
fn withheld() {
    let mut prr = Prr { recover_fs: 18 * MSS, ..Prr::default() };
    prr.withhold(2 * MSS);
    assert_eq!(prr.recover_fs, 20 * MSS);
    prr.sent_again(MSS);
    prr.sent(2 * MSS);
    assert_eq!((prr.withheld, prr.out), (0, MSS));
    prr.sent(MSS);
    assert_eq!(prr.out, 2 * MSS);
}
