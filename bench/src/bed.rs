//! One target on a wire of its own: a server, a client, and what they cost.
//!
//! Promises: the client is bound to the first core and the server with everything under it to the
//! second; what was started is ended, and the wire removed, when it is dropped.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use crate::load::order::{Order, Outcome, Plan};
use crate::measure::cpu::Used;
use crate::measure::machine;
use crate::options::{Options, Steering};
use crate::peer::Peer;
use crate::target::{Target, WireKind};
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
    wire: Wire,
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
        assert!(options.wire == WireKind::Veth, "the command line was checked");
        let wire = Wire::new()?;
        steer(&wire, options.rps)?;
        let address = SocketAddr::new(parse(&wire.address(Side::Server)), PORT);
        let mut server = Peer::start(&format!("{} server", target.name()), server_command(&wire, target, address)?)?;
        server.wait_ready(START)?;
        let client = Peer::start(&format!("client of {}", target.name()), client_command(&wire)?)?;
        Ok(Bed { target, client, server, address, wire })
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

    /// Segments that the kernels of both ends have sent again so far.
    ///
    /// # Errors
    /// The counters cannot be read.
    pub fn retransmissions(&self) -> io::Result<u64> {
        let of = |side| self.wire.kernel_counter(side, "Tcp", "RetransSegs");
        Ok(of(Side::Server)? + of(Side::Client)?)
    }

    /// Segments that the kernel's TCP at the server's side has received: none of them were Ringway's.
    ///
    /// # Errors
    /// The counters cannot be read.
    pub fn kernel_segments(&self) -> io::Result<u64> {
        self.wire.kernel_counter(Side::Server, "Tcp", "InSegs")
    }
}

fn parse(address: &str) -> IpAddr {
    address.parse().expect("the wire's own addresses")
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

/// A role's command line inside the namespace, bound to a core.
fn role(wire: &Wire, side: Side, core: usize, before: &[&str]) -> io::Result<Command> {
    let ringway = std::env::current_exe()?;
    let mut command = wire.command(side, "taskset");
    command
        .args(["-c", &core.to_string()])
        .args(before.iter().map(|word| if *word == RINGWAY { ringway.as_os_str() } else { (*word).as_ref() }));
    command.arg(&ringway).args(["bench", "role"]);
    Ok(command)
}

/// Stands for our own executable.
const RINGWAY: &str = "\0ringway";

fn server_command(wire: &Wire, target: Target, address: SocketAddr) -> io::Result<Command> {
    let before: &[&str] = if target == Target::Preload { &[RINGWAY, "run", "--quiet", "--"] } else { &[] };
    let mut command = role(wire, Side::Server, server_core(), before)?;
    command.args(["server", "--listen", &address.to_string()]);
    if target == Target::LinuxSpin {
        command.arg("--spin");
    }
    Ok(command)
}

fn client_command(wire: &Wire) -> io::Result<Command> {
    let mut command = role(wire, Side::Client, CLIENT_CORE, &[])?;
    command.arg("client");
    Ok(command)
}
