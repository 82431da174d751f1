//! One user of the service cannot harm others: the attacker speaks the channel itself, as a user that may attach.
//!
//! The attacker is this test binary, run as user 65534 of group `nogroup` inside the namespace.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ringway_channel::attach::{AttachError, Purpose};
use ringway_channel::{Client, ControlAnswer, ControlResult, Operation, SlotRef};
use rustix::net::{AddressFamily, Shutdown, SocketType, bind, connect, getsockname, listen, shutdown, socket, sockopt};

use crate::harness::{DEADLINE, Net, Process, Server, text};

const TOKEN: [u8; 16] = [0x11; 16];
const NOBODY: [&str; 6] = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];

/// A service that serves members of `nogroup`. There are fewer slots than by default, since one attacker tries all of them.
fn service(net: &Net) -> (Process, String) {
    let config = net.file("ringway.toml", "[policy]\ngroup = \"nogroup\"\n[memory]\nslots = 65536\n");
    net.serve(Server, &["--config", &config])
}

/// A service under attack, and this binary where every user may run it.
struct Attacked<'a> {
    net: &'a Net,
    service: Process,
    socket: String,
    binary: PathBuf,
}

impl<'a> Attacked<'a> {
    fn new(net: &'a Net) -> Attacked<'a> {
        let (service, name) = service(net);
        let binary = std::env::temp_dir().join(format!("{name}.attacker"));
        std::fs::copy(std::env::current_exe().expect("it runs"), &binary).expect("room for a copy");
        let socket = text(&net.service_socket(Server, &name));
        Attacked { net, service, socket, binary }
    }

    /// Starts an attacker, with `before` in front of it.
    fn start(&self, what: &str, before: &[&str]) -> Process {
        let binary = self.binary.to_str().expect("a plain path");
        let address = self.net.address(Server);
        let run = [binary, "--exact", "isolation::attack", "--ignored", "--nocapture"];
        let environment = [("ATTACK", what), ("ATTACKED", self.socket.as_str()), ("ADDRESS", address.as_str())];
        self.net.spawn_with(Server, &[before, &run].concat(), &environment, None)
    }
}

impl Drop for Attacked<'_> {
    fn drop(&mut self) {
        std::fs::remove_file(&self.binary).expect("it was copied");
    }
}

/// Returns the findings of the attacker.
fn findings(process: Process) -> Vec<String> {
    let output = process.finish(DEADLINE).success().stdout;
    output.lines().filter_map(|line| line.split_once("> ").map(|(_, finding)| finding.to_owned())).collect()
}

