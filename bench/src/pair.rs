//! Two hosts on an in-memory wire, in virtual time.

use ringway_device::memory::{self, Memory, MemoryOptions};
use ringway_device::{Capabilities, Device};
use ringway_shm::{Arena, ArenaConfig, Burst, Duration, Instant};
use ringway_stack::{
    ActiveOpen, Autoconfiguration, Cidr, Event, Interface, MacAddress, Medium, Role, Route, SocketAddress, SocketId, Stack,
    StackConfig, TcpOptions,
};

/// The server's port.
pub const PORT: u16 = 80;

/// One host.
pub struct Host {
    /// The host's stack.
    pub stack: Stack,
    /// Its connections in the order of their creation.
    pub sockets: Vec<SocketId>,
    device: Memory,
    inbound: Burst,
    outbound: [Burst; 1],
}

/// An application that reacts to ready connections.
pub trait Application {
    /// Handles a connection that became ready.
    fn ready(&mut self, now: Instant, stack: &mut Stack, socket: SocketId);
}

/// Adds the stack's only interface: Ethernet over a wire of these capabilities, address 10.0.0.`number`/24.
pub(crate) fn join(stack: &mut Stack, number: u8, capabilities: &Capabilities) {
    let interface = stack.add_interface(Interface {
        name: "wire0".into(),
        medium: Medium::Ethernet,
        mac: MacAddress([2, 0, 0, 0, 0, number]),
        mtu: capabilities.mtu,
        sends_partial_checksums: capabilities.sends_partial_checksums,
        segmentation_max_bytes: capabilities.segmentation_max_bytes,
        segmentation_max_segments: capabilities.segmentation_max_segments,
        segments_udp: capabilities.segments_udp,
        gathers: capabilities.gathers,
        role: Role::Owned,
        autoconfiguration: Autoconfiguration::Off,
        detects_duplicates: false,
        vlan: None,
    });
    let network = Cidr { ip: [10, 0, 0, number].into(), prefix_len: 24 };
    stack.set_addresses(interface, vec![network]);
    stack.set_routes(vec![Route { destination: network, gateway: None, interface, metric: 0, source: None }]);
}

impl Host {
    fn new(number: u8, arena: &Arena, device: Memory) -> Host {
        let config = StackConfig { seed: u64::from(number), connections_max: 1024, time_wait_max: 64, ..StackConfig::default() };
        let mut stack = Stack::new(config, arena.clone(), Instant::ZERO);
        join(&mut stack, number, &device.capabilities());
        Host { stack, sockets: Vec::new(), device, inbound: Burst::default(), outbound: [Burst::default()] }
    }

    /// Receives packets from the wire.
    fn collect(&mut self, now: Instant) -> usize {
        self.device.receive(now, &mut self.inbound).expect("the memory wire does not fail")
    }

    /// Transmits the stack's packets to the wire.
    fn deliver(&mut self, now: Instant) -> usize {
        let mut sent = 0;
        while !self.outbound[0].is_empty() {
            let now_sent = self.device.transmit(now, &mut self.outbound[0]).expect("the memory wire does not fail");
            assert!(now_sent > 0, "the wire of the benchmark is large enough");
            sent += now_sent;
        }
        sent
    }

    /// Runs one iteration of the stack and its application, without the device.
    fn work(&mut self, now: Instant, application: &mut dyn Application) {
        self.stack.receive(now, 0, &mut self.inbound);
        if self.stack.poll_timeout().is_some_and(|at| at <= now) {
            self.stack.handle_timeout(now);
        }
        while self.stack.transmit(now, &mut self.outbound) {}
        while let Some(event) = self.stack.poll_event() {
            match event {
                Event::Ready { socket, .. } | Event::Connected { socket, .. } => application.ready(now, &mut self.stack, socket),
                Event::Accepted { listener, .. } => self.accept_all(now, listener, application),
                Event::Failed { error, .. } => panic!("a connection of the benchmark failed: {error:?}"),
                Event::Closed { .. } | Event::Urgent { .. } | Event::ResolveNeighbor { .. } | Event::Address { .. } => {}
            }
        }
        while self.stack.transmit(now, &mut self.outbound) {}
    }

    /// Accepts all waiting connections: one event may announce several.
    fn accept_all(&mut self, now: Instant, listener: SocketId, application: &mut dyn Application) {
        while let Ok(socket) = self.stack.accept(listener, self.sockets.len() as u64) {
            self.sockets.push(socket);
            application.ready(now, &mut self.stack, socket);
        }
    }
}

/// The measured iteration: callgrind counts only inside this function.
#[inline(never)]
fn measured_server_turn(host: &mut Host, now: Instant, application: &mut dyn Application) {
    host.work(now, application);
}

/// A client and the measured server.
pub struct Pair {
    /// The host that opens the connections.
    pub client: Host,
    /// The measured host.
    pub server: Host,
    /// Virtual time.
    pub now: Instant,
}

impl Pair {
    /// Creates two hosts with `flows` established connections.
    ///
    /// # Panics
    /// When the connections are not established: the stack is broken.
    pub fn new(flows: usize, options: MemoryOptions) -> Pair {
        let arenas = [0, 1].map(|_| Arena::new(ArenaConfig { large: 8_192, small: 8_192 }));
        let (left, right) = memory::pair(&arenas[0], &arenas[1], options);
        let mut pair =
            Pair { client: Host::new(1, &arenas[0], left), server: Host::new(2, &arenas[1], right), now: Instant::ZERO };
        pair.server.stack.listen(server(), 1_024, socket_options(), 0).expect("a free port");
        for _ in 0..flows {
            let socket = open(&mut pair.client.stack, pair.now);
            pair.client.sockets.push(socket);
        }
        for _ in 0..1_000 {
            pair.turn(&mut Nothing, &mut Nothing);
            if pair.server.sockets.len() == flows {
                return pair;
            }
        }
        panic!("{} of {flows} connections were made", pair.server.sockets.len());
    }

    /// Runs one iteration of each host; time advances by 10 us, or to the next timer when no packet moves.
    ///
    /// # Panics
    /// After an hour of virtual time: the trace makes no progress.
    pub fn turn(&mut self, client: &mut dyn Application, server: &mut dyn Application) {
        let mut moved = self.client.collect(self.now);
        self.client.work(self.now, client);
        moved += self.client.deliver(self.now);
        moved += self.server.collect(self.now);
        measured_server_turn(&mut self.server, self.now, server);
        moved += self.server.deliver(self.now);
        let timers = [self.client.stack.poll_timeout(), self.server.stack.poll_timeout()];
        let next = timers.into_iter().flatten().min().filter(|_| moved == 0);
        self.now = next.unwrap_or(self.now + Duration::from_micros(10)).max(self.now);
        assert!(self.now < LIMIT, "the trace makes no progress");
    }
}

/// Opens a connection to the server.
///
/// # Panics
/// When there is no route to it: the benchmark is broken.
pub fn open(client: &mut Stack, now: Instant) -> SocketId {
    client.connect(now, ActiveOpen { options: socket_options(), ..ActiveOpen::to(server()) }).expect("a route to the server")
}

fn server() -> SocketAddress {
    SocketAddress { ip: [10, 0, 0, 2].into(), port: PORT }
}

fn socket_options() -> TcpOptions {
    TcpOptions { no_delay: true, ..TcpOptions::default() }
}

struct Nothing;

impl Application for Nothing {
    fn ready(&mut self, _: Instant, _: &mut Stack, _: SocketId) {}
}

/// Limit of virtual time: an hour, which no trace takes.
const LIMIT: Instant = Instant::from_nanos(3_600 * 1_000_000_000);
