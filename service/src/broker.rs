//! Hands regions to the processes that may have them, and watches these processes.
//!
//! ```text
//!   process connects (SO_PEERCRED) --Hello{token}--> admitted? its group's region, made at the first
//!           |                                        process of the group; a process number
//!           |--Context{n}--------------------------> a wake descriptor: its eventfd to the worker, a watch on it back
//!           |--hang-up-----------------------------> alive (exec)? its number is kept for it
//!   process dies (pidfd) --------------------------> the worker closes what only it held
//!   last process of a group is gone ---------------> the worker forgets the region
//! ```
//! Promises: a group's region goes to a process that knows its token and is of the group's user, or root, or descends from a process of the group
//! (servers give up their rights); a process counts as gone only when its pid is. Bad messages are answered with text, closed and counted. Does not do: data.

mod account;
mod admission;
mod adoptions;
mod confine;
mod desk;
mod handovers;
mod members;
mod rulings;
mod seals;
mod sleepers;
mod wake_fds;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use ringway_channel::attach::{
    ClientMessage, ControlConnection, ControlListener, Credentials, Membership, Peer, ProgramFile, WakeFdKey, WakeFdKind,
};
use ringway_channel::{Shape, is_distant};
use ringway_engine::{Quota, RegionId, WorkerHandle};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

pub(crate) use account::Account;
pub use admission::Admission;
pub(crate) use desk::{Desk, KeptLimits};
pub(crate) use handovers::{HandoverThread, Handovers};
pub(crate) use seals::Seals;
pub(crate) use wake_fds::{WakeFdLimits, WakeFds};

use crate::cgroups::Cgroups;
use crate::executables::Executables;
use crate::host::{Fork, Forks};
use crate::live::Live;
use crate::policy::Policy;
use crate::readiness::Readiness;
use admission::{Refusal, Standing, obey_rules};
use confine::Confined;
use desk::Shown;
use handovers::Task;
use members::{Members, NewGroup, ProcessKey};
use wake_fds::Unmade;

const EVENTS: usize = 64;
/// The time for which a group whose processes are all gone is kept, when a child is announced that has not come yet.
const GRACE: Duration = Duration::from_secs(2);

/// Pause in accepting when descriptors have run out, unless something else comes first.
const DEAF: Duration = Duration::from_millis(100);

const LISTENER: u64 = 0;
const STOP: u64 = 1;
const FORKS: u64 = 2;
const RULES: u64 = 3;
/// A program that shows no socket of the service's network.
const ELSEWHERE: &str = "your process is in another network namespace";

/// Connections have even numbers from here, processes odd ones.
const FIRST: u64 = 4;

/// The state of a broker that others see.
#[derive(Default)]
pub struct BrokerStatus {
    /// Brokers with a process that is attached or expected.
    busy: AtomicUsize,
    attached: AtomicU64,
    refused: AtomicU64,
    violations: AtomicU64,
    /// To the first worker's broker.
    connections: AtomicU64,
}

impl BrokerStatus {
    /// Some process is attached or expected.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire) > 0
    }

    /// Processes that have attached, ever.
    pub fn attached(&self) -> u64 {
        self.attached.load(Ordering::Relaxed)
    }

    /// Processes that were refused, ever.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Connections to the first worker's broker: each process has one at each.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Messages that made no sense, ever.
    pub fn violations(&self) -> u64 {
        self.violations.load(Ordering::Relaxed)
    }
}

/// Limits of what may attach.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttachLimits {
    /// Groups that one user other than root may have.
    pub(crate) groups_per_user: u32,
    /// Processes that one group may have.
    pub(crate) processes_per_group: u32,
    /// Connections: what an eventful machine needs, and a bound on our descriptors.
    pub(crate) connections: u32,
    /// Connections of one user that have not said hello, so that others are not kept out.
    pub(crate) silent_per_user: u32,
}

/// Everything the broker of one worker needs.
pub(crate) struct BrokerConfig {
    /// Which worker; a process is counted at the first, and attaches to all.
    pub(crate) number: usize,
    pub(crate) admission: Live<Admission>,
    /// Of the regions that the worker makes.
    pub(crate) shape: Shape,
    pub(crate) limits: Live<AttachLimits>,
    /// Which processes are the kernel's.
    pub(crate) policy: Policy,
    pub(crate) seals: Seals,
    pub(crate) worker: WorkerHandle,
    pub(crate) forks: Forks,
    /// Of the brokers of all workers.
    pub(crate) wake_fds: WakeFds,
    /// Of the brokers of all workers.
    pub(crate) desk: Desk,
    /// Of the brokers of all workers.
    pub(crate) handovers: Handovers,
    /// Of the brokers of all workers.
    pub(crate) cgroups: Cgroups,
    /// Behind it the devices are open.
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) stop: Arc<OwnedFd>,
    pub(crate) executables: Executables,
    pub(crate) status: Arc<BrokerStatus>,
    /// Written when `status.is_busy` becomes false.
    pub(crate) idle: Arc<OwnedFd>,
}

