//! A machine of one stack in virtual time behind Linux's socket calls: the system under test of a `.pkt` script.
//!
//! Promises: no clock, no thread, no kernel socket; the same calls with the same arguments give the same packets. Packets
//! are raw IP. A call that would block returns `None` and is retried after any event. Does not do: UDP, signals.

mod connections;
mod fast_open;
mod info;
mod options;
mod stream;
mod sysctl;
mod urgent;
mod waiting;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ringway_shm::{Arena, ArenaConfig, Burst, Duration, Frame, Instant};
use ringway_stack::{
    Autoconfiguration, Cidr, Event, Interface, MacAddress, Medium, Role, Route, SocketAddress, SocketError, SocketId, Stack,
    StackConfig, TcpConfig, TcpOptions,
};

pub use sysctl::Sysctl;

/// A packet that the stack has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Time of sending.
    pub at: Instant,
    /// From the first byte of the IP header.
    pub bytes: Vec<u8>,
}

/// A call that may have to wait, with its progress so far.
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
        to: SocketAddr,
        /// True once the handshake has begun.
        begun: bool,
    },
    /// read(2) and all recv calls.
    Receive {
        /// The socket or pipe.
        fd: i32,
        /// Maximum number of bytes.
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
        /// Number of bytes queued.
        done: usize,
        /// MSG_DONTWAIT and the like.
        flags: i32,
    },
    /// sendto(2) or sendmsg(2) with MSG_FASTOPEN.
    SendFast {
        /// The socket.
        fd: i32,
        /// The peer.
        to: Option<SocketAddr>,
        /// The bytes.
        bytes: Vec<u8>,
        /// Number of bytes queued.
        done: usize,
        /// True once the handshake has begun.
        begun: bool,
        /// MSG_DONTWAIT and the like.
        flags: i32,
    },
    /// poll(2): descriptor and events wanted.
    Poll {
        /// The set.
        set: Vec<(i32, i16)>,
        /// End of the wait.
        deadline: Option<Instant>,
    },
    /// splice(2) between a pipe and a socket.
    Splice {
        /// Source of the bytes.
        from: i32,
        /// Destination of the bytes.
        to: i32,
        /// Maximum number of bytes.
        count: usize,
        /// SPLICE_F_NONBLOCK and the like.
        flags: u32,
    },
    /// epoll_wait(2)
    EpollWait {
        /// The instance.
        fd: i32,
        /// Maximum number of events.
        count: usize,
        /// End of the wait.
        deadline: Option<Instant>,
    },
}

/// Result of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The return value; -1 with an error.
    pub value: i64,
    /// errno; 0 without an error.
    pub errno: i32,
    /// Bytes received.
    pub bytes: Vec<u8>,
    /// TCP_CM_INQ, if enabled: number of bytes that can be received next.
    pub inq: Option<i32>,
    /// Address of the accepted peer.
    pub peer: Option<SocketAddr>,
    /// poll: reported events of each entry.
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

/// State of a socket in the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Fresh,
    Listening,
    Connecting,
    Connected,
    /// Closed; received data can still be read.
    Closed,
}

