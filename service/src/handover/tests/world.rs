//! Two network namespaces and a wire: a kernel's TCP at one end, a stack that shares its interface with a kernel at the other.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};

use ringway_device::interface::Interface as Link;
use ringway_device::offload::Offload;
use ringway_device::packet::{Packet, PacketOptions};
use ringway_device::steering::{Attachment, PortFilter, Protocol, Steering};
use ringway_device::{Device, Medium};
use ringway_engine::clock;
use ringway_shm::{Arena, ArenaConfig, Burst, Flow};
use ringway_stack::config::StackConfig;
use ringway_stack::{
    Autoconfiguration, Cidr, Event, Interface, MacAddress, Role, Route, SocketAddress, SocketId, Stack, TcpOptions,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::super::*;

pub(super) const PORT: u16 = 8_080;
/// Iterations in which something must come about, ten milliseconds each where nothing happens.
const PATIENCE: usize = 2_000;

/// The family of the connection, and of the kernel socket that is to have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ipv4,
    Ipv6,
    Mapped,
}

impl Kind {
    pub(super) fn address(self, end: u16) -> IpAddr {
        match self {
            Kind::Ipv6 => [0xfd07, 0, 0, 0, 0, 0, 0, end].into(),
            Kind::Ipv4 | Kind::Mapped => [10, 7, 0, end as u8].into(),
        }
    }

