//! Two workers, a wire, applications, and time that only a test advances.

mod handover;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use ringway_channel::attach::{ClientMessage, ControlConnection, ControlListener};
use ringway_channel::{
    Client, ControlAnswer, ControlResult, KernelReason, Operation, ProcessTable, Shape, SlotRef, SocketOption,
};
use ringway_device::Device;
use ringway_device::impair::{Impair, Impairments};
use ringway_device::memory::{self, MemoryOptions};
use ringway_shm::stats::SocketRecord;
use ringway_shm::{Arena, ArenaConfig, Class, Duration, Flow, GroupSet, Instant};
use ringway_stack::{Cidr, CongestionControl, FastOpenConfig, MacAddress, Route, StackConfig};

use crate::attach::Maker;
use crate::command::{Command, InterfaceInfo, RegionId, RegionRequest};
use crate::guard::Guard;
use crate::handover::Unmoved;
use crate::ports::{Division, Host, Leave, PortError, Ports, Transport};
use crate::quota::{GroupQuotas, UserQuotas};
use crate::verdict::{Ruling, Terms, Verdict};
use crate::worker::{Worker, WorkerConfig};
use handover::{LeftPorts, Taken};

pub(super) const SERVER: [u8; 4] = [10, 0, 0, 1];
const CLIENT: [u8; 4] = [10, 0, 0, 2];
pub(super) const ADDRESSES: [[u8; 4]; 2] = [SERVER, CLIENT];
pub(super) const SHAPE: Shape =
    Shape { slots: 256, rx_large: 512, rx_small: 512, tx_large: 512, tx_small: 512, tx_bulk: 128, rx_bulk: 4, rx_middle: 4 };
const ARENA: ArenaConfig = ArenaConfig { large: 8_192, small: 8_192 };

pub(super) fn socket(ip: [u8; 4], port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::from(ip)), port)
}

/// Bytes that differ from place to place.
pub(super) fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    (0..len).map(|_| random.next() as u8).collect()
}

/// SplitMix64.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

/// While this one is guarded, it may be served but not owned.
pub(super) const WAITS: u16 = 85;
/// While this one is guarded, a rule of the configuration leaves it to the kernel.
pub(super) const RULED: u16 = 86;
/// While this one is guarded, it is denied.
pub(super) const DENIED: u16 = 87;
/// This one is served on terms.
pub(super) const SLOW: u16 = 88;

/// Gives ports one after the other and counts the steered ones.
struct CountingPorts {
    next: u16,
    owned: Arc<AtomicUsize>,
    guarded: Guarded,
    chosen: Arc<Chosen>,
    division: Option<Recorder>,
    left: LeftPorts,
}

/// Ports that were chosen for connections, and the most that may be.
struct Chosen {
    count: AtomicUsize,
    most: AtomicUsize,
}

/// Ports that the host's firewall forbids: to serve, and to connect to.
type Guarded = Arc<Mutex<BTreeSet<u16>>>;

/// Requests of a worker that is one of several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Asked {
    HandOver(GroupSet, usize),
    Keep(Flow),
    Forget(Flow),
}

/// Mock of the other workers.
#[derive(Clone, Default)]
pub(super) struct Recorder(Arc<Mutex<Others>>);

pub(super) struct Others {
    /// The groups of this worker.
    pub(super) groups: GroupSet,
    /// Answer of the next `weigh`.
    pub(super) better_off: GroupSet,
    /// True if `hand_over` and `keep` find no space.
    pub(super) full: bool,
    /// Load reported by the last `weigh`.
    pub(super) busy: f64,
    pub(super) asked: Vec<Asked>,
}

impl Default for Others {
    fn default() -> Others {
        Others { groups: GroupSet::ALL, better_off: GroupSet::NONE, full: false, busy: 0.0, asked: Vec::new() }
    }
}

impl Recorder {
    pub(super) fn others(&self) -> MutexGuard<'_, Others> {
        self.0.lock().expect("no panic while it is held")
    }

    fn ask(&mut self, asked: Asked) -> std::io::Result<()> {
        let mut others = self.others();
        if others.full {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        others.asked.push(asked);
        Ok(())
    }
}

