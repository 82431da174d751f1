//! Scenarios: parameters of a run. Each is a value; the same value gives the same run.

mod draw;
mod traits;

use std::cell::RefCell;
use std::fs::File;
use std::rc::Rc;

use ringway_device::memory::{self, MemoryOptions};
use ringway_device::pcap;
use ringway_shm::{Arena, ArenaConfig, Class, Duration};
use ringway_stack::congestion::{Controller, Flow};
use ringway_stack::{CongestionControl, Counter, Ecn, SocketAddress, Stack, StackConfig, TcpOptions};
use ringway_trace::Severity;

use crate::application::{Application, Outcome, Plans, Side};
use crate::check::wire::WireCheck;
use crate::check::{Failure, failure};
use crate::datagrams::{Beside, Datagrams};
use crate::faults::Faults;
use crate::host::{Host, Wiring};
use crate::network::Network;
use crate::path::Path;
use crate::pattern::Pattern;
use crate::random::Random;

/// Makes a connection's controller.
pub type MakeController = fn(&Flow) -> Box<dyn Controller>;

/// One run of a client and a server.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Source of all randomness.
    pub seed: u64,
    /// Over IPv6.
    pub ipv6: bool,
    /// The wire.
    pub faults: Faults,
    /// Other middleware on the path.
    pub path: Path,
    /// Congestion notification of client and server.
    pub ecn: [Ecn; 2],
    /// The stacks of client and server; their seeds and ECN come from above.
    pub configs: [StackConfig; 2],
    /// Capabilities of the wire's ends.
    pub link: MemoryOptions,
    /// What the applications do.
    pub plans: Plans,
    /// Total number of connections.
    pub connections: usize,
    /// Maximum number of connections open at a time.
    pub at_once: usize,
    /// Options of both ends.
    pub options: TcpOptions,
    /// A congestion control of the program's own, for the client's connections.
    pub own_control: Option<MakeController>,
    /// The server's congestion control, which may differ from the client's.
    pub server_control: CongestionControl,
    /// Each connection of the client uses another congestion control.
    pub mixed_control: bool,
    /// Datagrams beside the streams, in both directions.
    pub datagrams: Option<Datagrams>,
    /// Backlog of the listener.
    pub backlog: u32,
    /// Frames of each class and host.
    pub frames: u32,
    /// Maximum virtual time.
    pub limit: Duration,
}

/// Result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Payload bytes received in order, both directions.
    pub received_bytes: u64,
    /// Client ends of connections that carried all their bytes and closed.
    pub complete: u64,
    /// Client ends that ended otherwise.
    pub otherwise: u64,
    /// Ends that the peer's stack has given up after its last retransmission.
    pub given_up: u64,
    /// Segments sent, before faults.
    pub segments: u64,
    /// Segments retransmitted, both hosts.
    pub retransmitted: u64,
    /// Virtual time, milliseconds.
    pub millis: u64,
    /// Iterations of both hosts.
    pub turns: u64,
}

impl Scenario {
    /// Makes one connection that carries `bytes` from client to server over `faults`.
    pub fn transfer(seed: u64, bytes: u64, faults: Faults) -> Scenario {
        Scenario {
            seed,
            ipv6: false,
            faults,
            path: Path::default(),
            ecn: [Ecn::default(); 2],
            configs: Default::default(),
            link: MemoryOptions::default(),
            plans: Plans { up_bytes: (bytes, bytes), ..Plans::nothing(seed) },
            connections: 1,
            at_once: 1,
            options: TcpOptions::default(),
            own_control: None,
            server_control: CongestionControl::default(),
            mixed_control: false,
            datagrams: None,
            backlog: 128,
            frames: 16_384,
            limit: Duration::from_secs(100_000),
        }
    }

    /// Removes all interference between the hosts: a checker that sees only what they send then understands all of it.
    pub fn undisturbed(mut self) -> Scenario {
        self.faults.forged_ppm = 0;
        self.path = Path::default();
        self
    }

