//! One target on its own wire: a server, a client and their CPU time.
//!
//! ```text
//!   veth    namespace b: client --- veth1 ~~~~ veth1 --- server :namespace a   Ringway's ends have addresses .3 and .4
//!   tap     namespace a: client --- kernel --- TAP --- server                  in addition to the kernel's .1 and .2
//!   memory  client's stack --- two rings in shared memory --- server's stack
//! ```
//! Promises: the client is bound to the first core, the server and its descendants to the second;
//! dropping a bed ends all started processes and removes the wire.

pub(crate) mod layout;

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::Duration;

use ringway_shm::stats::StatsReader;
use serde::{Deserialize, Serialize};

use crate::load::order::{Order, Outcome, Passage, Plan};
use crate::load::tuning::Tuning;
use crate::measure::calibration::Calibration;
use crate::measure::cpu::{self, Used};
use crate::measure::machine;
use crate::options::{Options, Steering};
use crate::path::Path as WirePath;
use crate::peer::Peer;
use crate::target::{ClientStack, Target, WireKind};
use crate::wire::veth::{INTERFACE, Side, Wire, counter_in, drops_in};
use crate::wire::{memory, path};
use crate::wrk::{self, SocketErrors};
use layout::{Layout, ServerPlan};

/// Time limit for a role to start, and to open its connections.
pub(crate) const START: Duration = Duration::from_secs(30);
/// Time limit of a run beyond its length.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
pub(crate) const CLIENT_CORE: usize = 0;
/// Longest delay of an ACK.
const DELAYED_ACK: Duration = Duration::from_millis(50);
/// Time in which a lost packet is retransmitted by timeout.
const REPAIR: Duration = Duration::from_millis(300);

/// One target on its wire. Fields are dropped in this order: the roles before the wire.
pub struct Bed {
    target: Target,
    client: Peer,
    server: Peer,
    address: SocketAddr,
    /// The client's addresses, when it has more than one.
    sources: Vec<IpAddr>,
    /// Statistics of Ringway's workers at both ends.
    stats: Vec<StatsReader>,
    options: Options,
    tuning: Tuning,
    /// The process in the middle of a path.
    path: Option<Peer>,
    /// Longest time until the last packets of a round arrive.
    under_way: Duration,
    /// Segments that the kernel's TCP at the server's side had received before the connections of the plan.
    kernel_segments: u64,
    wire: Option<Wire>,
}

/// Result of one run.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// The client's result.
    pub outcome: Outcome,
    /// CPU time of the server's side.
    pub server: Used,
    /// CPU time of the client's side.
    pub client: Used,
    /// CPU time of the process in the middle of a path, nanoseconds; it runs on the client's core.
    pub path_ns: u64,
    /// Packets that this process forwarded and lost.
    pub passage: Passage,
}

impl Sample {
    /// CPU time of unrelated processes, nanoseconds, on the core with more of it.
    pub fn others_ns(&self) -> u64 {
        self.server.others_ns().max(self.client.others_ns().saturating_sub(self.path_ns))
    }

    /// The same on both cores together, when a worker of the server runs on the client's.
    pub fn others_on_both_ns(&self) -> u64 {
        let busy = self.server.core.busy_ns + self.client.core.busy_ns;
        busy.saturating_sub(self.server.cpu_ns() + self.client.cpu_ns() + self.path_ns)
    }
}

/// Settings of the wire and the sockets for a point.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Setup {
    /// The emulated path between the ends; `None`: a plain veth pair, TAP or memory.
    pub path: Option<WirePath>,
    /// Socket options at both ends.
    pub tuning: Tuning,
    /// The MTU of both ends of a veth pair; `None`: 1500.
    pub mtu: Option<u16>,
    /// No packet through the veth pair is larger than its MTU.
    pub small_packets: bool,
}

impl Setup {
    /// Returns true where the wire must be made for it.
    pub(crate) fn needs_own_wire(&self) -> bool {
        self.path.is_some() || self.mtu.is_some() || self.small_packets
    }
}

