//! A congestion control of the program's own: what it is told, and what its answers do.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};

use super::rig::*;
use crate::config::{CongestionControl, Ecn, StackConfig, TcpOptions};
use crate::congestion::{Controller, Episode, Flow, Lost, Sample};
use crate::stats::Counter;
use crate::wire::tcp::{ACK, CWR, ECE, SYN};

/// A rate that does not hold anything back.
const FAST: u64 = 1_000_000_000;

/// What a controller was told.
#[derive(Debug, Default)]
struct Told {
    acknowledged: AtomicU32,
    /// Samples that were limited by the application.
    limited: AtomicU32,
    lost: AtomicU32,
    losses: AtomicU32,
    timeouts: AtomicU32,
    recovered: AtomicU32,
    undone: AtomicU32,
    restarts: AtomicU32,
    last_rtt_us: AtomicU32,
}

fn add(count: &AtomicU32, more: u32) {
    count.fetch_add(more, Ordering::Relaxed);
}

fn read(count: &AtomicU32) -> u32 {
    count.load(Ordering::Relaxed)
}

/// Answers everything with the same window and rate.
#[derive(Debug)]
struct Fixed {
    told: Arc<Told>,
    cwnd: u32,
    rate: u64,
}

impl Controller for Fixed {
    fn on_ack(&mut self, flow: &mut Flow, sample: &Sample) {
        add(&self.told.acknowledged, sample.newly_acked);
        add(&self.told.limited, sample.app_limited.into());
        if sample.rtt_us != 0 {
            self.told.last_rtt_us.store(sample.rtt_us, Ordering::Relaxed);
        }
        flow.cwnd = self.cwnd;
    }

    fn pacing_rate(&self) -> u64 {
        self.rate
    }

    fn on_lost(&mut self, _flow: &mut Flow, packet: &Lost) {
        add(&self.told.lost, packet.len);
    }

    fn on_episode(&mut self, _flow: &mut Flow, episode: Episode) {
        add(if episode == Episode::Timeout { &self.told.timeouts } else { &self.told.losses }, 1);
    }

    fn on_recovered(&mut self, _flow: &mut Flow) {
        add(&self.told.recovered, 1);
    }

    fn on_undo(&mut self, _flow: &mut Flow) {
        add(&self.told.undone, 1);
    }

    fn on_idle_restart(&mut self, _flow: &mut Flow) {
        add(&self.told.restarts, 1);
    }
}

/// Adds the control to the stack; returns the options that choose it.
fn fixed(rig: &mut Rig, cwnd: u32, rate: u64) -> (TcpOptions, Arc<Told>) {
    let told = Arc::new(Told::default());
    let shared = told.clone();
    let control = rig.stack.add_congestion_control(move |_| Box::new(Fixed { told: shared.clone(), cwnd, rate }));
    (TcpOptions { congestion_control: control, no_delay: true, ..TcpOptions::default() }, told)
}

/// A connection with SACK whose control always answers this.
fn under(cwnd: u32, rate: u64) -> (Rig, Arc<Told>) {
    let config = StackConfig { tcp: crate::config::TcpConfig { sack: true, ..Rig::config().tcp }, ..Rig::config() };
    let mut rig = Rig::with(config);
    let (options, told) = fixed(&mut rig, cwnd, rate);
    rig.accept_with(options, seg(SYN, 0, 0).mss(MSS as u16).sack_permitted());
    (rig, told)
}

/// Where the segments begin, in segments.
fn places(sent: &[Seg]) -> Vec<u32> {
    sent.iter().map(|segment| (segment.seq - 1) / MSS).collect()
}

/// The window that it answers is what may be in flight; the samples say what was delivered and how long it took.
#[test]
fn its_window_counts() {
    let (mut rig, told) = under(4 * MSS, FAST);
    rig.send(1, 30 * MSS);
    assert_eq!(rig.sent().len(), 10, "it has not answered yet: the first window is RFC 6928's");
    rig.wait_ms(20);
    rig.receive(seg(ACK, 1, 1 + 8 * MSS));
    assert_eq!(places(&rig.sent()), [10, 11]);
    rig.wait_ms(20);
    rig.receive(seg(ACK, 1, 1 + 12 * MSS));
    assert_eq!(places(&rig.sent()), [12, 13, 14, 15]);
    assert_eq!((read(&told.acknowledged), read(&told.last_rtt_us)), (12 * MSS, 20_000));
}

