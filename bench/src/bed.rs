//! One target on a wire of its own: a server, a client, and what they cost.
//!
//! ```text
//!   veth    namespace b: client --- veth1 ~~~~ veth1 --- server :namespace a   Ringway's ends have addresses .3 and .4
//!   tap     namespace a: client --- kernel --- TAP --- server                  beside the kernel's .1 and .2
//!   memory  client's stack --- two rings in shared memory --- server's stack
//! ```
//! Promises: the client is bound to the first core and the server with everything under it to the
//! second; what was started is ended, and the wire removed, when it is dropped.

use std::io;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use crate::load::order::{Order, Outcome, Plan};
use crate::measure::cpu::Used;
use crate::measure::machine;
use crate::options::{Options, Steering};
use crate::peer::Peer;
use crate::target::{ClientStack, Target, WireKind};
use crate::wire::memory;
use crate::wire::veth::{INTERFACE, Side, Wire};

/// Where the servers listen.
const PORT: u16 = 8080;
/// How long a role may take to start, and to open its connections.
const START: Duration = Duration::from_secs(30);
/// How long a run may take beyond its time.
const PATIENCE: Duration = Duration::from_secs(30);
const CLIENT_CORE: usize = 0;

/// One target on its wire. Fields are dropped in this order: the roles before the wire.
pub struct Bed {
    target: Target,
    client: Peer,
    server: Peer,
    address: SocketAddr,
    is_tap: bool,
    wire: Option<Wire>,
}

/// What one run showed.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// What the client says.
    pub outcome: Outcome,
    /// CPU of the server's side.
    pub server: Used,
    /// CPU of the client's side.
    pub client: Used,
}

/// The server's core: the second, or the only one.
pub fn server_core() -> usize {
    usize::from(machine::cores() > 1)
}

impl Bed {
    /// Makes the wire and starts both roles.
    ///
    /// # Errors
    /// The system refused something, or a role failed.
    pub fn start(target: Target, options: &Options) -> io::Result<Bed> {
        let wire = if options.wire == WireKind::Memory { None } else { Some(Wire::new()?) };
        if let Some(wire) = &wire {
            steer(wire, options.rps)?;
        }
        let plan = Layout { kind: options.wire, wire: wire.as_ref(), target, client: options.client_stack() };
        let ends = if wire.is_none() { Some(memory::link()?) } else { None };
        let mut server = Peer::start(&format!("{} server", target.name()), plan.server_command()?)?;
        if let Some((first, _)) = &ends {
            server.give(first)?;
        }
        server.wait_ready(START)?;
        let mut client = Peer::start(&format!("client of {}", target.name()), plan.client_command()?)?;
        if let Some((_, second)) = &ends {
            client.give(second)?;
        }
        let (address, is_tap) = (plan.served(), options.wire == WireKind::Tap);
        Ok(Bed { target, client, server, address, is_tap, wire })
    }

    /// Who serves.
    pub fn target(&self) -> Target {
        self.target
    }

    /// Where.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The server's process; with `ringway run` the launcher's.
    pub fn server_pid(&self) -> u32 {
        self.server.pid()
    }

    /// Opens connections.
    ///
    /// # Errors
    /// As `Bed::start`.
    pub fn prepare(&mut self, plan: &Plan) -> io::Result<()> {
        let plan = Plan { server: self.address, ..plan.clone() };
        self.client.order(&Order::Prepare(plan), START)
    }

    /// Closes them.
    ///
    /// # Errors
    /// As `Bed::start`.
    pub fn release(&mut self) -> io::Result<()> {
        self.client.order(&Order::Release, START)
    }

    /// Sends for a while.
    ///
    /// # Errors
    /// A connection was lost, or a role failed.
    pub fn run(&mut self, warmup: Duration, measure: Duration, seed: u64) -> io::Result<Sample> {
        let before = (self.server_used()?, self.client_used()?);
        let order = Order::Run { warmup_us: warmup.as_micros() as u64, measure_us: measure.as_micros() as u64, seed };
        let outcome = self.client.run(&order, warmup + measure + PATIENCE)?;
        let after = (self.server_used()?, self.client_used()?);
        Ok(Sample { outcome, server: after.0.since(&before.0), client: after.1.since(&before.1) })
    }

    /// CPU of the server's side so far.
    ///
    /// # Errors
    /// /proc cannot be read.
    pub fn server_used(&self) -> io::Result<Used> {
        Used::by(self.server.pid(), server_core())
    }

