//! A machine in virtual time on which a program runs as in reality: libc's socket calls of `posix`, attached through a real
//! region to a worker of the engine. The system under test of a `.pkt` script, here (`script`) and by the stock packetdrill
//! tool.
//!
//! ```text
//!   program (a thread) -> posix -> region -> worker -> wire (raw IP packets)
//!                           '----> kernel (simulated: sockets that the stack does not have, waits)
//! ```
//! Promises: one thread runs at a time, so the same calls with the same arguments give the same packets. Time stands
//! still while anything has work to do. A call that waits says so, and goes on after any later event; other calls are made
//! meanwhile, and several may wait. Does not do: UDP, signals, more than one worker.
//!
//! `call` has the calls that may wait, `calls` carries all of them out, `program` has their threads, `kernel` what is below
//! `posix`, `wire` the interface.

mod addresses;
mod broker;
mod call;
mod calls;
mod kernel;
mod names;
mod options;
mod program;
mod sysctl;
mod wire;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ringway_channel::Shape;
use ringway_channel::attach::Door;
use ringway_engine::{Host, InterfaceInfo, PortError, Ports, RegionId, RegionRequest, Transport, Worker, WorkerConfig};
use ringway_posix::{Posix, Settings};
use ringway_shm::{ArenaConfig, Duration, Instant};
use ringway_stack::{StackConfig, TcpConfig};

pub use call::{Answer, Call, Progress, Waiting};
use kernel::{Clock, SimKernel};
use program::Program;
pub use sysctl::Sysctl;
pub use wire::Sent;
use wire::{Line, Wire};

/// A machine; see the module documentation.
pub struct Machine {
    now: Instant,
    clock: Clock,
    kernel: SimKernel,
    program: Program,
    worker: Worker,
    line: Line,
    addresses: Vec<IpAddr>,
    /// Descriptors by the numbers that the caller uses for them.
    numbers: BTreeMap<i32, i32>,
    /// Source of those numbers; `None`: the descriptors' own.
    next_number: Option<fn() -> Option<i32>>,
    /// TCP_NOTSENT_LOWAT of new sockets; 0: no limit.
    not_sent_low_water: i32,
}

impl Machine {
    /// Makes a machine with one interface of `mtu` bytes and the address `local`; it also has an address of the other
    /// family.
    ///
    /// # Panics
    /// Panics if the system has no memory, descriptors or threads left.
    pub fn new(local: IpAddr, mtu: u16, sysctl: &Sysctl) -> Machine {
        // Not the start of time, so that a time long ago can be represented.
        let now = Instant::from_millis(1_000_000);
        let config = WorkerConfig {
            stack: stack_config(sysctl),
            arena: ArenaConfig { large: 16_384, small: 16_384 },
            shape: SHAPE,
            spin: Some(Duration::ZERO),
            ..WorkerConfig::default()
        };
        let tcp = config.stack.tcp.clone();
        let ports = Box::new(EveryPort { next: FIRST_PORT });
        let (mut worker, handle) = Worker::new_at(now, config, ports, Box::new(NoHost)).expect("a worker's memory");
        let line = Line::default();
        let interface = InterfaceInfo { name: "tun0".into(), mtu, owned: true, kernel_number: 1, ..InterfaceInfo::default() };
        worker.add_interface(&interface, Box::new(Wire::new(&line)));
        if let Some(keys) = sysctl.fast_open_keys() {
            worker.stack().set_fast_open_keys(None, keys);
        }
        let region = worker.attach_region(RegionRequest::trusted([0; 16], "script")).expect("a region's memory");
        let clock = Clock::new(now);
        let kernel = SimKernel::new(clock.clone(), &tcp, worker.stack().fast_open_keys(None));
        let broker = broker::start(region, handle, SHAPE);
        let attach = ringway_posix::client::from_environment(Door::At(broker.path().to_path_buf()), "0");
        let settings = Settings { strict: false, quiet: true, log_fallback: false };
        let posix = Arc::new(Posix::new(Box::new(kernel.clone()), attach, settings));
        assert!(posix.attach_early(), "the broker is in this process");
        drop(broker);
        let program = Program::new(posix);
        let mut machine = Machine {
            now,
            clock,
            kernel,
            program,
            worker,
            line,
            addresses: Vec::new(),
            numbers: BTreeMap::new(),
            next_number: None,
            not_sent_low_water: sysctl.not_sent_low_water(),
        };
        machine.add_address(local);
        machine.add_address(if local.is_ipv4() { DEFAULT_IPV6.into() } else { DEFAULT_IPV4.into() });
        machine.settle();
        machine
    }

    /// Returns the time.
    pub fn now(&self) -> Instant {
        self.now
    }

    fn set_now(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.clock.set(self.now);
    }

