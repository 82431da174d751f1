//! Starts and stops a service: name, mirror, worker, devices, broker.
//!
//! Promises: [`Service::start`] either returns a service whose socket answers or leaves nothing
//! behind; after [`Service::stop`] no file and no thread is left. Whatever was changed in the
//! kernel is bound to this process and vanishes with it, also when it is killed. Does not do:
//! signals, terminals, exit statuses: those are the command's.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};

use ringway::{WorkerConfig, WorkerHandle, WorkerThread};
use ringway_shm::Duration;
use ringway_stack::{Autoconfiguration, Cidr, MacAddress, Route};
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::broker::{self, Admission, BrokerConfig, BrokerStatus};
use crate::config::Config;
use crate::devices::Devices;
use crate::follow::{self, Served};
use crate::host::{Forks, ServiceHost};
use crate::interfaces::Interfaces;
use crate::netlink::Mirror;
use crate::plan::{Backend, Plan, Planned, plan};
use crate::ports::SharedPorts;
use crate::rundir::{Claim, ClaimError, RunDirectory};
use crate::secret::{self, random};

/// How long a worker looks for work before it sleeps. It gives way to whoever shares its processor, so
/// this needs no spare one (nginx and the worker on one of two shared processors, one request at a time:
/// p50 of 20 us instead of 48, and half the CPU).
const SPIN: Duration = Duration::from_micros(20);
const WORKER_NAME: &str = "ringway-w0";
/// Ports that can be owned at once: more than there are in one address's range.
const PORTS_MAX: u32 = 131_072;

/// Why a service could not start.
#[derive(Debug)]
pub enum StartError {
    /// Its name could not be had.
    Claim(ClaimError),
    /// The kernel's tables could not be read.
    Netlink(io::Error),
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
    broker: Option<JoinHandle<()>>,
    follower: Option<JoinHandle<()>>,
    worker: WorkerHandle,
    /// Waits for the end of the worker and rings `idle` and `ended` then.
    watch: Option<JoinHandle<io::Result<()>>>,
    interfaces: Arc<Mutex<Interfaces>>,
    stop: Arc<OwnedFd>,
    idle: Arc<OwnedFd>,
    /// Readable when the worker has ended.
    ended: Arc<OwnedFd>,
    status: Arc<BrokerStatus>,
    served: Vec<Planned>,
    notes: Vec<String>,
    claim: Claim,
}

impl Service {
    /// Starts the service `name`, for those whom `admission` lets in.
    ///
    /// # Errors
    /// See [`StartError`].
    ///
    /// # Blocking
    /// Until programs can attach.
    pub fn start(config: &Config, name: &str, directory: &RunDirectory, admission: Admission) -> Result<Service, StartError> {
        let claim = directory.claim(name).map_err(StartError::Claim)?;
        let mirror = Mirror::open().map_err(StartError::Netlink)?;
        let plan = plan(config, mirror.now(), crate::kernel::has_tcx());
        if plan.served.is_empty() {
            return Err(StartError::NoInterface(
                plan.skipped.iter().map(|skipped| format!("{} {}", skipped.name, skipped.reason)).collect(),
            ));
        }
        let (links, forks) = (Served::default(), Forks::new().map_err(StartError::Start)?);
        let devices = Devices::new(&plan.served, PORTS_MAX).map_err(StartError::Start)?;
        let worker = start_worker(config, &claim, &plan, &devices, ServiceHost::open(links.clone(), forks.clone()));
        let (stop, idle) = (bell().map_err(StartError::Start)?, bell().map_err(StartError::Start)?);
        let ended = bell().map_err(StartError::Start)?;
        let bells = [idle.clone(), ended.clone()];
        let (worker, watch) = watch_worker(worker.map_err(StartError::Start)?, bells).map_err(StartError::Start)?;
        let interfaces = Interfaces::new(config.clone(), devices, worker.clone(), links.clone());
        let mut service = Service {
            broker: None,
            follower: None,
            worker,
            watch: Some(watch),
            interfaces: Arc::new(Mutex::new(interfaces)),
            stop,
            idle,
            ended,
            status: Arc::default(),
            served: Vec::new(),
            notes: Vec::new(),
            claim,
        };
        service.open_devices(plan)?;
        service.follow(config, mirror, links).map_err(StartError::Start)?;
        service.open_doors(config, admission, forks).map_err(StartError::Start)?;
        Ok(service)
    }

    /// What is served.
    pub fn served(&self) -> &[Planned] {
        &self.served
    }

    /// What is not served though somebody may expect it, and why; one line each.
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

    /// What the broker has seen.
    pub fn status(&self) -> &BrokerStatus {
        &self.status
    }

    /// Whether the worker has ended, which it does not unless told to.
    pub fn has_failed(&self) -> bool {
        self.watch.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Becomes readable when the last process has gone (see [`BrokerStatus::is_busy`]) or the worker
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

    /// Tells the worker to end when what the programs that are gone had written has arrived, or `limit`
    /// from now. What is returned becomes readable then; `stop` comes after it.
    pub fn finish(&self, limit: Duration) -> BorrowedFd<'_> {
        // `Err`: it has ended already, so there is nothing to wait for.
        self.worker.finish(limit).ok();
        self.ended.as_fd()
    }

    /// Stops everything; what programs have open ends with ECONNRESET.
    ///
    /// # Errors
    /// What ended the worker, if it was not us.
    pub fn stop(mut self) -> io::Result<()> {
        self.end()
    }

    fn open_devices(&mut self, plan: Plan) -> Result<(), StartError> {
        for skipped in plan.skipped.iter().filter(|skipped| skipped.was_named) {
            self.notes.push(format!("{} {}", skipped.name, skipped.reason));
        }
        for planned in plan.served {
            match self.open_device(planned.clone()) {
                Ok(opened) => self.served.push(opened),
                Err(error) => self.notes.push(format!("{} cannot be opened: {error}", planned.name)),
            }
        }
        if self.served.is_empty() { Err(StartError::NoInterface(std::mem::take(&mut self.notes))) } else { Ok(()) }
    }

