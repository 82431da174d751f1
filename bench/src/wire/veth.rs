//! Two network namespaces joined by a veth pair, and a folder: the wire of `ringway demo` and of the system tests.
//!
//! Promises: names are unique to this process and wire; dropping the wire, a panic and a signal (after
//! [`remove_on_signal`]) end every process inside the namespaces and remove these and the folder. Does not
//! do: change anything else.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// An end of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Addresses `.1` and `::1`.
    Server,
    /// Addresses `.2` and `::2`.
    Client,
}

/// The interface's name on both sides.
pub const INTERFACE: &str = "veth1";

/// Two namespaces and the link between them.
#[derive(Debug)]
pub struct Wire {
    prefix: String,
    subnet: u8,
    folder: PathBuf,
}

/// Prefixes of this process's existing wires, for the signal handler.
static LIVE: Mutex<Vec<String>> = Mutex::new(Vec::new());
static NEXT: AtomicU32 = AtomicU32::new(0);

impl Wire {
    /// Creates the namespaces, joins them and gives each an address.
    ///
    /// # Errors
    /// A step failed (not root, no `ip` program); the finished steps are undone.
    pub fn new() -> io::Result<Wire> {
        Wire::joined_by(Wire::veth).map(|(wire, ())| wire)
    }

    /// Creates a wire with other interfaces: `join` creates one named [`INTERFACE`] in each namespace.
    ///
    /// # Errors
    /// Those of `new` and of `join`.
    pub fn joined_by<T>(join: impl FnOnce(&Wire) -> io::Result<T>) -> io::Result<(Wire, T)> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("rw-{}-{number}", std::process::id());
        let subnet = u8::try_from(number % 250).expect("below 250") + 1;
        // Hold the lock until the wire is complete, so that a signal finds either nothing or all of it.
        let mut live = live();
        live.push(prefix.clone());
        let folder = folder(&prefix);
        let wire = Wire { prefix, subnet, folder };
        let made = wire.make(join);
        drop(live);
        made.map(|joined| (wire, joined))
    }

    fn veth(&self) -> io::Result<()> {
        let (server, client) = (self.namespace(Side::Server), self.namespace(Side::Client));
        ip(&["link", "add", INTERFACE, "netns", &server, "type", "veth", "peer", "name", INTERFACE, "netns", &client])
    }

    /// Changes the MTU of both ends.
    ///
    /// # Errors
    /// The interface does not support the MTU.
    pub fn set_mtu(&self, mtu: u16) -> io::Result<()> {
        self.set_link(&["mtu", &mtu.to_string()])
    }

    /// Forbids packets of several segments between the ends.
    ///
    /// # Errors
    /// The interface does not support the limit.
    pub fn forbid_super_segments(&self) -> io::Result<()> {
        self.set_link(&["gso_max_segs", "1"])
    }

    fn set_link(&self, what: &[&str]) -> io::Result<()> {
        let set = |side| ip(&[&["-n", &self.namespace(side), "link", "set", INTERFACE][..], what].concat());
        set(Side::Server).and_then(|()| set(Side::Client))
    }

    /// Renames `interface` of the server's namespace to [`INTERFACE`] and moves it to the namespace of `side`.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn adopt(&self, interface: &str, side: Side) -> io::Result<()> {
        let (server, owner) = (self.namespace(Side::Server), self.namespace(side));
        let moved: &[&str] = if side == Side::Client { &["netns", &owner] } else { &[] };
        ip(&[&["-n", &server, "link", "set", interface, "name", INTERFACE][..], moved].concat())?;
        ip(&["-n", &owner, "link", "set", INTERFACE, "txqueuelen", QUEUE_LENGTH])
    }

    fn make<T>(&self, join: impl FnOnce(&Wire) -> io::Result<T>) -> io::Result<T> {
        fs::create_dir(&self.folder)?;
        // Programs that drop root (nginx's workers, sshd's children) read from it.
        fs::set_permissions(&self.folder, fs::Permissions::from_mode(0o755))?;
        ip(&["netns", "add", &self.namespace(Side::Server)])?;
        ip(&["netns", "add", &self.namespace(Side::Client)])?;
        let joined = join(self)?;
        for side in [Side::Server, Side::Client] {
            let namespace = self.namespace(side);
            ip(&["-n", &namespace, "link", "set", "lo", "up"])?;
            ip(&["-n", &namespace, "address", "add", &format!("{}/24", self.address(side)), "dev", INTERFACE])?;
            let address6 = format!("{}/64", self.address6(side));
            ip(&["-n", &namespace, "address", "add", &address6, "dev", INTERFACE, "nodad"])?;
            // There is no router; solicitations, sent seconds later, would wake idle processes.
            let solicitations = format!("/proc/sys/net/ipv6/conf/{INTERFACE}/router_solicitations");
            ip(&["netns", "exec", &namespace, "sh", "-c", &format!("echo 0 >{solicitations}")])?;
            ip(&["-n", &namespace, "link", "set", INTERFACE, "up"])?;
            // The kernel's default differs between machines. Set it per route, as a namespace may not set its own default.
            self.route(side, &["congctl", "cubic"])?;
        }
        Ok(joined)
    }

    /// Changes the routes to the other side, with the arguments `more`.
    fn route(&self, side: Side, more: &[&str]) -> io::Result<()> {
        let (namespace, address) = (self.namespace(side), self.address(side));
        let (subnet, subnet6) = (format!("10.77.{}.0/24", self.subnet), format!("fd77:{:x}::/64", self.subnet));
        let change = ["route", "change", &subnet, "dev", INTERFACE, "proto", "kernel", "scope", "link", "src", &address];
        ip(&[&["-n", &namespace][..], &change, more].concat())?;
        let change6 = ["-6", "route", "change", &subnet6, "dev", INTERFACE, "proto", "kernel", "metric", "256"];
        ip(&[&["-n", &namespace][..], &change6, more].concat())
    }

    /// Removes the routes' congestion control, which would override the sockets' TCP_CONGESTION.
    ///
    /// # Errors
    /// The routes cannot be changed.
    pub fn free_congestion_control(&self) -> io::Result<()> {
        self.route(Side::Server, &[])?;
        self.route(Side::Client, &[])
    }

    /// A folder of this wire, readable by all users.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The namespace's name.
    pub fn namespace(&self, side: Side) -> String {
        namespace(&self.prefix, side)
    }

    /// The IPv4 address.
    pub fn address(&self, side: Side) -> String {
        let host = if side == Side::Server { 1 } else { 2 };
        format!("10.77.{}.{host}", self.subnet)
    }

    /// The IPv6 address.
    pub fn address6(&self, side: Side) -> String {
        format!("fd77:{:x}::{}", self.subnet, if side == Side::Server { 1 } else { 2 })
    }

    /// A command that runs inside the namespace, in its own process group.
    pub fn command(&self, side: Side, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(side), program]).process_group(0);
        command
    }

    /// Process ids inside the namespace.
    pub fn processes(&self, side: Side) -> Vec<i32> {
        processes(&self.namespace(side)).into_iter().map(Pid::as_raw_pid).collect()
    }

    /// Reads one of the kernel's counters in `/proc/net/snmp`, such as `Tcp` and `InSegs`.
    ///
    /// # Errors
    /// The namespace or the counter does not exist.
    pub fn kernel_counter(&self, side: Side, protocol: &str, counter: &str) -> io::Result<u64> {
        let output = self.command(side, "cat").arg("/proc/net/snmp").stdin(Stdio::null()).output()?;
        counter_in(&String::from_utf8_lossy(&output.stdout), protocol, counter)
    }

    /// Packets that the interfaces of a side have dropped.
    ///
    /// # Errors
    /// The namespace does not exist.
    pub fn kernel_drops(&self, side: Side) -> io::Result<u64> {
        let output = self.command(side, "cat").arg("/proc/net/dev").stdin(Stdio::null()).output()?;
        Ok(drops_in(&String::from_utf8_lossy(&output.stdout)))
    }
}