#[test]
fn a_port_is_served_only_for_a_process_that_holds_it_in_the_kernel() {
    let net = Net::new();
    let attacked = Attacked::new(&net);
    let mut held = attacked.start("hold a connection", &[]);
    net.wait_printed(&mut held, "> holds");
    let found = findings(attacked.start("claims", &NOBODY));
    let expected = [
        "listen on 22 without a socket: NotOurs",
        "connect from 515 without a socket: NotOurs",
        "datagrams on 53 without a socket: NotOurs",
        "show a socket that does not listen: refused",
        "show a datagram socket to listen: refused",
        "listen on a port that was not shown: NotOurs",
        "listen with what was shown for another slot: NotOurs",
        "listen on a port beside root's connection: refused",
        "datagrams on a port that disconnect gives away: refused",
        "datagrams on a port that stays: Done",
        "listen on a port that was shown: Done",
        "after shutdown of the kernel's socket: over",
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_port_stays_taken_as_long_as_it_is_served() {
    let net = Net::new();
    let attacked = Attacked::new(&net);
    let mut squatter = attacked.start("squat", &NOBODY);
    net.wait_printed(&mut squatter, "> serves");
    let daemon = || findings(attacked.start("daemon", &[]));
    assert_eq!(daemon(), ["AddrInUse"], "its own socket is closed, the service's copy is not");
    squatter.signal(rustix::process::Signal::KILL);
    squatter.finish(DEADLINE);
    let start = Instant::now();
    while daemon() != ["bound"] {
        assert!(start.elapsed() < DEADLINE, "the port comes back");
    }
}

#[test]
fn a_token_is_no_right_and_another_network_is_not_served() {
    let net = Net::new();
    let attacked = Attacked::new(&net);
    let mut root = attacked.start("hold a group", &[]);
    net.wait_printed(&mut root, "> holds");
    let found = findings(attacked.start("join", &NOBODY));
    assert_eq!(found, ["refused: this application group belongs to user 0, not 65534, and is not your parents'"]);
    let found = findings(attacked.start("join", &["unshare", "-n"]));
    assert_eq!(found, ["refused: your process is in another network namespace"]);
}

#[test]
fn one_user_does_not_take_all_groups() {
    let net = Net::new();
    let attacked = Attacked::new(&net);
    let found = findings(attacked.start("groups", &NOBODY));
    assert_eq!(found, ["16 groups, then: user 65534 has 16 applications attached (limits.groups_per_user)"]);
    assert_eq!(findings(attacked.start("join", &[])), ["joined"], "others attach");
    let mut counted = String::new();
    crate::harness::wait_until("the refusal is counted", DEADLINE, || {
        counted = net.output(Server, &[crate::harness::RINGWAY, "nstat", "-asz"]);
        counted.lines().any(|line| line.contains("RingwayQuotaHits") && line.split_whitespace().nth(1) == Some("1"))
    });
}

#[test]
fn a_program_that_connects_on_every_slot_leaves_descriptors_to_others() {
    let net = Net::new();
    let attacked = Attacked::new(&net);
    let mut greedy = attacked.start("ports", &NOBODY);
    net.wait_printed(&mut greedy, "> has all");
    assert_eq!(findings(attacked.start("join", &[])), ["joined"]);
    let said = attacked.service.stderr().len();
    assert!(said < 64 << 10, "the service has written {said} bytes of log");
}

#[test]
#[ignore = "the attacker of the tests in this file"]
fn attack() {
    let service = PathBuf::from(std::env::var_os("ATTACKED").expect("set by the test"));
    let ip: Ipv4Addr = std::env::var("ADDRESS").expect("set by the test").parse().expect("an address");
    match std::env::var("ATTACK").expect("set by the test").as_str() {
        "claims" => claims(&Client::attach(&service, [0x22; 16], 0).expect("a member of the group"), ip),
        "squat" => squat(&Client::attach(&service, [0x22; 16], 0).expect("a member of the group"), ip),
        "daemon" => match TcpListener::bind((Ipv4Addr::UNSPECIFIED, 8080)) {
            Ok(_) => tell("bound"),
            Err(error) => tell(&format!("{:?}", error.kind())),
        },
        "ports" => {
            let client = Client::attach(&service, [0x22; 16], 0).expect("a member of the group");
            let [a, b, c, _] = ip.octets();
            let remote = SocketAddr::new(Ipv4Addr::new(a, b, c, 99).into(), 80);
            let (mut opened, mut refused) = (0, 0);
            while let Some(slot) = client.open_slot() {
                match ask(&client, slot, Operation::Connect { remote }) {
                    ControlAnswer::Done => opened += 1,
                    _ => refused += 1,
                }
            }
            tell(&format!("has all: {opened} opened, {refused} refused"));
            wait_for_the_end();
        }
        "groups" => {
            let mut groups = Vec::new();
            let refusal = loop {
                match Client::attach(&service, [groups.len() as u8; 16], 0) {
                    Ok(client) => groups.push(client),
                    Err(AttachError::Refused(text)) => break text,
                    Err(error) => panic!("{error}"),
                }
            };
            tell(&format!("{} groups, then: {refusal}", groups.len()));
        }
        "hold a group" => {
            let _client = Client::attach(&service, TOKEN, 0).expect("root may");
            tell("holds");
            wait_for_the_end();
        }
        "hold a connection" => {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("ports are left");
            let from = tcp(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 45_678));
            connect(&from, &listener.local_addr().expect("bound")).expect("it listens");
            tell("holds");
            wait_for_the_end();
        }
        "join" => match Client::attach(&service, TOKEN, 0) {
            Ok(_) => tell("joined"),
            Err(AttachError::Refused(text)) => tell(&format!("refused: {text}")),
            Err(error) => tell(&error.to_string()),
        },
        other => panic!("{other}"),
    }
}

fn claims(client: &Client, ip: Ipv4Addr) {
    let at = |port| SocketAddr::new(ip.into(), port);
    let slot = || client.open_slot().expect("slots are free");
    let listening = |slot, port| ask(client, slot, Operation::Listen { local: at(port), backlog: 16, dual_stack: false });
    let datagrams = |slot, port| ask(client, slot, Operation::Datagram { local: at(port), dual_stack: false });
    tell(&format!("listen on 22 without a socket: {:?}", listening(slot(), 22)));
    let from = slot();
    client.set_bound(from, at(515));
    let remote = SocketAddr::new(Ipv4Addr::from(u32::from(ip) ^ 3).into(), 9);
    tell(&format!("connect from 515 without a socket: {:?}", ask(client, from, Operation::Connect { remote })));
    tell(&format!("datagrams on 53 without a socket: {:?}", datagrams(slot(), 53)));
    tell(&format!("show a socket that does not listen: {}", show(client, slot(), Purpose::Listen, &tcp(at(8081)))));
    let udp = UdpSocket::bind(at(8082)).expect("free");
    tell(&format!("show a datagram socket to listen: {}", show(client, slot(), Purpose::Listen, &udp.into())));
    let shown: OwnedFd = TcpListener::bind(at(8083)).expect("free").into();
    let (first, second) = (slot(), slot());
    show(client, first, Purpose::Listen, &shown);
    tell(&format!("listen on a port that was not shown: {:?}", listening(first, 8084)));
    show(client, first, Purpose::Listen, &shown);
    tell(&format!("listen with what was shown for another slot: {:?}", listening(second, 8083)));
    let beside = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 45_678)).expect("the kernel allows it beside a connection");
    tell(&format!("listen on a port beside root's connection: {}", show(client, slot(), Purpose::Listen, &beside.into())));
    let loose = UdpSocket::bind(at(0)).expect("ports are left");
    let given_away = show(client, slot(), Purpose::Datagrams, &loose.into());
    tell(&format!("datagrams on a port that disconnect gives away: {given_away}"));
    let (fixed, place) = (UdpSocket::bind(at(8085)).expect("free"), slot());
    show(client, place, Purpose::Datagrams, &fixed.into());
    tell(&format!("datagrams on a port that stays: {:?}", datagrams(place, 8085)));
    // A port that the kernel has chosen: it goes with the state LISTEN.
    let listener = socket(AddressFamily::INET, SocketType::STREAM, None).expect("descriptors are left");
    bind(&listener, &at(0)).expect("ports are left");
    listen(&listener, 16).expect("bound");
    let port = SocketAddr::try_from(getsockname(&listener).expect("bound")).expect("of this family").port();
    let place = slot();
    show(client, place, Purpose::Listen, &listener);
    tell(&format!("listen on a port that was shown: {:?}", listening(place, port)));
    shutdown(&listener, Shutdown::Both).expect("it listens");
    let start = Instant::now();
    while client.is_current(place) && start.elapsed() < DEADLINE {
        std::thread::yield_now();
    }
    tell(&format!("after shutdown of the kernel's socket: {}", if client.is_current(place) { "served" } else { "over" }));
}

