//! The fast paths (`fast_path`, `fast_send`, `ip::fast_path`) do the same as the slow path: two stacks get the same input, one
//! takes the slow path only, and their output is equal: in both families, over links with and without neighbors and
//! checksums, with every option of the handshake and of the application that changes the path.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use ringway_shm::Duration;

use super::ethernet::ethernet;
use super::rig::*;
use crate::config::{CongestionControl, Ecn, PathMtuDiscovery, TcpOptions};
use crate::family::{Family, in_both_families};
use crate::ip::Interface;
use crate::stats::Counter;
use crate::tcp::isn::mix;
use crate::wire::tcp::{ACK, CWR, ECE, FIN, PSH, SYN};

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
    /// The peer's flags carry ACE, which stays at its initial value.
    is_accurate: bool,
}

/// The link, and what the handshake agrees on.
#[derive(Clone, Copy, Debug)]
struct Shape {
    timestamps: bool,
    sack: bool,
    ecn: Ecn,
    /// The stack computes checksums.
    sums: bool,
    /// The stack finds the peer's link address.
    has_neighbors: bool,
}

/// A server's usual connection.
const USUAL: Shape = Shape { timestamps: true, sack: true, ecn: Ecn::Off, sums: true, has_neighbors: false };

impl Shape {
    fn drawn(seed: u64) -> Shape {
        let draw = mix(seed ^ 0xd1ce);
        Shape {
            timestamps: !seed.is_multiple_of(4),
            sack: draw & 7 != 0,
            ecn: [Ecn::Off, Ecn::Off, Ecn::Passive, Ecn::AccuratePassive][(draw >> 3) as usize & 3],
            sums: !seed.is_multiple_of(3),
            has_neighbors: draw >> 5 & 1 != 0,
        }
    }

    fn syn(&self, clock: u32) -> Seg {
        let asks = match self.ecn {
            Ecn::Off => 0,
            _ => ECE | CWR,
        };
        let mut syn = seg(SYN | asks, 0, 0).mss(MSS as u16).scale(3);
        syn.ae = self.ecn == Ecn::AccuratePassive;
        syn = if self.sack { syn.sack_permitted() } else { syn };
        if self.timestamps { syn.time(clock, 0) } else { syn }
    }
}

impl Twins {
    fn new(family: Family, seed: u64, shape: Shape) -> Twins {
        let mut random = mix(seed);
        let (no_delay, has_timeouts) = (random.is_multiple_of(3), random.is_multiple_of(5));
        let rigs = [false, true].map(|long| {
            let link = if shape.has_neighbors { ethernet(family.mtu()) } else { link(family.mtu()) };
            let link = Interface { sends_partial_checksums: !shape.sums, ..link };
            let mut config = crate::StackConfig { seed: 7, ..crate::StackConfig::default() };
            config.tcp.ecn = shape.ecn;
            let mut rig = Rig::over(family, config, link);
            rig.unsummed = !shape.sums;
            if long {
                rig.stack.take_the_long_way();
            }
            let syn = shape.syn(rig.now.as_millis() as u32);
            let user_timeout = if has_timeouts { Duration::from_secs(30) } else { Duration::ZERO };
            let options = TcpOptions { no_delay, keepalive: has_timeouts, user_timeout, ..TcpOptions::default() };
            rig.accept_with(options, syn);
            rig
        });
        random = mix(random);
        let (echo, is_accurate) = (u32::from(shape.timestamps), shape.ecn == Ecn::AccuratePassive);
        Twins { rigs, random, next: 1, sent: 1, acknowledged: 1, echo, window: 8_000, queued: 1, is_accurate }
    }

    fn below(&mut self, limit: u32) -> u32 {
        self.random = mix(self.random.wrapping_add(0x9e37_79b9_7f4a_7c15));
        (self.random >> 33) as u32 % limit
    }

    fn segment(&mut self, flags: u8, sequence: u32, len: u32) -> Seg {
        let ace = if self.is_accurate { ECE } else { 0 };
        let mut segment = seg(flags | ace, sequence, self.acknowledged).window(self.window);
        segment.ae = self.is_accurate;
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
            _ if self.below(6) == 0 => {
                let options = self.options();
                self.set_options(options);
            }
            _ => {}
        }
        self.compare();
    }

    /// Options that the application may set while the connection is open; most of the time nothing unusual.
    fn options(&mut self) -> TcpOptions {
        let no_delay = self.below(2) == 0;
        let usual = TcpOptions { no_delay, ..TcpOptions::default() };
        match self.below(16) {
            0 => TcpOptions { cork: true, ..usual },
            1 => TcpOptions { quick_ack: Some(self.below(2) == 0), ..usual },
            2 => TcpOptions { pacing_rate_max: 100_000, ..usual },
            3 => TcpOptions { congestion_control: CongestionControl::Bbr, ..usual },
            4 => TcpOptions { congestion_control: CongestionControl::NewReno, ..usual },
            5 => TcpOptions { window_clamp: 3_000, ..usual },
            6 => TcpOptions { receive_buffer_bytes: 4_096, ..usual },
            7 => TcpOptions { send_buffer_bytes: 4_096, ..usual },
            8 => TcpOptions { not_sent_low_water: 100, ..usual },
            9 => TcpOptions { type_of_service: 0x20, time_to_live: 9, ..usual },
            10 => TcpOptions { path_mtu_discovery: PathMtuDiscovery::Dont, ..usual },
            11 => TcpOptions { keepalive: true, user_timeout: Duration::from_secs(30), ..usual },
            _ => usual,
        }
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
fn random_conversations_are_equal(family: Family) {
    let mut hits = 0;
    for seed in 0..240 {
        let mut twins = Twins::new(family, seed, Shape::drawn(seed));
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
    for (seed, shape) in [(1, USUAL), (5, USUAL), (1, Shape { has_neighbors: true, ..USUAL })] {
        let mut twins = Twins::new(family, seed, shape);
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
    let mut twins = Twins::new(family, 1, USUAL);
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

/// Settings that need the slow path reach open connections, too: responses leave by the pace, on the slow path.
fn settings_that_need_the_long_way(family: Family) {
    let mut twins = Twins::new(family, 1, USUAL);
    exchange(&mut twins, 20);
    for rig in &mut twins.rigs {
        rig.stack.set_tcp_config(crate::config::TcpConfig { pacing: true, ..Default::default() });
    }
    let before = twins.rigs[0].stack.fast_segments();
    exchange(&mut twins, 5);
    assert_eq!(twins.rigs[0].stack.fast_segments() - before, 5, "requests in");
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
    random_conversations_are_equal
    requests_and_responses
    options_that_need_the_long_way
    settings_that_need_the_long_way
}
