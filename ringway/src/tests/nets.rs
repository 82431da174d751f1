//! Several workers on both sides: each flow has one worker at each end, wherever its packets arrive.

use std::net::SocketAddr;

use ringway_device::memory::link::CAPACITY;
use ringway_shm::{ArenaConfig, Class, Duration, Instant, wire};
use ringway_stack::{Cidr, ConnectError, StackConfig};

use super::harness::{address, pattern};
use crate::NetConfig;
use crate::{Net, Nets, TcpListener, TcpOptions, TcpStream};

const PORT: u16 = 80;

/// Workers of a server and of a client, with links from each to its counterpart.
struct Sides {
    now: Instant,
    servers: Vec<Net>,
    clients: Vec<Net>,
}

fn open(now: Instant, seed: u64, host: usize, ends: Vec<wire::WireEnd>) -> Vec<Net> {
    let stack = StackConfig { seed, ..StackConfig::default() };
    let config = NetConfig { stack, arena: ArenaConfig { large: 4096, small: 4096 }, ..NetConfig::default() };
    let cidr = Cidr { ip: address(host, 0).ip(), prefix_len: 24 };
    let seats = Nets::links(&config, ends, cidr).expect("memory");
    seats.into_iter().map(|seat| seat.open_at(now).expect("memory")).collect()
}

impl Sides {
    fn new(workers: usize) -> Sides {
        let now = Instant::from_millis(1_000);
        let (servers, clients) = (0..workers).map(|_| wire::wire(CAPACITY).expect("memory")).unzip();
        Sides { now, servers: open(now, 1, 0, servers), clients: open(now, 2, 1, clients) }
    }

    fn run_for(&mut self, duration: Duration) {
        let end = self.now + duration;
        while self.now < end {
            let mut worked = false;
            for net in self.servers.iter_mut().chain(&mut self.clients) {
                worked |= net.turn_at(self.now);
                while net.next_event().is_some() {}
            }
            let next = self.now + Duration::from_micros(20);
            let due = self.servers.iter().chain(&self.clients).filter_map(Net::poll_timeout).min();
            self.now = if worked { next } else { due.unwrap_or(end).max(next) };
        }
    }
}

/// Every worker of the client opens connections from ports that make them its own. The server's worker of the same
/// number accepts them, because both sides divide the groups alike; bytes go both ways.
#[test]
fn connections_are_the_workers_that_open_and_accept_them() {
    const WORKERS: usize = 3;
    let mut sides = Sides::new(WORKERS);
    let listeners: Vec<TcpListener> =
        sides.servers.iter_mut().map(|net| TcpListener::bind(net, address(0, PORT)).expect("each has its own")).collect();
    let mut opened = Vec::new();
    for (worker, net) in sides.clients.iter_mut().enumerate() {
        for _ in 0..20 {
            opened.push((worker, TcpStream::connect(net, address(0, PORT)).expect("a port of its own")));
        }
    }
    sides.run_for(Duration::from_millis(50));
    let data = pattern(30_000, 3);
    for (worker, stream) in &opened {
        let net = &mut sides.clients[*worker];
        let local = stream.local_addr(net).expect("it is connected");
        assert!(net.has_flow(local, address(0, PORT)));
        assert_eq!(stream.write(net, &data), Ok(data.len()));
    }
    sides.run_for(Duration::from_millis(50));
    for (worker, listener) in listeners.iter().enumerate() {
        let net = &mut sides.servers[worker];
        let mut accepted = 0;
        while let Ok(stream) = listener.accept(net) {
            let (peer, mut buffer) = (stream.peer_addr(net).expect("connected"), vec![0; 40_000]);
            assert_eq!(stream.read(net, &mut buffer), Ok(data.len()));
            assert_eq!(&buffer[..data.len()], data);
            assert!(sides.clients[worker].has_flow(peer, address(0, PORT)));
            accepted += 1;
        }
        assert_eq!(accepted, 20, "of worker {worker}");
    }
}

/// A port that the caller names is accepted by the flow's worker and refused by others; a orphan segment is ignored.
#[test]
fn a_named_port_is_one_workers() {
    let mut sides = Sides::new(2);
    let listener = TcpListener::bind(&mut sides.servers[0], address(0, PORT)).expect("free");
    let local = |port| Some(address(1, port));
    let mut kept = Vec::new();
    for port in 7_000..7_020 {
        let mine = sides.clients[0].has_flow(address(1, port), address(0, PORT));
        let opened = TcpStream::connect_with(&mut sides.clients[0], local(port), address(0, PORT), TcpOptions::default());
        assert_eq!(opened.as_ref().err(), (!mine).then_some(&ConnectError::NoPort));
        kept.extend(opened);
    }
    sides.run_for(Duration::from_millis(10));
    let mut accepted: Vec<SocketAddr> = Vec::new();
    while let Ok(stream) = listener.accept(&mut sides.servers[0]) {
        accepted.extend(stream.peer_addr(&mut sides.servers[0]));
    }
    assert!((4..=16).contains(&accepted.len()), "about half: {accepted:?}");
}

/// Each worker opens a connection and sends data; the servers close without reading, then the clients.
fn round(sides: &mut Sides) -> Vec<[u32; 2]> {
    let listeners: Vec<TcpListener> =
        sides.servers.iter_mut().map(|net| TcpListener::bind(net, address(0, PORT)).expect("free")).collect();
    let streams: Vec<TcpStream> =
        sides.clients.iter_mut().map(|net| TcpStream::connect(net, address(0, PORT)).expect("a port")).collect();
    for (net, stream) in sides.clients.iter_mut().zip(&streams) {
        stream.write(net, &[1; 10_000]).expect("it waits for the handshake");
    }
    sides.run_for(Duration::from_millis(50));
    for (net, listener) in sides.servers.iter_mut().zip(listeners) {
        listener.accept(net).expect("one each").close(net);
        listener.close(net);
    }
    for (net, stream) in sides.clients.iter_mut().zip(streams) {
        stream.close(net);
    }
    sides.run_for(Duration::from_secs(2));
    let free = |net: &Net| [Class::Large, Class::Small].map(|class| net.arena().free(class));
    sides.servers.iter().chain(&sides.clients).map(free).collect()
}

/// After all sockets are closed, no worker keeps a frame except those that its links hold ready since their first
/// packet.
#[test]
fn nothing_is_left_behind() {
    let mut sides = Sides::new(2);
    let after_the_first = round(&mut sides);
    assert_eq!(after_the_first, round(&mut sides));
}
