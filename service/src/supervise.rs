//! Starts and stops a service: name, mirror, worker, devices, broker.
//!
//! Promises: [`Service::start`] either returns a service whose socket answers or leaves nothing
//! behind; after [`Service::stop`] no file and no thread is left. Whatever was changed in the
//! kernel is bound to this process and vanishes with it, also when it is killed, but for offloads of cards (`lost_offloads`); its threads
//! hold the rights that they still need, whatever the caller holds (`privileges`). Does not do: signals, terminals, exit statuses: those are the command's.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{Builder, JoinHandle};

use ringway_channel::attach::path_of_worker;
use ringway_device::probe::packet_works;
use ringway_engine::{WorkerConfig, WorkerThread};
use ringway_shm::Duration;
use ringway_stack::{Autoconfiguration, Cidr, MacAddress, Route};
use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::CapabilitySet;

use crate::broker::{self, Account, Admission, BrokerConfig, BrokerStatus, Desk, HandoverThread, Handovers, Seals, WakeFds};
use crate::cgroups::{self, Cgroups};
use crate::config::{Config, DeviceChoice};
use crate::devices::Devices;
use crate::executables::{self, Executables};
use crate::firewall::{Gate, hooks};
use crate::follow::{Follower, Notices, Served};
use crate::host::{Forks, ServiceHost};
use crate::interfaces::{Interfaces, Serving, guarded};
use crate::leaving::HandingOver;
use crate::live::LiveLimits;
use crate::netlink::Mirror;
use crate::plan::{Backend, Machine, Plan, Planned, named_links, plan};
use crate::policy::Policy;
use crate::ports::SharedPorts;
use crate::ports::division::Share;
use crate::ports::port_registry::WorkerPorts;
use crate::privileges;
use crate::readiness::{Opening, Readiness};
use crate::rights;
use crate::rundir::{Claim, ClaimError, RunDirectory, network_here};
use crate::secret::{self, random};
use crate::watchdog;
use crate::workers::Workers;

/// The workers' threads have this name and their number.
const WORKER_NAME: &str = "ringway-w";
/// Said where more workers are configured than there can be.
const ONE_WORKER: &str =
    "worker.count: packets of a tap device are not divided among workers (interface.device); one worker serves";
/// Ports that can be owned at once: more than there are in one address's range.
const PORTS_MAX: u32 = 131_072;