impl Division for Recorder {
    fn groups(&self) -> GroupSet {
        self.others().groups
    }
    fn weigh(&mut self, _: Instant, busy: f64) -> GroupSet {
        let mut others = self.others();
        others.busy = busy;
        std::mem::replace(&mut others.better_off, GroupSet::NONE)
    }
    fn hand_over(&mut self, _: Instant, groups: GroupSet, kept: &[Flow]) -> std::io::Result<()> {
        self.ask(Asked::HandOver(groups, kept.len()))
    }
    fn keep(&mut self, flow: &Flow) -> std::io::Result<()> {
        self.ask(Asked::Keep(*flow))
    }
    fn forget(&mut self, flow: &Flow) {
        self.others().asked.push(Asked::Forget(*flow));
    }
}

impl Ports for CountingPorts {
    fn reserve(&mut self, _: IpAddr, port: u16) -> Result<u16, PortError> {
        if self.chosen.count.load(Ordering::Relaxed) >= self.chosen.most.load(Ordering::Relaxed) {
            return Err(PortError::InUse);
        }
        self.chosen.count.fetch_add(1, Ordering::Relaxed);
        self.next += 1;
        Ok(if port == 0 { self.next } else { port })
    }
    fn reserved_max(&self) -> Option<u64> {
        Some(self.chosen.most.load(Ordering::Relaxed) as u64)
    }
    fn release(&mut self, _: IpAddr, _: u16) {
        self.chosen.count.fetch_sub(1, Ordering::Relaxed);
    }
    fn own(&mut self, _: Transport, _: IpAddr, port: u16) -> Result<(), PortError> {
        if port == WAITS && self.guarded.lock().expect("no panic while it is held").contains(&port) {
            return Err(PortError::Waits);
        }
        self.owned.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    fn disown(&mut self, _: Transport, _: IpAddr, _: u16) {
        self.owned.fetch_sub(1, Ordering::Relaxed);
    }
    fn leave(&mut self, _: IpAddr, port: u16, stay: &[(IpAddr, u16)]) -> Leave {
        self.left.leave(port, stay)
    }
    fn has_left(&mut self, _: IpAddr, port: u16) -> bool {
        self.left.is_left(port)
    }
    fn stay(&mut self, _: IpAddr, port: u16) -> bool {
        !self.left.is_left(port)
    }
    fn take_back(&mut self, _: IpAddr, port: u16, _: &[(IpAddr, u16)]) -> bool {
        self.left.take_back(port);
        true
    }
    fn has_rules(&self) -> bool {
        !self.guarded.lock().expect("no panic while it is held").is_empty()
    }
    fn passes_port(&mut self, transport: Transport, ip: IpAddr, port: u16) -> bool {
        [RULED, DENIED].contains(&port) || self.judge_port(transport, ip, port).serves()
    }
    fn passes_connection(&mut self, _: SocketAddr, peer: SocketAddr) -> bool {
        self.passes_port(Transport::Tcp, peer.ip(), peer.port())
    }
    fn judge_port(&mut self, _: Transport, _: IpAddr, port: u16) -> Verdict {
        let is_guarded = self.guarded.lock().expect("no panic while it is held").contains(&port);
        match port {
            RULED if is_guarded => Verdict::Kernel(KernelReason::Rule),
            DENIED if is_guarded => Verdict::Deny,
            SLOW => Verdict::Serve(Terms {
                congestion_control: Some(CongestionControl::Bbr),
                rate_max: 1_000_000,
                ..Terms::default()
            }),
            WAITS => Verdict::default(),
            _ if is_guarded => Verdict::Kernel(KernelReason::Firewall),
            _ => Verdict::default(),
        }
    }
    fn judge_connection(&mut self, _: SocketAddr, peer: SocketAddr) -> Verdict {
        self.judge_port(Transport::Tcp, peer.ip(), peer.port())
    }
    fn division(&mut self) -> Option<&mut dyn Division> {
        self.division.as_mut().map(|division| division as &mut dyn Division)
    }
}

struct NoHost(Taken);

impl Host for NoHost {
    fn resolve(&mut self, _: u32, _: IpAddr) {}
    fn forked(&mut self, _: RegionId, _: u32, _: u32) {}
    fn take(&mut self, unmoved: Unmoved) {
        self.0.note(unmoved);
    }
}

/// One application group with one process: this one.
pub(super) struct App {
    pub(super) client: Client,
    pub(super) worker: usize,
    pub(super) region: RegionId,
    memory: File,
    _control: ControlConnection,
}

pub(super) struct Net {
    pub(super) now: Instant,
    pub(super) workers: [Worker; 2],
    pub(super) apps: Vec<App>,
    owned: Arc<AtomicUsize>,
    guarded: Guarded,
    chosen: Arc<Chosen>,
    left: LeftPorts,
    taken: Taken,
    /// Time leaps to the next timer when nothing happens; `false`: the kernel carries packets in its own time.
    pub(super) leaps: bool,
}

impl Net {
    /// Two workers on a wire, the first with [`SERVER`], each with one application.
    pub(super) fn new() -> Net {
        Net::on(MemoryOptions::default())
    }