/// The server's core: the second, or the only one.
pub fn server_core() -> usize {
    usize::from(machine::cores() > 1)
}

/// The cores of a server with this number of workers: its own core first, the client's last.
pub(crate) fn server_cores(workers: usize) -> Vec<usize> {
    (0..workers).map(|worker| (server_core() + worker) % machine::cores()).collect()
}

impl Bed {
    /// Creates the wire and starts both roles, for at most `connections` connections.
    ///
    /// # Errors
    /// A system call or a role failed.
    pub fn start(target: Target, options: &Options, setup: &Setup, connections: u32) -> io::Result<Bed> {
        let workers = options.workers();
        if workers > 1 && !target.has_workers() {
            return Err(io::Error::other(format!("{} has one worker here", target.name())));
        }
        if workers > machine::cores() {
            return Err(io::Error::other(format!("{workers} workers on {} cores", machine::cores())));
        }
        let (wire, path) = join(options, setup)?;
        let layout = Layout {
            kind: options.wire,
            wire: wire.as_ref(),
            server: ServerPlan::new(target, options, setup.tuning),
            client: options.client_stack(),
            connections,
        };
        let ends = if wire.is_none() { Some(memory::link()?) } else { None };
        let (server_stats, client_stats) = (stats_path(), stats_path());
        let mut server = Peer::start(&format!("{} server", target.name()), layout.server_command(&server_stats)?)?;
        if let Some((first, _)) = &ends {
            server.give(first)?;
        }
        server.wait_ready(START)?;
        let mut client = Peer::start(&format!("client of {}", target.name()), layout.client_command(&client_stats)?)?;
        if let Some((_, second)) = &ends {
            client.give(second)?;
        }
        client.wait_ready(START)?;
        let mut stats: Vec<_> = services_of(server.pid()).into_iter().map(|(_, stats)| stats).collect();
        let of_workers = (1..workers).map(|worker| server_stats.with_extension(worker.to_string()));
        for path in of_workers.chain([server_stats.clone(), client_stats]).filter(|path| path.exists()) {
            stats.push(StatsReader::open(&path)?);
            // The file is mapped. Remove its name now, so that it cannot be left behind.
            fs::remove_file(path)?;
        }
        let (address, sources) = (layout.served(), layout.sources());
        let on_path = |path: WirePath| REPAIR + 2 * Duration::from_micros(path.rtt_us.into());
        let under_way = setup.path.map_or(DELAYED_ACK, on_path);
        Ok(Bed {
            target,
            client,
            server,
            address,
            sources,
            stats,
            options: options.clone(),
            tuning: setup.tuning,
            path,
            under_way,
            kernel_segments: 0,
            wire,
        })
    }

    /// The server's address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Id of the server's process; with `ringway run`, of the launcher.
    pub fn server_pid(&self) -> u32 {
        self.server.pid()
    }

    /// Id of the client's process.
    pub fn client_pid(&self) -> u32 {
        self.client.pid()
    }

    /// Runs wrk against the server from the client's side and returns its figures.
    ///
    /// # Errors
    /// wrk is missing, failed or reported an error.
    pub fn wrk(&self, connections: u32, seconds: u64) -> io::Result<wrk::Report> {
        let wire = self.wire.as_ref().ok_or_else(|| io::Error::other("wrk needs the kernel's stack"))?;
        let mut command = wire.command(Side::Client, "taskset");
        command.args([
            "-c",
            &CLIENT_CORE.to_string(),
            "wrk",
            "-t1",
            &format!("-c{connections}"),
            &format!("-d{seconds}s"),
            "--latency",
        ]);
        let output = command.arg(format!("http://{}/", self.address)).stdin(Stdio::null()).output()?;
        wrk::read(&output, SocketErrors::Fail)
    }

