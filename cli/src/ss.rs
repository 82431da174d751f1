//! `ringway ss`: the sockets that Ringway serves, in the format of ss(8).
//!
//! Reads shared memory only, so it works while a worker is busy or out of buffers. Of the kernel's sockets it shows
//! listeners that the kernel serves and what a group was refused lately, with the reason (`path:kernel`), and interfaces that its rules
//! leave to it; ss(8) shows all.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use ringway_engine::clock;
use ringway_service::Kept;
use ringway_shm::Instant;
use ringway_shm::stats::{Endpoint, SocketRecord};
use serde_json::json;

use crate::services::{self, Service};
use holders::Holder;

mod detail;
mod events;
mod expression;
mod filter;
mod holders;
mod kill;
mod quota;
mod table;

pub(crate) use detail::{info_words, is_connection, is_counted, milliseconds, time_left, timer_name};
pub(crate) use filter::Filter;
pub(crate) use holders::processes;

/// Arguments of `ringway ss`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Show TCP sockets
    #[arg(short, long)]
    tcp: bool,
    /// Show UDP sockets
    #[arg(short, long)]
    udp: bool,
    /// Show only listening sockets
    #[arg(short, long)]
    listening: bool,
    /// Show ports as numbers
    #[arg(short, long)]
    numeric: bool,
    /// Show listening and connected sockets
    #[arg(short, long)]
    all: bool,
    /// Show the processes that have the socket, and their descriptors
    #[arg(short, long)]
    processes: bool,
    /// Show timers
    #[arg(short, long)]
    options: bool,
    /// Show TCP's internal values
    #[arg(short, long)]
    info: bool,
    /// Show the socket's memory
    #[arg(short, long)]
    memory: bool,
    /// Show user, slot and service
    #[arg(short, long)]
    extended: bool,
    /// Show only totals, and the quota use of users and application groups
    #[arg(short, long)]
    summary: bool,
    /// Show only IPv4
    #[arg(short = '4', long)]
    ipv4: bool,
    /// Show only IPv6
    #[arg(short = '6', long)]
    ipv6: bool,
    /// Reset the connections that the filter names, and show them; for root and the service's user
    #[arg(short = 'K', long, conflicts_with = "summary")]
    kill: bool,
    /// Show sockets as they end, until a signal; for root and the service's user
    #[arg(short = 'E', long, conflicts_with_all = ["kill", "summary"])]
    events: bool,
    /// Do not print the header
    #[arg(short = 'H', long)]
    no_header: bool,
    /// Print one line per socket
    #[arg(short = 'O', long)]
    oneline: bool,
    /// Print JSON
    #[arg(short, long)]
    json: bool,
    #[command(flatten)]
    services: services::Choice,
    /// Filter as in ss(8): `state STATE`, `exclude STATE`, `sport = :PORT`, `dport >= :PORT`, `src 10.0.0.0/8`, `dst ADDRESS:PORT`, joined by
    /// `and`, `or`, `not` and parentheses
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
}

/// Prints the sockets.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    crate::output::end("ss", show(arguments))
}

