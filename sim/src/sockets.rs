//! A machine of one stack in virtual time, seen through Linux's socket calls: what a `.pkt` script acts on.
//!
//! Promises: no clock, no thread, no kernel socket; the same calls with the same arguments give the same packets. Packets
//! are raw IP. A call that would block answers `None` and is tried again after anything has happened. Does not do: IPv6
//! on the wire (v4-mapped addresses work), UDP, signals.

mod connections;
mod info;
mod options;
mod stream;
mod sysctl;
mod waiting;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use ringway_shm::{Arena, ArenaConfig, Burst, Duration, Frame, Instant};
use ringway_stack::{
    Cidr, Event, Interface, MacAddress, Medium, Role, Route, SocketAddress, SocketError, SocketId, Stack, StackConfig, TcpOptions,
};

pub use sysctl::Sysctl;

/// A packet that the stack has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// When.
    pub at: Instant,
    /// From the first byte of the IP header.
    pub bytes: Vec<u8>,
}

/// A call that may have to wait, with what it has done so far.
#[derive(Clone, Debug)]
pub enum Call {
    /// accept(2)
    Accept {
        /// The listener.
        fd: i32,
        /// SOCK_NONBLOCK and the like.
        flags: i32,
    },
    /// connect(2)
    Connect {
        /// The socket.
        fd: i32,
        /// The peer.
        to: SocketAddrV4,
        /// The handshake has begun.
        begun: bool,
    },
    /// read(2) and all recv calls.
    Receive {
        /// The socket or pipe.
        fd: i32,
        /// Bytes at most.
        count: usize,
        /// MSG_PEEK and the like.
        flags: i32,
    },
    /// write(2) and all send calls.
    Send {
        /// The socket or pipe.
        fd: i32,
        /// The bytes.
        bytes: Vec<u8>,
        /// How many are queued.
        done: usize,
        /// MSG_DONTWAIT and the like.
        flags: i32,
    },
    /// poll(2): descriptor and events wanted.
    Poll {
        /// The set.
        set: Vec<(i32, i16)>,
        /// When to give up.
        deadline: Option<Instant>,
    },
    /// epoll_wait(2)
    EpollWait {
        /// The instance.
        fd: i32,
        /// Events at most.
        count: usize,
        /// When to give up.
        deadline: Option<Instant>,
    },
}

/// What a call answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The return value; -1 with an error.
    pub value: i64,
    /// errno; 0 without an error.
    pub errno: i32,
    /// Bytes that were received.
    pub bytes: Vec<u8>,
    /// The peer that was accepted.
    pub peer: Option<SocketAddrV4>,
    /// poll: what each entry reports.
    pub reported: Vec<i16>,
    /// epoll_wait: events and data.
    pub events: Vec<(u32, u64)>,
}

impl Answer {
    /// Success.
    pub fn value(value: i64) -> Answer {
        Answer { value, ..Answer::default() }
    }

    /// Failure with this errno.
    pub fn error(errno: i32) -> Answer {
        Answer { value: -1, errno, ..Answer::default() }
    }
}

impl From<Result<i64, i32>> for Answer {
    fn from(result: Result<i64, i32>) -> Answer {
        result.map_or_else(Answer::error, Answer::value)
    }
}

/// Where a socket stands, as the machine sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Fresh,
    Listening,
    Connecting,
    Connected,
    /// Over; what was received can still be read.
    Closed,
}

struct Socket {
    phase: Phase,
    id: Option<SocketId>,
    bound: Option<SocketAddrV4>,
    remote: Option<SocketAddrV4>,
    inet6: bool,
    nonblocking: bool,
    error: i32,
    read_shut: bool,
    write_shut: bool,
    /// connect(2) has said how it went.
    reported: bool,
    options: TcpOptions,
    linger_s: Option<u32>,
    receive_timeout: Duration,
    send_timeout: Duration,
    /// Options that only have to be remembered.
    remembered: BTreeMap<(i32, i32), Vec<u8>>,
    /// The rest of a frame that was read in part, and bytes that were peeked at.
    stash: VecDeque<u8>,
    end_of_stream: bool,
    /// The peer's FIN has come.
    peer_closed: bool,
    info: Option<ringway_stack::TcpInfo>,
}

enum Descriptor {
    Socket(u64),
    /// Index of the pipe; whether it is the writing end.
    Pipe(usize, bool),
    Epoll(waiting::Instance),
}

/// The machine.
pub struct Machine {
    stack: Stack,
    arena: Arena,
    now: Instant,
    outbound: [Burst; 1],
    sent: VecDeque<Sent>,
    sockets: BTreeMap<u64, Socket>,
    descriptors: BTreeMap<i32, Descriptor>,
    pipes: Vec<Vec<u8>>,
    addresses: Vec<Ipv4Addr>,
    next_cookie: u64,
    defaults: TcpOptions,
}