/// A controller that holds its connection back hears that what it has sent meanwhile says less than the path can carry.
#[test]
fn what_it_holds_back_is_no_measure_of_the_path() {
    #[derive(Debug)]
    struct HoldsBack(Fixed);

    impl Controller for HoldsBack {
        fn on_ack(&mut self, flow: &mut Flow, sample: &Sample) {
            self.0.on_ack(flow, sample);
            flow.hold_back();
        }

        fn pacing_rate(&self) -> u64 {
            self.0.rate
        }
    }

    for (holds_back, limited) in [(false, 0), (true, 1)] {
        let mut rig = Rig::with(Rig::config());
        let told = Arc::new(Told::default());
        let shared = told.clone();
        let control = rig.stack.add_congestion_control(move |_| {
            let fixed = Fixed { told: shared.clone(), cwnd: 4 * MSS, rate: FAST };
            if holds_back { Box::new(HoldsBack(fixed)) } else { Box::new(fixed) }
        });
        let options = TcpOptions { congestion_control: control, ..TcpOptions::default() };
        rig.accept_with(options, seg(SYN, 0, 0).mss(MSS as u16));
        rig.send(1, 30 * MSS);
        rig.sent();
        rig.receive(seg(ACK, 1, 1 + 10 * MSS));
        assert_eq!((places(&rig.sent()), read(&told.limited)), (vec![10, 11, 12, 13], 0));
        rig.receive(seg(ACK, 1, 1 + 14 * MSS));
        assert_eq!(read(&told.limited), limited);
    }
}

/// It hears nothing of marks, so no packet of its connection can be marked.
#[test]
fn its_packets_are_not_ecn_capable() {
    for (is_own, field) in [(true, NOT_ECT), (false, ECT_0)] {
        let mut rig = Rig::with(speaking(Ecn::Passive));
        let (own, _) = fixed(&mut rig, 4 * MSS, FAST);
        rig.accept_with(if is_own { own } else { newreno() }, seg(SYN | ECE | CWR, 0, 0).mss(MSS as u16));
        rig.send(1, 3 * MSS);
        assert_eq!(rig.sent().iter().map(|segment| segment.ecn).collect::<Vec<_>>(), [field; 3]);
    }
}

/// At a rate of a segment each millisecond one leaves each millisecond, after the credit of two.
#[test]
fn its_rate_counts() {
    let (mut rig, _) = under(100 * MSS, u64::from(MSS) * 1_000);
    rig.send(1, 8 * MSS);
    let mut sent = Vec::new();
    while sent.iter().map(|&(_, count)| count).sum::<usize>() < 8 {
        let (waited_ms, segments) = rig.next_sent();
        sent.push((waited_ms, segments.len()));
    }
    assert_eq!(sent, vec![(0, 3), (1, 1), (1, 1), (1, 1), (1, 1), (1, 1)]);
    assert_eq!(rig.info().pacing_rate, u64::from(MSS) * 1_000);
}

/// A loss that SACK shows: the episode, the packet, and the end, each once; the bytes are sent again.
#[test]
fn it_is_told_of_losses() {
    let (mut rig, told) = under(20 * MSS, FAST);
    rig.send(1, 10 * MSS);
    rig.sent();
    rig.wait_ms(20);
    rig.receive(seg(ACK, 1, 1).sack(1 + MSS, 1 + 10 * MSS));
    let (_, again) = rig.next_sent();
    assert_eq!(places(&again), [0]);
    assert_eq!((read(&told.losses), read(&told.lost), read(&told.recovered)), (1, MSS, 0));
    rig.receive(seg(ACK, 1, 1 + 10 * MSS));
    assert_eq!((read(&told.losses), read(&told.timeouts), read(&told.recovered)), (1, 0, 1));
    assert_eq!(read(&told.acknowledged), 10 * MSS);
    rig.assert_idle();
}

/// A timeout is another kind of episode, and one that turns out to be spurious is taken back.
#[test]
fn it_is_told_of_timeouts_and_of_their_undoing() {
    let mut config = Rig::config();
    config.tcp.timestamps = true;
    let mut rig = Rig::with(config);
    let (options, told) = fixed(&mut rig, 20 * MSS, FAST);
    rig.accept_with(options, seg(SYN, 0, 0).mss(MSS as u16).time(1, 0));
    rig.send(1, 3 * (MSS - 12));
    let original = rig.sent()[0].options.timestamps.expect("they were agreed").value;
    let (_, again) = rig.next_sent();
    assert_eq!((again[0].seq, read(&told.timeouts), read(&told.losses)), (1, 1, 0));
    rig.receive(seg(ACK, 1, 1 + 3 * (MSS - 12)).time(2, original));
    assert_eq!((read(&told.undone), rig.count(Counter::TcpLossUndo) + rig.count(Counter::TcpSpuriousRtos)), (1, 1));
}

/// Data after a time without any in flight.
#[test]
fn it_is_told_of_a_restart() {
    let (mut rig, told) = under(20 * MSS, FAST);
    rig.send(1, MSS);
    rig.sent();
    rig.receive(seg(ACK, 1, 1 + MSS));
    let before = read(&told.restarts);
    rig.wait_ms(5_000);
    rig.send(1 + MSS, MSS);
    assert_eq!((rig.sent().len(), read(&told.restarts)), (1, before + 1));
}