fn squat(client: &Client, ip: Ipv4Addr) {
    let local = SocketAddr::new(ip.into(), 8080);
    let listener: OwnedFd = TcpListener::bind(local).expect("free").into();
    let slot = client.open_slot().expect("slots are free");
    assert_eq!(show(client, slot, Purpose::Listen, &listener), "shown");
    drop(listener);
    let answer = ask(client, slot, Operation::Listen { local, backlog: 16, dual_stack: false });
    assert_eq!(answer, ControlAnswer::Done);
    tell("serves");
    wait_for_the_end();
}

fn tcp(local: SocketAddr) -> OwnedFd {
    let made = socket(AddressFamily::INET, SocketType::STREAM, None).expect("descriptors are left");
    sockopt::set_socket_reuseaddr(&made, true).expect("a plain flag");
    bind(&made, &local).expect("free");
    made
}

fn show(client: &Client, slot: SlotRef, purpose: Purpose, socket: &OwnedFd) -> &'static str {
    match client.show(slot, purpose, socket.as_raw_fd()) {
        Ok(()) => "shown",
        Err(AttachError::Refused(_)) => "refused",
        Err(error) => panic!("{error}"),
    }
}

fn ask(client: &Client, slot: SlotRef, operation: Operation) -> ControlAnswer {
    let ticket = client.control(slot, operation).expect("nobody else asks");
    let start = Instant::now();
    loop {
        match client.completed(ticket, &mut []) {
            Some(ControlResult::Answer(answer)) => return answer,
            Some(ControlResult::Bytes(_)) => panic!("no bytes were asked for"),
            None => assert!(start.elapsed() < Duration::from_secs(20), "the worker answers"),
        }
        std::thread::yield_now();
    }
}

fn tell(finding: &str) {
    println!("> {finding}");
    std::io::stdout().flush().expect("the test reads it");
}

/// The test ends it.
fn wait_for_the_end() {
    let (mut end, _other) = std::os::unix::net::UnixStream::pair().expect("descriptors are left");
    end.set_read_timeout(Some(DEADLINE)).expect("a plain option");
    end.read(&mut [0]).unwrap_or_default();
}