    /// CPU time of the server's side so far.
    ///
    /// # Errors
    /// /proc cannot be read.
    pub fn server_used(&self) -> io::Result<Used> {
        Used::by(self.server.pid(), server_core())
    }

    /// Segments that the kernel's TCP at the server's side has received, and therefore not Ringway.
    fn kernel_segments(&self) -> io::Result<u64> {
        self.wire.as_ref().map_or(Ok(0), |wire| wire.kernel_counter(Side::Server, "Tcp", "InSegs"))
    }

    /// Returns true when a worker of the server runs on the client's core.
    fn shares_a_core(&self) -> bool {
        server_cores(self.options.workers()).contains(&CLIENT_CORE)
    }

    /// Returns true when the kernel's TCP at the server's side must receive nothing.
    fn is_ringways_alone(&self) -> bool {
        // Over TAP the client is the kernel of the same namespace.
        self.target.is_ringways_alone() && self.options.wire != WireKind::Tap
    }

    fn client_used(&self) -> io::Result<Used> {
        Used::by(self.client.pid(), CLIENT_CORE)
    }

    /// CPU time and packet counts of the process in the middle of a path.
    fn path_used(&mut self) -> io::Result<(u64, Passage)> {
        let Some(path) = &mut self.path else { return Ok((0, Passage::default())) };
        Ok((cpu::tree_ns(path.pid()), path.count(START)?))
    }

    /// Connections of the kernel's TCP at the server's side.
    ///
    /// # Errors
    /// The server has ended.
    pub fn kernel_connections(&self) -> io::Result<u64> {
        counter_in(&fs::read_to_string(format!("/proc/{}/net/snmp", self.server.pid()))?, "Tcp", "CurrEstab")
    }

    /// The sockets at which the workers of services at the server's side can be asked for more.
    pub fn doors(&self) -> Vec<PathBuf> {
        services_of(self.server.pid()).into_iter().filter_map(|(path, _)| beside(&path, "sock")).collect()
    }
}

/// Both ends of a target: on a wire of this machine ([`Bed`]), or with the server on another one ([`crate::distant`]).
pub(crate) trait Ends {
    /// The target that serves.
    fn target(&self) -> Target;

    /// The server uses no processor from here on, so that the rounds of other targets are theirs alone.
    fn pause(&mut self);

    /// The server goes on.
    fn resume(&mut self);

    /// Opens the connections of a plan.
    fn prepare(&mut self, plan: &Plan) -> io::Result<()>;

    /// Closes the connections.
    fn release(&mut self) -> io::Result<()>;

    /// Runs the load for `warmup`, then `measure`.
    fn run(&mut self, warmup: Duration, measure: Duration, seed: u64) -> io::Result<Sample>;

    /// Runs the calibration loop on the server's core.
    fn calibrate(&mut self) -> io::Result<Calibration>;

    /// CPU time of unrelated processes in a sample, nanoseconds.
    fn others_ns(&self, sample: &Sample) -> u64 {
        sample.others_ns()
    }

    /// What both ends have counted so far.
    fn counts(&mut self) -> io::Result<Counts>;

    /// What a reader of the figures since `prepare` must know; empty: nothing.
    fn remark(&mut self) -> io::Result<String>;
}

/// What both ends have counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Segments that were retransmitted, on the kernel's stack and on Ringway's.
    pub retransmissions: u64,
    /// Packets that interfaces, and the devices of services, have dropped.
    pub drops: u64,
}

impl Counts {
    /// What a service or a stack has counted.
    pub(crate) fn of(stats: &StatsReader) -> Counts {
        let sum = |names: &[&str]| -> u64 {
            stats.counters().iter().filter(|(name, _)| names.contains(&name.as_str())).map(|(_, value)| value).sum()
        };
        let drops = sum(&["RingwayDeviceRxDropped", "RingwayDeviceTxDropped"]);
        Counts { retransmissions: sum(&["TcpRetransSegs"]), drops }
    }