struct Socket {
    phase: Phase,
    id: Option<SocketId>,
    bound: Option<SocketAddr>,
    remote: Option<SocketAddr>,
    inet6: bool,
    nonblocking: bool,
    error: i32,
    read_shut: bool,
    write_shut: bool,
    /// True once a handshake was completed.
    opened: bool,
    /// True once connect(2) has reported its result.
    reported: bool,
    options: TcpOptions,
    linger_s: Option<u32>,
    receive_timeout: Duration,
    send_timeout: Duration,
    /// Options that are only stored.
    remembered: BTreeMap<(i32, i32), Vec<u8>>,
    /// The rest of a partly read frame, and bytes that were peeked at.
    stash: VecDeque<u8>,
    end_of_stream: bool,
    /// Number of bytes that the program has read, modulo 2^32.
    read: u32,
    /// Position of the urgent byte that MSG_OOB has fetched.
    urgent_fetched: Option<u32>,
    /// MSG_MORE holds the last bytes back until more data comes, or until this time.
    held_until: Option<Instant>,
    /// True while a send waits for buffer space.
    blocked: bool,
    /// True once the peer's FIN has arrived.
    peer_closed: bool,
    info: Option<ringway_stack::TcpInfo>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PipeEnd {
    Read,
    Write,
}

enum Descriptor {
    Socket(u64),
    /// Index of the pipe, and its end.
    Pipe(usize, PipeEnd),
    Epoll(waiting::Instance),
}

/// A machine.
pub struct Machine {
    stack: Stack,
    arena: Arena,
    now: Instant,
    outbound: [Burst; 1],
    sent: VecDeque<Sent>,
    sockets: BTreeMap<u64, Socket>,
    descriptors: BTreeMap<i32, Descriptor>,
    pipes: Vec<Vec<u8>>,
    addresses: Vec<IpAddr>,
    next_token: u64,
    defaults: TcpOptions,
    config: TcpConfig,
    /// Source of descriptor numbers; `None`: the lowest free number.
    numbers: Option<fn() -> Option<i32>>,
}

/// Returns Linux's defaults where the product's own save packets, changed by the settings.
fn tcp_config(sysctl: &Sysctl) -> TcpConfig {
    let mut config = TcpConfig {
        delayed_ack_min: Duration::from_millis(40),
        quick_start_segments: 16,
        push_trains: 2,
        timestamps_required: false,
        ..TcpConfig::default()
    };
    sysctl.apply(&mut config);
    config
}

fn interface(mtu: u16) -> Interface {
    Interface {
        name: "tun0".into(),
        medium: Medium::Ip,
        mac: MacAddress([0; 6]),
        mtu,
        sends_partial_checksums: false,
        segmentation_max_bytes: 0,
        segmentation_max_segments: u32::MAX,
        segments_udp: false,
        gathers: true,
        role: Role::Owned,
        autoconfiguration: Autoconfiguration::Off,
        detects_duplicates: false,
        vlan: None,
    }
}

impl Machine {
    /// Makes a machine with one interface of `mtu` bytes and the address `local`; it also has an address of the other
    /// family.
    pub fn new(local: IpAddr, mtu: u16, sysctl: &Sysctl) -> Machine {
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
        config.tcp = tcp_config(sysctl);
        let tcp = config.tcp.clone();
        // Not the start of time, so that a time long ago can be represented.
        let now = Instant::from_millis(1_000_000);
        let mut stack = Stack::new(config, arena.clone(), now);
        stack.add_interface(interface(mtu));
        if let Some(keys) = sysctl.fast_open_keys() {
            stack.set_fast_open_keys(None, keys);
        }
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
            next_token: 1,
            defaults: sysctl.options(),
            config: tcp,
            numbers: None,
        };
        machine.add_address(local);
        machine.add_address(if local.is_ipv4() { DEFAULT_IPV6.into() } else { DEFAULT_IPV4.into() });
        machine
    }

    /// Sets the source of descriptor numbers.
    pub fn number_by(&mut self, numbers: fn() -> Option<i32>) {
        self.numbers = Some(numbers);
    }

    /// Applies changed system settings and a changed MTU.
    pub fn reconfigure(&mut self, mtu: u16, sysctl: &Sysctl) {
        self.defaults = sysctl.options();
        self.config = tcp_config(sysctl);
        self.stack.set_tcp_config(self.config.clone());
        if let Some(keys) = sysctl.fast_open_keys() {
            self.stack.set_fast_open_keys(None, keys);
        }
        self.stack.set_interface(self.now, 0, interface(mtu));
    }

    /// Returns the time.
    pub fn now(&self) -> Instant {
        self.now
    }

    fn add_address(&mut self, ip: IpAddr) {
        self.addresses.push(ip);
        let (cidrs, routes) = addressing(&self.addresses);
        self.stack.set_addresses(0, cidrs);
        self.stack.set_routes(routes);
    }