fn show(arguments: &Arguments) -> io::Result<()> {
    let filter = Filter::new(arguments).map_err(io::Error::other)?;
    if arguments.events {
        return events::follow(arguments, &filter);
    }
    let services = arguments.services.find()?;
    let sockets: Vec<Shown<'_>> = sockets(&services).into_iter().map(|(_, shown)| shown).collect();
    let kept: Vec<Kept> = services.iter().flat_map(Service::kept).collect();
    let mut out = io::stdout().lock();
    let unlisted = Unlisted::of(&services);
    if arguments.summary {
        let told: Vec<quota::Told> = services.iter().map(quota::Told::by).collect();
        let totals = Totals::of(&sockets, &unlisted);
        if arguments.json {
            return writeln!(out, "{}", json!({ "totals": totals.json(), "quotas": quota::json(&told) }));
        }
        totals.print(&mut out)?;
        return quota::text(&mut out, &told);
    }
    let mut sockets: Vec<Shown<'_>> = match arguments.kill {
        true => kill::kill(&services, &filter)?,
        false => sockets.into_iter().filter(|shown| filter.wants(&shown.socket)).collect(),
    };
    sockets.sort_by_key(|shown| (shown.socket.state != LISTEN, shown.socket.local.port, shown.socket.remote.port));
    if arguments.processes || arguments.json {
        holders::find(&mut sockets);
    }
    if arguments.json {
        let all: Vec<_> = sockets.iter().map(|shown| detail::json(shown)).collect();
        let unlisted = json!({ "timewait": unlisted.time_wait, "others": unlisted.others });
        let interfaces: Vec<_> = kept.iter().map(detail::kept_json).collect();
        return writeln!(out, "{}", json!({ "sockets": all, "unlisted": unlisted, "interfaces": interfaces }));
    }
    table::Table::new().print(&mut out, arguments, &sockets, &Names::new(arguments.numeric))?;
    for interface in kept.iter().filter(|_| arguments.filter.is_empty()) {
        writeln!(out, "{}", detail::kept_row(interface))?;
    }
    if unlisted.time_wait + unlisted.others > 0 {
        let Unlisted { time_wait, others } = unlisted;
        eprintln!("ringway ss: not listed: {time_wait} more sockets in TIME-WAIT and {others} more orphans");
    }
    Ok(())
}

/// Numbers of orphans that the service counts but does not list.
#[derive(Debug, Default)]
struct Unlisted {
    time_wait: u64,
    others: u64,
}

impl Unlisted {
    fn of(services: &[Service]) -> Unlisted {
        let mut unlisted = Unlisted::default();
        for (name, value) in services.iter().flat_map(|service| service.stats.counters()) {
            match name.as_str() {
                "RingwayUnlistedTimeWait" => unlisted.time_wait += value,
                "RingwayUnlistedOthers" => unlisted.others += value,
                _ => {}
            }
        }
        unlisted
    }
}

/// Linux's number of the LISTEN state, as in the socket record.
pub(crate) const LISTEN: u8 = 10;

/// A socket with its service and interface.
#[derive(Debug)]
struct Shown<'a> {
    socket: SocketRecord,
    /// The processes that have it, once they are looked for.
    holders: Vec<Holder>,
    /// The service's label.
    service: &'a str,
    interface: String,
    /// The time of this listing.
    now: Instant,
}

/// The sockets of these services, with the worker of each.
fn sockets(services: &[Service]) -> Vec<(&Service, Shown<'_>)> {
    let mut names: HashMap<(&str, u32), HashMap<u32, String>> = HashMap::new();
    for service in services {
        let interfaces = service.stats.interfaces().into_iter().map(|(number, interface)| (number, interface.name));
        names.insert((&service.label, service.worker), interfaces.collect());
    }
    let (now, mut all) = (clock::now(), Vec::new());
    for (service, socket) in services::sockets::joined(services, Service::sockets) {
        let interfaces = &names[&(service.label.as_str(), service.worker)];
        let interface = interfaces.get(&socket.interface).cloned().unwrap_or_else(|| "-".to_string());
        all.push((service, Shown { socket, holders: Vec::new(), service: &service.label, interface, now }));
    }
    all
}

/// ss's name of a state.
pub(crate) fn state_name(state: u8) -> &'static str {
    STATES.iter().find(|(number, _, _)| *number == state).map_or("UNKNOWN", |(_, name, _)| name)
}

/// Linux's number, the name in ss's table, the name in ss's filters.
const STATES: &[(u8, &str, &str)] = &[
    (1, "ESTAB", "established"),
    (2, "SYN-SENT", "syn-sent"),
    (3, "SYN-RECV", "syn-recv"),
    (4, "FIN-WAIT-1", "fin-wait-1"),
    (5, "FIN-WAIT-2", "fin-wait-2"),
    (6, "TIME-WAIT", "time-wait"),
    (7, "UNCONN", "closed"),
    (8, "CLOSE-WAIT", "close-wait"),
    (9, "LAST-ACK", "last-ack"),
    (10, "LISTEN", "listening"),
    (11, "CLOSING", "closing"),
];

/// Numbers of sockets.
struct Totals {
    tcp: u64,
    established: u64,
    listening: u64,
    orphaned: u64,
    time_wait: u64,
    udp: u64,
}