    /// The same on a wire of another kind.
    pub(super) fn on(options: MemoryOptions) -> Net {
        Net::with(options, None, None)
    }

    /// The same on a wire that does `harm` to what the second worker sends.
    pub(super) fn impaired(options: MemoryOptions, harm: Option<Impairments>) -> Net {
        Net::with(options, None, harm)
    }

    /// The same, with the first worker as one of several: `others` is their mock.
    pub(super) fn divided(others: &Recorder) -> Net {
        Net::with(MemoryOptions::default(), Some(others), None)
    }

    fn with(options: MemoryOptions, others: Option<&Recorder>, harm: Option<Impairments>) -> Net {
        Net::between(others, |arenas| {
            let (first, second) = memory::pair(arenas[0], arenas[1], options);
            let second: Box<dyn Device> = match harm {
                None => Box::new(second),
                Some(harm) => Box::new(Impair::new(Box::new(second), arenas[1], 7, harm, Impairments::default())),
            };
            [Box::new(first), second]
        })
    }

    /// The same with other devices, made for the arenas of the two workers.
    pub(super) fn between(others: Option<&Recorder>, devices: impl FnOnce([&Arena; 2]) -> [Box<dyn Device>; 2]) -> Net {
        let (owned, guarded, left) = (Arc::new(AtomicUsize::new(0)), Guarded::default(), LeftPorts::default());
        let taken = Taken::default();
        let chosen = Arc::new(Chosen { count: AtomicUsize::new(0), most: AtomicUsize::new(10_000) });
        let now = Instant::from_millis(1_000);
        let make = |seed: u64| {
            let mut stack = StackConfig { seed, ..StackConfig::default() };
            stack.tcp.fast_open = FastOpenConfig::from_bits(3);
            let config = WorkerConfig { stack, arena: ARENA, shape: SHAPE, ..WorkerConfig::default() };
            let division = others.filter(|_| seed == 1).cloned();
            let (owned, guarded, chosen, left) = (owned.clone(), guarded.clone(), chosen.clone(), left.clone());
            let ports = CountingPorts { next: 40_000, owned, guarded, chosen, division, left };
            Worker::new_at(now, config, Box::new(ports), Box::new(NoHost(taken.clone()))).expect("a worker").0
        };
        let mut workers = [make(1), make(2)];
        let [first, second] = devices([workers[0].arena(), workers[1].arena()]);
        add_interface(&mut workers[0], 0, first, now);
        add_interface(&mut workers[1], 1, second, now);
        let mut net = Net { now, workers, apps: Vec::new(), owned, guarded, chosen, left, taken, leaps: true };
        net.attach(0, [1; 16]);
        net.attach(1, [2; 16]);
        net
    }

    /// Attaches one more application group to a worker; returns its number.
    pub(super) fn attach(&mut self, worker: usize, token: [u8; 16]) -> usize {
        self.attach_shaped(worker, token, SHAPE)
    }