    /// Delivers a packet. Its destination becomes an address of the machine: a script's packets are always for it.
    pub fn deliver(&mut self, packet: &[u8]) {
        if let Some(destination) = unicast_destination(packet)
            && !self.addresses.contains(&destination)
        {
            self.add_address(destination);
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
        self.release_held(None);
        if !self.wakes_writer() {
            self.settle();
        }
    }

    /// Returns true when a waiting send can proceed now that the handshake has ended. As on Linux its data carries our ACK:
    /// nothing leaves before the send has been retried.
    fn wakes_writer(&mut self) -> bool {
        let mut woken = false;
        while let Some(event) = self.stack.poll_event() {
            if let Event::Connected { user_token, .. } = event {
                woken |= self.sockets.get_mut(&user_token).is_some_and(|socket| std::mem::take(&mut socket.blocked));
            }
            self.on_event(event);
        }
        woken
    }

    /// Returns the next packet sent.
    pub fn next_sent(&mut self) -> Option<Sent> {
        self.sent.pop_front()
    }

    /// Advances the time to `until`; each timer on the way runs at its time.
    pub fn advance(&mut self, until: Instant) {
        for _ in 0..TIMERS_MAX {
            match self.next_timer() {
                Some(at) if at <= until => self.run_timer(at),
                _ => break,
            }
        }
        self.now = self.now.max(until);
        self.settle();
    }

    /// Advances the time to the next timer; `false`: there is none before `limit`.
    pub fn advance_to_timer(&mut self, limit: Instant) -> bool {
        match self.next_timer() {
            Some(at) if at <= limit => {
                self.run_timer(at);
                true
            }
            _ => false,
        }
    }

    /// Returns the time of the next timer.
    pub fn next_timer(&self) -> Option<Instant> {
        self.sockets.values().filter_map(|socket| socket.held_until).chain(self.stack.poll_timeout()).min()
    }

    fn run_timer(&mut self, at: Instant) {
        self.now = self.now.max(at);
        self.stack.handle_timeout(self.now);
        self.release_held(Some(self.now));
        self.settle();
    }

    /// Releases data that MSG_MORE has held back: of all sockets, or of those whose time has come.
    fn release_held(&mut self, due: Option<Instant>) {
        for socket in self.sockets.values_mut() {
            let is_due = |until: &mut Instant| due.is_none_or(|now| *until <= now);
            if let (Some(_), Some(id)) = (socket.held_until.take_if(is_due), socket.id) {
                self.stack.set_options(self.now, id, socket.options);
            }
        }
    }

    /// Runs the stack until nothing is left to do now: packets leave, events change sockets.
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
                break;
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
            Event::Connected { user_token, .. } => {
                if let Some(socket) = self.sockets.get_mut(&user_token) {
                    socket.phase = Phase::Connected;
                    socket.opened = true;
                }
            }
            Event::Failed { user_token, error, .. } => self.on_failure(user_token, error),
            Event::Closed { socket, user_token, .. } => {
                if let Some(ours) = self.sockets.get_mut(&user_token).filter(|ours| ours.id == Some(socket)) {
                    ours.id = None;
                    ours.phase = Phase::Closed;
                }
            }
            Event::Ready { socket, user_token } => {
                let peer_closed = self.stack.readiness(socket).peer_closed;
                if let Some(ours) = self.sockets.get_mut(&user_token).filter(|ours| ours.error == 0) {
                    ours.peer_closed = peer_closed;
                }
            }
            Event::Accepted { .. } | Event::Urgent { .. } | Event::ResolveNeighbor { .. } | Event::Address { .. } => {}
        }
    }

    fn on_failure(&mut self, user_token: u64, error: SocketError) {
        let Some(socket) = self.sockets.get_mut(&user_token) else { return };
        socket.error = match error {
            SocketError::Reset if (socket.peer_closed || socket.end_of_stream) && !socket.write_shut => libc::EPIPE,
            SocketError::Reset => libc::ECONNRESET,
            SocketError::Refused => libc::ECONNREFUSED,
            SocketError::TimedOut => libc::ETIMEDOUT,
            SocketError::HostUnreachable => libc::EHOSTUNREACH,
            SocketError::NetworkUnreachable => libc::ENETUNREACH,
            SocketError::ProtocolUnreachable => libc::ENOPROTOOPT,
            SocketError::Prohibited => libc::EACCES,
            SocketError::Aborted => libc::ECONNABORTED,
        };
        socket.phase = Phase::Closed;
    }

    /// Attempts a call once. `None`: it waits; retry it after an event.
    pub fn attempt(&mut self, call: &mut Call) -> Option<Answer> {
        let answer = match call {
            Call::Accept { fd, flags } => self.try_accept(*fd, *flags),
            Call::Connect { fd, to, begun } => self.try_connect(*fd, *to, begun),
            Call::Receive { fd, count, flags } => self.try_receive(*fd, *count, *flags),
            Call::Send { fd, bytes, done, flags } => self.try_send(*fd, bytes, done, *flags),
            Call::SendFast { fd, to, bytes, done, begun, flags } => self.try_send_fast(*fd, (*to, bytes), (done, begun), *flags),
            Call::Poll { set, deadline } => self.try_poll(set, *deadline),
            Call::Splice { from, to, count, flags } => self.try_splice((*from, *to), *count, *flags),
            Call::EpollWait { fd, count, deadline } => self.try_epoll_wait(*fd, *count, *deadline),
        };
        self.settle();
        match (answer, call) {
            (Some(answer), Call::Receive { fd, .. }) if answer.errno == 0 => Some(Answer { inq: self.inq(*fd), ..answer }),
            (answer, _) => answer,
        }
    }

    fn lowest_free(&self) -> i32 {
        (FIRST_DESCRIPTOR..).find(|fd| !self.descriptors.contains_key(fd)).expect("memory ends before the numbers do")
    }

    fn install(&mut self, descriptor: Descriptor) -> i32 {
        let fd = self.numbers.and_then(|next| next()).unwrap_or_else(|| self.lowest_free());
        self.descriptors.insert(fd, descriptor);
        fd
    }

    /// Renumbers the descriptor `from` to `to`. `false`: `from` does not exist, or `to` does.
    pub fn renumber(&mut self, from: i32, to: i32) -> bool {
        if self.descriptors.contains_key(&to) {
            return from == to;
        }
        let Some(descriptor) = self.descriptors.remove(&from) else { return false };
        self.descriptors.insert(to, descriptor);
        true
    }

    fn user_token(&self, fd: i32) -> Result<u64, i32> {
        match self.descriptors.get(&fd) {
            Some(Descriptor::Socket(user_token)) => Ok(*user_token),
            Some(_) => Err(libc::ENOTSOCK),
            None => Err(libc::EBADF),
        }
    }

    fn socket_of(&mut self, fd: i32) -> Result<&mut Socket, i32> {
        let user_token = self.user_token(fd)?;
        self.sockets.get_mut(&user_token).ok_or(libc::EBADF)
    }
}

