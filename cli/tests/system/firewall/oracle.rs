//! The judge of rules against the kernel: random rules, and which packets get through.
//!
//! The kernel must let through all that the service would serve, and refuse all that the service says to be refused.

use std::cell::Cell;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use ringway_engine::Transport;
use ringway_service::firewall::{Beginning, Flow, Judgment, Link, LocalPort, Ruleset};
use rustix::net::{AddressFamily, SocketType, connect, netdevice, socket};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::harness::*;

const RULESETS: usize = 40;
const TCP_PORTS: [u16; 4] = [80, 81, 443, 5432];
const UDP_PORTS: [u16; 2] = [53, 5353];
/// Above those that rules name as a peer's.
const FIRST_PORT: u16 = 2_000;
/// The time for which a refused peer is watched for a packet that comes through after all.
const GRACE: Duration = Duration::from_millis(30);

/// A linear congruential generator: the same rules every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }
}

const OF_ALL: &[&str] = &[
    "ct state established,related",
    "ct state established,related",
    "ct state new",
    "ct state invalid",
    "ct direction original",
    "iifname \"lo\"",
    "iifname != \"lo\"",
    "iifname \"LINK\"",
    "oifname \"LINK\"",
    "iif != lo",
    "meta nfproto ipv4",
    "meta l4proto { tcp, icmp }",
    "ip saddr CLIENT",
    "ip saddr != CLIENT",
    "ip saddr 10.0.0.0/8",
    "ip daddr SERVER",
    "ip daddr 192.168.0.0/16",
    "ip saddr @peers",
    "ip saddr != @peers",
    "fib daddr type local",
];
const OF_TCP: &[&str] = &[
    "tcp dport 80",
    "tcp dport != 80",
    "tcp dport { 80, 443 }",
    "tcp dport 80-90",
    "tcp dport { 22, 80-81, 5000-6000 }",
    "tcp dport @ports",
    "tcp dport != @ports",
    "tcp sport > 1023",
    "tcp sport { 80, 443 }",
    "tcp flags & (fin|syn|rst|ack) == syn",
    "tcp flags & (fin|syn|rst|ack) != syn",
    "ip saddr . tcp dport { CLIENT . 80, 10.1.1.1 . 81 }",
    "ip saddr . tcp dport { 10.0.0.0/8 . 80-443 }",
    "ip protocol tcp",
];
const OF_UDP: &[&str] = &["udp dport 53", "udp dport { 53, 123 }", "udp dport > 5000", "udp sport 53", "meta l4proto udp"];
const ENDS: &[&str] =
    &["accept", "accept", "accept", "drop", "reject", "counter accept", "jump web", "goto web", "return", "counter"];
const MAPS: &[&str] = &[
    "ct state vmap { established : accept, related : accept, invalid : drop }",
    "tcp dport vmap { 80 : accept, 81 : drop, 443 : jump web }",
    "tcp dport vmap { 80-100 : jump web, 5000-6000 : drop }",
    "limit rate 100/second accept",
];

/// A rule; `ends`: what it may do at its end.
fn rule(dice: &mut Dice, ends: &[&str]) -> String {
    if dice.below(8) == 0 {
        let map = dice.pick(MAPS);
        if ends.len() == ENDS.len() || !map.contains("web") {
            return map.to_owned();
        }
    }
    let of_transport = if dice.below(3) == 0 { OF_UDP } else { OF_TCP };
    let mut words = Vec::new();
    if dice.below(2) == 0 {
        words.push(dice.pick(OF_ALL));
    }
    if dice.below(3) > 0 {
        words.push(dice.pick(of_transport));
    }
    words.push(dice.pick(ends));
    words.join(" ")
}

