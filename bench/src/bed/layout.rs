//! Placement of the roles and their command lines: namespaces, cores, addresses.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::{CLIENT_CORE, server_cores};
use crate::load::tuning::Tuning;
use crate::options::Options;
use crate::target::{ClientStack, Target, WireKind};
use crate::wire::veth::{INTERFACE, Side, Wire};

/// Port of the servers.
pub(crate) const PORT: u16 = 8080;

/// A server that is to be started, wherever that is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ServerPlan {
    /// The program and its stack.
    pub(crate) target: Target,
    /// Socket options.
    pub(crate) tuning: Tuning,
    /// Workers, each on a core of its own.
    pub(crate) workers: usize,
    /// CPU time that a request costs the program, microseconds.
    pub(crate) work_us: u64,
}

impl ServerPlan {
    pub(crate) fn new(target: Target, options: &Options, tuning: Tuning) -> ServerPlan {
        ServerPlan { target, tuning, workers: options.workers(), work_us: options.work_us }
    }

    /// What stands between `ringway` and the role.
    pub(crate) fn launcher(&self) -> &'static [&'static str] {
        if self.target.has_service() { &["run", "--quiet", "--"] } else { &[] }
    }

    /// Completes the command line of [`role_on`] for a server at `address`, but for a stack of the server's own.
    pub(crate) fn finish(&self, command: &mut Command, address: SocketAddr) {
        // What was measured on this machine before does not decide what is measured now.
        command.env("RINGWAY_POLICY_BULK", if self.target == Target::PreloadBulk { "kernel" } else { "stack" });
        command.args(["server", "--listen", &address.to_string()]).args(self.tuning.arguments());
        if self.workers > 1 {
            command.args(["--cores", &list(&server_cores(self.workers))]);
        }
        if self.work_us > 0 {
            command.args(["--work-us", &self.work_us.to_string()]);
        }
        match self.target {
            Target::Service => drop(command.args(["--sockets", "channel"])),
            Target::LinuxSpin => drop(command.arg("--spin")),
            Target::LinuxUring => drop(command.args(["--sockets", "uring"])),
            Target::Mtcp => drop(command.args(["--sockets", "mtcp"])),
            Target::Fstack => drop(command.args(["--sockets", "fstack"])),
            _ => {}
        }
    }
}

/// A role's command line behind that of `taskset`, bound to `cores`.
pub(crate) fn role_on(mut taskset: Command, cores: &[usize], launcher: &[&str]) -> io::Result<Command> {
    let ringway = std::env::current_exe()?;
    taskset.args(["-c", &list(cores)]);
    if !launcher.is_empty() {
        taskset.arg(&ringway).args(launcher);
    }
    taskset.arg(&ringway).args(["bench", "role"]);
    Ok(taskset)
}

/// Placement of the roles: namespaces, cores, addresses.
pub(super) struct Layout<'a> {
    pub(super) kind: WireKind,
    pub(super) wire: Option<&'a Wire>,
    pub(super) server: ServerPlan,
    pub(super) client: ClientStack,
    pub(super) connections: u32,
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
    pub(super) fn served(&self) -> SocketAddr {
        let host = if self.kind == WireKind::Veth && self.server.target == Target::Embedded { 3 } else { 1 };
        SocketAddr::new(self.address(host).parse().expect("the wire's own addresses"), PORT)
    }

    /// A role's command line, bound to cores, in its namespace.
    fn role(&self, side: Side, cores: &[usize], launcher: &[&str]) -> io::Result<Command> {
        let taskset = self.wire.map_or_else(|| Command::new("taskset"), |wire| wire.command(side, "taskset"));
        role_on(taskset, cores, launcher)
    }

    pub(super) fn server_command(&self, stats: &Path) -> io::Result<Command> {
        let mut command = self.role(Side::Server, &server_cores(self.server.workers), self.server.launcher())?;
        self.server.finish(&mut command, self.served());
        if self.server.target == Target::Embedded {
            self.own_stack(&mut command, self.served().ip().to_string(), stats);
        }
        Ok(command)
    }

    pub(super) fn client_command(&self, stats: &Path) -> io::Result<Command> {
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
    pub(super) fn sources(&self) -> Vec<IpAddr> {
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

/// Host number of the first address of a client on Ringway, and connections per address.
const FIRST_CLIENT: u8 = 4;
const CONNECTIONS_PER_ADDRESS: u32 = 25_000;
/// The server's address on the memory wire.
const MEMORY_SERVER: &str = "10.79.0.1";
