use super::*;
use crate::tcp::congestion::SSTHRESH_INITIAL;

const MSS: u32 = 1_000;

struct Flow {
    hystart: HyStart,
    window: Window,
    una: u32,
    nxt: u32,
}

impl Flow {
    fn new() -> Flow {
        let window = Window { cwnd: 10 * MSS, ssthresh: SSTHRESH_INITIAL, mss: MSS };
        Flow { hystart: HyStart::default(), window, una: 0, nxt: 10 * MSS }
    }

    /// Acknowledges the segments of one round, one by one, each with this round trip.
    fn round(&mut self, rtt_us: u32) {
        let end = self.nxt;
        while self.una < end && self.window.ssthresh == SSTHRESH_INITIAL {
            self.una += MSS;
            // Segments that this ACK allows belong to the next round.
            let nxt = if self.una == end { self.una + self.window.cwnd + MSS } else { self.nxt };
            let round = Round { ack: SeqNum(self.una), nxt: SeqNum(nxt), acked: MSS, rtt_us };
            self.hystart.on_ack(&mut self.window, &round);
            self.nxt = nxt.max(self.una + self.window.cwnd);
        }
        // Whole segments.
        self.nxt = self.nxt.next_multiple_of(MSS);
    }
}

/// With a steady round trip slow start doubles every round.
#[test]
fn steady() {
    let mut flow = Flow::new();
    flow.round(40_000);
    assert_eq!(flow.window.cwnd, 20 * MSS);
    flow.round(41_000);
    assert_eq!(flow.window.cwnd, 40 * MSS);
    assert!(!flow.hystart.is_conservative());
}

/// A round trip longer by an eighth (5 ms of 40): conservative slow start, and after five more rounds congestion avoidance
/// at the present window.
#[test]
fn delayed() {
    let mut flow = Flow::new();
    flow.round(40_000);
    flow.round(44_999);
    assert!(!flow.hystart.is_conservative());
    flow.round(50_700);
    assert!(flow.hystart.is_conservative());
    let before = flow.window.cwnd;
    let mut rounds = 0;
    while flow.window.ssthresh == SSTHRESH_INITIAL {
        flow.round(60_000);
        rounds += 1;
    }
    // The round in which it began is one of the five, as the RFC counts.
    assert_eq!(rounds, 4);
    assert_eq!(flow.window.ssthresh, flow.window.cwnd);
    // A quarter each round.
    assert!((before * 2..before * 4).contains(&flow.window.cwnd), "{before} {}", flow.window.cwnd);
}

/// The threshold has bounds: 4 ms for short round trips, 16 ms for long ones.
#[test]
fn thresholds() {
    for (rtt_us, threshold_us) in [(1_000, 4_000), (100_000, 12_500), (400_000, 16_000)] {
        for (more_us, conservative) in [(threshold_us - 1, false), (threshold_us, true)] {
            let mut flow = Flow::new();
            flow.round(rtt_us);
            flow.round(rtt_us + more_us);
            assert_eq!(flow.hystart.is_conservative(), conservative, "{rtt_us} + {more_us}");
        }
    }
}

/// The delay was jitter: back to standard slow start.
#[test]
fn resumed() {
    let mut flow = Flow::new();
    flow.round(40_000);
    flow.round(50_000);
    assert!(flow.hystart.is_conservative());
    flow.round(41_000);
    assert!(!flow.hystart.is_conservative());
    assert_eq!(flow.window.ssthresh, SSTHRESH_INITIAL);
}

/// Fewer than eight samples of a round have no effect.
#[test]
fn few_samples() {
    let mut flow = Flow::new();
    flow.round(40_000);
    let end = flow.nxt;
    for n in 0..7 {
        let round = Round { ack: SeqNum(end - 7 + n), nxt: SeqNum(flow.nxt), acked: 1, rtt_us: 90_000 };
        flow.hystart.on_ack(&mut flow.window, &round);
    }
    assert!(!flow.hystart.is_conservative());
}
