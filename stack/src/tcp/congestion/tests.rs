use super::cubic::Cubic;
use super::*;

const MSS: u32 = 1_000;

/// Slow start doubles the window per round trip and stops at ssthresh.
#[test]
fn slow_start() {
    let mut window = Window { cwnd: 10 * MSS, ssthresh: 25 * MSS, mss: MSS };
    assert_eq!(window.slow_start(10 * MSS), 0);
    assert_eq!(window.cwnd, 20 * MSS);
    assert_eq!(window.slow_start(7 * MSS), 2 * MSS);
    assert_eq!(window.cwnd, 25 * MSS);
}

/// Reno: one MSS per round trip; half of the flight on loss.
#[test]
fn newreno() {
    let mut window = Window { cwnd: 20 * MSS, ssthresh: 10 * MSS, mss: MSS };
    for _ in 0..20 {
        window.on_ack(CongestionControl::NewReno, None, Acked { bytes: MSS, now_ms: 0, srtt_us: 0 });
    }
    assert!((20 * MSS + MSS * 9 / 10..=21 * MSS).contains(&window.cwnd), "{}", window.cwnd);
    window.on_loss(CongestionControl::NewReno, None, 20 * MSS);
    assert_eq!(window.ssthresh, 10 * MSS);
    window.on_loss(CongestionControl::NewReno, None, MSS);
    assert_eq!(window.ssthresh, 2 * MSS);
}

/// CUBIC: 0.7 of the window on loss; back at W_max after K seconds, flat there, then faster.
#[test]
fn cubic_curve() {
    let mut cubic = Cubic::default();
    let mut window = Window { cwnd: 1_000 * MSS, ssthresh: SSTHRESH_INITIAL, mss: MSS };
    window.on_loss(CongestionControl::Cubic, Some(&mut cubic), 1_000 * MSS);
    assert_eq!(window.ssthresh, 700 * MSS);
    window.cwnd = window.ssthresh;
    // K = cbrt(300 / 0.4) = 9.08 s. One window acknowledged every 100 ms.
    let mut at_k = 0;
    for round in 0..200u32 {
        let now = round * 100;
        window.on_ack(CongestionControl::Cubic, Some(&mut cubic), Acked { bytes: window.cwnd, now_ms: now, srtt_us: 100_000 });
        if now == 9_000 {
            at_k = window.cwnd;
        }
        if now == 4_500 {
            assert!((930 * MSS..1_000 * MSS).contains(&window.cwnd), "{}", window.cwnd);
        }
    }
    assert!((995 * MSS..1_005 * MSS).contains(&at_k), "{at_k}");
    assert!(window.cwnd > 1_300 * MSS, "{}", window.cwnd);
}

/// With a small window CUBIC is not slower than Reno.
#[test]
fn cubic_is_reno_friendly() {
    let mut cubic = Cubic::default();
    let mut window = Window { cwnd: 10 * MSS, ssthresh: SSTHRESH_INITIAL, mss: MSS };
    window.on_loss(CongestionControl::Cubic, Some(&mut cubic), 10 * MSS);
    window.cwnd = window.ssthresh;
    for round in 0..20u32 {
        window.on_ack(CongestionControl::Cubic, Some(&mut cubic), Acked { bytes: window.cwnd, now_ms: round, srtt_us: 1_000 });
    }
    assert!(window.cwnd >= 15 * MSS, "{}", window.cwnd);
}