    fn open_device(&mut self, planned: Planned) -> io::Result<Planned> {
        let mac = MacAddress(random_mac(random()?));
        self.interfaces.lock().expect("nobody panics while holding it").open(planned, mac)
    }

    /// A device of its own has fixed routes; for shared ones the kernel's tables are followed.
    fn follow(&mut self, config: &Config, mirror: Mirror, links: Served) -> io::Result<()> {
        match (config.interface.address, config.interface.gateway()) {
            (Some(address), gateway) => Ok(self.worker.set_routes(own_routes(address, gateway))?),
            (None, _) => {
                links.push_all(mirror.now(), &self.worker)?;
                let (interfaces, worker) = (self.interfaces.clone(), self.worker.clone());
                self.follower = Some(follow::start(mirror, links, interfaces, worker, self.stop.clone())?);
                Ok(())
            }
        }
    }

    fn open_doors(&mut self, config: &Config, admission: Admission, forks: Forks) -> io::Result<()> {
        let broker = BrokerConfig {
            admission,
            shape: config.region,
            worker: self.worker.clone(),
            forks,
            stop: self.stop.clone(),
            status: self.status.clone(),
            idle: self.idle.clone(),
        };
        self.broker = Some(broker::start(&self.claim.socket_path(), broker)?);
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        rustix::io::write(&self.stop, &1u64.to_ne_bytes())?;
        for thread in [self.broker.take(), self.follower.take()].into_iter().flatten() {
            thread.join().map_err(|_| io::Error::other("a thread of the service panicked"))?;
        }
        let Some(watch) = self.watch.take() else { return Ok(()) };
        // `Err`: it has ended already; `join` says why.
        self.worker.stop().ok();
        watch.join().map_err(|_| io::Error::other("a thread of the service panicked"))?
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("ringway: {error}");
        }
    }
}

/// Joins the worker in a thread of its own, which rings `bells` when it has ended.
fn watch_worker(worker: WorkerThread, bells: [Arc<OwnedFd>; 2]) -> io::Result<(WorkerHandle, JoinHandle<io::Result<()>>)> {
    let handle = worker.handle.clone();
    let watch = Builder::new().name("ringway-watch".to_owned()).spawn(move || {
        let ended = worker.join();
        for bell in bells {
            rustix::io::write(&*bell, &1u64.to_ne_bytes())?;
        }
        ended
    })?;
    Ok((handle, watch))
}

fn bell() -> io::Result<Arc<OwnedFd>> {
    Ok(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
}

fn start_worker(
    config: &Config,
    claim: &Claim,
    plan: &Plan,
    devices: &Devices,
    host: io::Result<ServiceHost>,
) -> io::Result<WorkerThread> {
    let mut stack = config.stack.clone();
    stack.seed = secret::of_this_boot(claim.directory())?;
    let own: HashSet<IpAddr> =
        plan.served.iter().filter(|planned| planned.backend == Backend::Tap).flat_map(own_addresses).collect();
    let ports = SharedPorts::new(devices.steering()?, own, stack.tcp.ephemeral_ports, random()?);
    let makes_addresses = config.interface.autoconfiguration != Autoconfiguration::Off;
    let ports = if makes_addresses { ports.with_own_ipv6() } else { ports };
    let worker = WorkerConfig {
        name: WORKER_NAME.to_owned(),
        stack,
        arena: config.arena,
        shape: config.region,
        spin: config.worker.spin.unwrap_or(SPIN),
        regions_max: config.limits.groups,
        sockets_per_region_max: config.limits.sockets_per_group,
        stats_path: Some(claim.stats_path()),
        capture_path: Some(claim.capture_path()),
    };
    let worker = ringway::spawn(worker, Box::new(ports), Box::new(host?))?;
    if let Some(core) = config.worker.core {
        pin(WORKER_NAME, core)?;
    }
    Ok(worker)
}

/// Runs the thread of this name on processor `core` only.
fn pin(name: &str, core: u32) -> io::Result<()> {
    let mut processors = CpuSet::new();
    processors.set(core as usize);
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        if std::fs::read_to_string(task.join("comm"))?.trim_end() != name {
            continue;
        }
        let thread = task.file_name().and_then(|number| number.to_str()?.parse().ok()).and_then(Pid::from_raw);
        sched_setaffinity(thread, &processors)
            .map_err(|error| io::Error::other(format!("the worker cannot run on processor {core} (worker.core): {error}")))?;
    }
    Ok(())
}

/// The network of a device of its own, and everything else behind `gateway`.
fn own_routes(address: Cidr, gateway: Option<IpAddr>) -> Vec<Route> {
    let route = |destination, gateway| Route { destination, gateway, interface: 0, metric: 0, source: Some(address.ip) };
    let everywhere: IpAddr = if address.ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let everywhere = Cidr { ip: everywhere, prefix_len: 0 };
    let default = gateway.map(|gateway| route(everywhere, Some(gateway)));
    [route(address, None)].into_iter().chain(default).collect()
}

/// A link address that nobody else has: unicast, locally administered.
fn random_mac(random: u64) -> [u8; 6] {
    let bytes = random.to_ne_bytes();
    [(bytes[0] & 0xfc) | 0x02, bytes[1], bytes[2], bytes[3], bytes[4], bytes[5]]
}

fn own_addresses(planned: &Planned) -> Vec<IpAddr> {
    planned.addresses.iter().map(|cidr| cidr.ip).collect()
}

#[cfg(test)]
mod tests;