/// The dropped packets of all interfaces in the text of a `/proc/net/dev`, in both directions.
pub(crate) fn drops_in(text: &str) -> u64 {
    let interfaces = text.lines().filter_map(|line| line.split_once(':'));
    let drops = interfaces.map(|(_, counters)| {
        let counters: Vec<u64> = counters.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        counters.get(3).unwrap_or(&0) + counters.get(11).unwrap_or(&0)
    });
    drops.sum()
}

/// Finds a counter in the text of a `/proc/net/snmp`.
///
/// # Errors
/// It is not there.
pub fn counter_in(text: &str, protocol: &str, counter: &str) -> io::Result<u64> {
    let mut rows = text.lines().filter(|line| line.split(':').next() == Some(protocol));
    let (names, values) = (rows.next().unwrap_or_default(), rows.next().unwrap_or_default());
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    let value = pairs.find(|(name, _)| *name == counter).and_then(|(_, value)| value.parse().ok());
    value.ok_or_else(|| io::Error::other(format!("no counter {protocol} {counter}")))
}

impl Drop for Wire {
    fn drop(&mut self) {
        let mut live = live();
        remove(&self.prefix);
        live.retain(|prefix| *prefix != self.prefix);
    }
}

/// Makes SIGINT, SIGTERM and SIGHUP remove every wire and end this process with status 128 + signal.
///
/// # Errors
/// The signal handlers cannot be installed.
pub fn remove_on_signal() -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let watch = move || {
        if let Some(signal) = signals.forever().next() {
            // Hold the lock to the end: a thread that drops a wire waits for it and cannot choose the exit status.
            let live = live();
            live.iter().for_each(|prefix| remove(prefix));
            std::process::exit(128 + signal);
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(watch).map(drop)
}

fn live() -> MutexGuard<'static, Vec<String>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn namespace(prefix: &str, side: Side) -> String {
    format!("{prefix}-{}", if side == Side::Server { "a" } else { "b" })
}