    /// The same with a region of another shape.
    pub(super) fn attach_shaped(&mut self, worker: usize, token: [u8; 16], shape: Shape) -> usize {
        let owner = RegionRequest::trusted(token, "test");
        let target = &mut self.workers[worker];
        let made = Maker::new(shape).make(owner).expect("memory");
        let memory = target.attachments.attach(made, &mut target.core, &target.idle).expect("a region");
        let path = socket_path();
        let listener = ControlListener::bind(&path).expect("a path of our own");
        let (client, control) = std::thread::scope(|scope| {
            let attaching = scope.spawn(|| Client::attach(&path, token, 0));
            wait_readable(&listener);
            let control = listener.accept().expect("it connects");
            wait_readable(&control);
            assert!(matches!(control.receive(), Ok(ClientMessage::Hello { .. })));
            let processes = ProcessTable::new(memory.memory.as_fd(), shape).expect("the region is good");
            let process = processes.claim(std::process::id(), None).expect("a number is free");
            control.welcome(shape, process, memory.memory.as_fd(), memory.doorbell.as_fd()).expect("it listens");
            (attaching.join().expect("no panic").expect("attached"), control)
        });
        std::fs::remove_file(&path).expect("it is ours");
        let file = File::from(memory.memory.as_fd().try_clone_to_owned().expect("a descriptor"));
        self.apps.push(App { client, worker, region: memory.region, memory: file, _control: control });
        self.apps.len() - 1
    }

    /// Makes the host's firewall forbid these ports, and tells a worker.
    pub(super) fn guard(&mut self, worker: usize, ports: &[u16]) {
        *self.guarded.lock().expect("no panic while it is held") = ports.iter().copied().collect();
        self.workers[worker].follow_rules();
    }

    /// Lets both workers choose so many ports for connections, those of now included.
    pub(super) fn limit_chosen_ports(&mut self, most: usize) {
        self.chosen.most.store(most, Ordering::Relaxed);
    }

    /// Rules of the configuration say this of an application.
    pub(super) fn rule(&mut self, app: usize, ruling: Ruling) {
        let App { worker, region, .. } = self.apps[app];
        let Worker { core, attachments, .. } = &mut self.workers[worker];
        attachments.rule(region, ruling, core);
    }

    /// Replaces the quotas of each group at a worker.
    pub(super) fn set_quotas(&mut self, worker: usize, group: GroupQuotas) {
        self.workers[worker].execute(Command::SetQuotas(UserQuotas::default(), group));
    }

    /// Makes the kernel's for an application what programs of its cgroups see.
    pub(super) fn confine(&mut self, app: usize, guard: Guard) {
        let App { worker, region, .. } = self.apps[app];
        let Worker { core, attachments, .. } = &mut self.workers[worker];
        attachments.guard(region, guard, core);
    }

    /// Rows of an application's refused sockets for tools: port, peer's port, reason, count.
    pub(super) fn refused(&mut self, app: usize) -> Vec<(u16, u16, &'static str, u32)> {
        let App { worker, region, .. } = self.apps[app];
        let rows = self.workers[worker].attachments.refused_rows(region);
        let path = |row: &SocketRecord| row.kernel.expect("the kernel has it");
        rows.iter().map(|row| (row.local.port, row.remote.port, path(row).reason.word(), path(row).count)).collect()
    }

    /// Runs one iteration of both workers, then advances time a little.
    pub(super) fn step(&mut self) {
        for worker in &mut self.workers {
            worker.turn(self.now);
        }
        self.now += Duration::from_micros(20);
    }

    /// Steps until `done`; time jumps when nothing happens.
    ///
    /// # Panics
    /// Panics if no event is left, or it takes too long.
    pub(super) fn run_until(&mut self, mut done: impl FnMut(&mut Net) -> bool) {
        for _ in 0..2_000_000 {
            if done(self) {
                return;
            }
            self.advance(None);
        }
        panic!("it takes too long");
    }

    fn advance(&mut self, end: Option<Instant>) {
        let before = self.now;
        let worked = self.workers.iter_mut().fold(false, |worked, worker| worker.turn(before) | worked);
        let mut next = before + Duration::from_micros(20);
        if !worked && self.leaps {
            let timer = self.workers.iter().filter_map(|worker| worker.next_timeout(before)).min();
            let until = timer.or(end).expect("something is still to happen");
            next = next.max(end.map_or(until, |end| until.min(end)));
        }
        self.now = next;
    }

    pub(super) fn run_for_ms(&mut self, ms: u64) {
        let end = self.now + Duration::from_millis(ms);
        while self.now < end {
            self.advance(Some(end));
        }
    }

    pub(super) fn open(&mut self, app: usize) -> SlotRef {
        self.apps[app].client.open_slot().expect("a slot is free")
    }

