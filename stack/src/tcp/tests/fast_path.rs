//! The fast paths (`predict`, `small`, `ip::plain`) do the same as the slow path: two stacks get the same input, one takes
//! the slow path only, and their output is equal.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use ringway_shm::Duration;

use super::rig::*;
use crate::config::{CongestionControl, TcpOptions};
use crate::family::{Family, in_both_families};
use crate::ip::Interface;
use crate::stats::Counter;
use crate::tcp::isn::mix;
use crate::wire::tcp::{ACK, FIN, PSH, SYN};

/// The stack with the fast paths, the one without, and their peer.
struct Twins {
    rigs: [Rig; 2],
    random: u64,
    /// Next sequence number of the peer.
    next: u32,
    /// End of the data sent by the stack, and the peer's acknowledgment of it.
    sent: u32,
    acknowledged: u32,
    /// The timestamp that the peer echoes.
    echo: u32,
    window: u16,
    queued: u32,
}

impl Twins {
    fn new(family: Family, seed: u64, timestamps: bool, sums: bool) -> Twins {
        let mut random = mix(seed);
        let (no_delay, has_timeouts) = (random.is_multiple_of(3), random.is_multiple_of(5));
        let rigs = [false, true].map(|long| {
            let link = Interface { sends_partial_checksums: !sums, ..link(family.mtu()) };
            let mut rig = Rig::over(family, crate::StackConfig { seed: 7, ..crate::StackConfig::default() }, link);
            rig.unsummed = !sums;
            if long {
                rig.stack.take_the_long_way();
            }
            let syn = seg(SYN, 0, 0).mss(MSS as u16).scale(3).sack_permitted();
            let syn = if timestamps { syn.time(rig.now.as_millis() as u32, 0) } else { syn };
            let user_timeout = if has_timeouts { Duration::from_secs(30) } else { Duration::ZERO };
            let options = TcpOptions { no_delay, keepalive: has_timeouts, user_timeout, ..TcpOptions::default() };
            rig.accept_with(options, syn);
            rig
        });
        random = mix(random);
        Twins { rigs, random, next: 1, sent: 1, acknowledged: 1, echo: u32::from(timestamps), window: 8_000, queued: 1 }
    }

    fn below(&mut self, limit: u32) -> u32 {
        self.random = mix(self.random.wrapping_add(0x9e37_79b9_7f4a_7c15));
        (self.random >> 33) as u32 % limit
    }

    fn segment(&mut self, flags: u8, sequence: u32, len: u32) -> Seg {
        let segment = seg(flags, sequence, self.acknowledged).window(self.window);
        let segment = if len > 0 { segment.data(len) } else { segment };
        if self.echo == 0 { segment } else { segment.time(self.rigs[0].now.as_millis() as u32, self.echo) }
    }

    /// The peer's next burst.
    fn say(&mut self) -> Vec<Seg> {
        let len = [1, 64, 200, 1_400][self.below(4) as usize];
        let flags = if self.below(2) == 0 { ACK } else { ACK | PSH };
        match self.below(16) {
            0..6 => {
                self.acknowledged = if self.below(4) == 0 { self.acknowledged } else { self.sent };
                self.next += len;
                vec![self.segment(flags, self.next - len, len)]
            }
            6..9 => {
                let news = self.sent - self.acknowledged;
                self.acknowledged += if news == 0 { 0 } else { self.below(news + 1) };
                vec![self.segment(ACK, self.next, 0)]
            }
            9 => {
                self.acknowledged = self.sent;
                let count = 1 + self.below(4);
                (0..count)
                    .map(|_| {
                        self.next += len;
                        self.segment(flags, self.next - len, len)
                    })
                    .collect()
            }
            10 => vec![self.segment(flags, self.next.saturating_sub(len).max(1), len)],
            11 => {
                let late = self.segment(flags, self.next, len);
                let early = self.segment(flags, self.next + len, len);
                self.next += 2 * len;
                vec![early, late]
            }
            12 => {
                self.window = [0, 40, 500, 8_000][self.below(4) as usize];
                vec![self.segment(ACK, self.next, 0)]
            }
            13 => {
                let old = self.rigs[0].now.as_millis() as u32 - 100;
                let echo = self.echo;
                self.next += len;
                let segment = self.segment(flags, self.next - len, len);
                let stale = if echo == 0 { segment.clone() } else { segment.clone().time(old, echo) };
                vec![stale, segment]
            }
            14 => vec![Seg { ecn: 3, ..self.segment(ACK, self.next, 0) }],
            _ => vec![self.segment(ACK, self.next, 0).sack(self.sent + 1, self.sent + 2)],
        }
    }

    /// Applies the same step to both.
    fn step(&mut self) {
        match self.below(10) {
            0..5 => {
                self.window = self.window.max(if self.below(3) == 0 { 8_000 } else { 0 });
                let burst = self.say();
                self.rigs.iter_mut().for_each(|rig| rig.receive_burst(&burst));
            }
            5..7 => {
                let len = [1, 64, 101, 129, 700, MSS - 1, 3_000][self.below(7) as usize];
                let queued = self.queued;
                let taken = self.rigs.each_mut().map(|rig| rig.send(queued, len));
                assert_eq!(taken[0], taken[1]);
                self.queued += taken[0] as u32;
            }
            7 => {
                for rig in &mut self.rigs {
                    while let Ok(frame) = rig.stack.take_frame(rig.id) {
                        let len = frame.len();
                        rig.stack.consumed(rig.id, len);
                    }
                }
            }
            8 => {
                let millis = [0u32, 1, 2, 30, 300][self.below(5) as usize];
                self.rigs.iter_mut().for_each(|rig| rig.wait_ms(u64::from(millis)));
            }
            _ => {}
        }
        self.compare();
    }