/// Listens at `path` and serves in a thread of its own until `stop` is readable.
///
/// # Errors
/// The socket or the thread could not be made.
pub(crate) fn start(path: &Path, config: BrokerConfig) -> io::Result<JoinHandle<()>> {
    // The name appears when programs can connect: between bind(2) and listen(2) the kernel refuses them.
    let unfinished = path.with_extension("new");
    // What a service left that was killed in between.
    std::fs::remove_file(&unfinished).ok();
    let listener = ControlListener::bind(&unfinished)?;
    // Programs that have given up their rights must still reach us; admission is decided by
    // credentials and token, not by the file's mode.
    std::fs::set_permissions(&unfinished, std::os::unix::fs::PermissionsExt::from_mode(0o666))?;
    std::fs::rename(&unfinished, path)?;
    let mut broker = Broker::new(listener, config)?;
    Builder::new().name("ringway-broker".to_owned()).spawn(move || {
        if let Err(error) = broker.run() {
            tracing::error!(target: "ringway::attach", "no program can attach any more: {error}");
        }
    })
}

struct Connection {
    control: Arc<ControlConnection>,
    /// The process, once welcomed.
    process: Option<ProcessKey>,
}

/// What a process asks for a wait context: one of its own, or the one that `key` names.
struct WantedWakeFd {
    context: u32,
    key: Option<WakeFdKey>,
    kind: WakeFdKind,
}

struct Broker {
    listener: ControlListener,
    epoll: OwnedFd,
    connections: BTreeMap<u64, Connection>,
    /// The process of each pidfd's number.
    watched: BTreeMap<u64, ProcessKey>,
    next: u64,
    members: Members,
    confined: Confined,
    config: BrokerConfig,
    /// True if `config.status` counts this broker as busy.
    busy: bool,
    /// Descriptors have run out: the listener is not watched for a while.
    is_deaf: bool,
}