fn folder(prefix: &str) -> PathBuf {
    std::env::temp_dir().join(prefix)
}

/// Ends the processes inside, removes both namespaces and the folder; it is no error when they do not exist.
fn remove(prefix: &str) {
    for side in [Side::Client, Side::Server] {
        let namespace = namespace(prefix, side);
        if !Path::new("/run/netns").join(&namespace).exists() {
            continue;
        }
        end_processes(&namespace);
        for arguments in [&["-n", &namespace, "link", "delete", INTERFACE][..], &["netns", "delete", &namespace]] {
            // Deleting one end of the veth pair deletes the other.
            if let Err(error) = ip(arguments)
                && arguments[0] == "netns"
            {
                eprintln!("ringway: {error}");
            }
        }
    }
    if let Err(error) = fs::remove_dir_all(folder(prefix))
        && error.kind() != io::ErrorKind::NotFound
    {
        eprintln!("ringway: {}: {error}", folder(prefix).display());
    }
}

/// Sends SIGTERM, after `PATIENCE` SIGKILL, to all processes in this namespace.
fn end_processes(namespace: &str) {
    let start = Instant::now();
    loop {
        let inside = processes(namespace);
        let waited = start.elapsed();
        if inside.is_empty() || waited > GIVE_UP {
            return;
        }
        let signal = if waited < PATIENCE { Signal::TERM } else { Signal::KILL };
        for pid in inside {
            // A process that has ended needs no signal.
            kill_process(pid, signal).unwrap_or_default();
            // A stopped process handles SIGTERM only after SIGCONT.
            kill_process(pid, Signal::CONT).unwrap_or_default();
        }
        sleep(Duration::from_millis(20));
    }
}

/// Process ids inside the namespace.
fn processes(namespace: &str) -> Vec<Pid> {
    let output = ip_command(&["netns", "pids", namespace]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok().and_then(Pid::from_raw)).collect()
}

fn ip_command(arguments: &[&str]) -> Command {
    let mut command = Command::new("ip");
    // Its own process group: Ctrl-C must not end the `ip` that cleans up.
    command.args(arguments).stdin(Stdio::null()).process_group(0);
    command
}

/// Runs `ip`; its stderr becomes the error.
fn ip(arguments: &[&str]) -> io::Result<()> {
    let output = ip_command(arguments)
        .output()
        .map_err(|error| io::Error::new(error.kind(), format!("cannot run the program ip: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr).trim().to_string();
    Err(io::Error::other(format!("ip {}: {words}", arguments.join(" "))))
}

/// Queue length of an adopted interface, in packets.
const QUEUE_LENGTH: &str = "10000";
/// Time for a process to end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time after which even SIGKILL is considered to have failed.
const GIVE_UP: Duration = Duration::from_secs(6);

#[cfg(test)]
mod tests {
    use super::drops_in;

    #[test]
    fn drops_of_both_directions_of_all_interfaces_count() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop\n\
                    lo: 1 2 0 3 0 0 0 0 1 2 0 0 0 0 0 0\n  rw0:1 2 0 40 0 0 0 0 1 2 0 500 0 0 0 0\n";
        assert_eq!(drops_in(text), 543);
    }
}
