//! The worker: one loop that owns a stack, its devices and its applications.
//!
//! ```text
//! turn: commands -> rx bursts -> stack -> data released by the window -> events to applications
//!       -> their requests -> wakes -> new data, ACKs riding on it -> devices
//! ```
//! Acknowledgments clock out queued data before any application work of the same iteration (`turn`). Promises: one
//! thread only touches the state, without locks; an iteration never blocks; a worker with nothing to do sleeps in one
//! kernel wait. Does not do: deciding which processes may attach; the service decides.

mod commands;
mod driven;

use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;

use ringway_channel::Shape;
use ringway_device::Device;
use ringway_shm::capture::CaptureWriter;
use ringway_shm::{Arena, ArenaConfig, Duration, Instant};
use ringway_stack::{AddressChange, Cidr, Event, Stack, StackConfig, State};

use crate::attach::{Attachments, BulkPolicy, Maker};
use crate::balance::Balance;
use crate::clock;
use crate::command::{Commands, InterfaceInfo, OpenDevice, WorkerHandle};
use crate::core::{Core, Link};
use crate::idle::{Awaited, Idle};
use crate::interface::Interfaces;
use crate::metrics::{Metrics, Work, is_alive};
use crate::native::Sockets;
use crate::port_table::PortTable;
use crate::ports::{Host, Ports};
use crate::quota::{GroupQuotas, UserQuotas};

/// Retry interval for a full device.
const RETRY: Duration = Duration::from_micros(200);
/// Descriptors of devices that a sleep holds without a second allocation.
const DEVICE_FDS: usize = 8;
/// Time before the end for peers that have everything but do not close.
const PATIENCE: Duration = Duration::from_secs(1);
/// Connections that any device has space for; devices are told of more, and of each doubling.
const CROWD: usize = 1024;
/// Sizes of the capture ring and of each packet in it, bytes.
const CAPTURE_BYTES: usize = 8 << 20;
const CAPTURE_SNAPLEN: usize = 65_535;

/// Settings that are fixed when a worker starts.
///
/// ```
/// use ringway_engine::WorkerConfig;
///
/// let mut config = WorkerConfig::default();
/// config.stack.connections_max = 1_000;
/// ```
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// Name of the thread.
    pub name: String,
    /// Limits and options of the stack.
    pub stack: StackConfig,
    /// Number of frames to allocate.
    pub arena: ArenaConfig,
    /// Sizes of each application group's region.
    pub shape: Shape,
    /// Longest time to look for work before a sleep, while that pays; zero: none. `None`: twice the cost of a wake-up
    /// here, which is measured.
    pub spin: Option<Duration>,
    /// Maximum number of application groups.
    pub regions_max: u32,
    /// Connections at most that no application has any more and that have not ended.
    pub orphans_max: u32,
    /// Connections that are to go to the kernel for their bulk data; `None`: none is.
    pub bulk: Option<BulkPolicy>,
    /// Groups that programs join at interfaces that the kernel shares are the stack's too.
    pub multicast_on_stack: bool,
    /// The quotas of one user.
    pub user: UserQuotas,
    /// The quotas of one application group.
    pub group: GroupQuotas,
    /// Where to keep the shared statistics; `None`: nowhere.
    pub stats_path: Option<PathBuf>,
    /// File of the capture ring; `None`: none.
    pub capture_path: Option<PathBuf>,
    /// File in which tools hear of sockets that end; `None`: none.
    pub ended_path: Option<PathBuf>,
}

impl Default for WorkerConfig {
    fn default() -> WorkerConfig {
        WorkerConfig {
            name: "ringway-w0".into(),
            stack: StackConfig::default(),
            arena: ArenaConfig { large: 65_536, small: 65_536 },
            shape: Shape::default(),
            spin: None,
            regions_max: 256,
            orphans_max: 65_536,
            bulk: None,
            multicast_on_stack: false,
            user: UserQuotas::default(),
            group: GroupQuotas::default(),
            stats_path: None,
            capture_path: None,
            ended_path: None,
        }
    }
}

/// One loop that owns a stack, its devices and its applications; see the module documentation.
pub struct Worker {
    arena: Arena,
    pub(crate) core: Core,
    interfaces: Interfaces,
    attachments: Attachments,
    /// Sockets of the code that runs on this thread.
    pub(crate) native: Sockets,
    host: Box<dyn Host>,
    commands: Commands,
    pub(crate) idle: Idle,
    capture: Option<CaptureWriter>,
    balance: Balance,
    /// Open connections beyond which devices are told the number.
    crowd: usize,
    /// The stack had more to write than the budget of one iteration.
    more: bool,
    /// Party that the worker waits for if the next iteration finds nothing.
    awaited: Awaited,
    finish: Option<Finish>,
    stopping: bool,
}