fn ruleset(dice: &mut Dice) -> String {
    let mut text = String::from("flush ruleset\ntable inet filter {\n");
    text += "set ports { type inet_service; flags interval; elements = { 80, 443-450 } }\n";
    text +=
        &format!("set peers {{ type ipv4_addr; {} }}\n", dice.pick(&["", "elements = { CLIENT }", "elements = { 10.1.1.1 }"]));
    text += "chain web {\n";
    for _ in 0..dice.below(3) {
        text += &format!("{}\n", rule(dice, &["accept", "drop", "return", "counter"]));
    }
    text += "}\n";
    let chains = [("input", "input priority 0", 5), ("output", "output priority 0", 2), ("raw", "prerouting priority -300", 1)];
    for (name, hook, rules) in chains {
        if name != "input" && dice.below(3) > 0 {
            continue;
        }
        let policy = if name == "input" { dice.pick(&["drop", "drop", "accept"]) } else { "accept" };
        text += &format!("chain {name} {{ type filter hook {hook}; policy {policy};\n");
        if name == "input" && dice.below(2) == 0 {
            text += "ct state established,related accept\n";
        }
        for _ in 0..dice.below(rules + 1) {
            text += &format!("{}\n", rule(dice, ENDS));
        }
        text += "}\n";
    }
    text + "}\n"
}

/// The world as one thread sees it that goes from one namespace to the other.
struct World<'a> {
    net: &'a Net,
    server: IpAddr,
    client: IpAddr,
    listeners: Vec<TcpListener>,
    datagrams: Vec<UdpSocket>,
    link: u32,
    /// The client's next port. None is used twice: conntrack would take a flow for an earlier one, which is established.
    next_port: Cell<u16>,
}