    fn set_options(&mut self, options: TcpOptions) {
        self.rigs.iter_mut().for_each(|rig| rig.stack.set_options(rig.now, rig.id, options));
    }

    fn compare(&mut self) {
        let told = self.rigs.each_mut().map(Rig::events);
        assert_eq!(told[0], told[1], "events");
        let sent = self.rigs.each_mut().map(Rig::sent);
        assert_eq!(sent[0], sent[1], "segments");
        for segment in &sent[0] {
            self.sent = self.sent.max(segment.seq + segment.payload.len() as u32);
            self.echo = segment.options.timestamps.map_or(0, |time| time.value);
        }
        let state = self.rigs.each_ref().map(visible);
        assert_eq!(state[0], state[1], "state");
    }
}

/// Everything visible from outside, except the path taken.
fn visible(rig: &Rig) -> String {
    let mut counters = *rig.stack.counters().values();
    counters[Counter::TcpHpHits as usize] = 0;
    let memory = (rig.arena.free(ringway_shm::Class::Large), rig.arena.free(ringway_shm::Class::Small));
    format!("{:?} {:?} {counters:?} {memory:?}", rig.stack.info(rig.id), rig.stack.readiness(rig.id))
}

/// Random conversations, with every case that a fast path must leave to the slow path.
fn the_path_taken_is_invisible(family: Family) {
    let mut hits = 0;
    for seed in 0..120 {
        let mut twins = Twins::new(family, seed, seed % 4 != 0, seed % 3 != 0);
        for _ in 0..150 {
            twins.step();
        }
        hits += twins.rigs[0].count(Counter::TcpHpHits);
        assert_eq!(twins.rigs[1].count(Counter::TcpHpHits), 0, "seed {seed}");
        // The end is the same too.
        let last = twins.segment(ACK | FIN, twins.next, 0);
        twins.rigs.iter_mut().for_each(|rig| rig.receive_burst(core::slice::from_ref(&last)));
        twins.compare();
    }
    assert!(hits > 1_000, "{hits} segments took a fast path");
}

/// Requests and responses, a server's usual traffic: everything takes the fast paths, in and out, and soon again after a
/// loss, though CUBIC and RACK keep its state for long.
fn requests_and_responses(family: Family) {
    for seed in [1, 5] {
        let mut twins = Twins::new(family, seed, true, true);
        exchange(&mut twins, 50);
        assert_eq!(twins.rigs[0].count(Counter::TcpHpHits), 50);
        twins.rigs.iter_mut().for_each(|rig| assert_eq!(rig.send(twins.queued, 3_000), 3_000));
        twins.queued += 3_000;
        twins.compare();
        for _ in 0..4 {
            twins.rigs.iter_mut().for_each(|rig| rig.wait_ms(250));
            twins.compare();
        }
        assert!(twins.rigs[0].count(Counter::TcpRetransSegs) > 1, "the peer has not acknowledged");
        twins.acknowledged = twins.sent;
        for _ in 0..3 {
            exchange(&mut twins, 1);
        }
        let before = twins.rigs.each_ref().map(|rig| rig.stack.fast_segments());
        exchange(&mut twins, 50);
        let after = twins.rigs.each_ref().map(|rig| rig.stack.fast_segments());
        assert_eq!([after[0] - before[0], after[1]], [100, 0], "requests in, responses out");
    }
}

/// Options that need the slow path close the fast paths at once, and open them again when they are reset.
fn options_that_need_the_long_way(family: Family) {
    let plain = TcpOptions { no_delay: true, ..TcpOptions::default() };
    let modelled = TcpOptions { congestion_control: CongestionControl::Bbr, ..plain };
    let paced = TcpOptions { pacing_rate_max: 1 << 30, ..plain };
    let mut twins = Twins::new(family, 1, true, true);
    exchange(&mut twins, 20);
    for unusual in [modelled, paced] {
        twins.set_options(unusual);
        // The first request may still take the fast path: the model is made when something is sent.
        exchange(&mut twins, 1);
        let before = twins.rigs[0].stack.fast_segments();
        exchange(&mut twins, 5);
        assert_eq!(twins.rigs[0].stack.fast_segments(), before);
        twins.set_options(plain);
        exchange(&mut twins, 2);
        let before = twins.rigs[0].stack.fast_segments();
        exchange(&mut twins, 20);
        assert_eq!(twins.rigs[0].stack.fast_segments() - before, 40, "requests in, responses out");
    }
}

/// Runs `count` requests of 64 bytes, each answered.
fn exchange(twins: &mut Twins, count: u32) {
    for _ in 0..count {
        twins.acknowledged = twins.sent;
        let request = twins.segment(ACK | PSH, twins.next, 64);
        twins.next += 64;
        let queued = twins.queued;
        for rig in &mut twins.rigs {
            rig.receive_burst(core::slice::from_ref(&request));
            assert_eq!(rig.read(request.seq), Ok(64));
            assert_eq!(rig.send(queued, 64), 64);
        }
        twins.queued += 64;
        twins.compare();
        twins.rigs.iter_mut().for_each(|rig| rig.wait_ms(1));
    }
}

in_both_families! {
    the_path_taken_is_invisible
    requests_and_responses
    options_that_need_the_long_way
}