/// Why a service could not start.
#[derive(Debug)]
pub enum StartError {
    /// Its name could not be had.
    Claim(ClaimError),
    /// The kernel's tables could not be read.
    Netlink(io::Error),
    /// Rights that sharing interfaces takes are missing, one line each.
    NoRights(Vec<String>),
    /// No interface can be served; the reasons, one line each.
    NoInterface(Vec<String>),
    /// The worker, the broker or a thread could not be started.
    Start(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Claim(error) => error.fmt(f),
            StartError::Netlink(error) => write!(f, "the kernel's addresses and routes cannot be read: {error}"),
            StartError::NoRights(lines) => f.write_str(&lines.join("; ")),
            StartError::NoInterface(reasons) if reasons.is_empty() => f.write_str("there is no interface to serve"),
            StartError::NoInterface(reasons) => write!(f, "no interface can be served: {}", reasons.join("; ")),
            StartError::Start(error) => write!(f, "the service does not start: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

/// A running service.
pub struct Service {
    /// In the order in which they end; the claim, whose end removes the files, comes last.
    brokers: Vec<JoinHandle<()>>,
    follower: Option<JoinHandle<()>>,
    workers: Workers,
    /// One waits for the end of each worker and rings `idle` then, and the last one `ended`.
    watches: Vec<JoinHandle<io::Result<()>>>,
    interfaces: Arc<Mutex<Interfaces>>,
    limits: LiveLimits,
    readiness: Arc<Readiness>,
    stop: Arc<OwnedFd>,
    idle: Arc<OwnedFd>,
    /// Readable when all workers have ended.
    ended: Arc<OwnedFd>,
    status: Arc<BrokerStatus>,
    served: Vec<Planned>,
    notes: Vec<String>,
    claim: Claim,
}

impl Service {
    /// Starts the service `name`, for the processes that `admission` lets in, with devices as `opening` says.
    ///
    /// # Errors
    /// See [`StartError`].
    ///
    /// # Blocking
    /// Until programs can attach.
    pub fn start(
        config: &Config,
        name: &str,
        directory: &RunDirectory,
        admission: Admission,
        opening: Opening,
    ) -> Result<Service, StartError> {
        // What the caller may do stays the caller's, for programs that it starts; all threads of the service come from this one.
        std::thread::scope(|scope| {
            let thread = Builder::new().name("ringway-start".to_owned());
            let started = thread.spawn_scoped(scope, || Service::start_here(config, name, directory, &admission, opening));
            started.map_err(StartError::Start)?.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Finds out whether one could start now, but for its name.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn try_start(config: &Config) -> Result<(), StartError> {
        let mirror = Mirror::open().map_err(StartError::Netlink)?;
        plan_at_start(config, &mirror, Opening::AtStart).map(|_| ())
    }

    /// Gives rights up as it goes; see `privileges`.
    fn start_here(
        config: &Config,
        name: &str,
        directory: &RunDirectory,
        admission: &Admission,
        opening: Opening,
    ) -> Result<Service, StartError> {
        let reader = cgroups::Reader::of(config);
        hooks::remember();
        privileges::keep(privileges::STARTING | privileges::of_handovers(config)).map_err(StartError::Start)?;
        let thread = HandoverThread::new(privileges::of_handovers(config)).map_err(StartError::Start)?;
        let restored = directory.restore_offloads();
        let claim = directory.claim(name).map_err(StartError::Claim)?;
        let mirror = Mirror::open().map_err(StartError::Netlink)?;
        // Before the rules are read, so that no change is missed.
        let notices = Notices::open();
        let (machine, plan) = plan_at_start(config, &mirror, opening)?;
        privileges::keep(privileges::of_devices(&plan.served)).map_err(StartError::Start)?;
        let count = worker_count(config, &plan);
        let links = Served::new().map_err(StartError::Start)?;
        let devices = Devices::new(&plan.served, PORTS_MAX, count, claim.files()).map_err(StartError::Start)?;
        devices.tell_kept(&plan);
        let forks: Vec<Forks> = (0..count).map(|_| Forks::new()).collect::<io::Result<_>>().map_err(StartError::Start)?;
        let policy = Policy::new(config.rules(), mirror.now(), count).map_err(StartError::Start)?;
        let gate = Gate::new(config.policy.firewall, machine.rules.clone(), named_links(&plan)).behind(policy, links.waker());
        let (shared_ports, ports) = shared_ports(config, &plan, &devices, &gate, count).map_err(StartError::Start)?;
        let threads = start_workers(config, &claim, shared_ports, &links, &forks).map_err(StartError::Start)?;
        // A device that programs are told of exactly, or an interface of its own, is there from the start.
        let is_now = opening == Opening::AtStart || plan.served.iter().any(|planned| planned.backend != Backend::Packet);
        let readiness = Readiness::new(is_now).map_err(StartError::Start)?;
        let new_wake_fd = || wake_fd().map_err(StartError::Start);
        let (stop, idle, ended) = (new_wake_fd()?, new_wake_fd()?, new_wake_fd()?);
        let (workers, watches) = watch_workers(threads, &idle, &ended).map_err(StartError::Start)?;
        let guarded = guarded(&plan, mirror.now()).into_keys().collect();
        let (steering, hand) = (devices.steering().map_err(StartError::Start)?, ports.clone());
        let serving = Serving { devices, workers: workers.clone(), links: links.clone(), gate, ports };
        let interfaces = Interfaces::new(config.clone(), machine, guarded, serving);
        let mut service = Service {
            brokers: Vec::new(),
            follower: None,
            workers,
            watches,
            interfaces: Arc::new(Mutex::new(interfaces)),
            readiness,
            stop,
            idle,
            ended,
            limits: LiveLimits::new(config, admission),
            status: Arc::default(),
            served: Vec::new(),
            notes: restored,
            claim,
        };
        service.notes.extend((count < config.worker.count as usize).then(|| ONE_WORKER.to_owned()));
        service.lock_interfaces().limit_exceptions(config.limits.kernel_packets_per_second).map_err(StartError::Start)?;
        service.open_devices(plan, is_now)?;
        service.follow(config, mirror, notices, links).map_err(StartError::Start)?;
        service.notes.extend(blind_spots(config, reader.as_ref()));
        // Their threads end with the brokers.
        let (cgroups, reader) = Cgroups::start(service.limits.firewall.clone(), reader).map_err(StartError::Start)?;
        let (handovers, maker) = Handovers::start(thread, steering, service.limits.kept.clone());
        let (executables, asker) = Executables::start().map_err(StartError::Start)?;
        hand.on_flows(handovers.on_flows());
        privileges::keep(CapabilitySet::empty()).map_err(StartError::Start)?;
        crate::log::open(&service.claim.log_path());
        service.open_doors(config, forks, (cgroups.clone(), executables, handovers)).map_err(StartError::Start)?;
        service.brokers.extend(reader.into_iter().chain([asker, maker]));
        service.notes.extend(admission.is_private().then(|| cgroups.of_this_process().err()).flatten());
        Ok(service)
    }

    /// Calls `tell` once in `interval`, as long as every worker answers; to be called before the process is confined.
    ///
    /// # Errors
    /// There is no thread.
    pub fn watch_workers(&mut self, interval: std::time::Duration, tell: impl FnMut() + Send + 'static) -> io::Result<()> {
        self.brokers.push(watchdog::start(self.workers.clone(), interval, self.stop.clone(), tell)?);
        Ok(())
    }

    /// Gives up what the process does not need any more, in the calling thread and, as far as it is the process's, in all of
    /// them. No program can be started afterwards.
    ///
    /// # Errors
    /// The system refuses; what was given up stays so.
    pub fn confine_process(&self, config: &Config) -> io::Result<()> {
        privileges::confine_process(config)
    }

    /// Returns the served interfaces.
    pub fn served(&self) -> &[Planned] {
        &self.served
    }

    /// Returns the reasons for which things are not served although they may be expected; one line each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Where programs attach.
    pub fn socket_path(&self) -> PathBuf {
        self.claim.socket_path()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.claim.name()
    }

    /// Returns the state of the broker.
    pub fn status(&self) -> &BrokerStatus {
        &self.status
    }

    /// Returns true if a worker has ended, which none does unless told to.
    pub fn has_failed(&self) -> bool {
        self.watches.is_empty() || self.watches.iter().any(JoinHandle::is_finished)
    }

    /// Becomes readable when the last process has gone (see [`BrokerStatus::is_busy`]) or a worker
    /// has ended.
    pub fn idle_fd(&self) -> BorrowedFd<'_> {
        self.idle.as_fd()
    }

    /// Makes [`idle_fd`](Service::idle_fd) quiet until the next time.
    pub fn hush(&self) {
        let mut count = [0; 8];
        // Empty: quiet already.
        rustix::io::read(&*self.idle, &mut count).ok();
    }

    /// Tells the workers to end when what the programs that are gone had written has arrived, or `limit`
    /// from now. What is returned becomes readable then; `stop` comes after it.
    pub fn finish(&self, limit: Duration) -> BorrowedFd<'_> {
        // `Err`: one has ended already, so there is nothing to wait for.
        self.workers.finish(limit).ok();
        self.ended.as_fd()
    }

    /// Has the workers follow what can change while they run; see [`Config::reload`].
    ///
    /// # Errors
    /// A worker has ended.
    pub fn follow_config(&self, config: &Config) -> io::Result<()> {
        self.workers.set_tcp_config(&config.stack.tcp)?;
        self.limits.follow(config);
        self.workers.set_quotas(config.limits.user(), config.limits.group())?;
        self.workers.set_limits(config)?;
        self.lock_interfaces().follow_config(config)
    }

    /// Starts to send all sockets of programs home to the kernel, as `[service]` of `config` says; `stop` comes after it.
    ///
    /// # Errors
    /// There is no thread or descriptor.
    pub fn hand_over(&self, config: &Config) -> io::Result<HandingOver> {
        HandingOver::start(self.workers.clone(), config)
    }

    /// Stops everything; what programs have open ends with ECONNRESET.
    ///
    /// # Errors
    /// The cause of a worker's end, if it was not us.
    pub fn stop(mut self) -> io::Result<()> {
        self.end()
    }

    fn lock_interfaces(&self) -> MutexGuard<'_, Interfaces> {
        self.interfaces.lock().expect("nobody panics while holding it")
    }

    /// `is_now`: else when the first program attaches.
    fn open_devices(&mut self, plan: Plan, is_now: bool) -> Result<(), StartError> {
        for skipped in plan.skipped.iter().filter(|skipped| skipped.was_named || skipped.guard.is_some()) {
            self.notes.push(format!("{} {}", skipped.name, skipped.reason));
        }
        self.notes.extend(plan.served.iter().flat_map(|planned| planned.warnings.clone()));
        if !is_now {
            self.lock_interfaces().sleep(&plan.served).map_err(StartError::Start)?;
            self.served = plan.served;
            return Ok(());
        }
        for planned in plan.served {
            match self.open_device(planned.clone()) {
                Ok(opened) => {
                    self.notes.extend(opened.note.clone());
                    self.served.push(opened);
                }
                Err(error) => self.notes.push(format!("{} cannot be opened: {error}", planned.name)),
            }
        }
        if self.served.is_empty() { Err(StartError::NoInterface(std::mem::take(&mut self.notes))) } else { Ok(()) }
    }

    fn open_device(&mut self, planned: Planned) -> io::Result<Planned> {
        let mac = MacAddress(random_mac(random()?));
        self.lock_interfaces().open(planned, mac)
    }

    /// A device of its own has fixed routes; for shared ones the kernel's tables are followed.
    fn follow(&mut self, config: &Config, mirror: Mirror, notices: Notices, links: Served) -> io::Result<()> {
        let own: Vec<Route> = config.interface.networks().flat_map(|(own, gateway)| own_routes(own, gateway)).collect();
        if !own.is_empty() {
            return Ok(self.workers.set_routes(&own)?);
        }
        links.push_all(mirror.now(), &self.workers)?;
        let (interfaces, readiness) = (self.interfaces.clone(), self.readiness.clone());
        let workers = self.workers.clone();
        let follower = Follower { mirror, notices, served: links, interfaces, readiness, workers };
        self.follower = Some(follower.start(self.stop.clone())?);
        Ok(())
    }

    /// A door for each worker: a program attaches at all of them. That of the first is opened last, since it is the one
    /// that programs look for.
    fn open_doors(
        &mut self,
        config: &Config,
        forks: Vec<Forks>,
        (cgroups, executables, handovers): (Cgroups, Executables, Handovers),
    ) -> io::Result<()> {
        let policy = self.lock_interfaces().policy();
        let wake_fds = WakeFds::new(self.limits.wake_fds.clone());
        let (desk, watch) = Desk::start(&self.stop, self.limits.kept.clone())?;
        self.brokers.push(watch);
        let key = secret::key_of_this_boot(self.claim.directory())?;
        let seals = Seals::new(&key, self.name(), network_here().as_deref());
        // What the service counts for all workers is told once.
        if let Some(first) = self.workers.each().first() {
            let usage = Account::new(wake_fds.clone(), desk.clone(), self.status.clone(), self.limits.attach.clone());
            let usage = usage.with_exceptions(self.lock_interfaces().exception_path(), self.limits.kernel_packets.clone());
            first.show_usage(usage.source()).map_err(io::Error::from)?;
        }
        for (number, (worker, forks)) in self.workers.each().iter().zip(forks).enumerate().rev() {
            let broker = BrokerConfig {
                number,
                admission: self.limits.admission.clone(),
                shape: config.region,
                limits: self.limits.attach.clone(),
                policy: policy.clone(),
                seals: seals.clone(),
                worker: worker.clone(),
                forks,
                wake_fds: wake_fds.clone(),
                desk: desk.clone(),
                handovers: handovers.clone(),
                cgroups: cgroups.clone(),
                executables: executables.clone(),
                readiness: self.readiness.clone(),
                stop: self.stop.clone(),
                status: self.status.clone(),
                idle: self.idle.clone(),
            };
            self.brokers.push(broker::start(&path_of_worker(&self.claim.socket_path(), number as u32), broker)?);
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        rustix::io::write(&self.stop, &1u64.to_ne_bytes())?;
        for thread in self.brokers.drain(..).chain(self.follower.take()) {
            thread.join().map_err(|_| io::Error::other("a thread of the service panicked"))?;
        }
        // `Err`: one has ended already; `join` says why.
        self.workers.stop().ok();
        let mut ended = Ok(());
        for watch in self.watches.drain(..) {
            ended = ended.and(watch.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the service panicked"))));
        }
        ended
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("ringway: {error}");
        }
    }
}

/// Joins each worker in a thread of its own, which rings `idle` when it has ended; the last one rings `ended`.
fn watch_workers(
    threads: Vec<WorkerThread>,
    idle: &Arc<OwnedFd>,
    ended: &Arc<OwnedFd>,
) -> io::Result<(Workers, Vec<JoinHandle<io::Result<()>>>)> {
    let workers = Workers::new(threads.iter().map(|thread| thread.handle.clone()).collect());
    let left = Arc::new(AtomicUsize::new(threads.len()));
    let watch = |worker: WorkerThread| {
        let (idle, ended, left) = (idle.clone(), ended.clone(), left.clone());
        privileges::spawn_without("ringway-watch", move || {
            let result = worker.join();
            rustix::io::write(&*idle, &1u64.to_ne_bytes())?;
            if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                rustix::io::write(&*ended, &1u64.to_ne_bytes())?;
            }
            result
        })
    };
    let watches = threads.into_iter().map(watch).collect::<io::Result<_>>()?;
    Ok((workers, watches))
}

/// The machine as it is now, and the plan for it.
///
/// # Errors
/// No interface can be served.
fn plan_at_start(config: &Config, mirror: &Mirror, opening: Opening) -> Result<(Machine, Plan), StartError> {
    let mut machine = Machine::now(config, mirror.now());
    let mut plan = decide(config, mirror, &machine)?;
    if opening == Opening::AtStart && lacks_packet(config, &plan) {
        machine.lacks_packet = true;
        plan = decide(config, mirror, &machine)?;
    }
    if plan.served.is_empty() {
        let reasons = plan.skipped.iter().map(|skipped| format!("{} {}", skipped.name, skipped.reason));
        return Err(StartError::NoInterface(reasons.collect()));
    }
    Ok((machine, plan))
}

/// Decides on the interfaces to serve, if the rights for it are there.
fn decide(config: &Config, mirror: &Mirror, machine: &Machine) -> Result<Plan, StartError> {
    let plan = plan(config, mirror.now(), machine);
    let missing = rights::missing_for(config.interface.device, &plan.served);
    if missing.is_empty() { Ok(plan) } else { Err(StartError::NoRights(missing)) }
}

/// Returns true if packet sockets, which the user has not chosen, do not work. One interface stands for all: what is missing
/// then is the kernel's.
fn lacks_packet(config: &Config, plan: &Plan) -> bool {
    let first = plan.served.first().filter(|_| config.interface.device == DeviceChoice::Auto);
    first.is_some_and(|planned| packet_works(&planned.name).is_err())
}

/// What cannot be known of processes here, a line each.
fn blind_spots(config: &Config, reader: Option<&cgroups::Reader>) -> impl Iterator<Item = String> {
    let files = config.rules().names_files().then(executables::obstacle).flatten();
    reader.and_then(cgroups::Reader::ignorance).into_iter().chain(files)
}

/// Number of workers: as many as the configuration says, if packets can be divided among them.
fn worker_count(config: &Config, plan: &Plan) -> usize {
    let divides = plan.served.iter().all(|planned| planned.backend != Backend::Tap);
    if divides { config.worker.count as usize } else { 1 }
}

fn wake_fd() -> io::Result<Arc<OwnedFd>> {
    Ok(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
}

/// The ports of each of `count` workers, and the table of owned ports that they share.
fn shared_ports(
    config: &Config,
    plan: &Plan,
    devices: &Devices,
    gate: &Gate,
    count: usize,
) -> io::Result<(Vec<SharedPorts>, WorkerPorts)> {
    let own: HashSet<IpAddr> =
        plan.served.iter().filter(|planned| planned.backend == Backend::Tap).flat_map(own_addresses).collect();
    let percent = config.worker.balance_percent;
    let division = devices.division()?.filter(|_| percent < 100);
    let mut shares = division.into_iter().flat_map(|division| Share::shares(Box::new(division), count, percent));
    let all_ports: Vec<WorkerPorts> = WorkerPorts::for_workers(devices.steering()?, count).collect();
    let mut all = Vec::new();
    for worker_ports in all_ports.iter().cloned() {
        let ports =
            SharedPorts::new(worker_ports, own.clone(), config.stack.tcp.ephemeral_ports, random()?).limited(config.limits.ports);
        let ports = ports.divided(shares.next()).behind(gate.clone());
        let makes_addresses = config.interface.autoconfiguration != Autoconfiguration::Off;
        all.push(if makes_addresses { ports.with_own_ipv6() } else { ports });
    }
    let any_hand = all_ports.into_iter().next().expect("there is a worker");
    Ok((all, any_hand))
}

fn start_workers(
    config: &Config,
    claim: &Claim,
    ports: Vec<SharedPorts>,
    links: &Served,
    forks: &[Forks],
) -> io::Result<Vec<WorkerThread>> {
    let mut threads: Vec<WorkerThread> = Vec::new();
    for (ports, forks) in ports.into_iter().zip(forks) {
        let host = ServiceHost::open(links.clone(), forks.clone());
        match host.and_then(|host| start_worker(config, claim, threads.len(), ports, host)) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                for thread in threads {
                    thread.handle.stop()?;
                    thread.join()?;
                }
                return Err(error);
            }
        }
    }
    Ok(threads)
}

fn start_worker(
    config: &Config,
    claim: &Claim,
    number: usize,
    ports: SharedPorts,
    host: ServiceHost,
) -> io::Result<WorkerThread> {
    // The same secrets everywhere: a cookie that one worker has given is good at the others.
    let mut stack = config.stack.clone();
    stack.seed = secret::of_this_boot(claim.directory())?;
    let name = format!("{WORKER_NAME}{number}");
    let own_file = |path: PathBuf| Some(path_of_worker(&path, number as u32));
    let worker = WorkerConfig {
        name: name.clone(),
        stack,
        arena: config.arena,
        shape: config.region,
        spin: config.worker.spin,
        regions_max: config.limits.groups,
        orphans_max: config.limits.orphans,
        bulk: crate::measured::bulk(&config.policy),
        multicast_on_stack: config.policy.multicast_on_stack,
        user: config.limits.user(),
        group: config.limits.group(),
        stats_path: own_file(claim.stats_path()),
        capture_path: own_file(claim.capture_path()),
        ended_path: own_file(claim.ended_path()),
    };
    let worker = ringway_engine::spawn(worker, Box::new(ports), Box::new(host))?;
    if let Some(core) = config.worker.core {
        crate::workers::pin(&name, core + number as u32)?;
    }
    Ok(worker)
}

/// The network of a device of its own, and everything else behind `gateway`.
fn own_routes(address: Cidr, gateway: IpAddr) -> [Route; 2] {
    let route = |destination, gateway| Route { destination, gateway, interface: 0, metric: 0, source: Some(address.ip) };
    let everywhere: IpAddr = if address.ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let everywhere = Cidr { ip: everywhere, prefix_len: 0 };
    [route(address, None), route(everywhere, Some(gateway))]
}

/// A random link address: unicast, locally administered.
fn random_mac(random: u64) -> [u8; 6] {
    let bytes = random.to_ne_bytes();
    [(bytes[0] & 0xfc) | 0x02, bytes[1], bytes[2], bytes[3], bytes[4], bytes[5]]
}

fn own_addresses(planned: &Planned) -> Vec<IpAddr> {
    planned.addresses.iter().map(|cidr| cidr.ip).collect()
}

#[cfg(test)]
mod tests;