impl Machine {
    /// A machine with one interface of `mtu` bytes and the address `local`.
    pub fn new(local: Ipv4Addr, mtu: u16, sysctl: &Sysctl) -> Machine {
        let arena = Arena::new(ArenaConfig { large: 16_384, small: 16_384 });
        let mut config = StackConfig {
            seed: 0x5eed,
            connections_max: 1_024,
            listeners_max: 64,
            syn_queue_max: 1_024,
            time_wait_max: 1_024,
            replies_per_second: 100_000,
            ..StackConfig::default()
        };
        // As Linux; the product's own defaults save packets here.
        config.tcp.delayed_ack_min = Duration::from_millis(40);
        config.tcp.quick_start_segments = 16;
        config.tcp.push_trains = 2;
        sysctl.apply(&mut config.tcp);
        let defaults = sysctl.options();
        // Not the start of time: what "long ago" means must not be before it.
        let now = Instant::from_millis(1_000_000);
        let mut stack = Stack::new(config, arena.clone(), now);
        stack.add_interface(Interface {
            name: "tun0".into(),
            medium: Medium::Ip,
            mac: MacAddress([0; 6]),
            mtu,
            sends_partial_checksums: false,
            segmentation_max_bytes: 0,
            gathers: false,
            role: Role::Owned,
        });
        let mut machine = Machine {
            stack,
            arena,
            now,
            outbound: [Burst::default()],
            sent: VecDeque::new(),
            sockets: BTreeMap::new(),
            descriptors: BTreeMap::new(),
            pipes: Vec::new(),
            addresses: Vec::new(),
            next_cookie: 1,
            defaults,
        };
        machine.add_address(local);
        machine
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    fn add_address(&mut self, ip: Ipv4Addr) {
        self.addresses.push(ip);
        let cidrs = self.addresses.iter().map(|ip| Cidr { ip: IpAddr::V4(*ip), prefix_len: 32 }).collect();
        self.stack.set_addresses(0, cidrs);
        let everywhere = Cidr { ip: IpAddr::V4(Ipv4Addr::UNSPECIFIED), prefix_len: 0 };
        let source = self.addresses.first().map(|ip| IpAddr::V4(*ip));
        self.stack.set_routes(vec![Route { destination: everywhere, gateway: None, interface: 0, metric: 0, source }]);
    }

    /// A packet arrives. Its destination becomes an address of the machine: a script's packets are always for it.
    pub fn deliver(&mut self, packet: &[u8]) {
        if packet.len() >= 20 && packet[0] >> 4 == 4 {
            let destination = Ipv4Addr::new(packet[16], packet[17], packet[18], packet[19]);
            let unicast = !(destination.is_multicast() || destination.is_broadcast() || destination.is_unspecified());
            if unicast && !self.addresses.contains(&destination) {
                self.add_address(destination);
            }
        }
        let mut burst = Burst::default();
        let mut rest = packet;
        while !rest.is_empty() {
            let piece = rest.len().min(1_800);
            let Some(mut frame) = self.arena.alloc_from(&rest[..piece]) else { return };
            rest = &rest[piece..];
            frame.set_continues(!rest.is_empty());
            burst.push(frame);
        }
        self.stack.receive(self.now, 0, &mut burst);
        self.settle();
    }

    /// The next packet that has left.
    pub fn next_sent(&mut self) -> Option<Sent> {
        self.sent.pop_front()
    }

    /// Time goes on to `until`; everything due on the way happens at its time.
    pub fn advance(&mut self, until: Instant) {
        for _ in 0..TIMERS_MAX {
            match self.stack.poll_timeout() {
                Some(at) if at <= until => self.run_timer(at),
                _ => break,
            }
        }
        self.now = self.now.max(until);
        self.settle();
    }

    /// Time goes on to the next timer; `false`: there is none before `limit`.
    pub fn advance_to_timer(&mut self, limit: Instant) -> bool {
        match self.stack.poll_timeout() {
            Some(at) if at <= limit => {
                self.run_timer(at);
                true
            }
            _ => false,
        }
    }

    /// When the next timer is due.
    pub fn next_timer(&self) -> Option<Instant> {
        self.stack.poll_timeout()
    }

    fn run_timer(&mut self, at: Instant) {
        self.now = self.now.max(at);
        self.stack.handle_timeout(self.now);
        self.settle();
    }

    /// Lets everything that can happen now happen: packets leave, events change sockets.
    fn settle(&mut self) {
        for _ in 0..TURNS_MAX {
            let more = self.stack.transmit(self.now, &mut self.outbound);
            self.collect();
            let mut events = false;
            while let Some(event) = self.stack.poll_event() {
                self.on_event(event);
                events = true;
            }
            if !more && !events {
                return;
            }
        }
    }

    fn collect(&mut self) {
        let mut bytes = Vec::new();
        while let Some(frame) = self.outbound[0].pop() {
            bytes.extend_from_slice(frame.bytes());
            if !frame.continues() {
                self.sent.push_back(Sent { at: self.now, bytes: std::mem::take(&mut bytes) });
            }
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Connected { cookie, .. } => {
                if let Some(socket) = self.sockets.get_mut(&cookie) {
                    socket.phase = Phase::Connected;
                }
            }
            Event::Failed { cookie, error, .. } => self.on_failure(cookie, error),
            Event::Closed { socket, cookie, .. } => {
                if let Some(ours) = self.sockets.get_mut(&cookie).filter(|ours| ours.id == Some(socket)) {
                    ours.id = None;
                    ours.phase = Phase::Closed;
                }
            }
            Event::Ready { socket, cookie } => {
                let peer_closed = self.stack.readiness(socket).peer_closed;
                if let Some(ours) = self.sockets.get_mut(&cookie).filter(|ours| ours.error == 0) {
                    ours.peer_closed = peer_closed;
                }
            }
            Event::Accepted { .. } | Event::ResolveNeighbor { .. } => {}
        }
    }

    fn on_failure(&mut self, cookie: u64, error: SocketError) {
        let Some(socket) = self.sockets.get_mut(&cookie) else { return };
        socket.error = match error {
            SocketError::Reset if socket.peer_closed || socket.end_of_stream => libc::EPIPE,
            SocketError::Reset => libc::ECONNRESET,
            SocketError::Refused => libc::ECONNREFUSED,
            SocketError::TimedOut => libc::ETIMEDOUT,
            SocketError::HostUnreachable => libc::EHOSTUNREACH,
            SocketError::NetworkUnreachable => libc::ENETUNREACH,
            SocketError::ProtocolUnreachable => libc::ENOPROTOOPT,
            SocketError::Aborted => libc::ECONNABORTED,
        };
        socket.phase = Phase::Closed;
    }

    /// One attempt at a call. `None`: it waits; try again when something has happened.
    pub fn attempt(&mut self, call: &mut Call) -> Option<Answer> {
        let answer = match call {
            Call::Accept { fd, flags } => self.try_accept(*fd, *flags),
            Call::Connect { fd, to, begun } => self.try_connect(*fd, *to, begun),
            Call::Receive { fd, count, flags } => self.try_receive(*fd, *count, *flags),
            Call::Send { fd, bytes, done, flags } => self.try_send(*fd, bytes, done, *flags),
            Call::Poll { set, deadline } => self.try_poll(set, *deadline),
            Call::EpollWait { fd, count, deadline } => self.try_epoll_wait(*fd, *count, *deadline),
        };
        self.settle();
        answer
    }

    fn lowest_free(&self) -> i32 {
        (FIRST_DESCRIPTOR..).find(|fd| !self.descriptors.contains_key(fd)).expect("numbers do not end before memory does")
    }

    fn install(&mut self, descriptor: Descriptor) -> i32 {
        let fd = self.lowest_free();
        self.descriptors.insert(fd, descriptor);
        fd
    }

    fn cookie(&self, fd: i32) -> Result<u64, i32> {
        match self.descriptors.get(&fd) {
            Some(Descriptor::Socket(cookie)) => Ok(*cookie),
            Some(_) => Err(libc::ENOTSOCK),
            None => Err(libc::EBADF),
        }
    }

    fn socket_of(&mut self, fd: i32) -> Result<&mut Socket, i32> {
        let cookie = self.cookie(fd)?;
        self.sockets.get_mut(&cookie).ok_or(libc::EBADF)
    }
}

fn stack_address(address: SocketAddrV4) -> SocketAddress {
    SocketAddress { ip: IpAddr::V4(*address.ip()), port: address.port() }
}

fn plain_address(address: SocketAddress) -> SocketAddrV4 {
    match address.ip {
        IpAddr::V4(ip) => SocketAddrV4::new(ip, address.port),
        IpAddr::V6(_) => SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, address.port),
    }
}

fn append(stash: &mut VecDeque<u8>, frame: &Frame) {
    stash.extend(frame.bytes());
}

/// As in a process that has the three standard ones.
const FIRST_DESCRIPTOR: i32 = 3;
/// Turns without an end are a fault of the stack; the script then fails instead of hanging.
const TURNS_MAX: usize = 100_000;
const TIMERS_MAX: usize = 1_000_000;

#[cfg(test)]
mod tests;
