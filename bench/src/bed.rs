//! One target on its own wire: a server, a client and their CPU time.
//!
//! ```text
//!   veth    namespace b: client --- veth1 ~~~~ veth1 --- server :namespace a   Ringway's ends have addresses .3 and .4
//!   tap     namespace a: client --- kernel --- TAP --- server                  in addition to the kernel's .1 and .2
//!   memory  client's stack --- two rings in shared memory --- server's stack
//! ```
//! Promises: the client is bound to the first core, the server and its descendants to the second;
//! dropping a bed ends all started processes and removes the wire.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::Duration;

use ringway_shm::stats::StatsReader;

use crate::load::order::{Order, Outcome, Passage, Plan};
use crate::load::tuning::Tuning;
use crate::measure::cpu::{self, Used};
use crate::measure::machine;
use crate::options::{Options, Steering};
use crate::path::Path as WirePath;
use crate::peer::Peer;
use crate::target::{ClientStack, Target, WireKind};
use crate::wire::veth::{INTERFACE, Side, Wire, counter_in};
use crate::wire::{memory, path};
use crate::wrk::{self, SocketErrors};

/// Port of the servers.
const PORT: u16 = 8080;
/// Time limit for a role to start, and to open its connections.
const START: Duration = Duration::from_secs(30);
/// Time limit of a run beyond its length.
const PATIENCE: Duration = Duration::from_secs(30);
const CLIENT_CORE: usize = 0;
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
    /// CPU time of unrelated processes, nanoseconds: on the core with more of it, or on both together when a worker of the
    /// server runs on the client's core.
    pub fn others_ns(&self, is_shared: bool) -> u64 {
        if is_shared {
            let busy = self.server.core.busy_ns + self.client.core.busy_ns;
            return busy.saturating_sub(self.server.cpu_ns() + self.client.cpu_ns() + self.path_ns);
        }
        self.server.others_ns().max(self.client.others_ns().saturating_sub(self.path_ns))
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

/// The server's core: the second, or the only one.
pub fn server_core() -> usize {
    usize::from(machine::cores() > 1)
}

/// The cores of a server with this number of workers: its own core first, the client's last.
fn server_cores(workers: usize) -> Vec<usize> {
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
            target,
            client: options.client_stack(),
            connections,
            work_us: options.work_us,
            tuning: setup.tuning,
            workers,
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
            wire,
        })
    }

    /// The target that serves.
    pub fn target(&self) -> Target {
        self.target
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

    /// Stops the server and its descendants, so that they use no CPU in the rounds of other targets. The idle client sleeps
    /// by itself. Waits first until packets in flight have arrived: the stack of a stopped process would count the pause as
    /// round-trip time, and its timers would become seconds long.
    pub fn pause(&self) {
        sleep(self.under_way);
        self.server.pause();
    }

    /// Continues the server.
    pub fn resume(&self) {
        self.server.resume();
    }

    /// Opens the connections of a plan.
    ///
    /// # Errors
    /// Those of `Bed::start`.
    pub fn prepare(&mut self, plan: &Plan) -> io::Result<()> {
        if self.options.client_stack() == ClientStack::Kernel && plan.connections > KERNEL_CONNECTIONS_MAX {
            let text = format!("a client on the kernel's stack has ports for {KERNEL_CONNECTIONS_MAX} connections");
            return Err(io::Error::other(text));
        }
        let limit = START + CONNECT * plan.connections;
        let plan = Plan { server: self.address, sources: self.sources.clone(), tuning: self.tuning, ..plan.clone() };
        self.client.order(&Order::Prepare(plan), limit)
    }

    /// Closes the connections.
    ///
    /// # Errors
    /// Those of `Bed::start`.
    pub fn release(&mut self) -> io::Result<()> {
        self.client.order(&Order::Release, START)
    }

    /// Runs the load for `warmup`, then `measure`.
    ///
    /// # Errors
    /// A connection was lost, or a role failed.
    pub fn run(&mut self, warmup: Duration, measure: Duration, seed: u64) -> io::Result<Sample> {
        let before = (self.server_used()?, self.client_used()?, self.path_used()?);
        let order = Order::Run { warmup_us: warmup.as_micros() as u64, measure_us: measure.as_micros() as u64, seed };
        let outcome = self.client.run(&order, warmup + measure + PATIENCE)?;
        let after = (self.server_used()?, self.client_used()?, self.path_used()?);
        let (path_ns, passage) = (after.2.0.saturating_sub(before.2.0), after.2.1.since(&before.2.1));
        Ok(Sample { outcome, server: after.0.since(&before.0), client: after.1.since(&before.1), path_ns, passage })
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

    fn client_used(&self) -> io::Result<Used> {
        Used::by(self.client.pid(), CLIENT_CORE)
    }

    /// CPU time and packet counts of the process in the middle of a path.
    fn path_used(&mut self) -> io::Result<(u64, Passage)> {
        let Some(path) = &mut self.path else { return Ok((0, Passage::default())) };
        Ok((cpu::tree_ns(path.pid()), path.count(START)?))
    }

    /// Segments that both ends have retransmitted so far, on the kernel's stack and on Ringway's.
    ///
    /// # Errors
    /// The counters cannot be read.
    pub fn retransmissions(&self) -> io::Result<u64> {
        self.sum(|wire, side| wire.kernel_counter(side, "Tcp", "RetransSegs"), &["TcpRetransSegs"])
    }

    /// Packets that the interfaces of both sides, and the services' devices, have dropped.
    ///
    /// # Errors
    /// The counters cannot be read.
    pub fn drops(&self) -> io::Result<u64> {
        self.sum(Wire::kernel_drops, &["RingwayDeviceRxDropped", "RingwayDeviceTxDropped"])
    }

    /// What the kernel has counted at both sides, and the services in the counters of these names.
    fn sum(&self, kernels: impl Fn(&Wire, Side) -> io::Result<u64>, names: &[&str]) -> io::Result<u64> {
        let mut sum = 0;
        for side in [Side::Server, Side::Client] {
            sum += self.wire.as_ref().map_or(Ok(0), |wire| kernels(wire, side))?;
        }
        let counters = self.stats.iter().flat_map(StatsReader::counters);
        Ok(sum + counters.filter(|(name, _)| names.contains(&name.as_str())).map(|(_, value)| value).sum::<u64>())
    }

    /// Connections of the kernel's TCP at the server's side.
    ///
    /// # Errors
    /// The server has ended.
    pub fn kernel_connections(&self) -> io::Result<u64> {
        counter_in(&fs::read_to_string(format!("/proc/{}/net/snmp", self.server.pid()))?, "Tcp", "CurrEstab")
    }

    /// The sockets at which the services at the server's side can be asked for more.
    pub fn doors(&self) -> Vec<PathBuf> {
        services_of(self.server.pid()).into_iter().map(|(path, _)| path.with_extension("sock")).collect()
    }

    /// Segments that the kernel's TCP at the server's side has received, and therefore not Ringway.
    ///
    /// # Errors
    /// The counters cannot be read.
    pub fn kernel_segments(&self) -> io::Result<u64> {
        self.wire.as_ref().map_or(Ok(0), |wire| wire.kernel_counter(Side::Server, "Tcp", "InSegs"))
    }

    /// Returns true when a worker of the server runs on the client's core.
    pub fn shares_a_core(&self) -> bool {
        server_cores(self.options.workers()).contains(&CLIENT_CORE)
    }

    /// Returns true when the kernel's TCP at the server's side must receive nothing.
    pub fn is_ringways_alone(&self) -> bool {
        // Over TAP the client is the kernel of the same namespace.
        self.target.is_ringways_alone() && self.options.wire != WireKind::Tap
    }
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

/// Placement of the roles: namespaces, cores, addresses.
struct Layout<'a> {
    kind: WireKind,
    wire: Option<&'a Wire>,
    target: Target,
    client: ClientStack,
    connections: u32,
    work_us: u64,
    tuning: Tuning,
    workers: usize,
}

impl Layout<'_> {
    /// Address of host number `host` on this wire.
    fn address(&self, host: u8) -> String {
        let server = self.wire.map_or(MEMORY_SERVER.to_string(), |wire| wire.address(Side::Server));
        let network = server.rsplit_once('.').expect("an IPv4 address has dots").0;
        // The TAP needs another network than the veth pair, which also exists.
        let network = if self.kind == WireKind::Tap { network.replacen("10.77.", "10.78.", 1) } else { network.to_string() };
        format!("{network}.{host}")
    }

    /// The address on which the server listens.
    fn served(&self) -> SocketAddr {
        let host = if self.kind == WireKind::Veth && self.target == Target::Embedded { 3 } else { 1 };
        SocketAddr::new(self.address(host).parse().expect("the wire's own addresses"), PORT)
    }

    /// A role's command line, bound to a core, in its namespace.
    fn role(&self, side: Side, cores: &[usize], before: &[&str]) -> io::Result<Command> {
        let ringway = std::env::current_exe()?;
        let mut command = match self.wire {
            Some(wire) => wire.command(side, "taskset"),
            None => Command::new("taskset"),
        };
        command.args(["-c", &list(cores)]);
        if !before.is_empty() {
            command.arg(&ringway).args(before);
        }
        command.arg(&ringway).args(["bench", "role"]);
        Ok(command)
    }

    fn server_command(&self, stats: &Path) -> io::Result<Command> {
        let has_service = matches!(self.target, Target::Preload | Target::PreloadBulk | Target::Service);
        let before: &[&str] = if has_service { &["run", "--quiet", "--"] } else { &[] };
        let cores = server_cores(self.workers);
        let mut command = self.role(Side::Server, &cores, before)?;
        // What was measured on this machine before does not decide what is measured now.
        command.env("RINGWAY_POLICY_BULK", if self.target == Target::PreloadBulk { "kernel" } else { "stack" });
        command.args(["server", "--listen", &self.served().to_string()]);
        command.args(self.tuning.arguments());
        if self.workers > 1 {
            command.args(["--cores", &list(&cores)]);
        }
        if self.work_us > 0 {
            command.args(["--work-us", &self.work_us.to_string()]);
        }
        match self.target {
            Target::Service => drop(command.args(["--sockets", "channel"])),
            Target::LinuxSpin => drop(command.arg("--spin")),
            Target::LinuxUring => drop(command.args(["--sockets", "uring"])),
            Target::Embedded => self.own_stack(&mut command, self.served().ip().to_string(), stats),
            _ => {}
        }
        Ok(command)
    }

    fn client_command(&self, stats: &Path) -> io::Result<Command> {
        let side = if self.kind == WireKind::Tap { Side::Server } else { Side::Client };
        let mut command = self.role(side, &[CLIENT_CORE], &[])?;
        command.arg("client");
        if self.client == ClientStack::Ringway {
            self.own_stack(&mut command, self.address(FIRST_CLIENT), stats);
            command.args(["--more-addresses", &self.more_addresses().to_string()]);
        }
        Ok(command)
    }

    /// Number of addresses of a client on Ringway beyond its first one.
    fn more_addresses(&self) -> u8 {
        // Bounded by the network's size; connections beyond it fail with a clear error for lack of ports.
        u8::try_from(self.connections / CONNECTIONS_PER_ADDRESS).unwrap_or(u8::MAX).min(u8::MAX - 1 - FIRST_CLIENT)
    }

    /// The client's addresses, when it has more than one.
    fn sources(&self) -> Vec<IpAddr> {
        if self.client == ClientStack::Kernel || self.more_addresses() == 0 {
            return Vec::new();
        }
        let hosts = FIRST_CLIENT..=FIRST_CLIENT + self.more_addresses();
        hosts.map(|host| self.address(host).parse().expect("the wire's own addresses")).collect()
    }

    fn own_stack(&self, command: &mut Command, address: String, stats: &Path) {
        let connections = (self.connections + self.connections / 8).max(65_536);
        command.args(["--sockets", "ringway", "--address", &format!("{address}/24")]);
        command.args(["--connections-max", &connections.to_string()]).arg("--stats").arg(stats);
        match self.kind {
            WireKind::Veth => drop(command.args(["--packet", INTERFACE])),
            WireKind::Tap => drop(command.args(["--tap", "ring0", "--neighbor", &self.address(2)])),
            WireKind::Memory => {}
        }
    }
}