impl World<'_> {
    fn enter(net: &Net, side: Side) {
        let file = std::fs::File::open(format!("/run/netns/{}", net.namespace(side))).expect("the test has made it");
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("root may enter it");
    }

    fn new(net: &Net) -> World<'_> {
        let address = |side| net.address(side).parse().expect("an address");
        World::enter(net, Server);
        let listen = |port: &u16| {
            let listener = TcpListener::bind(("0.0.0.0", *port)).expect("the port is free");
            listener.set_nonblocking(true).expect("it is a socket");
            listener
        };
        let bind = |port: &u16| {
            let socket = UdpSocket::bind(("0.0.0.0", *port)).expect("the port is free");
            socket.set_nonblocking(true).expect("it is a socket");
            socket
        };
        let datagrams: Vec<_> = UDP_PORTS.iter().map(bind).collect();
        let link = netdevice::name_to_index(&datagrams[0], INTERFACE).expect("the wire is there");
        let listeners = TCP_PORTS.iter().map(listen).collect();
        World {
            net,
            server: address(Server),
            client: address(Client),
            listeners,
            datagrams,
            link,
            next_port: Cell::new(FIRST_PORT),
        }
    }

    fn judge(&self, rules: &Ruleset, transport: Transport, port: u16, peer: Option<SocketAddr>) -> Judgment {
        let flow = Flow {
            transport,
            beginning: Beginning::Theirs,
            is_ipv4: true,
            ip: Some(self.server),
            port: LocalPort::Is(port),
            peer: peer.map(|peer| peer.ip()),
            peer_port: peer.map(|peer| peer.port()),
        };
        rules.judge(Link { index: self.link, name: INTERFACE }, flow)
    }

    fn fresh_end(&self) -> SocketAddr {
        let port = self.next_port.get();
        self.next_port.set(port.checked_add(1).expect("fewer questions than ports"));
        SocketAddr::new(self.client, port)
    }

    /// A connection of the client's that is on its way, and where from.
    fn connect(&self, port: u16) -> (TcpStream, SocketAddr) {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        rustix::net::bind(&socket, &self.fresh_end()).expect("its own address");
        rustix::io::ioctl_fionbio(&socket, true).expect("it is a socket");
        match connect(&socket, &SocketAddr::new(self.server, port)) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => panic!("{error}"),
        }
        let stream = TcpStream::from(socket);
        let from = stream.local_addr().expect("it is bound");
        (stream, from)
    }

    /// Returns true if a byte gets through from the client and back.
    fn tcp_echo(&self, place: usize, client: &mut TcpStream, accepted: &mut Option<TcpStream>) -> bool {
        // What is not connected yet, or never will be, takes no byte.
        if client.peer_addr().is_ok() && accepted.is_none() {
            client.write_all(b"?").ok();
        }
        if let Ok((stream, _)) = self.listeners[place].accept() {
            stream.set_nonblocking(true).expect("it is a socket");
            *accepted = Some(stream);
        }
        let mut byte = [0];
        if let Some(stream) = accepted
            && stream.read(&mut byte).is_ok_and(|len| len == 1)
        {
            stream.write_all(b"!").ok();
        }
        client.read(&mut byte).is_ok_and(|len| len == 1)
    }

    fn udp_echo(&self, place: usize, client: &UdpSocket) -> bool {
        let mut byte = [0];
        while let Ok((_, from)) = self.datagrams[place].recv_from(&mut byte) {
            self.datagrams[place].send_to(b"!", from).ok();
        }
        match client.recv(&mut byte) {
            Ok(_) => true,
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionRefused), "{error}");
                false
            }
        }
    }

    /// Holds what the judge said against what comes through.
    fn compare(&self, what: &str, judgments: &[Judgment], mut comes_through: impl FnMut() -> bool) {
        if judgments.contains(&Judgment::Accept) {
            wait_until(&format!("{what}: accepted, the kernel agrees ({judgments:?})"), DEADLINE, comes_through);
        } else if judgments.iter().any(|judgment| matches!(judgment, Judgment::Refuse(_))) {
            let start = std::time::Instant::now();
            while start.elapsed() < GRACE {
                assert!(!comes_through(), "{what}: refused, but the kernel accepts ({judgments:?})");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// Both judgments, without and with the peer.
    fn judgments(&self, rules: &Ruleset, transport: Transport, port: u16, peer: SocketAddr) -> [Judgment; 2] {
        [None, Some(peer)].map(|peer| self.judge(rules, transport, port, peer))
    }

    /// Says how many of the answers were of use.
    fn round(&self, text: &str) -> usize {
        World::enter(self.net, Server);
        let rules = Ruleset::read();
        World::enter(self.net, Client);
        let mut useful = 0;
        let mut count = |judgments: &[Judgment]| {
            useful += judgments.iter().filter(|judgment| !matches!(judgment, Judgment::Unknown(_))).count();
        };
        for (place, &port) in TCP_PORTS.iter().enumerate() {
            let (mut client, from) = self.connect(port);
            let judgments = self.judgments(&rules, Transport::Tcp, port, from);
            count(&judgments);
            let mut accepted = None;
            self.compare(&format!("{text}TCP port {port}"), &judgments, || self.tcp_echo(place, &mut client, &mut accepted));
        }
        for (place, &port) in UDP_PORTS.iter().enumerate() {
            let client = UdpSocket::bind(self.fresh_end()).expect("its own address");
            client.set_nonblocking(true).expect("it is a socket");
            client.connect((self.server, port)).expect("a datagram socket connects at once");
            client.send(b"?").expect("it is sent");
            let judgments = self.judgments(&rules, Transport::Udp, port, client.local_addr().expect("it is bound"));
            count(&judgments);
            self.compare(&format!("{text}UDP port {port}"), &judgments, || self.udp_echo(place, &client));
        }
        useful
    }
}

fn agree(seed: u64, rulesets: usize) {
    let net = Net::new();
    let (mut done, mut useful, mut dice) = (0, 0, Dice(seed));
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let world = World::new(&net);
            while done < rulesets {
                let text = ruleset(&mut dice).replace("CLIENT", &net.address(Client));
                let text = text.replace("SERVER", &net.address(Server)).replace("LINK", INTERFACE);
                let file = net.file("rules.nft", &text);
                // Some conditions contradict each other, which nft says.
                if net.run(Server, &["nft", "-f", &file]).status.success() {
                    useful += world.round(&text);
                    done += 1;
                }
            }
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    let questions = rulesets * (TCP_PORTS.len() + UDP_PORTS.len()) * 2;
    assert!(useful * 2 > questions, "{useful} of {questions} answers say something");
}

#[test]
fn the_kernel_agrees_with_what_is_said_of_random_rules() {
    agree(17, RULESETS);
}

#[test]
#[ignore = "minutes: make test-all"]
fn the_kernel_agrees_with_what_is_said_of_many_random_rules() {
    agree(18, 50 * RULESETS);
}
