//! A worker with several application groups: two write arbitrary words into their regions and are given descriptors and
//! claims; the bytes of the third group must stay correct.
//!
//! Input: steps; each writes a word into a hostile region, sends a request of a hostile group, or sends the worker what its
//! service sends about such a group. The honest group serves a client at another worker over a wire in memory, in virtual
//! time.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ringway_channel::attach::{ClientMessage, ControlConnection, ControlListener, WakeFdKind, make_wake_fd};
use ringway_channel::{Client, ControlAnswer, ControlResult, Operation, ProcessTable, Request, Shape, SlotRef};
use ringway_device::memory::{self, Memory, MemoryOptions};
use ringway_engine::{
    Claim, Host, InterfaceInfo, PortError, Ports, Purpose, RegionId, RegionRequest, Rights, Transport, Worker, WorkerConfig,
    WorkerHandle,
};
use ringway_shm::{ArenaConfig, Duration, Instant};
use ringway_stack::{Cidr, MacAddress, Route, StackConfig};

use crate::input::Input;

const SHAPE: Shape =
    Shape { slots: 128, rx_large: 8, rx_small: 16, tx_large: 8, tx_small: 16, tx_bulk: 4, rx_bulk: 4, rx_middle: 4 };
const ARENA: ArenaConfig = ArenaConfig { large: 1_024, small: 1_024 };
const ADDRESSES: [[u8; 4]; 2] = [[10, 0, 0, 1], [10, 0, 0, 2]];
/// Maximum number of steps of one input.
const STEPS_MAX: usize = 400;
/// Number of bytes that the honest group sends back.
const ECHO_BYTES: usize = 20_000;
/// Iterations within which all of them must be back, whatever the other groups do.
const TURNS_MAX: u32 = 100_000;

fn socket(ip: [u8; 4], port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::from(ip)), port)
}

struct AnyPorts(u16);

impl Ports for AnyPorts {
    fn reserve(&mut self, _: IpAddr, port: u16) -> Result<u16, PortError> {
        self.0 = self.0.checked_add(1).unwrap_or(40_000);
        Ok(if port == 0 { self.0 } else { port })
    }
    fn release(&mut self, _: IpAddr, _: u16) {}
    fn own(&mut self, _: Transport, _: IpAddr, _: u16) -> Result<(), PortError> {
        Ok(())
    }
    fn disown(&mut self, _: Transport, _: IpAddr, _: u16) {}
}

struct NoHost;

impl Host for NoHost {
    fn resolve(&mut self, _: u32, _: IpAddr) {}
    fn forked(&mut self, _: RegionId, _: u32, _: u32) {}
}

/// One process of a group.
struct Group {
    client: Client,
    region: RegionId,
    memory: File,
    _control: ControlConnection,
}

struct Net {
    now: Instant,
    workers: [Worker; 2],
    handles: [WorkerHandle; 2],
}

impl Net {
    fn new() -> Net {
        let now = Instant::from_millis(1_000);
        let make = |seed: u64| {
            let stack = StackConfig { seed, ..StackConfig::default() };
            let config = WorkerConfig { stack, arena: ARENA, shape: SHAPE, ..WorkerConfig::default() };
            Worker::new_at(now, config, Box::new(AnyPorts(40_000)), Box::new(NoHost)).expect("memory for a worker is left")
        };
        let ((left, left_handle), (right, right_handle)) = (make(1), make(2));
        let mut workers = [left, right];
        let wire = memory::pair(workers[0].arena(), workers[1].arena(), MemoryOptions::default());
        add_interface(&mut workers[0], 0, wire.0, now);
        add_interface(&mut workers[1], 1, wire.1, now);
        Net { now, workers, handles: [left_handle, right_handle] }
    }

    fn turn(&mut self) {
        for worker in &mut self.workers {
            worker.turn(self.now);
        }
        self.now += Duration::from_micros(100);
    }

    /// Asks a worker from another thread, as its service does, and runs the worker until it has answered.
    fn ask<T: Send>(&mut self, worker: usize, question: impl FnOnce(&WorkerHandle) -> T + Send) -> T {
        let handle = self.handles[worker].clone();
        std::thread::scope(|scope| {
            let asking = scope.spawn(move || question(&handle));
            while !asking.is_finished() {
                self.turn();
                std::thread::yield_now();
            }
            asking.join().expect("a question does not panic")
        })
    }