    /// Runs it.
    ///
    /// # Errors
    /// When a checker finds an error.
    pub fn run(&self) -> Result<Report, Failure> {
        self.run_network(self.network())
    }

    /// Runs it like `run`, with the checker of captures: its findings are failures too. Scenarios with a forger must not use
    /// it: a forged RST does not end a connection.
    ///
    /// # Errors
    /// When a checker finds an error.
    pub fn run_traced(&self) -> Result<Report, Failure> {
        let network = self.network();
        network.wire.borrow_mut().look_on(vec![Host::address(1, self.ipv6), Host::address(2, self.ipv6)]);
        let wire = network.wire.clone();
        let report = self.run_network(network)?;
        let found = wire.borrow_mut().take_report();
        match found {
            Some(found) if found.errors > 0 => {
                let lines: Vec<String> = found
                    .findings
                    .iter()
                    .filter(|one| one.severity == Severity::Error)
                    .take(10)
                    .map(ToString::to_string)
                    .collect();
                failure(lines.join("\n"))
            }
            _ => Ok(report),
        }
    }

    /// Runs it like `run`, and writes what both hosts send to a capture file, with the time at which it is sent.
    ///
    /// # Errors
    /// When a checker finds an error, or the file cannot be written.
    pub fn run_captured(&self, file: &str) -> Result<Report, Failure> {
        let network = self.network();
        let wire = pcap::Interface { name: "wire", medium: self.link.medium };
        let writer = File::create(file).and_then(|file| pcap::Writer::new(file, &[wire], pcap::SNAPLEN_MAX));
        match writer {
            Ok(writer) => network.wire.borrow_mut().capture(writer),
            Err(error) => return failure(format!("{file}: {error}")),
        }
        self.run_network(network)
    }

    fn run_network(&self, mut network: Network) -> Result<Report, Failure> {
        network.run_until_done(self.limit)?;
        let report = self.report(&network);
        self.check_outcomes(&network)?;
        network.check_nothing_left()?;
        network.hosts.iter().for_each(|host| give_back(&host.arena));
        Ok(report)
    }

    /// Makes the network of this scenario, before its first iteration: host 0 is the client, host 1 the server.
    pub fn network(&self) -> Network {
        let wire = Rc::new(RefCell::new(WireCheck::default()));
        let arenas = [take_arena(self.frames), take_arena(self.frames)];
        let (left, right) = memory::pair(&arenas[0], &arenas[1], self.link);
        let pattern = Pattern::new(self.seed);
        let server = SocketAddress { ip: Host::address(2, self.ipv6), port: 80 };
        let ends = [(Side::Client, left), (Side::Server, right)].into_iter().zip(arenas);
        let hosts: Vec<Host> = ends
            .map(|((side, end), arena)| {
                let (name, number) = if side == Side::Client { ("client", 1) } else { ("server", 2) };
                let seed = Random::new(self.seed ^ u64::from(number)).number();
                let mut config =
                    with_small_tables(StackConfig { seed, ..self.configs[usize::from(side == Side::Server)].clone() });
                config.tcp.ecn = self.ecn[usize::from(side == Side::Server)];
                let mut options = self.options;
                if side == Side::Server {
                    options.congestion_control = self.server_control;
                }
                let mut application = Application::new(self.plans, &pattern, options);
                application.mix_control(self.mixed_control && side == Side::Client);
                let (path, lie) = (self.path, self.path.lies[usize::from(side == Side::Server)]);
                let wiring = Wiring { wire: Box::new(end), arena, faults: self.faults, path, lie, check: wire.clone() };
                let mut host = Host::new(name, number, config, wiring, application);
                if let Some(make) = self.own_control.filter(|_| side == Side::Client) {
                    host.application.set_control(host.stack.add_congestion_control(make));
                }
                match side {
                    Side::Client => host.application.connect(server, self.connections, self.at_once),
                    Side::Server => host.application.listen(&mut host.stack, server, self.backlog),
                }
                host.beside = self.datagrams.map(|plan| self.beside(&mut host.stack, plan, &pattern, number));
                host
            })
            .collect();
        Network::new(hosts, wire)
    }