    fn add_address(&mut self, ip: IpAddr) {
        self.addresses.push(ip);
        self.kernel.add_address(ip);
        let (cidrs, routes) = addresses::addressing(&self.addresses);
        self.worker.set_addresses(0, cidrs);
        self.worker.stack().set_routes(routes);
    }

    /// Applies changed system settings and a changed MTU.
    pub fn reconfigure(&mut self, mtu: u16, sysctl: &Sysctl) {
        let tcp = stack_config(sysctl).tcp;
        self.not_sent_low_water = sysctl.not_sent_low_water();
        self.kernel.reconfigure(&tcp);
        self.worker.set_tcp_config(tcp);
        if let Some(keys) = sysctl.fast_open_keys() {
            self.worker.stack().set_fast_open_keys(None, keys);
            self.kernel.set_fast_open_keys(keys);
        }
        self.worker.set_mtu(0, mtu);
    }

    /// Delivers a packet. Its destination becomes an address of the machine: a script's packets are always for it.
    pub fn deliver(&mut self, packet: &[u8]) {
        if let Some(destination) = addresses::unicast_destination(packet)
            && !self.addresses.contains(&destination)
        {
            self.add_address(destination);
        }
        self.line.deliver(self.worker.arena(), packet);
        self.settle();
    }

    /// Returns the next packet sent.
    pub fn next_sent(&mut self) -> Option<Sent> {
        self.line.next_sent()
    }

    /// Advances the time to `until`; each timer on the way runs at its time.
    pub fn advance(&mut self, until: Instant) {
        for _ in 0..TIMERS_MAX {
            if !self.advance_to_timer(until) {
                break;
            }
        }
        self.set_now(until);
        self.settle();
    }

    /// Advances the time to the next timer; `false`: there is none before `limit`.
    pub fn advance_to_timer(&mut self, limit: Instant) -> bool {
        match self.next_timer() {
            Some(at) if at <= limit => {
                self.set_now(at);
                self.settle();
                true
            }
            _ => false,
        }
    }

    /// Returns the time of the next timer, of the worker or of a waiting call.
    pub fn next_timer(&mut self) -> Option<Instant> {
        let waits = self.program.wait_ends().filter(|at| *at > self.now).min();
        [self.worker.poll_timeout(), waits].into_iter().flatten().min()
    }

    /// Runs the worker until it has nothing left to do now.
    fn settle(&mut self) -> bool {
        let mut worked = false;
        for _ in 0..TURNS_MAX {
            if !self.worker.turn(self.now) {
                break;
            }
            worked = true;
        }
        worked
    }

    /// Lets the program's call go on until it returns or cannot go on now.
    fn run(&mut self, thread: usize) -> Option<Answer> {
        loop {
            if let Some(answer) = self.program.go_on(thread) {
                self.settle();
                return Some(answer);
            }
            if !self.settle() {
                return None;
            }
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Calls that still wait end now.
        self.clock.end();
    }
}

/// Returns Linux's defaults where the product's own save packets, changed by the settings.
fn stack_config(sysctl: &Sysctl) -> StackConfig {
    let mut tcp = TcpConfig {
        delayed_ack_min: Duration::from_millis(40),
        quick_start_segments: 16,
        push_trains: 2,
        timestamps_required: false,
        ..TcpConfig::default()
    };
    sysctl.apply(&mut tcp);
    StackConfig {
        seed: 0x5eed,
        connections_max: 1_024,
        listeners_max: 64,
        syn_queue_max: 1_024,
        time_wait_max: 1_024,
        replies_per_second: 100_000,
        tcp,
        ..StackConfig::default()
    }
}

/// Gives every port: nothing else runs on the machine.
struct EveryPort {
    next: u16,
}

impl Ports for EveryPort {
    fn reserve(&mut self, _: IpAddr, port: u16) -> Result<u16, PortError> {
        if port != 0 {
            return Ok(port);
        }
        let chosen = self.next;
        self.next = chosen.checked_add(1).unwrap_or(FIRST_PORT);
        Ok(chosen)
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

/// Sizes of the program's region: few sockets, and space for the largest windows of scripts.
const SHAPE: Shape = Shape {
    slots: 256,
    rx_large: 4_096,
    rx_small: 4_096,
    tx_large: 4_096,
    tx_small: 4_096,
    tx_bulk: 1_024,
    rx_bulk: 16,
    rx_middle: 16,
};
/// The first port that the machine chooses itself.
const FIRST_PORT: u16 = 40_000;
/// Addresses of the machine unless the caller names others; the same as the stock tool's.
const DEFAULT_IPV4: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 1);
const DEFAULT_IPV6: Ipv6Addr = Ipv6Addr::new(0xfd3d, 0xfa7b, 0xd17d, 0, 0, 0, 0, 1);
/// An endless loop is an error of the worker; the script then fails instead of hanging.
const TURNS_MAX: usize = 100_000;
const TIMERS_MAX: usize = 1_000_000;

#[cfg(test)]
mod tests;