    fn attach(&mut self, worker: usize, token: u8, rights: Rights) -> Group {
        let token = [token; 16];
        let request = RegionRequest { rights, ..RegionRequest::trusted(token, "fuzz") };
        let memory = self.ask(worker, |handle| handle.attach_region(request)).expect("memory for a region is left");
        let path = socket_path();
        let listener = ControlListener::bind(&path).expect("a path of our own");
        let (client, control) = std::thread::scope(|scope| {
            let attaching = scope.spawn(|| Client::attach(&path, token, 0));
            let control = wait_for(|| listener.accept());
            assert!(matches!(wait_for(|| control.receive()), ClientMessage::Hello { .. }));
            let processes = ProcessTable::new(memory.memory.as_fd(), SHAPE).expect("the region is good");
            let process = processes.claim(std::process::id(), None).expect("a number is free");
            control.welcome(SHAPE, process, memory.memory.as_fd(), memory.doorbell.as_fd()).expect("it listens");
            (attaching.join().expect("no panic").expect("attached"), control)
        });
        std::fs::remove_file(&path).expect("it is ours");
        Group { client, region: memory.region, memory: File::from(memory.memory), _control: control }
    }

    fn done(&mut self, group: &Group, slot: SlotRef, operation: Operation) {
        let ticket = group.client.control(slot, operation).expect("none is under way");
        for _ in 0..10 {
            if let Some(result) = group.client.completed(ticket, &mut []) {
                assert_eq!(result, ControlResult::Answer(ControlAnswer::Done));
                return;
            }
            self.turn();
        }
        panic!("an honest group's request is answered in the iteration that takes it");
    }
}

/// The honest group's conversation: the client at the other worker sends, the server sends it back.
struct Honest {
    server: Group,
    client: Group,
    accepted: SlotRef,
    connected: SlotRef,
    sent: usize,
    echoed: Vec<u8>,
    pending: Vec<u8>,
}

fn byte_at(place: usize) -> u8 {
    (place ^ place >> 8) as u8
}

impl Honest {
    fn new(net: &mut Net) -> Honest {
        let (server, client) = (net.attach(0, 1, Rights::Trusted), net.attach(1, 2, Rights::Trusted));
        let listener = server.client.open_slot().expect("a slot is free");
        let listen = Operation::Listen { local: socket([0, 0, 0, 0], 80), backlog: 16, dual_stack: false };
        net.done(&server, listener, listen);
        let connected = client.client.open_slot().expect("a slot is free");
        net.done(&client, connected, Operation::Connect { remote: socket(ADDRESSES[0], 80) });
        let accepted = (0..1_000).find_map(|_| {
            net.turn();
            server.client.accept(listener)
        });
        let accepted = accepted.expect("the handshake ends");
        Honest { server, client, accepted, connected, sent: 0, echoed: Vec::new(), pending: Vec::new() }
    }

    /// Sends and receives what is possible now.
    fn go_on(&mut self) {
        let mut buffer = [0; 2_000];
        let end = (self.sent + 700).min(ECHO_BYTES);
        let next: Vec<u8> = (self.sent..end).map(byte_at).collect();
        self.sent += self.client.client.send(self.connected, &[IoSlice::new(&next)]).unwrap_or(0);
        if let Ok(count) = self.server.client.receive(self.accepted, &mut [IoSliceMut::new(&mut buffer)]) {
            self.pending.extend(&buffer[..count]);
        }
        let back = self.server.client.send(self.accepted, &[IoSlice::new(&self.pending)]).unwrap_or(0);
        self.pending.drain(..back);
        if let Ok(count) = self.client.client.receive(self.connected, &mut [IoSliceMut::new(&mut buffer)]) {
            self.echoed.extend(&buffer[..count]);
        }
        let right = self.echoed.iter().enumerate().all(|(place, byte)| *byte == byte_at(place));
        assert!(right, "an honest group's bytes were changed");
    }

    fn finish(&mut self, net: &mut Net) {
        for _ in 0..TURNS_MAX {
            if self.echoed.len() == ECHO_BYTES {
                return;
            }
            self.go_on();
            net.turn();
        }
        panic!("{} of {ECHO_BYTES} bytes of an honest group have come back", self.echoed.len());
    }
}

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut net = Net::new();
    let mut honest = Honest::new(&mut net);
    let hostile = [net.attach(0, 3, Rights::Trusted), net.attach(0, 4, Rights::Shown)];
    let size = hostile[0].memory.metadata().expect("a memory file has a size").len();
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        let step = input.byte();
        let group = &hostile[usize::from(step & 1)];
        if step < 128 {
            let end = if step < 96 { size.min(64 << 10) } else { size };
            let offset = u64::from(input.long()) % (end - 8) / 4 * 4;
            group.memory.write_at(&input.distance().to_le_bytes(), offset).expect("the region takes writes inside it");
        } else {
            act(&mut net, group, step, &mut input);
        }
        if step.is_multiple_of(4) {
            honest.go_on();
            net.turn();
        }
    }
    honest.finish(&mut net);
    for region in [hostile[0].region, hostile[1].region, honest.server.region] {
        net.handles[0].detach_region(region).expect("the worker lives");
    }
    net.handles[1].detach_region(honest.client.region).expect("the worker lives");
    for _ in 0..400 {
        net.turn();
        net.now += Duration::from_millis(1_000);
    }
    for worker in &net.workers {
        assert_eq!(worker.arena().free_extents(), worker.arena().extents(), "a frame was lost");
    }
}