    /// What the kernel of this namespace has counted.
    pub(crate) fn of_kernel() -> io::Result<Counts> {
        let retransmissions = counter_in(&fs::read_to_string("/proc/net/snmp")?, "Tcp", "RetransSegs")?;
        Ok(Counts { retransmissions, drops: drops_in(&fs::read_to_string("/proc/net/dev")?) })
    }

    /// The sum of both.
    pub(crate) fn plus(self, other: Counts) -> Counts {
        Counts { retransmissions: self.retransmissions + other.retransmissions, drops: self.drops + other.drops }
    }

    /// The counts since `before`.
    pub(crate) fn since(self, before: Counts) -> Counts {
        Counts {
            retransmissions: self.retransmissions.saturating_sub(before.retransmissions),
            drops: self.drops.saturating_sub(before.drops),
        }
    }
}

impl Ends for Bed {
    fn target(&self) -> Target {
        self.target
    }

    /// Stops it with its descendants. Waits first until packets in flight have arrived: the stack of a stopped process would count the
    /// pause as round-trip time, and its timers would become seconds long. The idle client sleeps by itself.
    fn pause(&mut self) {
        sleep(self.under_way);
        self.server.pause();
    }

    fn resume(&mut self) {
        self.server.resume();
    }

    fn prepare(&mut self, plan: &Plan) -> io::Result<()> {
        self.kernel_segments = self.kernel_segments()?;
        if self.options.client_stack() == ClientStack::Kernel {
            check_ports(plan)?;
        }
        let plan = Plan { server: self.address, sources: self.sources.clone(), tuning: self.tuning, ..plan.clone() };
        let limit = opening(&plan);
        self.client.order(&Order::Prepare(plan), limit)
    }

    fn release(&mut self) -> io::Result<()> {
        self.client.order(&Order::Release, START)
    }

    fn run(&mut self, warmup: Duration, measure: Duration, seed: u64) -> io::Result<Sample> {
        let before = (self.server_used()?, self.client_used()?, self.path_used()?);
        let outcome = self.client.run(&Order::run(warmup, measure, seed), warmup + measure + PATIENCE)?;
        let after = (self.server_used()?, self.client_used()?, self.path_used()?);
        let (path_ns, passage) = (after.2.0.saturating_sub(before.2.0), after.2.1.since(&before.2.1));
        Ok(Sample { outcome, server: after.0.since(&before.0), client: after.1.since(&before.1), path_ns, passage })
    }

    fn calibrate(&mut self) -> io::Result<Calibration> {
        Calibration::of_core(server_core())
    }

    fn others_ns(&self, sample: &Sample) -> u64 {
        if self.shares_a_core() { sample.others_on_both_ns() } else { sample.others_ns() }
    }

    fn counts(&mut self) -> io::Result<Counts> {
        let mut counts = self.stats.iter().map(Counts::of).fold(Counts::default(), Counts::plus);
        for side in [Side::Server, Side::Client] {
            let Some(wire) = &self.wire else { continue };
            let retransmissions = wire.kernel_counter(side, "Tcp", "RetransSegs")?;
            counts = counts.plus(Counts { retransmissions, drops: wire.kernel_drops(side)? });
        }
        Ok(counts)
    }

    fn remark(&mut self) -> io::Result<String> {
        let segments = self.kernel_segments()? - self.kernel_segments;
        if self.is_ringways_alone() && segments > 0 {
            return Ok(format!("the kernel's TCP received {segments} segments: not all was Ringway's"));
        }
        let shares_a_core = self.shares_a_core() && self.options.workers() > 1;
        Ok(if shares_a_core { "the client shares a core with a worker".into() } else { String::new() })
    }
}

/// Time limit for opening the connections of a plan.
pub(crate) fn opening(plan: &Plan) -> Duration {
    START + CONNECT * plan.connections
}

