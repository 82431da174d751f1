//! Random scenarios: a seed decides everything.
//!
//! Each group of choices has its own salt, so that a new group leaves the others of a seed unchanged.

use ringway_device::Medium;
use ringway_device::impair::Impairments;
use ringway_device::memory::MemoryOptions;
use ringway_shm::Duration;
use ringway_stack::wire::ipv6;
use ringway_stack::{CongestionControl, Ecn, FastOpenConfig, MtuProbing, StackConfig, SynCookies, TcpConfig, TcpOptions};

use super::Scenario;
use crate::application::Plans;
use crate::datagrams::Datagrams;
use crate::faults::Faults;
use crate::path::Path;
use crate::path::hop::{Manner, Narrow};
use crate::path::liar::Lie;
use crate::random::Random;

impl Scenario {
    /// Draws a full scenario: wire, link, sizes, numbers and options, and also path and company.
    pub fn random(seed: u64) -> Scenario {
        Scenario::alone(seed).with_path().with_company().with_never_readers()
    }

    /// Draws it without path and company: two honest hosts on one wire and their streams.
    pub fn alone(seed: u64) -> Scenario {
        let mut random = Random::new(seed);
        let faults = Faults::random(&mut random);
        let mut sizes = || (0, random.magnitude(400_000));
        let (up_bytes, down_bytes) = (sizes(), sizes());
        let slow_readers = random.one_in(4);
        let abort_one_in = if random.one_in(4) { random.between(1, 8) } else { 0 };
        let link = random_link(&mut random, faults.wire.corrupt_ppm == 0);
        let control =
            |random: &mut Random| CongestionControl::ALL[random.between(0, CongestionControl::ALL.len() as u64 - 1) as usize];
        let (congestion_control, server_control) = (control(&mut random), control(&mut random));
        // Down to few bytes a second, so that the wire is not the only limit of a stream.
        let pacing_rate_max = if random.one_in(8) { 1_000 << random.between(6, 20) } else { 0 };
        let buffer = |random: &mut Random| if random.one_in(3) { 4_096 << random.between(0, 8) } else { 0 };
        Scenario {
            own_control: None,
            seed,
            // From its own salt, so that the rest of a seed's scenario is the same in both families.
            ipv6: Random::new(seed ^ IPV6_SALT).one_in(2),
            faults,
            path: Path::default(),
            ecn: [Ecn::default(); 2],
            configs: Default::default(),
            link,
            plans: Plans { up_bytes, down_bytes, slow_readers, abort_one_in, ..Plans::nothing(seed) },
            connections: 1 + random.magnitude(60) as usize,
            at_once: 1 + random.magnitude(20) as usize,
            options: TcpOptions {
                no_delay: random.one_in(2),
                send_buffer_bytes: buffer(&mut random),
                receive_buffer_bytes: buffer(&mut random),
                congestion_control,
                pacing_rate_max,
                // A RST may be lost: an end that only waits would wait for ever.
                keepalive: abort_one_in > 0,
                keepalive_idle: Duration::from_secs(30),
                ..TcpOptions::default()
            },
            server_control,
            mixed_control: false,
            datagrams: None,
            backlog: 128,
            frames: if random.one_in(3) { 256 << random.between(0, 4) } else { 8_192 },
            limit: Duration::from_secs(100_000),
        }
        .with_marks()
        .with_choices()
        .with_queues()
    }

    /// Draws the ECN modes of both ends, and how often the wire marks.
    fn with_marks(mut self) -> Scenario {
        let mut random = Random::new(self.seed ^ ECN_SALT);
        self.ecn = [(); 2].map(|()| Ecn::from_number(random.between(0, 5)).unwrap_or_default());
        if random.one_in(2) {
            self.faults.wire.mark_ppm = random.magnitude(500_000) as u32;
        }
        self
    }

    /// Draws what both stacks offer and do, the options of the sockets, and how few SYNs the server remembers.
    fn with_choices(mut self) -> Scenario {
        let mut random = Random::new(self.seed ^ CHOICES_SALT);
        for config in &mut self.configs {
            config.tcp = random_choices(&mut random);
        }
        // A cookie can be used repeatedly: when the first segment after a handshake is late or duplicated, it reopens a
        // connection that has ended. So cookies are drawn only where no segment is.
        let server = &mut self.configs[1];
        match random.between(0, 3) {
            0 if self.faults.keeps_order() => server.tcp.syn_cookies = SynCookies::Always,
            1 if self.faults.keeps_order() => server.syn_queue_max = random.between(1, 8) as u32,
            _ => {}
        }
        self.options.cork = random.one_in(8);
        self.options.quick_ack = [Some(true), Some(false), None, None][random.between(0, 3) as usize];
        self.options.type_of_service = if random.one_in(4) { random.between(0, 63) as u8 * 4 } else { 0 };
        if random.one_in(4) {
            self.options.maximum_segment_size = random.between(88, 1_460) as u16;
        }
        if random.one_in(8) {
            self.options.receive_buffer_bytes = random.between(256, 8_192) as u32;
        }
        if random.one_in(3) {
            self.options.fast_open = true;
            self.options.fast_open_queue = random.between(0, 32) as u32;
        }
        self
    }