/// Whatever it answers, all bytes arrive: a window and a rate of nothing are one segment at a time, and the largest are bounded.
#[test]
fn absurd_answers_do_no_harm() {
    let (mut slow, _) = under(0, FAST);
    slow.send(1, 14 * MSS);
    slow.sent();
    slow.receive(seg(ACK, 1, 1 + 10 * MSS));
    assert_eq!(places(&slow.sent()), [10], "a window of nothing is one segment");
    slow.receive(seg(ACK, 1, 1 + 11 * MSS));
    assert_eq!(places(&slow.sent()), [11]);
    let (mut fast, _) = under(u32::MAX, u64::MAX);
    fast.send(1, 14 * MSS);
    fast.sent();
    fast.receive(seg(ACK, 1, 1 + 10 * MSS));
    assert_eq!(places(&fast.sent()), [10, 11, 12, 13]);
    assert_eq!(fast.info().cwnd_bytes, 1 << 30);
    // A rate of nothing: the first segment leaves, and then a probe for each timer that expires.
    let (mut stopped, _) = under(20 * MSS, 0);
    stopped.send(1, 2 * MSS);
    assert_eq!(places(&stopped.sent()), [0]);
    let (waited_ms, again) = stopped.next_sent();
    assert_eq!((places(&again), waited_ms >= 200), (vec![1], true));
}

/// Each control that is added is another one, and each connection has a controller of its own.
#[test]
fn controls_are_told_apart() {
    let mut rig = Rig::with(Rig::config());
    let (first, told_first) = fixed(&mut rig, 2 * MSS, FAST);
    let (second, told_second) = fixed(&mut rig, 3 * MSS, FAST);
    assert_ne!(first.congestion_control, second.congestion_control);
    rig.accept_with(second, seg(SYN, 0, 0).mss(MSS as u16));
    rig.send(1, 20 * MSS);
    rig.sent();
    rig.receive(seg(ACK, 1, 1 + 10 * MSS));
    assert_eq!(rig.sent().len(), 3);
    assert_eq!((read(&told_first.acknowledged), read(&told_second.acknowledged)), (0, 10 * MSS));
}

/// An established connection changes its control: the new one begins with the next segment, and the old one hears no more.
#[test]
fn a_connection_changes_its_control() {
    let (mut rig, told) = under(2 * MSS, FAST);
    let (other, told_other) = fixed(&mut rig, 3 * MSS, FAST);
    rig.send(1, 40 * MSS);
    rig.sent();
    for options in [TcpOptions { congestion_control: CongestionControl::Bbr, ..other }, other] {
        rig.stack.set_options(rig.now, rig.id, options);
    }
    rig.receive(seg(ACK, 1, 1 + 10 * MSS));
    let sent = rig.sent().len() as u32;
    rig.receive(seg(ACK, 1, 1 + (10 + sent) * MSS));
    assert_eq!((read(&told.acknowledged), read(&told_other.acknowledged)), (0, sent * MSS));
    rig.stack.set_options(rig.now, rig.id, newreno());
    let sent = rig.sent().len() as u32;
    rig.receive(seg(ACK, 1, 1 + (20 + sent) * MSS));
    assert!(rig.sent().len() >= 2, "Reno goes on");
}

/// Another stack's control is Reno: it grows in slow start, where the control would have kept its window.
#[test]
fn a_control_of_another_stack_is_reno() {
    let (options, _) = fixed(&mut Rig::with(Rig::config()), 2 * MSS, FAST);
    let mut rig = Rig::accepted(Rig::config(), options);
    rig.send(1, 40 * MSS);
    assert_eq!(rig.sent().len(), 10);
    rig.receive(seg(ACK, 1, 1 + 10 * MSS));
    assert_eq!(rig.sent().len(), 20);
}

/// A connection that another stack goes on with is Reno's there, with the window that it had.
#[test]
fn a_connection_leaves_its_control_behind() {
    let (mut rig, _) = under(4 * MSS, FAST);
    rig.send(1, 20 * MSS);
    rig.sent();
    rig.receive(seg(ACK, 1, 1 + 10 * MSS));
    rig.sent();
    let image = rig.stack.export(rig.now, rig.id).expect("it is established");
    assert_eq!(image.congestion_control(), CongestionControl::NewReno);
    let mut other = Rig::with(Rig::config());
    other.id = other.stack.import(other.now, &image, 1).expect("the flow is new there");
    (other.iss, other.now) = (rig.iss, rig.now);
    assert_eq!(other.info().cwnd_bytes, 4 * MSS);
    other.receive(seg(ACK, 1, 1 + 14 * MSS));
    assert_eq!(places(&other.sent()), [14, 15, 16, 17, 18], "congestion avoidance: a segment more in a round trip");
}