    pub(super) fn control(&mut self, app: usize, slot: SlotRef, operation: Operation) -> ControlAnswer {
        match self.ask(app, slot, operation, &mut []) {
            ControlResult::Answer(answer) => answer,
            ControlResult::Bytes(count) => panic!("{count} bytes for an answer"),
        }
    }

    pub(super) fn control_bytes(&mut self, app: usize, slot: SlotRef, operation: Operation, buffer: &mut [u8]) -> usize {
        match self.ask(app, slot, operation, buffer) {
            ControlResult::Bytes(count) => count,
            ControlResult::Answer(answer) => panic!("{answer:?} for bytes"),
        }
    }

    fn ask(&mut self, app: usize, slot: SlotRef, operation: Operation, buffer: &mut [u8]) -> ControlResult {
        let ticket = self.apps[app].client.control(slot, operation).expect("none is under way");
        for _ in 0..3 {
            if let Some(result) = self.apps[app].client.completed(ticket, buffer) {
                return result;
            }
            self.step();
        }
        panic!("a control request is answered in the turn that takes it");
    }

    pub(super) fn listen(&mut self, app: usize, port: u16) -> SlotRef {
        let slot = self.open(app);
        let operation = Operation::Listen { local: socket([0, 0, 0, 0], port), backlog: 16, dual_stack: false };
        assert_eq!(self.control(app, slot, operation), ControlAnswer::Done);
        slot
    }

    /// Like `listen`, for a program that listens at every worker.
    pub(super) fn listen_everywhere(&mut self, app: usize, port: u16) -> SlotRef {
        let slot = self.open(app);
        let every_worker = Operation::SetOption { option: SocketOption::EveryWorker, value: 1 };
        assert_eq!(self.control(app, slot, every_worker), ControlAnswer::Done);
        let operation = Operation::Listen { local: socket([0, 0, 0, 0], port), backlog: 16, dual_stack: false };
        assert_eq!(self.control(app, slot, operation), ControlAnswer::Done);
        slot
    }

    pub(super) fn connect(&mut self, app: usize, port: u16) -> SlotRef {
        let slot = self.open(app);
        let operation = Operation::Connect { remote: socket(SERVER, port) };
        assert_eq!(self.control(app, slot, operation), ControlAnswer::Done);
        slot
    }

    pub(super) fn accept(&mut self, app: usize, listener: SlotRef) -> SlotRef {
        let mut accepted = None;
        self.run_until(|net| {
            accepted = net.apps[app].client.accept(listener);
            accepted.is_some()
        });
        accepted.expect("run_until waited for it")
    }

    pub(super) fn close(&mut self, app: usize, slot: SlotRef) {
        let client = &self.apps[app].client;
        if client.release(slot.index) {
            assert!(client.close(slot, None));
        }
        self.step();
    }

    pub(super) fn send(&mut self, app: usize, slot: SlotRef, bytes: &[u8]) -> usize {
        let mut sent = 0;
        self.run_until(|net| {
            match net.apps[app].client.send(slot, &[IoSlice::new(&bytes[sent..])]) {
                Ok(count) => sent += count,
                Err(ringway_channel::SendError::WouldBlock) => {}
                Err(error) => panic!("{error:?}"),
            }
            sent == bytes.len()
        });
        sent
    }

    /// Writes what there is space for.
    pub(super) fn send_some(&mut self, app: usize, slot: SlotRef, bytes: &[u8]) {
        match self.apps[app].client.send(slot, &[IoSlice::new(bytes)]) {
            Ok(_) | Err(ringway_channel::SendError::WouldBlock) => {}
            Err(error) => panic!("{error:?}"),
        }
    }

    /// Reads everything available.
    pub(super) fn receive_into(&mut self, app: usize, slot: SlotRef, bytes: &mut Vec<u8>) {
        let mut buffer = [0; 10_000];
        while let Ok(count) = self.apps[app].client.receive(slot, &mut [IoSliceMut::new(&mut buffer)]) {
            if count == 0 {
                return;
            }
            bytes.extend_from_slice(&buffer[..count]);
        }
    }