/// End of the worker after the programs have gone.
#[derive(Clone, Copy, Debug)]
struct Finish {
    /// Time until which peers that have everything are waited for.
    patience: Instant,
    /// Time at which the worker ends in any case.
    limit: Instant,
}

impl Worker {
    /// Creates a worker and takes all its memory.
    ///
    /// # Errors
    /// The system has no memory, files or descriptors.
    pub fn new(config: WorkerConfig, ports: Box<dyn Ports>, host: Box<dyn Host>) -> io::Result<(Worker, WorkerHandle)> {
        Worker::new_at(clock::now(), config, ports, host)
    }

    /// Like `new`, for a worker that gets the time passed in: the caller must drive it by `turn`.
    ///
    /// # Errors
    /// The errors of `new`.
    pub fn new_at(
        now: Instant,
        config: WorkerConfig,
        ports: Box<dyn Ports>,
        host: Box<dyn Host>,
    ) -> io::Result<(Worker, WorkerHandle)> {
        let maker = Arc::new(Maker::new(config.shape));
        let (commands, handle) = Commands::new(maker.clone())?;
        let idle = Idle::new(config.spin)?;
        idle.add(commands.wake_fd())?;
        let arena = Arena::new(config.arena);
        let stack = Stack::new(config.stack.clone(), arena.clone(), now);
        let metrics = Metrics::new(config.stats_path.as_deref(), config.ended_path.as_deref())?;
        let capture = config.capture_path.as_deref();
        let mut core = Core::new(now, stack, arena.clone(), PortTable::new(ports), metrics);
        core.follow_config(&config.stack.tcp);
        core.limit_orphans(config.orphans_max);
        core.bulk = config.bulk;
        core.multicast_on_stack = config.multicast_on_stack;
        core.ports.limit_users(config.user.ports);
        let worker = Worker {
            balance: Balance::new(now, &mut core),
            core,
            interfaces: Interfaces::new(),
            attachments: Attachments::new(&config, maker),
            native: Sockets::new(),
            host,
            commands,
            idle,
            capture: capture.map(|path| CaptureWriter::create(path, CAPTURE_BYTES, CAPTURE_SNAPLEN)).transpose()?,
            crowd: CROWD,
            more: false,
            awaited: Awaited::Wire,
            finish: None,
            stopping: false,
            arena,
        };
        Ok((worker, handle))
    }

    /// Runs iterations until told to stop.
    ///
    /// # Errors
    /// The system refused to wait.
    ///
    /// # Blocking
    /// Until stopped.
    pub fn run(&mut self) -> io::Result<()> {
        while !self.stopping {
            let now = clock::now();
            let worked = self.turn(now);
            if self.has_finished(now) {
                break;
            }
            self.rest(now, worked)?;
        }
        self.write_metrics();
        Ok(())
    }

    /// Runs one iteration for code on this thread that has sockets of its own, and waits for work if it found none.
    ///
    /// # Errors
    /// The system refused to wait.
    ///
    /// # Blocking
    /// Until there may be work.
    pub fn step(&mut self) -> io::Result<()> {
        let now = clock::now();
        let worked = self.turn(now) || self.native.has_news() || self.stopping;
        self.rest(now, worked)
    }

    /// Spins or sleeps after an iteration if that is better than another one at once; `worked`: the iteration found
    /// work.
    fn rest(&mut self, now: Instant, worked: bool) -> io::Result<()> {
        if worked {
            self.idle.worked(now, self.awaited);
            if self.attachments.yield_to_readers() {
                self.idle.yield_now();
            }
        } else if self.idle.spins(now) {
            self.idle.yield_now();
        } else {
            self.sleep(now)?;
        }
        Ok(())
    }

    /// Returns true if the worker was told to stop.
    pub fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Ends `run`; for code on this thread.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// Runs one iteration at `now`: does everything possible once; never blocks. Returns true if it found work.
    pub fn turn(&mut self, now: Instant) -> bool {
        self.core.now = now;
        self.balance.turn_begins(&mut self.core);
        let written = self.flush_native();
        let commanded = self.run_commands();
        let Worker { core, attachments, capture, .. } = self;
        let packets = self.interfaces.receive(core, attachments, capture.as_mut());
        self.balance.keep_migrating_flows(core);
        if self.core.stack.connections() > self.crowd {
            self.expect();
        }
        let timed = self.handle_timeouts();
        let pending = self.more || self.interfaces.is_congested();
        if packets > 0 || timed || pending {
            self.transmit();
        }
        let (delivered, native) = self.deliver();
        let requests = self.attachments.serve(&mut self.core);
        for (region, process, pid) in self.core.forks.drain(..) {
            self.host.forked(region, process, pid);
        }
        self.core.unmoved.drain(..).for_each(|unmoved| self.host.take(unmoved));
        // Before the system calls of transmission, so that the application runs meanwhile.
        self.attachments.flush_wakes();
        if commanded || delivered || requests {
            self.transmit();
        }
        let worked = written || commanded || packets > 0 || timed || delivered || native || requests || self.more;
        if worked {
            self.awaited = if delivered { Awaited::Application } else { Awaited::Wire };
        }
        self.count(packets, worked);
        if let Some(busy) = self.balance.turn_ends(&mut self.core, worked) {
            self.attachments.tell_busy((busy * 1_000.0) as u32);
        }
        worked
    }