    pub(super) fn kernel_socket(self) -> OwnedFd {
        let family = if self == Kind::Ipv4 { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = socket(family, SocketType::STREAM, None).expect("there are sockets");
        // As one has it that a listener with this option makes: the listener can be made again beside it.
        sockopt::set_socket_reuseaddr(&socket, true).expect("it is a socket");
        socket
    }
}

/// The end with the stack, in the namespace of the test, and the peer's namespace.
pub(super) struct World {
    pub(super) kind: Kind,
    pub(super) stack: Stack,
    listener: Option<SocketId>,
    /// The program's kernel socket that has the port.
    shadow: Option<TcpListener>,
    device: Box<dyn Device>,
    out: [Burst; 1],
    /// What the stack sends is lost.
    pub(super) loses: bool,
    /// So many bursts that arrive next are lost.
    pub(super) misses: usize,
    pub(super) filter: PortFilter,
    _hidden: Attachment,
    pub(super) injector: Injector,
    namespace: std::fs::File,
    holder: Child,
}

impl Drop for World {
    fn drop(&mut self) {
        // The namespace's own end comes later.
        Command::new("ip").args(["link", "delete", "here"]).status().ok();
        self.holder.kill().ok();
        self.holder.wait().ok();
    }
}

pub(super) fn shell(command: &str) {
    let status = Command::new("sh").args(["-ec", command]).status().expect("there is a shell");
    assert!(status.success(), "{command}");
}

/// Makes the wire; this process has a network namespace of its own.
fn wire() -> (Child, std::fs::File) {
    let mut holder = Command::new("unshare");
    let holder = holder.args(["-n", "sh", "-c", "echo; exec cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut holder = holder.spawn().expect("root");
    let mut line = String::new();
    BufReader::new(holder.stdout.take().expect("piped")).read_line(&mut line).expect("it runs in its namespace");
    let there = holder.id();
    shell("ip link set lo up; sysctl -qw net.ipv4.conf.all.rp_filter=1");
    shell(&format!("ip link add here type veth peer name there netns {there}"));
    shell("ip address add 10.7.0.2/24 dev here; ip address add fd07::2/64 dev here nodad; ip link set here up");
    let commands = "ip link set lo up; ip address add 10.7.0.1/24 dev there; ip address add fd07::1/64 dev there nodad";
    shell(&format!("nsenter -t {there} -n sh -ec '{commands}; ip link set there up'"));
    let namespace = std::fs::File::open(format!("/proc/{there}/ns/net")).expect("it runs");
    (holder, namespace)
}

impl World {
    pub(super) fn new(kind: Kind) -> World {
        let (holder, namespace) = wire();
        let mac = in_namespace(&namespace, || Link::open("there").expect("made above").mac);
        let arena = Arena::new(ArenaConfig { large: 4_096, small: 4_096 });
        let steering = Steering::new(16).expect("root may use BPF");
        let program = steering.socket_filter().expect("the verifier accepts it");
        let link = Link::open("here").expect("made above");
        let hidden = steering.hide_from_kernel(link.index).expect("root");
        let filter = steering.port_filter().expect("a descriptor is left");
        let packet =
            Packet::open("here", Some(program.as_fd()), PacketOptions { ring_slots: 512, ..PacketOptions::default() }, &arena);
        let device = Offload::where_needed(Box::new(packet.expect("root")), &arena);
        let mut stack = Stack::new(StackConfig { seed: 7, ..StackConfig::default() }, arena.clone(), clock::now());
        let can = device.capabilities();
        let interface = stack.add_interface(Interface {
            name: "here".into(),
            medium: Medium::Ethernet,
            mac: MacAddress(link.mac),
            mtu: can.mtu,
            sends_partial_checksums: can.sends_partial_checksums,
            segmentation_max_bytes: can.segmentation_max_bytes,
            segmentation_max_segments: can.segmentation_max_segments,
            segments_udp: can.segments_udp,
            gathers: can.gathers,
            role: Role::Shared,
            autoconfiguration: Autoconfiguration::Off,
            detects_duplicates: false,
            vlan: None,
        });
        let cidr = |kind: Kind, prefix_len| Cidr { ip: kind.address(2), prefix_len };
        let networks = [cidr(Kind::Ipv4, 24), cidr(Kind::Ipv6, 64)];
        stack.set_addresses(interface, networks.to_vec());
        let route = |destination| Route { destination, gateway: None, interface, metric: 0, source: None };
        stack.set_routes(networks.map(route).to_vec());
        for kind in [Kind::Ipv4, Kind::Ipv6] {
            stack.set_neighbor(clock::now(), interface, kind.address(1), Some(MacAddress(mac)));
            filter.own(Protocol::Tcp, kind.address(2), PORT, 1).expect("room");
        }
        let injector = Injector::open().expect("root");
        World {
            kind,
            stack,
            listener: None,
            shadow: None,
            device,
            out: [Burst::default()],
            loses: false,
            misses: 0,
            filter,
            _hidden: hidden,
            injector,
            namespace,
            holder,
        }
    }

    /// One iteration of a worker: what has arrived, what is to be sent, timers.
    pub(super) fn turn(&mut self) {
        let now = clock::now();
        let mut burst = Burst::default();
        let count = self.device.receive(now, &mut burst).expect("the link is up");
        if count > 0 && self.misses > 0 {
            self.misses -= 1;
            burst.clear();
        }
        self.stack.receive(now, 0, &mut burst);
        if self.stack.poll_timeout().is_some_and(|at| at <= now) {
            self.stack.handle_timeout(now);
        }
        while self.stack.poll_event().is_some_and(|event| !matches!(event, Event::Accepted { .. })) {}
        while self.stack.transmit(now, &mut self.out) {}
        if self.loses {
            self.out[0].clear();
        }
        self.device.transmit(now, &mut self.out[0]).expect("the link is up");
    }

    /// Iterates until `reached`.
    pub(super) fn until(&mut self, what: &str, mut reached: impl FnMut(&mut World) -> bool) {
        for _ in 0..PATIENCE {
            self.turn();
            if reached(self) {
                return;
            }
            let mut fds = Vec::new();
            self.device.wait_fds(&mut fds);
            let mut polls: Vec<PollFd<'_>> = fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
            poll(&mut polls, Some(&Timespec { tv_sec: 0, tv_nsec: 10_000_000 })).expect("poll works");
        }
        panic!("it does not come to this: {what}");
    }

    /// Does something in the peer's network namespace.
    pub(super) fn there<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        in_namespace(&self.namespace, act)
    }

    /// A connection that the peer has opened.
    pub(super) fn accepted(&mut self, options: TcpOptions) -> (SocketId, TcpStream) {
        let local = SocketAddress { ip: self.kind.address(2), port: PORT };
        let shadow = SocketAddr::new(local.ip, PORT);
        self.shadow.get_or_insert_with(|| TcpListener::bind(shadow).expect("the port is free"));
        let stack = &mut self.stack;
        let listener = *self.listener.get_or_insert_with(|| stack.listen(local, 8, options, 1).expect("it is ours"));
        let family = if local.ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let peer = self.there(move || socket(family, SocketType::STREAM, None).expect("there are sockets"));
        let peer = TcpStream::from(peer);
        peer.set_nonblocking(true).expect("it is a socket");
        // `Err`: it is under way.
        rustix::net::connect(&peer, &SocketAddr::new(local.ip, PORT)).expect_err("the stack has not run");
        let mut id = None;
        self.until("accept", |world| {
            id = world.stack.accept(listener, 7).ok();
            id.is_some()
        });
        (id.expect("set"), peer)
    }

    /// The kernel's listener of the port, of the family of the program's socket.
    pub(super) fn kernel_listener(&mut self) -> TcpListener {
        self.shadow = None;
        let ip = if self.kind == Kind::Mapped { Ipv6Addr::UNSPECIFIED.into() } else { self.kind.address(2) };
        TcpListener::bind((ip, PORT)).expect("the port is free")
    }

    /// A connection to the kernel's listener, which waits in its queue.
    pub(super) fn at_kernel(&self) -> TcpStream {
        let to = SocketAddr::new(self.kind.address(2), PORT);
        self.filter.release(Protocol::Tcp, to.ip(), PORT).expect("it was owned");
        let stream = self.there(|| TcpStream::connect(to).expect("it listens"));
        self.filter.own(Protocol::Tcp, to.ip(), PORT, 1).expect("room");
        stream
    }

    /// A connection that the stack has opened, from the port that is steered.
    pub(super) fn opened(&mut self) -> (SocketId, TcpStream) {
        let remote = SocketAddr::new(self.kind.address(1), 9_090);
        let listener = self.there(move || TcpListener::bind(remote).expect("the port is free"));
        let local = Some(SocketAddress { ip: self.kind.address(2), port: PORT });
        let to = SocketAddress { ip: remote.ip(), port: remote.port() };
        let open = ringway_stack::ActiveOpen { local, ..ringway_stack::ActiveOpen::to(to) };
        let id = self.stack.connect(clock::now(), open).expect("there is a route");
        self.until("connect", |world| world.state(id) == State::Established);
        let (peer, _) = listener.accept().expect("it is there");
        peer.set_nonblocking(true).expect("it is a socket");
        (id, peer)
    }

    pub(super) fn state(&self, id: SocketId) -> State {
        self.stack.info(id).map_or(State::Closed, |info| info.state)
    }

    /// Queues all of `bytes` at the stack and sends what may be sent.
    pub(super) fn send(&mut self, id: SocketId, bytes: &[u8]) {
        let mut sent = 0;
        let count = self.stack.send_with(id, bytes.len(), &mut |piece| {
            piece.copy_from_slice(&bytes[sent..sent + piece.len()]);
            sent += piece.len();
        });
        assert_eq!(count, Ok(bytes.len()), "room for all");
        while self.stack.transmit(clock::now(), &mut self.out) {}
        if self.loses {
            self.out[0].clear();
        }
        self.device.transmit(clock::now(), &mut self.out[0]).expect("the link is up");
    }

    /// Takes `count` bytes from the stack, which are not consumed.
    pub(super) fn take(&mut self, id: SocketId, count: usize) -> Vec<u8> {
        let mut taken = Vec::new();
        while taken.len() < count {
            let frame = self.stack.take_frame(id).expect("so much has come");
            taken.extend_from_slice(frame.bytes());
        }
        taken
    }

    pub(super) fn export(&mut self, id: SocketId) -> ConnectionImage {
        self.stack.export(clock::now(), id).expect("it can leave")
    }

    /// The whole handover, at the end of which the stack knows nothing of the connection.
    pub(super) fn hand_over(&mut self, leaving: &Leaving<'_>, socket: OwnedFd) -> TcpStream {
        let prepared = prepare(leaving, socket, Some(&self.injector)).expect("it can leave");
        self.steer(leaving.image);
        let stream = TcpStream::from(prepared.go().expect("memory enough"));
        // What came before the flow was steered finds silence; without the hold it would be answered with RST.
        self.turn();
        assert!(self.stack.release_hold(leaving.image.local, leaving.image.remote), "it was held");
        stream.set_nonblocking(true).expect("it is a socket");
        stream
    }

    pub(super) fn steer(&self, image: &ConnectionImage) {
        let end = |end: SocketAddress| (end.ip, end.port);
        self.filter.leave_flow(&Flow { local: end(image.local), remote: end(image.remote) }).expect("room");
    }

    /// Reads until `expected` bytes are there, and compares them; the stack runs meanwhile.
    pub(super) fn expect(&mut self, what: &str, from: &mut TcpStream, expected: &[u8]) {
        let mut got = Vec::new();
        self.until(what, |_| {
            read_some(from, &mut got);
            got.len() >= expected.len()
        });
        assert!(got == expected, "{what}: {} bytes, other ones from {:?} on", got.len(), first_difference(&got, expected));
    }

    /// Reads until the end of the stream, which must follow at once.
    pub(super) fn expect_end(&mut self, what: &str, from: &mut TcpStream) {
        self.until(what, |_| matches!(from.read(&mut [0; 64]), Ok(0)));
    }

    /// Writes all of `bytes` to a kernel socket whose peer reads.
    pub(super) fn write(&mut self, what: &str, to: &mut TcpStream, mut bytes: &[u8]) {
        self.until(what, |_| {
            while let Ok(count @ 1..) = to.write(bytes) {
                bytes = &bytes[count..];
            }
            bytes.is_empty()
        });
    }
}

fn first_difference(got: &[u8], expected: &[u8]) -> Option<usize> {
    got.iter().zip(expected).position(|(one, other)| one != other)
}

/// Appends what a kernel socket has.
pub(super) fn read_some(from: &mut TcpStream, got: &mut Vec<u8>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        got.extend_from_slice(&buffer[..count]);
    }
}

/// A counter of TCP in a file of `/proc/net`, of this network namespace.
pub(super) fn counted(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/net/{file}")).expect("Linux has it");
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp"));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let found = names.split(' ').zip(values.split(' ')).find(|(found, _)| *found == name).expect("it is counted");
    found.1.parse().expect("a number")
}

/// Bytes that differ from place to place and from stream to stream.
pub(super) fn pattern(stream: u32, count: usize) -> Vec<u8> {
    (0..count as u32).map(|at| ((at ^ stream << 24).wrapping_mul(0x9e37_79b9) >> 23) as u8).collect()
}

fn in_namespace<T: Send>(namespace: &std::fs::File, act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).expect("root");
            act()
        });
        thread.join().expect("it does not panic")
    })
}