/// Linux on a near path: in the first 4 ms of an epoch a segment per round trip; then no more until the Reno-friendly
/// window, or the curve, has caught up.
#[test]
fn cubic_first_tick() {
    let mut cubic = Cubic::default();
    let mut window = Window { cwnd: 100 * MSS, ssthresh: SSTHRESH_INITIAL, mss: MSS };
    window.on_loss(CongestionControl::Cubic, Some(&mut cubic), 100 * MSS);
    window.cwnd = window.ssthresh;
    for round in 1..=8u32 {
        window.on_ack(CongestionControl::Cubic, Some(&mut cubic), Acked { bytes: window.cwnd, now_ms: round / 3, srtt_us: 300 });
        assert_eq!(window.cwnd, (70 + round) * MSS);
    }
    for round in 9..=15u32 {
        window.on_ack(
            CongestionControl::Cubic,
            Some(&mut cubic),
            Acked { bytes: window.cwnd, now_ms: 4 + round / 3, srtt_us: 300 },
        );
    }
    assert!(window.cwnd < 79 * MSS, "{}", window.cwnd);
    for round in 16..=40u32 {
        window.on_ack(
            CongestionControl::Cubic,
            Some(&mut cubic),
            Acked { bytes: window.cwnd, now_ms: 4 + round / 3, srtt_us: 300 },
        );
    }
    assert!((90 * MSS..92 * MSS).contains(&window.cwnd), "{}", window.cwnd);
}

/// RFC 6928: ten segments of 1460 bytes; fewer of larger ones.
#[test]
fn initial_windows() {
    assert_eq!(initial_window(1_460, 10), 14_600);
    assert_eq!(initial_window(536, 10), 5_360);
    assert_eq!(initial_window(8_960, 10), 17_920);
}

/// RFC 9438 §4.8: after a timeout the plateau is at the start of congestion avoidance, not at the window of the loss.
#[test]
fn cubic_after_a_timeout() {
    let mut cubic = Cubic::default();
    let mut window = Window { cwnd: 1_000 * MSS, ssthresh: SSTHRESH_INITIAL, mss: MSS };
    window.on_loss(CongestionControl::Cubic, Some(&mut cubic), 1_000 * MSS);
    cubic.on_timeout();
    window.cwnd = window.ssthresh;
    window.on_ack(CongestionControl::Cubic, Some(&mut cubic), Acked { bytes: MSS, now_ms: 0, srtt_us: 100_000 });
    assert!(window.cwnd - window.ssthresh < MSS, "flat at first: {}", window.cwnd);
    for round in 1..10 {
        window.on_ack(
            CongestionControl::Cubic,
            Some(&mut cubic),
            Acked { bytes: window.cwnd, now_ms: round * 100, srtt_us: 100_000 },
        );
    }
    assert!(window.cwnd < 710 * MSS, "{}", window.cwnd);
}

/// RFC 9438 §4.2: time in which the window was not used does not count.
#[test]
fn cubic_idle_time() {
    let mut cubic = Cubic::default();
    let mut window = Window { cwnd: 100 * MSS, ssthresh: 100 * MSS, mss: MSS };
    window.on_ack(CongestionControl::Cubic, Some(&mut cubic), Acked { bytes: MSS, now_ms: 0, srtt_us: 10_000 });
    window.on_ack(CongestionControl::Cubic, Some(&mut cubic), Acked { bytes: MSS, now_ms: 60_000, srtt_us: 10_000 });
    assert!(window.cwnd < 101 * MSS, "{}", window.cwnd);
}

/// RFC 9438 §4.3: alpha is 9/17 until the window from before the reduction is reached, though fast convergence has lowered
/// W_max.
#[test]
fn cubic_alpha() {
    let mut cubic = Cubic::default();
    let mut window = Window { cwnd: 100 * MSS, ssthresh: SSTHRESH_INITIAL, mss: MSS };
    window.on_loss(CongestionControl::Cubic, Some(&mut cubic), 100 * MSS);
    window.cwnd = 20 * MSS;
    // Fast convergence: W_max is 17 segments, cwnd_prior 20.
    window.on_loss(CongestionControl::Cubic, Some(&mut cubic), 20 * MSS);
    window.cwnd = window.ssthresh;
    let mut rounds = 0;
    while window.cwnd < 20 * MSS {
        window.on_ack(CongestionControl::Cubic, Some(&mut cubic), Acked { bytes: window.cwnd, now_ms: 0, srtt_us: 0 });
        rounds += 1;
    }
    // Six segments at 9/17 a round.
    assert!((11..=13).contains(&rounds), "{rounds}");
}