/// Formats a list of cores for taskset and roles.
fn list(cores: &[usize]) -> String {
    cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

/// Path of a new statistics file, unique to this process.
fn stats_path() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("ringway-bench-{}-{number}.stats", std::process::id()))
}

/// The statistics of the services in the process tree of `pid`, and their files.
fn services_of(pid: u32) -> Vec<(PathBuf, StatsReader)> {
    let tree = cpu::tree(pid);
    let files = fs::read_dir(SERVICES).into_iter().flatten().flatten().map(|entry| entry.path());
    let stats = files.filter(|path| path.extension().is_some_and(|ending| ending == "stats"));
    // A file that cannot be opened was just removed, or belongs to another user.
    let open = stats.filter_map(|path| StatsReader::open(&path).ok().map(|stats| (path, stats)));
    open.filter(|(_, stats)| tree.contains(&stats.pid())).collect()
}

/// The folder of the services' statistics.
const SERVICES: &str = "/run/ringway";
/// Host number of the first address of a client on Ringway, and connections per address.
const FIRST_CLIENT: u8 = 4;
const CONNECTIONS_PER_ADDRESS: u32 = 25_000;
/// Slightly fewer than the kernel's ephemeral ports.
const KERNEL_CONNECTIONS_MAX: u32 = 28_000;
/// Time limit for opening one of many connections.
const CONNECT: Duration = Duration::from_millis(2);
/// The server's address on the memory wire.
const MEMORY_SERVER: &str = "10.79.0.1";