/// Sends a request of a group, or what its service sends the worker about it.
fn act(net: &mut Net, group: &Group, step: u8, input: &mut Input<'_>) {
    let slot = SlotRef { index: u32::from(input.byte()) % (SHAPE.slots + 2), generation: input.distance() };
    let port = input.word();
    let local = socket(if step & 2 == 0 { ADDRESSES[0] } else { [0, 0, 0, 0] }, port);
    match step / 2 % 12 {
        0 | 1 => {
            if let Some(slot) = group.client.open_slot() {
                let listen = Operation::Listen { local, backlog: input.long(), dual_stack: step & 4 == 0 };
                let connect = Operation::Connect { remote: socket(ADDRESSES[1], port % 100) };
                let datagram = Operation::Datagram { local, dual_stack: false };
                let operation = [listen, connect, datagram, Operation::Info][usize::from(input.byte()) % 4];
                group.client.submit(Request { slot, sequence: input.byte(), operation });
                // Data of a slot that no request names yet is not sent; a slot that already belongs to the worker takes it.
                group.client.send(slot, &[IoSlice::new(input.take(50))]).ok();
            }
        }
        2 => {
            let operations =
                [Operation::Transmit, Operation::Consumed, Operation::Shutdown, Operation::Abort, Operation::Reclaim];
            let operation = operations[usize::from(port) % operations.len()];
            group.client.submit(Request { slot, sequence: 0, operation });
        }
        3 => drop(group.client.submit(Request { slot, sequence: 0, operation: Operation::Close { linger_s: Some(port % 3) } })),
        4 => {
            let operation = Operation::Forked { process: input.distance(), pid: input.long() };
            group.client.submit(Request { slot, sequence: 0, operation });
        }
        5 => {
            let kind = if port.is_multiple_of(2) { WakeFdKind::Epoll } else { WakeFdKind::Socket };
            let (ringer, _wake_fd) = make_wake_fd(kind).expect("descriptors are left");
            net.handles[0].context_wake_fd(group.region, input.distance(), Arc::new(ringer)).expect("the worker lives");
        }
        6 => net.handles[0].process_gone(group.region, input.distance(), input.distance()).expect("the worker lives"),
        7 => net.handles[0].revoke(group.region, slot).expect("the worker lives"),
        8 => {
            let purpose = [Purpose::Listen, Purpose::Connect, Purpose::Datagrams][usize::from(port) % 3];
            let claim = Claim { purpose, local, dual_stack: step & 4 == 0, kept: Arc::new(()) };
            let region = group.region;
            net.ask(0, move |handle| handle.claim(region, slot, claim)).expect("the worker lives");
        }
        9 if input.byte() < 8 => net.handles[0].detach_region(group.region).expect("the worker lives"),
        10 => net.now += Duration::from_millis(u64::from(port % 300)),
        _ => net.turn(),
    }
}

fn add_interface(worker: &mut Worker, number: usize, device: Memory, now: Instant) {
    let mac = |number: usize| MacAddress([2, 0, 0, 0, 0, number as u8 + 1]);
    let ip = |number: usize| IpAddr::V4(Ipv4Addr::from(ADDRESSES[number]));
    let info =
        InterfaceInfo { name: format!("wire{number}"), mac: mac(number), mtu: 1500, owned: false, ..InterfaceInfo::default() };
    let interface = worker.add_interface(&info, Box::new(device));
    let stack = worker.stack();
    stack.set_addresses(interface, vec![Cidr { ip: ip(number), prefix_len: 24 }]);
    let destination = Cidr { ip: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), prefix_len: 24 };
    stack.set_routes(vec![Route { destination, gateway: None, interface, metric: 0, source: None }]);
    stack.set_neighbor(now, interface, ip(1 - number), Some(mac(1 - number)));
}

fn socket_path() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("ringway-fuzz-{}-{number}", std::process::id()))
}

/// Waits for what another thread is about to send.
fn wait_for<T>(mut ask: impl FnMut() -> std::io::Result<T>) -> T {
    loop {
        match ask() {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => std::thread::yield_now(),
            answer => return answer.expect("the other end is ours"),
        }
    }
}