/// A client on the kernel's stack has ports for so many connections to one server.
///
/// # Errors
/// The plan has more.
pub(crate) fn check_ports(plan: &Plan) -> io::Result<()> {
    if plan.connections > KERNEL_CONNECTIONS_MAX {
        let text = format!("a client on the kernel's stack has ports for {KERNEL_CONNECTIONS_MAX} connections");
        return Err(io::Error::other(text));
    }
    Ok(())
}

/// Creates the wire, and starts the process in the middle of a path.
fn join(options: &Options, setup: &Setup) -> io::Result<(Option<Wire>, Option<Peer>)> {
    let (wire, path, steering) = match setup.path {
        _ if options.wire == WireKind::Memory => return Ok((None, None)),
        None => (Wire::new()?, None, options.rps),
        Some(path) => {
            let (wire, peer) = Wire::joined_by(|wire| path::join(wire, &path, CLIENT_CORE))?;
            // Otherwise the process in the middle would run the receive path of both ends on its CPU time.
            (wire, Some(peer), Steering::Both)
        }
    };
    steer(&wire, steering)?;
    if let Some(mtu) = setup.mtu {
        wire.set_mtu(mtu)?;
    }
    if setup.small_packets {
        wire.forbid_super_segments()?;
    }
    if setup.tuning.congestion.is_some() {
        wire.free_congestion_control()?;
    }
    Ok((Some(wire), path))
}

/// Sets the core on which the kernel receives.
pub(crate) fn steer(wire: &Wire, steering: Steering) -> io::Result<()> {
    let sides: &[(Side, usize)] = match steering {
        Steering::None => &[],
        Steering::Client => &[(Side::Client, CLIENT_CORE)],
        Steering::Both => &[(Side::Client, CLIENT_CORE), (Side::Server, server_core())],
    };
    for (side, core) in sides {
        let script = format!("echo {:x} > /sys/class/net/{INTERFACE}/queues/rx-0/rps_cpus", 1 << core);
        let output = wire.command(*side, "sh").args(["-c", &script]).output()?;
        if !output.status.success() {
            return Err(io::Error::other(format!("rps_cpus: {}", String::from_utf8_lossy(&output.stderr).trim())));
        }
    }
    Ok(())
}

/// Path of a new statistics file, unique to this process.
fn stats_path() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("ringway-bench-{}-{number}.stats", std::process::id()))
}

/// The statistics of the services in the process tree of `pid`, and their files.
pub(crate) fn services_of(pid: u32) -> Vec<(PathBuf, StatsReader)> {
    let tree = cpu::tree(pid);
    services(|pid| tree.contains(&pid))
}

/// The statistics of the services whose process is wanted, and their files.
pub(crate) fn services(is_wanted: impl Fn(u32) -> bool) -> Vec<(PathBuf, StatsReader)> {
    let files = fs::read_dir(SERVICES).into_iter().flatten().flatten().map(|entry| entry.path());
    let stats = files.filter(|path| beside(path, "stats").is_some());
    // A file that cannot be opened was just removed, or belongs to another user.
    let open = stats.filter_map(|path| StatsReader::open(&path).ok().map(|stats| (path, stats)));
    open.filter(|(_, stats)| is_wanted(stats.pid())).collect()
}

/// The file with another ending of the worker whose statistics these are; `None`: they are not a worker's.
fn beside(stats: &Path, ending: &str) -> Option<PathBuf> {
    // The first worker has no number.
    let number = stats.extension()?.to_str()?.strip_prefix("stats")?;
    number.bytes().all(|digit| digit.is_ascii_digit()).then(|| stats.with_extension(format!("{ending}{number}")))
}

/// The folder of the services' statistics.
const SERVICES: &str = "/run/ringway";
/// Slightly fewer than the kernel's ephemeral ports.
pub(crate) const KERNEL_CONNECTIONS_MAX: u32 = 28_000;
/// Time limit for opening one of many connections.
pub(crate) const CONNECT: Duration = Duration::from_millis(2);