    /// Draws the queue in front of a slow wire (RFC 7567), and the burst size of the link.
    fn with_queues(mut self) -> Scenario {
        let mut random = Random::new(self.seed ^ QUEUE_SALT);
        if random.one_in(2) {
            // At least two packets: one larger than the queue would never arrive. And one for each connection: where others
            // refill the queue all the time, one connection may lose all it sends until its stack gives it up.
            let packet = u64::from(self.link.segmentation_max_bytes).max(self.link.mtu.into());
            let least = packet * self.at_once as u64;
            self.faults.wire.rate_queue_bytes = ((2 * packet) << random.between(0, 8)).max(least);
        }
        if random.one_in(4) {
            self.link.burst = random.between(1, 64) as usize;
        }
        self
    }

    /// Draws a hop with a smaller MTU than the links, lies of the peers and false ICMP messages.
    fn with_path(mut self) -> Scenario {
        let mut random = Random::new(self.seed ^ PATH_SALT);
        if random.one_in(3) {
            let least = if self.ipv6 { ipv6::MTU_MIN } else { 576 };
            let most = self.link.mtu.max(least + 1) - 1;
            let mut manner = [Manner::Cuts, Manner::Tells, Manner::Swallows][random.between(0, 2) as usize];
            // Reassembly may use only a share of the frames: of a few frames not enough for one packet. And where the wire
            // flips bits, no packet is fragmented: of two flips in one packet the checksum sees only their sum.
            if manner == Manner::Cuts && (self.frames < FRAMES_AMPLE || self.faults.wire.corrupt_ppm > 0) {
                manner = Manner::Tells;
            }
            self.path.hop = Some(Narrow { mtu: random.between(least.into(), most.into()) as u16, manner });
            for config in &mut self.configs {
                // Only a connection that probes the path MTU escapes a black hole (RFC 4821).
                if manner == Manner::Swallows && config.tcp.mtu_probing == MtuProbing::Off {
                    config.tcp.mtu_probing = MtuProbing::BlackHole;
                }
            }
        }
        if random.one_in(4) {
            self.path.rumor_ppm = random.magnitude(200_000) as u32;
        }
        for lie in 0..2 {
            if random.one_in(4) {
                self.path.lies[lie] = Some(Lie::ALL[random.between(0, Lie::ALL.len() as u64 - 1) as usize]);
            }
        }
        if [Lie::Windows, Lie::Optimism].iter().any(|lie| self.path.lies.contains(&Some(*lie))) {
            // A closed sender gives up after some probes. Data that was acknowledged without room for it is lost; the other
            // end has to probe to learn of that.
            self.plans.gives_up = true;
            (self.options.keepalive, self.options.keepalive_idle) = (true, Duration::from_secs(30));
        }
        let lost = self.path.hop.is_some_and(|hop| hop.manner != Manner::Cuts || self.ipv6) || self.path.rumor_ppm > 0;
        let repeated = [Lie::Division, Lie::Duplication, Lie::Optimism].map(Some).contains(&self.path.lies[0]);
        if lost || repeated {
            // See with_choices: cookies need a path on which each segment arrives once and in order.
            let standard = StackConfig::default();
            (self.configs[1].tcp.syn_cookies, self.configs[1].syn_queue_max) = (standard.tcp.syn_cookies, standard.syn_queue_max);
        }
        // Data that was acknowledged and then lost is lost for good: that lie needs a path that loses nothing.
        if self.path.lies.contains(&Some(Lie::Optimism)) { self.on_a_gentle_way(&mut random) } else { self }
    }

    /// Replaces the path by one that loses nothing and keeps the order.
    fn on_a_gentle_way(mut self, random: &mut Random) -> Scenario {
        let Impairments { delay, jitter, mark_ppm, .. } = self.faults.wire;
        self.faults = Faults { wire: Impairments { delay, jitter, mark_ppm, ..Impairments::default() }, forged_ppm: 0 };
        self.path.hop = None;
        self.frames = self.frames.max(FRAMES_AMPLE);
        if random.one_in(4) && self.path.lies[0].is_none() && self.path.rumor_ppm == 0 {
            self.configs[1].tcp.syn_cookies = SynCookies::Always;
        }
        self
    }