impl Totals {
    fn of(sockets: &[Shown<'_>], unlisted: &Unlisted) -> Totals {
        let ours: Vec<&Shown<'_>> = sockets.iter().filter(|shown| shown.socket.kernel.is_none()).collect();
        let streams: Vec<&Shown<'_>> = ours.iter().copied().filter(|shown| !shown.socket.datagrams).collect();
        let count = |state: u8| streams.iter().filter(|shown| shown.socket.state == state).count() as u64;
        // As in ss: sockets in TIME-WAIT are counted apart, although no program owns them either.
        let is_orphan = |shown: &&&Shown<'_>| shown.socket.pid == 0 && shown.socket.state != 6;
        Totals {
            tcp: streams.len() as u64 + unlisted.time_wait + unlisted.others,
            established: count(1),
            listening: count(LISTEN),
            orphaned: streams.iter().filter(is_orphan).count() as u64 + unlisted.others,
            time_wait: count(6) + unlisted.time_wait,
            udp: (ours.len() - streams.len()) as u64,
        }
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let Totals { tcp, established, listening, orphaned, time_wait, udp } = self;
        writeln!(out, "TCP:   {tcp} (estab {established}, listening {listening}, orphaned {orphaned}, timewait {time_wait})")?;
        writeln!(out, "UDP:   {udp}")
    }

    fn json(&self) -> serde_json::Value {
        let Totals { tcp, established, listening, orphaned, time_wait, udp } = self;
        let states = json!({ "estab": established, "listening": listening, "orphaned": orphaned, "timewait": time_wait });
        json!({ "tcp": tcp, "states": states, "udp": udp })
    }
}

/// Names of ports from `/etc/services`.
#[derive(Debug)]
struct Names(HashMap<u16, String>);

impl Names {
    fn new(numeric: bool) -> Names {
        let text = if numeric { String::new() } else { fs::read_to_string("/etc/services").unwrap_or_default() };
        let mut names = HashMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            let (Some(name), Some(port)) = (words.next(), words.next()) else { continue };
            if let Some(port) = port.strip_suffix("/tcp").and_then(|port| port.parse().ok()) {
                names.entry(port).or_insert_with(|| name.to_string());
            }
        }
        Names(names)
    }

    fn port(&self, port: u16) -> String {
        match port {
            0 => "*".to_string(),
            port => self.0.get(&port).cloned().unwrap_or_else(|| port.to_string()),
        }
    }
}

/// A socket in a line: state and both ends.
pub(crate) fn describe(socket: &SocketRecord) -> String {
    format!("{} {}", state_name(socket.state), ends(socket).join(" "))
}

/// A socket's local and remote end, with the ports as numbers.
pub(crate) fn ends(socket: &SocketRecord) -> [String; 2] {
    let end = |address: String, port: u16| format!("{address}:{}", if port == 0 { "*".to_owned() } else { port.to_string() });
    [end(local_address(socket), socket.local.port), end(peer_address(socket), socket.remote.port)]
}

/// Returns true for a listener or UDP socket on the IPv6 wildcard that also accepts IPv4 peers.
fn serves_both_families(socket: &SocketRecord) -> bool {
    (socket.state == LISTEN || socket.datagrams)
        && socket.local.ip.is_unspecified()
        && socket.local.ip.is_ipv6()
        && socket.remote.ip.is_ipv4()
}

/// The local address as ss writes it: `*` when the socket serves both families.
fn local_address(socket: &SocketRecord) -> String {
    if serves_both_families(socket) { "*".to_string() } else { address(&socket.local) }
}

/// The peer's address as ss writes it: `*` when the socket serves both families.
fn peer_address(socket: &SocketRecord) -> String {
    if serves_both_families(socket) { "*".to_string() } else { address(&socket.remote) }
}

/// An address as ss writes it: IPv6 in brackets.
fn address(endpoint: &Endpoint) -> String {
    if endpoint.ip.is_ipv6() { format!("[{}]", endpoint.ip) } else { endpoint.ip.to_string() }
}

#[cfg(test)]
pub(crate) mod tests;