    fn client_used(&self) -> io::Result<Used> {
        Used::by(self.client.pid(), CLIENT_CORE)
    }

    /// Segments that the kernels of both ends have sent again so far; `None`: no kernel takes part.
    ///
    /// # Errors
    /// The counters cannot be read.
    pub fn retransmissions(&self) -> io::Result<Option<u64>> {
        let Some(wire) = &self.wire else { return Ok(None) };
        let of = |side| wire.kernel_counter(side, "Tcp", "RetransSegs");
        Ok(Some(of(Side::Server)? + of(Side::Client)?))
    }

    /// Segments that the kernel's TCP at the server's side has received: none of them were Ringway's.
    ///
    /// # Errors
    /// The counters cannot be read.
    pub fn kernel_segments(&self) -> io::Result<u64> {
        self.wire.as_ref().map_or(Ok(0), |wire| wire.kernel_counter(Side::Server, "Tcp", "InSegs"))
    }

    /// Whether the kernel's TCP has no business at the server's side.
    pub fn is_ringways_alone(&self) -> bool {
        // Over TAP the client is the kernel of the same namespace.
        !matches!(self.target, Target::Linux | Target::LinuxSpin) && !self.is_tap
    }
}

/// Says on which core the kernel receives.
fn steer(wire: &Wire, steering: Steering) -> io::Result<()> {
    let sides: &[(Side, usize)] = match steering {
        Steering::None => &[],
        Steering::Client => &[(Side::Client, CLIENT_CORE)],
        Steering::Both => &[(Side::Client, CLIENT_CORE), (Side::Server, 1)],
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

/// Where the roles stand.
struct Layout<'a> {
    kind: WireKind,
    wire: Option<&'a Wire>,
    target: Target,
    client: ClientStack,
}

impl Layout<'_> {
    /// The fourth part of the addresses of this wire, whose first three are the wire's own.
    fn address(&self, host: u8) -> String {
        let server = self.wire.map_or(MEMORY_SERVER.to_string(), |wire| wire.address(Side::Server));
        let network = server.rsplit_once('.').expect("an IPv4 address has dots").0;
        // The TAP's network must not be the veth's, which is there too.
        let network = if self.kind == WireKind::Tap { network.replacen("10.77.", "10.78.", 1) } else { network.to_string() };
        format!("{network}.{host}")
    }

    /// Where the server listens.
    fn served(&self) -> SocketAddr {
        let host = if self.kind == WireKind::Veth && self.target == Target::Embedded { 3 } else { 1 };
        SocketAddr::new(self.address(host).parse().expect("the wire's own addresses"), PORT)
    }

    /// A role's command line, bound to a core, in its namespace.
    fn role(&self, side: Side, core: usize, before: &[&str]) -> io::Result<Command> {
        let ringway = std::env::current_exe()?;
        let mut command = match self.wire {
            Some(wire) => wire.command(side, "taskset"),
            None => Command::new("taskset"),
        };
        command.args(["-c", &core.to_string()]);
        if !before.is_empty() {
            command.arg(&ringway).args(before);
        }
        command.arg(&ringway).args(["bench", "role"]);
        Ok(command)
    }

    fn server_command(&self) -> io::Result<Command> {
        let before: &[&str] = if self.target == Target::Preload { &["run", "--quiet", "--"] } else { &[] };
        let mut command = self.role(Side::Server, server_core(), before)?;
        command.args(["server", "--listen", &self.served().to_string()]);
        match self.target {
            Target::LinuxSpin => drop(command.arg("--spin")),
            Target::Embedded => self.own_stack(&mut command, self.served().ip().to_string()),
            _ => {}
        }
        Ok(command)
    }

    fn client_command(&self) -> io::Result<Command> {
        let side = if self.kind == WireKind::Tap { Side::Server } else { Side::Client };
        let mut command = self.role(side, CLIENT_CORE, &[])?;
        command.arg("client");
        if self.client == ClientStack::Ringway {
            self.own_stack(&mut command, self.address(4));
        }
        Ok(command)
    }

    fn own_stack(&self, command: &mut Command, address: String) {
        command.args(["--sockets", "ringway", "--address", &format!("{address}/24")]);
        match self.kind {
            WireKind::Veth => drop(command.args(["--packet", INTERFACE])),
            WireKind::Tap => drop(command.args(["--tap", "ring0", "--neighbor", &self.address(2)])),
            WireKind::Memory => {}
        }
    }
}

/// The server's address on a link that no kernel sees.
const MEMORY_SERVER: &str = "10.79.0.1";
