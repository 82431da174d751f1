//! BBR on a simulated path: a bottleneck with a queue, a fixed round trip, losses from a seed. Lost segments are not
//! retransmitted.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::*;
use crate::tcp::rate::{Rate, Transmission};
use crate::wire::sequence::SeqNum;

const MSS: u32 = 1_000;
/// 10 Mbyte/s
const RATE: u64 = 10_000_000;
const RTT_US: u64 = 40_000;
/// Bytes that the path holds: 400 segments.
const BDP: u64 = RATE * RTT_US / 1_000_000;

struct Link {
    now_us: u64,
    bbr: Bbr,
    rate: Rate,
    /// The MSS reported to the model; packets are of `MSS`.
    mss: u32,
    cwnd: u32,
    next_us: u64,
    sent: u32,
    /// Segments in flight: number, and time of the ACK (`None`: lost).
    under_way: VecDeque<(u32, Option<u64>)>,
    /// Time at which the bottleneck is free.
    free_us: u64,
    bottleneck: u64,
    rtt_us: u64,
    buffer: u64,
    loss_one_in: u64,
    random: u64,
    delivered: u64,
    lost: u64,
    /// Phases in the order in which they began.
    phases: Vec<Phase>,
    /// Bytes that the application writes per second; 0: without limit.
    application: u64,
    round_trips: Vec<u64>,
}

impl Link {
    fn new() -> Link {
        let rate = Rate::default();
        let view = Flow {
            now_us: 1_000_000,
            mss: MSS,
            cwnd: 10 * MSS,
            initial_cwnd: 10 * MSS,
            in_flight: 0,
            srtt_us: RTT_US as u32,
            delivered: 0,
            cwnd_limited: false,
            app_limited: false,
            sack: true,
            in_recovery: false,
            ..Flow::default()
        };
        Link {
            now_us: 1_000_000,
            bbr: Bbr::new(&view, 42),
            rate,
            mss: MSS,
            cwnd: 10 * MSS,
            next_us: 0,
            sent: 0,
            under_way: VecDeque::new(),
            free_us: 0,
            bottleneck: RATE,
            rtt_us: RTT_US,
            buffer: 4 * BDP,
            loss_one_in: 0,
            random: 1,
            delivered: 0,
            lost: 0,
            phases: Vec::new(),
            application: 0,
            round_trips: Vec::new(),
        }
    }

    fn view(&self) -> Flow {
        Flow {
            now_us: self.now_us,
            mss: self.mss,
            cwnd: self.cwnd,
            initial_cwnd: 10 * MSS,
            in_flight: self.under_way.len() as u32 * MSS,
            srtt_us: self.rtt_us as u32,
            delivered: self.rate.delivered,
            cwnd_limited: self.under_way.len() as u32 * MSS + MSS > self.cwnd,
            app_limited: self.rate.is_application_limited(),
            sack: true,
            in_recovery: false,
            ..Flow::default()
        }
    }

    fn send(&mut self) {
        let budget = if self.application == 0 { u64::MAX } else { self.application * (self.now_us - 1_000_000) / 1_000_000 };
        while self.under_way.len() as u32 * MSS + MSS <= self.cwnd && self.next_us <= self.now_us {
            if self.sent as u64 * MSS as u64 >= budget {
                self.rate.mark_application_limited(self.under_way.len() as u32 * MSS);
                return;
            }
            self.next_us = self.next_us.max(self.now_us.saturating_sub(1_000)) + MSS as u64 * 1_000_000 / self.bbr.pacing_rate();
            self.free_us = self.free_us.max(self.now_us);
            let queued = (self.free_us - self.now_us) * self.bottleneck / 1_000_000;
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let unlucky = self.loss_one_in != 0 && (self.random >> 33).is_multiple_of(self.loss_one_in);
            let arrives = if unlucky || queued + MSS as u64 > self.buffer {
                None
            } else {
                self.free_us += MSS as u64 * 1_000_000 / self.bottleneck;
                Some(self.free_us + self.rtt_us)
            };
            self.under_way.push_back((self.sent, arrives));
            let in_flight = self.under_way.len() as u32 * MSS;
            self.rate.sent(self.now_us, in_flight, Transmission { start: SeqNum(self.sent * MSS), len: MSS, again: false });
            self.sent += 1;
        }
    }