/// Addresses of a machine's only interface, and its routes: everything is beyond it, from the first address of the family.
pub(crate) fn addressing(addresses: &[IpAddr]) -> (Vec<Cidr>, Vec<Route>) {
    let cidr = |ip: &IpAddr| Cidr { ip: *ip, prefix_len: if ip.is_ipv4() { 32 } else { 128 } };
    let nowhere: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    let everywhere = |ip: IpAddr| {
        let source = addresses.iter().find(|address| address.is_ipv4() == ip.is_ipv4()).copied();
        Route { destination: Cidr { ip, prefix_len: 0 }, gateway: None, interface: 0, metric: 0, source }
    };
    let routes = nowhere.map(everywhere).into_iter().filter(|route| route.source.is_some());
    (addresses.iter().map(cidr).collect(), routes.collect())
}

/// Returns the packet's destination, if it can be an address of one machine.
pub(crate) fn unicast_destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => {
            let ip = Ipv4Addr::from(*packet.get(16..20)?.first_chunk::<4>()?);
            (!(ip.is_multicast() || ip.is_broadcast() || ip.is_unspecified())).then_some(ip.into())
        }
        6 => {
            let ip = Ipv6Addr::from(*packet.get(24..40)?.first_chunk::<16>()?);
            (!(ip.is_multicast() || ip.is_unspecified())).then_some(ip.into())
        }
        _ => None,
    }
}

fn stack_address(address: SocketAddr) -> SocketAddress {
    SocketAddress { ip: address.ip(), port: address.port() }
}

fn plain_address(address: SocketAddress) -> SocketAddr {
    SocketAddr::new(address.ip, address.port)
}

fn append(stash: &mut VecDeque<u8>, frame: &Frame) {
    stash.extend(frame.bytes());
}

/// Addresses of the machine unless the caller names others; the same as the stock tool's.
const DEFAULT_IPV4: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 1);
const DEFAULT_IPV6: Ipv6Addr = Ipv6Addr::new(0xfd3d, 0xfa7b, 0xd17d, 0, 0, 0, 0, 1);
/// As in a process with the three standard descriptors.
const FIRST_DESCRIPTOR: i32 = 3;
/// An endless loop is an error of the stack; the script then fails instead of hanging.
const TURNS_MAX: usize = 100_000;
const TIMERS_MAX: usize = 1_000_000;

#[cfg(test)]
mod tests;