    /// Opens the descriptor of [`wait_fd`](Self::wait_fd).
    ///
    /// # Errors
    /// The system has no descriptors.
    pub fn open_wait_fd(&mut self) -> io::Result<()> {
        self.idle.open_exposed()
    }

    /// The descriptor that is readable when the worker has something to do after [`arm`](Self::arm); `None`: it was not opened.
    pub fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        self.idle.exposed()
    }

    /// The sockets of code on this thread, and the context of their calls.
    #[inline]
    pub fn native(&mut self) -> (&mut Sockets, &mut Core) {
        (&mut self.native, &mut self.core)
    }

    /// The sockets of code on this thread.
    #[inline]
    pub fn sockets(&self) -> &Sockets {
        &self.native
    }

    /// The context of the iteration: its time, the stack and the arena.
    #[inline]
    pub fn context(&self) -> &Core {
        &self.core
    }

    /// The stack, for code that runs to completion inside the worker, between two iterations.
    pub fn stack(&mut self) -> &mut Stack {
        &mut self.core.stack
    }

    /// The arena that frames of the stack and of its devices come from.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Adds an interface over a device that takes its frames from [`arena`](Worker::arena), and returns its number.
    pub fn add_interface(&mut self, interface: &InterfaceInfo, device: Box<dyn Device>) -> u32 {
        let number = self.interfaces.add(interface, device, &mut self.core);
        self.crowd = CROWD;
        self.core.set_link(number, self.interfaces.link(number, interface));
        number
    }

    #[cold]
    fn expect(&mut self) {
        let connections = self.core.stack.connections();
        self.interfaces.expect(connections);
        self.crowd = connections.max(self.crowd) * 2;
    }

    fn replace_interface(&mut self, number: u32, interface: &InterfaceInfo, open: OpenDevice) -> io::Result<()> {
        if !self.interfaces.exists(number) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.interfaces.close(number);
        let device = open(&self.arena)?;
        self.interfaces.replace(number, interface, device, &mut self.core);
        self.crowd = CROWD;
        self.core.set_link(number, self.interfaces.link(number, interface));
        Ok(())
    }

    fn close_interface(&mut self, number: u32) {
        if self.interfaces.exists(number) {
            self.interfaces.close(number);
        }
    }

    fn remove_interface(&mut self, number: u32) {
        if self.interfaces.exists(number) {
            self.interfaces.close(number);
            self.interfaces.free(number);
            self.core.set_link(number, Link::default());
            self.set_addresses(number, Vec::new());
        }
    }

    /// Changes the MTU of an interface.
    pub fn set_mtu(&mut self, number: u32, mtu: u16) {
        self.interfaces.set_mtu(self.core.now, number, mtu, &mut self.core.stack);
    }

    /// Replaces the addresses of an interface; listeners on all addresses follow.
    pub fn set_addresses(&mut self, interface: u32, addresses: Vec<Cidr>) {
        self.core.stack.set_addresses(interface, addresses);
        self.attachments.addresses_changed(&mut self.core);
    }

    fn follow_rules(&mut self) {
        self.core.ports.rules_changed();
        self.core.give_up_guarded();
        self.attachments.rules_changed(&mut self.core);
    }

    fn count(&mut self, packets: usize, worked: bool) {
        if worked {
            self.core.metrics.turned(packets);
            self.write_due_metrics();
        } else {
            self.core.metrics.add(Work::IdleTurns, 1);
        }
    }

    /// Returns true if the worker was told to finish and nothing worth waiting for is left.
    fn has_finished(&self, now: Instant) -> bool {
        let Some(finish) = self.finish else { return false };
        if now >= finish.limit {
            return true;
        }
        let mut left = !self.attachments.is_empty() || self.more || self.interfaces.is_congested();
        self.core.stack.for_each_socket(&mut |socket| {
            left |= match socket.state {
                State::Listen | State::TimeWait | State::Closed => false,
                State::FinWait2 => now < finish.patience,
                _ => true,
            };
        });
        !left
    }

    fn transmit(&mut self) {
        self.more = self.interfaces.transmit(self.core.now, &mut self.core.stack, self.capture.as_mut());
        if !self.more && self.core.reset_departing() {
            self.more = self.interfaces.transmit(self.core.now, &mut self.core.stack, self.capture.as_mut());
        }
        self.native.transmitted();
    }

    /// Sends what code on this thread has written since the last iteration. Its answers carry ACKs, so they go before
    /// anything new is received.
    fn flush_native(&mut self) -> bool {
        let touched = self.native.is_touched();
        if touched {
            self.native.settle(&mut self.core);
            self.transmit();
        }
        touched
    }

    fn handle_timeouts(&mut self) -> bool {
        let now = self.core.now;
        let native = self.native.handle_timeout(&self.core);
        self.core.ports.handle_timeout(now);
        let due = self.core.stack.poll_timeout().is_some_and(|at| at <= now);
        if due {
            self.core.stack.handle_timeout(now);
        }
        due || native || self.interfaces.poll_timeout().is_some_and(|at| at <= now)
    }

    /// Hands the stack's events to the applications. Returns whether there were any for others, and for code on this
    /// thread, which answers after the iteration.
    fn deliver(&mut self) -> (bool, bool) {
        let (mut delivered, mut native) = (false, false);
        self.attachments.tell_ends(&mut self.core);
        while let Some(event) = self.core.stack.poll_event() {
            if self.native.deliver(&event) {
                native = true;
                continue;
            }
            delivered = true;
            match event {
                Event::ResolveNeighbor { interface, ip } => self.host.resolve(interface, ip),
                Event::Address { change: AddressChange::Duplicate(ip), .. } => {
                    tracing::warn!(target: "ringway::interface", %ip, "{ip} is used by another host on the link");
                }
                event => self.attachments.deliver(event, &mut self.core),
            }
        }
        (delivered, native)
    }

    /// Arms everything, looks once more and waits.
    fn sleep(&mut self, now: Instant) -> io::Result<()> {
        self.core.stack.forget_ended_delays();
        let ready = self.attachments.arm(self.idle.spin_limit()) | self.interfaces.arm();
        let next = self.next_timeout(now);
        if !ready && next.is_none_or(|at| at > now) {
            let mut devices = Vec::with_capacity(DEVICE_FDS);
            self.interfaces.wait_fds(&mut devices);
            let called = self.idle.wait(now, next, &devices)?;
            self.core.metrics.add(Work::Wakeups, 1);
            if let Some(arrival) = self.interfaces.first_arrival().filter(|_| called) {
                self.idle.woken_by(arrival, clock::wall());
            }
        }
        self.attachments.disarm();
        self.core.now = clock::now();
        self.core.stack.want_ends(self.core.metrics.is_followed());
        self.write_due_metrics();
        Ok(())
    }

    /// Prepares for a wait in an event loop of the program's own, at [`wait_fd`](Self::wait_fd). Returns true when a turn has
    /// something to do already.
    ///
    /// # Errors
    /// epoll_ctl(2)'s and timerfd_settime(2)'s.
    pub fn arm(&mut self) -> io::Result<bool> {
        let now = clock::now();
        self.core.now = now;
        // An iteration without work writes none, and they would be due for ever.
        self.write_due_metrics();
        self.core.stack.forget_ended_delays();
        let next = self.next_timeout(now);
        let mut devices = Vec::with_capacity(DEVICE_FDS);
        self.interfaces.wait_fds(&mut devices);
        self.idle.expose(now, next, &devices)?;
        let ready = self.attachments.arm(self.idle.spin_limit()) | self.interfaces.arm();
        Ok(ready || self.stopping || next.is_some_and(|at| at <= now))
    }

    /// Time at which an iteration has work although nothing arrives.
    pub fn next_timeout(&self, now: Instant) -> Option<Instant> {
        let times = [
            self.core.stack.poll_timeout(),
            self.interfaces.poll_timeout(),
            self.core.ports.poll_timeout(),
            self.core.metrics.due(),
            self.attachments.poll_timeout(),
            self.native.poll_timeout(),
            self.interfaces.is_congested().then(|| now + RETRY),
            self.finish.map(|finish| if now < finish.patience { finish.patience } else { finish.limit }),
        ];
        times.into_iter().flatten().min()
    }

    /// Writes the statistics if their time has come.
    fn write_due_metrics(&mut self) {
        if self.core.metrics.due().is_some_and(|due| due <= self.core.now) {
            self.write_metrics();
        }
    }

    fn write_metrics(&mut self) {
        self.host.worked(self.core.now);
        self.attachments.write_records(&mut self.core);
        self.attachments.write_usage(&mut self.core);
        let core = &mut self.core;
        self.interfaces.advise();
        self.idle.write_metrics(&mut core.metrics);
        core.metrics.write(core.now, &core.stack, &self.interfaces, &self.arena);
        core.stack.want_ends(core.metrics.is_followed());
        if let Some(capture) = self.capture.as_ref().filter(|capture| capture.is_wanted()) {
            capture.forget_readers(is_alive);
        }
    }
}

#[cfg(test)]
mod tests;