    /// Processes the ACKs due now; older segments without one are lost.
    fn receive(&mut self) {
        while let Some(place) = self.under_way.iter().position(|(_, at)| at.is_some_and(|at| at <= self.now_us)) {
            for _ in 0..place {
                let (number, _) = self.under_way.pop_front().expect("the position is in the queue");
                let mut view = self.view();
                let (rate, bbr) = (&mut self.rate, &mut self.bbr);
                rate.lost(SeqNum(number * MSS), SeqNum((number + 1) * MSS), &mut |packet, lost| {
                    let (len, in_flight, app_limited) = (packet.len, packet.in_flight, packet.app_limited);
                    bbr.on_lost(&mut view, &Lost { len, in_flight, lost: lost - packet.lost, app_limited });
                });
                self.lost += 1;
            }
            let (number, _) = self.under_way.pop_front().expect("it is the first");
            self.rate.sacked(self.now_us, SeqNum(number * MSS), SeqNum((number + 1) * MSS));
            let before = self.rate.delivered;
            self.delivered += MSS as u64;
            let sample = self.rate.take_sample(1);
            self.round_trips.push(sample.rtt_us as u64);
            // Delivered segments need no record; lost ones neither.
            self.rate.acknowledged(self.now_us, SeqNum((number + 1) * MSS));
            self.rate.delivered = before;
            self.rate.take_sample(1);
            let mut view = self.view();
            self.bbr.on_ack(&mut view, &sample);
            if view.is_held_back {
                self.rate.mark_application_limited(view.in_flight);
            }
            self.cwnd = view.cwnd;
            if self.phases.last() != Some(&self.bbr.phase()) {
                self.phases.push(self.bbr.phase());
            }
        }
    }

    /// Runs for `millis` milliseconds; returns the bytes delivered per second.
    fn run(&mut self, millis: u64) -> u64 {
        let before = self.delivered;
        for _ in 0..millis * 10 {
            self.now_us += 100;
            self.receive();
            self.send();
        }
        (self.delivered - before) * 1_000 / millis
    }
}

/// Startup doubles the rate until the bandwidth is known, Drain empties the queue, ProbeBW cruises; the path is full and the
/// queue short.
#[test]
fn fills_the_path() {
    let mut link = Link::new();
    link.run(2_000);
    assert_eq!(link.phases[..2], [Phase::Startup, Phase::Drain], "{:?}", link.phases);
    let estimate = link.bbr.max_bw();
    assert!((RATE * 97 / 100..=RATE * 103 / 100).contains(&estimate), "{estimate}");
    link.round_trips.clear();
    let rate = link.run(6_000);
    assert!(rate > RATE * 95 / 100, "{rate}");
    assert_eq!(link.lost, 0);
    let mean = link.round_trips.iter().sum::<u64>() / link.round_trips.len() as u64;
    assert!(mean < RTT_US * 115 / 100, "{mean} us");
    for phase in [Phase::Down, Phase::Cruise, Phase::Refill, Phase::Up] {
        assert!(link.phases.contains(&phase), "{phase:?} in {:?}", link.phases);
    }
}

/// Random losses of 1 percent cost little.
#[test]
fn random_loss() {
    let mut link = Link::new();
    link.loss_one_in = 100;
    link.run(2_000);
    let rate = link.run(10_000);
    assert!(rate > RATE * 80 / 100, "{rate} {:?}", link.phases);
}

/// A queue of a tenth of the path's capacity overflows when probed: the long-term bound is found, less than 2 percent are
/// lost.
#[test]
fn shallow_queue() {
    let mut link = Link::new();
    link.buffer = BDP / 10;
    link.run(3_000);
    let (lost, sent) = (link.lost, link.sent as u64);
    let rate = link.run(10_000);
    assert!(rate > RATE * 85 / 100, "{rate} {:?}", link.phases);
    assert_ne!(link.bbr.inflight_longterm, INFINITY);
    let share = (link.lost - lost) * 1_000 / (link.sent as u64 - sent);
    assert!(share < 20, "{share} in a thousand lost");
}