    /// Sends both streams at once and returns what arrived at each end.
    pub(super) fn exchange(
        &mut self,
        left: (usize, SlotRef),
        right: (usize, SlotRef),
        from_left: &[u8],
        from_right: &[u8],
    ) -> (Vec<u8>, Vec<u8>) {
        let (mut sent_left, mut sent_right) = (0, 0);
        let (mut at_left, mut at_right) = (Vec::new(), Vec::new());
        self.run_until(|net| {
            net.write_some(left, from_left, &mut sent_left);
            net.write_some(right, from_right, &mut sent_right);
            net.receive_into(left.0, left.1, &mut at_left);
            net.receive_into(right.0, right.1, &mut at_right);
            at_left.len() >= from_right.len() && at_right.len() >= from_left.len()
        });
        (at_left, at_right)
    }

    pub(super) fn write_some(&mut self, (app, slot): (usize, SlotRef), bytes: &[u8], sent: &mut usize) {
        if *sent < bytes.len()
            && let Ok(count) = self.apps[app].client.send(slot, &[IoSlice::new(&bytes[*sent..])])
        {
            *sent += count;
        }
    }

    pub(super) fn process_gone(&mut self, app: usize, process: u32) {
        let App { worker, region, .. } = self.apps[app];
        let Worker { attachments, core, .. } = &mut self.workers[worker];
        attachments.process_gone(region, process, std::process::id(), core);
    }

    pub(super) fn detach(&mut self, app: usize) {
        let App { worker, region, .. } = self.apps[app];
        let Worker { attachments, core, idle, .. } = &mut self.workers[worker];
        attachments.detach(region, core, idle);
    }

    pub(super) fn ports_in_use(&self) -> usize {
        self.owned.load(Ordering::Relaxed)
    }

    pub(super) fn frames_are_all_free(&self) -> bool {
        self.workers.iter().all(|worker| {
            let arena = worker.arena();
            let slots = [Class::Large, Class::Small].iter().all(|&class| arena.free(class) == arena.capacity(class));
            slots && arena.free_extents() == arena.extents()
        })
    }

    /// Writes `count` words to chunks of the group's region, in whatever state they are.
    pub(super) fn scribble_over_payload(&mut self, app: usize, seed: u64, count: usize) {
        self.scribbler(app)(seed, count);
    }

    /// The handle that does that; for another thread too.
    pub(super) fn scribbler(&self, app: usize) -> impl Fn(u64, usize) + Send + use<> {
        let memory = self.apps[app].memory.try_clone().expect("descriptors are left");
        let rooms = u64::from(SHAPE.rx_bulk) * (64 << 10) + u64::from(SHAPE.rx_middle) * (16 << 10);
        let (chunks, end) = (u64::from(SHAPE.tx_bulk) * (32 << 10) + rooms, memory.metadata().expect("a memory file").len());
        move |seed, count| {
            let mut random = Random(seed);
            for _ in 0..count {
                // Bulk chunks are behind all lists, and receive chunks of bulk behind these.
                let at = end - 8 - random.next() % (chunks - 8);
                memory.write_all_at(&random.next().to_le_bytes(), at).expect("shared memory");
            }
        }
    }
}

fn add_interface(worker: &mut Worker, number: usize, device: Box<dyn Device>, now: Instant) {
    let mac = |number: usize| MacAddress([2, 0, 0, 0, 0, number as u8 + 1]);
    let ip = |number: usize| IpAddr::V4(Ipv4Addr::from(ADDRESSES[number]));
    let info =
        InterfaceInfo { name: format!("wire{number}"), mac: mac(number), mtu: 1500, owned: false, ..InterfaceInfo::default() };
    let interface = worker.add_interface(&info, device);
    let stack = worker.stack();
    stack.set_addresses(interface, vec![Cidr { ip: ip(number), prefix_len: 24 }]);
    let destination = Cidr { ip: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), prefix_len: 24 };
    stack.set_routes(vec![Route { destination, gateway: None, interface, metric: 0, source: None }]);
    stack.set_neighbor(now, interface, ip(1 - number), Some(mac(1 - number)));
}

fn socket_path() -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("ringway-engine-{}-{number}", std::process::id()))
}

fn wait_readable(fd: &impl AsFd) {
    use rustix::event::{PollFd, PollFlags, poll};
    poll(&mut [PollFd::new(fd, PollFlags::IN)], None).expect("a wait");
}