    /// Draws company: datagrams, urgent data, flows with different congestion control, a queue that marks.
    fn with_company(mut self) -> Scenario {
        let mut random = Random::new(self.seed ^ COMPANY_SALT);
        if random.one_in(4) {
            let train_of = if random.one_in(3) { random.between(16, 1_400) as u16 } else { 0 };
            // The same restriction as for cutting hops.
            let most = if self.faults.wire.corrupt_ppm > 0 { WHOLE_ANYWHERE } else { u16::MAX };
            self.datagrams = Some(Datagrams {
                count: 1 + random.magnitude(300) as u32,
                bytes_max: (random.between(1, 12_000) as u32).min(most.into()),
                every: Duration::from_micros(random.between(100, 100_000)),
                train_of: train_of.min(most),
            });
        }
        if random.one_in(4) {
            self.plans.urgent_one_in = random.between(1, 16);
        }
        self.mixed_control = random.one_in(4);
        if self.faults.wire.rate_bits > 0 && random.one_in(2) {
            self.faults.wire.mark_above_bytes = 1 + random.magnitude(self.faults.wire.rate_queue_bytes / 2);
        }
        self
    }

    /// Draws ends that never read: their window shuts for ever. Their peers probe until the user timeout, or, where probes have
    /// no answer, as often as they would retransmit.
    fn with_never_readers(mut self) -> Scenario {
        let mut random = Random::new(self.seed ^ NEVER_READS_SALT);
        if !random.one_in(4) {
            return self;
        }
        self.plans.never_reads_one_in = random.between(1, 6);
        // They may come one after the other.
        self.limit = Duration::from_secs(200_000);
        let is_silent = random.one_in(2);
        if is_silent {
            self.path.lies = self.path.lies.map(|lie| Some(lie.unwrap_or(Lie::Silence)));
        }
        if !is_silent || self.path.lies != [Some(Lie::Silence); 2] || random.one_in(2) {
            self.options.user_timeout = Duration::from_secs(random.between(60, 600));
        }
        // What never-readers hold together leaves frames to others.
        let most = self.options.receive_buffer_bytes.wrapping_sub(1).min(HELD_MAX - 1) + 1;
        (self.options.receive_buffer_bytes, self.frames) = (most, self.frames.max(FRAMES_AMPLE));
        self
    }
}

/// Draws the TCP configuration of one end.
fn random_choices(random: &mut Random) -> TcpConfig {
    let standard = StackConfig::default().tcp;
    let mut usually = || !random.one_in(5);
    let (timestamps, window_scaling, sack, rack) = (usually(), usually(), usually(), usually());
    let (tail_loss_probe, f_rto, accurate_option, restart_after_idle) = (usually(), usually(), usually(), usually());
    let probing = [MtuProbing::Off, MtuProbing::BlackHole, MtuProbing::Always];
    let mut fast_open = FastOpenConfig::from_bits(if random.one_in(2) { 3 } else { 1 });
    fast_open.client_without_cookie = random.one_in(8);
    fast_open.server_without_cookie = random.one_in(8);
    let pacing = random.one_in(4);
    let mtu_probing = probing[random.between(0, 2) as usize];
    let initial_window = random.between(1, 10) as u8;
    TcpConfig {
        timestamps,
        window_scaling,
        sack,
        rack,
        tail_loss_probe,
        f_rto,
        accurate_option,
        restart_after_idle,
        fast_open,
        pacing,
        mtu_probing,
        initial_window,
        delayed_ack: Duration::from_millis(random.between(1, 200)),
        quick_start_segments: random.between(0, 16) as u8,
        // From 2 KiB on; from the same draw, so that later draws stay as they were.
        turn_beside_small_bytes: 1 << (10 + initial_window),
        push_trains: random.between(0, 4) as u8,
        ..standard
    }
}

/// Draws any link: super-segments or none, frames gathered or not, with and without Ethernet, any MTU.
fn random_link(random: &mut Random, may_offload: bool) -> MemoryOptions {
    let mut link = MemoryOptions::default();
    if may_offload && random.one_in(3) {
        return MemoryOptions::offloading();
    }
    if random.one_in(3) {
        link.mtu = random.between(576, 9_000) as u16;
    }
    if random.one_in(4) {
        link.gathers = false;
    }
    if random.one_in(4) {
        link.medium = Medium::Ip;
    }
    link
}

/// Salts that separate the draws of the groups.
const IPV6_SALT: u64 = 0x8200;
const ECN_SALT: u64 = 0x9768;
const CHOICES_SALT: u64 = 0x7323;
const QUEUE_SALT: u64 = 0x7567;
const PATH_SALT: u64 = 0x1191;
const COMPANY_SALT: u64 = 0x8085;
const NEVER_READS_SALT: u64 = 0x3861;
/// Bytes that an end that never reads may hold.
const HELD_MAX: u32 = 16_384;
/// Datagrams up to this size are never fragmented (RFC 1191: no path MTU below 552 is believed).
const WHOLE_ANYWHERE: u16 = 500;
/// Enough frames that no packet is lost for lack of one.
const FRAMES_AMPLE: u32 = 8_192;