/// The path becomes twice as fast: BBR finds that within some cycles. Then a third as fast: BBR follows.
#[test]
fn changing_bandwidth() {
    let mut link = Link::new();
    link.run(3_000);
    link.bottleneck = 2 * RATE;
    link.run(12_000);
    let rate = link.run(2_000);
    assert!(rate > 2 * RATE * 90 / 100, "{rate}");
    link.bottleneck = 2 * RATE / 3;
    link.run(10_000);
    link.round_trips.clear();
    let rate = link.run(2_000);
    assert!(rate > 2 * RATE / 3 * 90 / 100, "{rate}");
    let mean = link.round_trips.iter().sum::<u64>() / link.round_trips.len() as u64;
    assert!(mean < 2 * RTT_US, "{mean} us");
}

/// An application that writes a tenth of the path's capacity does not lower the estimate, and never leaves Startup.
#[test]
fn application_limited() {
    let mut link = Link::new();
    link.application = RATE / 10;
    link.run(4_000);
    assert_eq!(link.phases, [Phase::Startup]);
    let mut link = Link::new();
    link.run(2_000);
    let estimate = link.bbr.max_bw();
    link.application = link.sent as u64 * MSS as u64 / 3 + RATE / 20;
    link.run(1_500);
    assert!(link.bbr.max_bw() >= estimate * 98 / 100, "{estimate} {}", link.bbr.max_bw());
}

/// After 10 s without a shorter round trip the window is halved for 200 ms to measure one; a longer path is detected.
#[test]
fn probes_the_round_trip() {
    let mut link = Link::new();
    link.run(2_000);
    link.rtt_us = 60_000;
    link.run(13_000);
    assert!(link.phases.contains(&Phase::ProbeRtt), "{:?}", link.phases);
    assert!((60_000..64_000).contains(&link.bbr.min_rtt_us), "{}", link.bbr.min_rtt_us);
    assert!(link.run(3_000) > RATE * 90 / 100);
}

/// After segments have grown (RFC 4821), the window of a measurement still holds four of them.
#[test]
fn measures_with_segments_that_have_grown() {
    let mut link = Link::new();
    link.run(2_000);
    (link.rtt_us, link.mss) = (60_000, 9 * MSS);
    let mut least = u32::MAX;
    for _ in 0..13_000 {
        link.run(1);
        least = least.min(link.cwnd);
    }
    assert!(link.phases.contains(&Phase::ProbeRtt), "{:?}", link.phases);
    assert!(least >= 4 * link.mss, "{least}");
}

/// A flow after 200 ms of Startup.
fn in_startup() -> Link {
    let mut link = Link::new();
    link.run(200);
    assert_eq!(link.bbr.phase(), Phase::Startup);
    link
}

/// A flow in Startup, at the end of a round of recovery in which `count` of `of` packets were lost.
fn after_losses_in_startup(count: u32, of: u32) -> (Link, Flow) {
    let mut link = in_startup();
    let mut view = link.view();
    link.bbr.on_episode(&mut view, Episode::Loss);
    view.in_recovery = true;
    let (in_flight, lost) = (of * MSS, u64::from(count * MSS));
    for _ in 0..count {
        link.bbr.on_lost(&mut view, &Lost { len: MSS, in_flight, lost, app_limited: false });
    }
    let prior_delivered = view.delivered;
    let mut sample = Sample::default();
    (sample.has_data, sample.prior_delivered, sample.lost, sample.in_flight) = (true, prior_delivered, lost, in_flight);
    link.bbr.on_ack(&mut view, &sample);
    (link, view)
}

/// Losses of more than 2 percent end Startup, but not as few as random loss causes.
#[test]
fn too_many_losses_end_startup() {
    let phase = |count, of| after_losses_in_startup(count, of).0.bbr.phase();
    assert_eq!(phase(9, 250), Phase::Startup, "few");
    assert_eq!(phase(10, 500), Phase::Startup, "2 percent");
    assert_ne!(phase(10, 250), Phase::Startup);
}

/// A spurious loss episode in Startup: back to Startup, with the window from before.
#[test]
fn undo() {
    let (mut link, mut view) = after_losses_in_startup(10, 50);
    assert_ne!(link.bbr.phase(), Phase::Startup);
    assert_ne!(link.bbr.inflight_longterm, INFINITY);
    let cwnd = in_startup().view().cwnd;
    view.cwnd = MSS;
    link.bbr.on_undo(&mut view);
    assert_eq!((link.bbr.phase(), link.bbr.inflight_longterm, view.cwnd), (Phase::Startup, INFINITY, cwnd));
}