    /// Makes the datagrams of host `number`.
    fn beside(&self, stack: &mut Stack, plan: Datagrams, pattern: &Pattern, number: u8) -> Beside {
        let end = |number: u8| SocketAddress { ip: Host::address(number, self.ipv6), port: DATAGRAM_PORT };
        let stream = |number: u8| pattern.stream(DATAGRAM_STREAMS + u64::from(number));
        let other = 3 - number;
        let seed = self.seed ^ u64::from(number) << 40;
        Beside::new(stack, plan, (end(number), end(other)), (stream(number), stream(other)), seed)
    }

    /// Checks that on a wire that loses nothing every connection completes, unless an abort was planned, or an end never reads.
    fn check_outcomes(&self, network: &Network) -> Result<(), Failure> {
        let outcomes: Vec<Option<Outcome>> = network.hosts[0].application.outcomes_of_readers().collect();
        let lossless = self.faults.wire.loss_ppm + self.faults.wire.burst_start_ppm + self.faults.wire.corrupt_ppm == 0
            && self.faults.wire.rate_bits == 0;
        let expected = if lossless && self.plans.abort_one_in == 0 && !self.plans.gives_up { outcomes.len() } else { 0 };
        let complete = outcomes.iter().filter(|outcome| **outcome == Some(Outcome::Complete)).count();
        if complete < expected {
            return failure(format!("only {complete} of {expected} connections completed: {outcomes:?}"));
        }
        Ok(())
    }

    fn report(&self, network: &Network) -> Report {
        let outcomes: Vec<Option<Outcome>> = network.hosts[0].application.outcomes().collect();
        let complete = outcomes.iter().filter(|outcome| **outcome == Some(Outcome::Complete)).count() as u64;
        Report {
            received_bytes: network.hosts.iter().map(|host| host.application.received_bytes()).sum(),
            complete,
            otherwise: outcomes.len() as u64 - complete,
            given_up: network.hosts.iter().map(|host| host.application.lost_peers()).sum(),
            segments: network.wire.borrow().segments(),
            retransmitted: network.hosts.iter().map(|host| host.stack.counters().get(Counter::TcpRetransSegs)).sum(),
            millis: network.now().as_millis(),
            turns: network.turns(),
        }
    }
}

/// Shrinks the tables to a few sockets: tables for many are most of the cost of a stack that lives for a second.
fn with_small_tables(mut config: StackConfig) -> StackConfig {
    for max in [&mut config.connections_max, &mut config.time_wait_max, &mut config.neighbors_max, &mut config.udp.sockets_max] {
        *max = SOCKETS_MAX.min(*max);
    }
    config
}

thread_local! {
    /// Arenas whose run has ended well, so that all their frames are free. The order in which slots are taken does not
    /// affect a run.
    static ARENAS: RefCell<Vec<Arena>> = const { RefCell::new(Vec::new()) };
}

/// Takes an arena with so many frames of each class.
fn take_arena(frames: u32) -> Arena {
    let fits = |arena: &Arena| arena.capacity(Class::Large) == frames;
    let kept = ARENAS.with_borrow_mut(|arenas| arenas.iter().position(fits).map(|at| arenas.swap_remove(at)));
    kept.unwrap_or_else(|| Arena::new(ArenaConfig { large: frames, small: frames }))
}

/// Keeps the arena for the next run of this thread.
fn give_back(arena: &Arena) {
    ARENAS.with_borrow_mut(|arenas| {
        if arenas.len() < ARENAS_MAX {
            arenas.push(arena.clone());
        }
    });
}

/// Two for each number of frames that is drawn.
const ARENAS_MAX: usize = 16;
/// More than a scenario has at once.
const SOCKETS_MAX: u32 = 1_024;
const DATAGRAM_PORT: u16 = 7_000;
/// Beyond the streams of all ports.
const DATAGRAM_STREAMS: u64 = 1 << 20;

#[cfg(test)]
mod tests;