impl Broker {
    fn new(listener: ControlListener, config: BrokerConfig) -> io::Result<Broker> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        watch(&epoll, listener.as_fd(), LISTENER)?;
        watch(&epoll, config.stop.as_fd(), STOP)?;
        watch(&epoll, config.forks.wait_fd(), FORKS)?;
        watch(&epoll, config.policy.wake_fd(config.number), RULES)?;
        let members = Members::new(config.worker.clone(), config.shape, config.limits.clone());
        let confined = Confined::new(config.cgroups.clone(), config.worker.clone(), config.number == 0);
        let (connections, watched) = (BTreeMap::new(), BTreeMap::new());
        Ok(Broker { listener, epoll, connections, watched, next: FIRST, members, confined, config, busy: false, is_deaf: false })
    }

    fn run(&mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            let limit = if self.is_deaf { Some(DEAF) } else { self.members.has_empty_groups().then_some(GRACE) };
            let limit = limit.map(|limit| Timespec::try_from(limit).expect("the grace is short"));
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), limit.as_ref()) {
                Ok(0) if !self.is_deaf => self.members.forget_empty_groups(),
                Ok(0) => self.hear_again()?,
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept()?,
                    STOP => return Ok(()),
                    FORKS => self.take_forks()?,
                    RULES => self.judge_again(),
                    number if number % 2 == 0 => self.hear(number)?,
                    number => self.reap(number)?,
                }
            }
            self.tell_status()?;
        }
    }

    /// Listens again after descriptors had run out.
    fn hear_again(&mut self) -> io::Result<()> {
        self.is_deaf = false;
        watch(&self.epoll, self.listener.as_fd(), LISTENER)
    }

    fn accept(&mut self) -> io::Result<()> {
        let connection = match self.listener.accept() {
            Ok(connection) => connection,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(_) => {
                // No descriptor or memory is left. A listener that stays readable would be asked again and again.
                self.hit(Quota::Connections, 0);
                self.is_deaf = true;
                return Ok(epoll::delete(&self.epoll, &self.listener)?);
            }
        };
        let limits = self.config.limits.get();
        if self.connections.len() >= limits.connections as usize {
            self.hit(Quota::Connections, 0);
            let text = "too many processes are attached to this service (limits.attach_connections)";
            return self.refuse(&connection, &text.to_owned().into());
        }
        let uid = connection.credentials().uid;
        let silent = |other: &&Connection| other.process.is_none() && other.control.credentials().uid == uid;
        if self.connections.values().filter(silent).count() >= limits.silent_per_user as usize {
            self.hit(Quota::SilentOfUser, uid);
            let text = "too many processes of this user have connected and said nothing (limits.silent_connections_per_user)";
            return self.refuse(&connection, &text.to_owned().into());
        }
        self.next += 2;
        watch(&self.epoll, connection.as_fd(), self.next)?;
        self.connections.insert(self.next, Connection { control: Arc::new(connection), process: None });
        Ok(())
    }

    /// Something came from a connection: one message, or its end.
    fn hear(&mut self, number: u64) -> io::Result<()> {
        let Some(connection) = self.connections.get(&number) else { return Ok(()) };
        let message = match connection.control.receive() {
            Ok(message) => message,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(_) => ClientMessage::Gone,
        };
        let (process, uid) = (connection.process, connection.control.credentials().uid);
        if let ClientMessage::Gone = message {
            return self.hang_up(number);
        }
        let Err(refusal) = self.execute(number, (message, process), uid) else { return Ok(()) };
        if let Some(connection) = self.connections.get(&number) {
            self.refuse(&connection.control, &refusal)?;
        }
        self.hang_up(number)
    }

    /// Does what a process asks for.
    ///
    /// # Errors
    /// It is refused, and its connection ends.
    fn execute(&mut self, number: u64, (message, process): (ClientMessage, Option<ProcessKey>), uid: u32) -> Result<(), Refusal> {
        let Some(control) = self.connections.get(&number).map(|connection| connection.control.clone()) else { return Ok(()) };
        let worker = self.config.worker.clone();
        let answer = match (message, process) {
            (ClientMessage::Hello { token, membership, wanted, name, socket, program }, None) => {
                let served = self.config.desk.is_served(socket.as_ref());
                self.config.desk.discard(uid, socket);
                return if served {
                    self.welcome(number, token, &membership, (wanted, name, program))
                } else {
                    Err(ELSEWHERE.to_owned().into())
                };
            }
            (ClientMessage::Claim { slot, purpose, socket }, Some(process)) => {
                let shown = Shown { control, worker, region: process.region, slot, purpose, socket };
                self.config.desk.show(uid, shown)
            }
            (ClientMessage::Handover { slot, way, socket }, Some(process)) => {
                let task = Task::of((way, socket), control, (worker, process.region, slot));
                self.config.handovers.begin(uid, task)
            }
            (ClientMessage::Want(words), None) => self.want(number, uid, &words),
            (ClientMessage::Child { process: child, pidfd }, Some(process)) => self.meet_child(process.region, child, pidfd, uid),
            (ClientMessage::Settle, Some(_)) => self.settle(number, uid),
            (ClientMessage::Context { context, key, kind }, Some(process)) => {
                self.give_wake_fd(number, process, WantedWakeFd { context, key, kind })
            }
            (ClientMessage::Gone, _) => Ok(()),
            (ClientMessage::Nonsense(text, descriptors), _) => {
                self.config.desk.discard(uid, descriptors);
                self.violation(text)
            }
            (ClientMessage::Claim { socket, .. } | ClientMessage::Handover { socket, .. }, None) => {
                self.config.desk.discard(uid, socket);
                self.violation("say hello first")
            }
            (ClientMessage::Child { pidfd, .. }, None) => {
                self.config.desk.discard(uid, pidfd);
                self.violation("say hello first")
            }
            (ClientMessage::Hello { socket, .. }, Some(_)) => {
                self.config.desk.discard(uid, socket);
                self.violation("this connection has said hello already")
            }
            (ClientMessage::Want(_), Some(_)) => self.violation("a program hands over its own sockets only"),
            (ClientMessage::Context { .. } | ClientMessage::Settle, None) => self.violation("say hello first"),
        };
        answer.map_err(Refusal::from)
    }

    /// The program wants to bind where something of its own has been closed, or has died, just now.
    fn settle(&mut self, number: u64, uid: u32) -> Result<(), String> {
        let Some(control) = self.connections.get(&number).map(|connection| connection.control.clone()) else { return Ok(()) };
        for process in self.members.dead() {
            self.members.tell_dead(process);
        }
        self.config.worker.settle().map_err(|_| "the worker has stopped")?;
        self.config.desk.settle(uid, control)
    }

    /// A context gets a wake descriptor of its own, or the one that another worker's broker has made for the same process. A refusal
    /// leaves the connection as it is: the process has fewer contexts then.
    fn give_wake_fd(
        &mut self,
        number: u64,
        process: ProcessKey,
        WantedWakeFd { context, key, kind }: WantedWakeFd,
    ) -> Result<(), String> {
        if let Some(key) = key {
            let ringer = self.config.wake_fds.find(&key).ok_or("there is no such wake_fd")?;
            self.members.context(process, context, ringer)?;
            self.let_register(context)?;
            return self.answer(number, ControlConnection::done);
        }
        let Some(peer) = self.connections.get(&number).map(|connection| connection.control.credentials()) else { return Ok(()) };
        let made = match self.config.wake_fds.make(peer.uid, process, kind) {
            Ok(made) => made,
            Err(Unmade { quota, text }) => {
                self.hit(quota, if quota == Quota::WaitContexts { 0 } else { peer.uid });
                return self.answer(number, |control| control.refuse(&text));
            }
        };
        self.members.context(process, context, made.ringer)?;
        self.let_register(context)?;
        self.answer(number, |control| control.give_wake_fd(made.key, made.wake_fd.as_fd()))
    }

    /// Waits until the worker has a context's wake descriptor, where events would be lost else.
    fn let_register(&self, context: u32) -> Result<(), String> {
        if is_distant(context) { self.config.worker.settle().map_err(|_| "the worker has stopped".to_owned()) } else { Ok(()) }
    }

    fn hit(&self, quota: Quota, holder: u32) {
        // A worker that has stopped counts nothing.
        self.config.worker.quota_hit(quota, holder).ok();
    }

    fn violation(&self, text: &str) -> Result<(), String> {
        self.config.status.violations.fetch_add(1, Ordering::Relaxed);
        Err(text.to_owned())
    }

    fn welcome(
        &mut self,
        number: u64,
        token: [u8; 16],
        earlier: &Membership,
        (wanted, name, program): (Option<u32>, u32, Option<ProgramFile>),
    ) -> Result<(), Refusal> {
        let Some(connection) = self.connections.get_mut(&number) else { return Ok(()) };
        let watched = connection.control.peer().map_err(|error| format!("your process cannot be watched: {error}"))?;
        let peer = Credentials { pid: watched.number, ..connection.control.credentials() };
        // A kernel that does not say has told the primary group.
        let groups = connection.control.groups().unwrap_or_default();
        let mut standing = self.members.standing(&token, peer.pid);
        if self.config.seals.is_right(&token, earlier) {
            standing = Some(Standing { owner: standing.map_or(earlier.owner, |standing| standing.owner), is_kin: true });
        }
        self.config.admission.get().decide(&token, standing, peer, &groups)?;
        self.config.executables.will_start(peer.pid, program);
        self.config.readiness.pass()?;
        let allowance = obey_rules(&self.config.policy.rules(), &self.config.executables, peer)?;
        let seen = self.confined.examine(peer.pid);
        let owner = standing.map_or(peer.uid, |standing| standing.owner);
        let (process, group) = self.members.join(token, peer, NewGroup { owner, allowance }, (wanted, name))?;
        self.confined.obey(process.region, &group.program, &seen)?;
        connection.process = Some(process);
        if self.config.number == 0 {
            let (pid, uid, application, program) = (peer.pid, peer.uid, process.region.0, &group.program);
            tracing::debug!(target: "ringway::attach", pid, uid, application, "process {pid} of {program} attaches");
        }
        // Before the welcome: a welcomed process may ask.
        self.config.status.attached.fetch_add(u64::from(self.config.number == 0), Ordering::Relaxed);
        if !std::mem::replace(&mut self.busy, true) {
            self.config.status.busy.fetch_add(1, Ordering::AcqRel);
        }
        let membership = self.config.seals.membership(&token, owner);
        let files = [group.memory.as_fd(), group.doorbell.as_fd()];
        let welcomed = connection.control.welcome_as(&membership, self.config.shape, process.index, files);
        self.watch_process(process, watched.pidfd).map_err(|error| error.to_string())?;
        welcomed.map_err(|error| error.to_string().into())
    }

    /// A process of another PID namespace has made a child, for which number `index` was reserved.
    fn meet_child(&mut self, region: RegionId, index: u32, pidfd: OwnedFd, uid: u32) -> Result<(), String> {
        match Peer::from_pidfd(pidfd) {
            Ok(Peer { number, pidfd }) => match self.members.met(region, index, Some(number)) {
                Some(process) => self.watch_process(process, pidfd).map_err(|error| error.to_string()),
                None => Ok(()),
            },
            Err((error, _)) if error.kind() == io::ErrorKind::NotFound => {
                self.members.met(region, index, None);
                Ok(())
            }
            Err((error, descriptor)) => {
                self.config.desk.discard(uid, descriptor);
                self.violation(&format!("a child that cannot be watched: {error}"))
            }
        }
    }

    fn watch_process(&mut self, process: ProcessKey, pidfd: OwnedFd) -> io::Result<()> {
        if self.members.is_watched(process) {
            return Ok(());
        }
        self.next += 2;
        watch(&self.epoll, pidfd.as_fd(), self.next + 1)?;
        self.watched.insert(self.next + 1, process);
        self.members.set_pidfd(process, pidfd);
        Ok(())
    }

    /// Sends something to a connection; a failure ends it.
    fn answer(&self, number: u64, send: impl FnOnce(&ControlConnection) -> io::Result<()>) -> Result<(), String> {
        match self.connections.get(&number) {
            Some(connection) => send(&connection.control).map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }

    fn refuse(&self, connection: &ControlConnection, refusal: &Refusal) -> io::Result<()> {
        let (Refusal::Kernel(text) | Refusal::Denied(text)) = refusal;
        if self.config.number == 0 {
            let Credentials { pid, uid, .. } = connection.credentials();
            tracing::info!(target: "ringway::attach", pid, uid, "process {pid} of user {uid} is refused: {text}");
        }
        self.config.status.refused.fetch_add(1, Ordering::Relaxed);
        // It may be gone already; then no answer is needed.
        match refusal {
            Refusal::Kernel(text) => connection.refuse(text).ok(),
            Refusal::Denied(text) => connection.deny(text).ok(),
        };
        Ok(())
    }

    /// A connection has ended; its process may go on (exec) or reach its end next.
    fn hang_up(&mut self, number: u64) -> io::Result<()> {
        let Some(connection) = self.connections.remove(&number) else { return Ok(()) };
        epoll::delete(&self.epoll, &*connection.control)?;
        self.config.desk.discard(connection.control.credentials().uid, connection.control);
        if let Some(process) = connection.process
            && !self.connections.values().any(|other| other.process == Some(process))
        {
            self.members.disconnected(process);
        }
        Ok(())
    }

    /// A process is dead.
    fn reap(&mut self, number: u64) -> io::Result<()> {
        let Some(process) = self.watched.remove(&number) else { return Ok(()) };
        if let (0, Some(pid)) = (self.config.number, self.members.pid(process)) {
            tracing::debug!(target: "ringway::attach", pid, application = process.region.0, "process {pid} has ended");
        }
        if let Some(pidfd) = self.members.leave(process) {
            epoll::delete(&self.epoll, &pidfd)?;
        }
        let connections: Vec<u64> = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.process == Some(process))
            .map(|(number, _)| *number)
            .collect();
        for number in connections {
            let Some(connection) = self.connections.remove(&number) else { continue };
            epoll::delete(&self.epoll, &*connection.control)?;
            self.config.desk.discard(connection.control.credentials().uid, connection.control);
        }
        Ok(())
    }

    fn take_forks(&mut self) -> io::Result<()> {
        let has_worked = self.config.forks.has_worked();
        self.take_unmoved();
        for Fork { region, process, pid } in self.config.forks.take() {
            let Some(process) = self.members.forked(region, process, pid) else { continue };
            match members::open_pid(pid) {
                Ok(pidfd) => self.watch_process(process, pidfd)?,
                // It has died before we could look, or never was.
                Err(_) => drop(self.members.leave(process)),
            }
        }
        if has_worked {
            self.confined.look_again(&self.members);
        }
        Ok(())
    }

    fn tell_status(&mut self) -> io::Result<()> {
        if self.config.number == 0 {
            self.config.status.connections.store(self.connections.len() as u64, Ordering::Relaxed);
        }
        if self.members.is_busy() || !std::mem::replace(&mut self.busy, false) {
            return Ok(());
        }
        if self.config.status.busy.fetch_sub(1, Ordering::AcqRel) == 1 {
            match rustix::io::write(&self.config.idle, &1u64.to_ne_bytes()) {
                Ok(_) | Err(Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

fn watch(epoll: &OwnedFd, fd: BorrowedFd<'_>, number: u64) -> io::Result<()> {
    Ok(epoll::add(epoll, fd, epoll::EventData::new_u64(number), epoll::EventFlags::IN)?)
}

#[cfg(test)]
mod tests;
