//! Sockets that programs hand over to the kernel: from the worker into the kernel socket, and steering in between.
//!
//! ```text
//!   program --Handover{slot} + socket--> a thread for its user:
//!       worker: depart ----> the connection, and what lay in its slot
//!       kernel socket: repair mode, queues, windows
//!       steering: the flow is the kernel's
//!       kernel socket: leaves repair mode
//!       worker: arrived, or, when one of these has failed, returned
//!   <-- Done, or Refused with the reason
//!
//!   a listener: the worker lets the port go (depart), and the kernel's listener is there already
//!   with a listener's socket in place of its own: a connection that no program has accepted goes into the queue of that listener
//! ```
//! Making a socket anew takes CAP_NET_ADMIN (and CAP_NET_BIND_SERVICE for a port below 1024), and a program that holds the lock of its own socket makes the caller wait: so each user
//! has a thread here, as at the desk, made by a thread that has kept the right. Promises: a connection that departed arrives or
//! returns, whatever fails; flows of sockets that are gone do not stay in the table of steering. Does not do: which sockets
//! to hand over; programs ask for that, and the operator (`Want`).

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use ringway_channel::attach::{ControlConnection, Way};
use ringway_channel::{ProcessDescriptor, SlotRef};
use ringway_device::steering::AcceptQueues;
use ringway_engine::{Departure, Late, RegionId, Wanted, WorkerHandle, clock};
use ringway_shm::Flow;
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown, sockopt};
use rustix::thread::CapabilitySet;

use super::Broker;
use super::adoptions::{Offered, Recalls};
use super::desk::KeptLimits;
use super::sleepers::take;
use crate::config::Adopts;
use crate::handover::{self, Injector, Leaving, Prepared, Refusal};
use crate::live::Live;
use crate::ports::Steering;
use crate::ports::port_registry::OnFlows;
use crate::privileges;

/// Sockets of one user that may wait for their handover.
const PENDING_MAX: usize = 1024;
/// Flows whose sockets are gone are looked for so often, while there are any.
const SWEEP: Duration = Duration::from_secs(5);

/// The program at `lo` stays so long for the next connection that waits for accept.
const QUEUES_OPEN: Duration = Duration::from_millis(50);

/// Handovers of all brokers of a service.
#[derive(Clone)]
pub(crate) struct Handovers(Arc<Inner>);

struct Inner {
    users: Mutex<HashMap<u32, User>>,
    recalls: Recalls,
    takes: bool,
    /// Makes the users' threads.
    maker: Sender<Request>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // It has ended already where its queue is gone.
        self.maker.send(Request::End).ok();
    }
}

/// What the thread with the rights is asked for.
enum Request {
    /// A thread for this user.
    Thread(u32, Receiver<Job>),
    /// There are flows of the kernel's, whose sockets may end.
    Sweep,
    /// The service ends.
    End,
}

#[derive(Clone)]
struct User {
    jobs: Sender<Job>,
    pending: Arc<AtomicUsize>,
}

/// A socket that a program hands over, or that is taken from it.
pub(super) struct HandedOver {
    /// The program that awaits an answer.
    pub(super) control: Option<Arc<ControlConnection>>,
    pub(super) worker: WorkerHandle,
    pub(super) region: RegionId,
    pub(super) slot: SlotRef,
    pub(super) socket: KernelSocket,
}

/// The kernel socket of a socket that is handed over.
pub(super) enum KernelSocket {
    /// The program has given it.
    Given(OwnedFd),
    /// A process has it in this place, as its program says; see `sleepers`.
    Held(Arc<OwnedFd>, ProcessDescriptor),
}

/// What the thread of a user is to do.
pub(super) enum Task {
    /// The kernel goes on with a socket.
    Home(HandedOver),
    /// The stack goes on with a connection.
    Back(Offered),
}

impl Task {
    /// What a program asks for by this message.
    pub(super) fn of(
        (way, socket): (Way, OwnedFd),
        control: Arc<ControlConnection>,
        at: (WorkerHandle, RegionId, SlotRef),
    ) -> Task {
        let (worker, region, slot) = at;
        let is_recalled = way == Way::Recalled;
        match way {
            Way::Home => {
                let socket = KernelSocket::Given(socket);
                Task::Home(HandedOver { control: Some(control), worker, region, slot, socket })
            }
            Way::Back | Way::Recalled => Task::Back(Offered { control, worker, region, slot, socket, is_recalled }),
        }
    }

    /// The program that awaits an answer.
    fn control(&self) -> Option<&ControlConnection> {
        match self {
            Task::Home(handed) => handed.control.as_deref(),
            Task::Back(offered) => Some(&offered.control),
        }
    }
}

struct Job {
    task: Task,
    pending: Arc<AtomicUsize>,
}

impl Job {
    /// Its turn has come.
    fn begin(self) -> Task {
        self.pending.fetch_sub(1, Ordering::Relaxed);
        self.task
    }
}

/// What the users' threads need.
#[derive(Clone)]
pub(super) struct Work {
    pub(super) steering: Arc<Mutex<Box<dyn Steering>>>,
    injector: Arc<Option<Injector>>,
    /// `Err`: why this kernel takes no connection into an accept queue.
    queues: Arc<Result<Mutex<AcceptQueues>, io::Error>>,
    /// The namespace that is served; `None`: this kernel does not tell.
    network: Option<u64>,
    kept: Live<KeptLimits>,
    pub(super) recalls: Recalls,
    maker: Sender<Request>,
}

/// The thread that makes those of the users, which have its rights; it waits for [`Handovers::start`] and ends with the last of them.
pub(crate) struct HandoverThread {
    thread: JoinHandle<()>,
    takes: bool,
    maker: Sender<Request>,
    begin: Sender<Work>,
}

impl HandoverThread {
    /// Made while the caller still has the `rights` that it keeps.
    ///
    /// # Errors
    /// There is no thread.
    pub(crate) fn new(rights: CapabilitySet) -> io::Result<HandoverThread> {
        let ((maker, requests), (begin, work)) = (channel(), channel::<Work>());
        // Without work the service has not started.
        let make = move || work.recv().map_or((), |work| work.make_threads(&requests));
        let thread = privileges::spawn_with(rights, "ringway-handover", make)?;
        Ok(HandoverThread { thread, takes: rights.contains(CapabilitySet::SYS_PTRACE), maker, begin })
    }
}

impl Handovers {
    /// Starts to hand sockets over, by `thread`. Called with CAP_NET_RAW if states that need a segment of the peer's are to be handed over, and
    /// with CAP_BPF too if connections are that wait for accept.
    pub(crate) fn start(
        thread: HandoverThread,
        steering: Box<dyn Steering>,
        kept: impl Into<Live<KeptLimits>>,
    ) -> (Handovers, JoinHandle<()>) {
        let HandoverThread { thread, takes, maker, begin } = thread;
        let work = Work {
            steering: Arc::new(Mutex::new(steering)),
            injector: Arc::new(Injector::open()),
            queues: Arc::new(AcceptQueues::new().map(Mutex::new)),
            network: ringway_channel::sys::network_here().ok(),
            kept: kept.into(),
            recalls: Recalls::default(),
            maker: maker.clone(),
        };
        let recalls = work.recalls.clone();
        // It waits for this.
        begin.send(work).unwrap_or_default();
        (Handovers(Arc::new(Inner { users: Mutex::default(), recalls, takes, maker })), thread)
    }

    /// Returns true if sockets may be taken out of programs.
    pub(super) fn takes(&self) -> bool {
        self.0.takes
    }

    /// What to call when the kernel has flows of owned ports.
    pub(crate) fn on_flows(&self) -> OnFlows {
        let maker = self.0.maker.clone();
        // The thread ends with the service.
        Box::new(move || maker.send(Request::Sweep).unwrap_or_default())
    }

    /// What of these connections was handed over may come back for a while.
    pub(super) fn recall(&self, wanted: Wanted) {
        self.0.recalls.add(wanted, clock::now());
    }

    /// What is sent home from now on stays there until it is asked for again.
    pub(super) fn forget_recalls(&self) {
        self.0.recalls.clear();
    }

    /// Does it, in the thread of this user, and answers the program.
    pub(super) fn begin(&self, uid: u32, task: Task) -> Result<(), String> {
        let user = self.user(uid)?;
        // Those that are taken hold no descriptor before their turn.
        if user.pending.fetch_add(1, Ordering::Relaxed) >= PENDING_MAX
            && let Some(control) = task.control()
        {
            user.pending.fetch_sub(1, Ordering::Relaxed);
            let text = "too many sockets of this user wait for their handover";
            return control.refuse(text).map_err(|error| error.to_string());
        }
        let job = Job { task, pending: user.pending.clone() };
        user.jobs.send(job).map_err(|_| "the thread of this user has ended".to_owned())
    }

    fn user(&self, uid: u32) -> Result<User, String> {
        let mut users = lock(&self.0.users);
        if let Some(user) = users.get(&uid) {
            return Ok(user.clone());
        }
        let (jobs, queue) = channel();
        self.0.maker.send(Request::Thread(uid, queue)).map_err(|_| "no thread can be made any more".to_owned())?;
        let user = User { jobs, pending: Arc::default() };
        users.insert(uid, user.clone());
        Ok(user)
    }
}

impl Work {
    fn make_threads(&self, requests: &Receiver<Request>) {
        let mut has_flows = false;
        loop {
            let request = if has_flows { requests.recv_timeout(SWEEP) } else { requests.recv().map_err(RecvTimeoutError::from) };
            match request {
                Ok(Request::Thread(uid, queue)) => {
                    let theirs = self.clone();
                    let thread = Builder::new().name(format!("ringway-h{uid}"));
                    // Without a thread the queue is gone, and its user is told so.
                    if let Err(error) = thread.spawn(move || theirs.serve(uid, &queue)) {
                        tracing::warn!(target: "ringway::handover", "sockets of user {uid} cannot be handed over: {error}");
                    }
                }
                Ok(Request::Sweep) => has_flows = true,
                // What the kernel does not say stays in the table.
                Err(RecvTimeoutError::Timeout) => has_flows = lock(&self.steering).sweep().is_ok_and(|left| left > 0),
                Ok(Request::End) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// The next job; `None`: there will be none. Accept queues that were opened stay open a little for the next connection.
    fn next(&self, queue: &Receiver<Job>) -> Option<Job> {
        let queues = self.queues.as_ref().as_ref().ok();
        if queues.is_some_and(|queues| lock(queues).is_open()) {
            match queue.recv_timeout(QUEUES_OPEN) {
                Err(RecvTimeoutError::Timeout) => queues.into_iter().for_each(|queues| lock(queues).close()),
                next => return next.ok(),
            }
        }
        queue.recv().ok()
    }

    fn serve(&self, uid: u32, queue: &Receiver<Job>) {
        let mut waiting = VecDeque::new();
        while let Some(task) = waiting.pop_front().or_else(|| self.next(queue).map(Job::begin)) {
            let handed = match task {
                Task::Home(handed) => handed,
                Task::Back(offered) => {
                    waiting.extend(queue.try_iter().map(Job::begin));
                    self.adopt_all(uid, together(offered, &mut waiting));
                    continue;
                }
            };
            let control = handed.control.clone();
            let carried = self.carry(handed);
            match &carried {
                Ok(()) => tracing::debug!(target: "ringway::handover", uid, "a socket of user {uid} is the kernel's"),
                Err(text) => tracing::warn!(target: "ringway::handover", "a socket of user {uid} stays with the stack: {text}"),
            }
            answer(control.as_deref(), &carried);
        }
    }

    /// Connections of the kernel's may come.
    pub(super) fn adopts(&self) -> bool {
        self.kept.get().adopts == Adopts::All
    }

    pub(super) fn is_served(&self, socket: &OwnedFd) -> bool {
        self.network.is_none_or(|network| ringway_channel::sys::network_of(socket.as_fd()).is_ok_and(|theirs| theirs == network))
    }

    /// Hands one socket over.
    fn carry(&self, handed: HandedOver) -> Result<(), String> {
        let HandedOver { worker, region, slot, socket, .. } = handed;
        let (socket, place) = match socket {
            KernelSocket::Given(socket) => (socket, None),
            KernelSocket::Held(pidfd, place) => (take(&pidfd, place).map_err(|error| error.to_string())?, Some(place)),
        };
        if !self.is_served(&socket) {
            return Err("the socket belongs to another network namespace".to_owned());
        }
        let gone = |_| "the worker has stopped".to_owned();
        // It is the connection's if it still is in that place now: the program may have had another file there in between.
        let departure = match place {
            None => worker.depart(region, slot),
            Some(place) => worker.depart_from(region, slot, place),
        };
        let departure = departure.map_err(gone)?.map_err(|stays| stays.to_string())?;
        let Some(departure) = departure else { return Ok(()) };
        if place.is_none() && sockopt::socket_acceptconn(&socket).unwrap_or(false) {
            return match self.put_into_queue(&socket, &departure) {
                Ok(()) => worker.arrived(region, slot, departure.image).map(drop).map_err(gone),
                Err(text) => worker.returned(region, slot, departure.image).map_err(gone).and(Err(text)),
            };
        }
        let prepared = match self.put_into(socket, &departure) {
            Ok(prepared) => prepared,
            Err(text) => {
                worker.returned(region, slot, departure.image).map_err(gone)?;
                return Err(text);
            }
        };
        // From here on the connection is the kernel's. If that has no memory, it has reset the connection, and the program sees it.
        let socket = prepared.go();
        let late = worker.arrived(region, slot, departure.image).map_err(gone)?;
        socket.and_then(|socket| end_late(&socket, late)).map_err(|error| error.to_string())
    }

    /// The kernel socket has the connection and its packets, and is silent; or it is as it was before.
    fn put_into(&self, socket: OwnedFd, departure: &Departure) -> Result<Prepared, String> {
        let leaving = leaving(departure);
        let prepared =
            handover::prepare(&leaving, socket, self.injector.as_ref().as_ref()).map_err(|refusal| refusal.to_string())?;
        match self.leave_flow(&handover::flow_of(leaving.image)) {
            Ok(()) => Ok(prepared),
            Err(text) => {
                prepared.undo();
                Err(text)
            }
        }
    }

    /// The kernel has the connection and its packets, and its listener's program may accept it; or it has nothing of it.
    fn put_into_queue(&self, listener: &OwnedFd, departure: &Departure) -> Result<(), String> {
        let queues = self.queues.as_ref().as_ref().map_err(|error| format!("no way into an accept queue: {error}"))?;
        let injector = self.injector.as_ref().as_ref().ok_or_else(|| Refusal::Injection.to_string())?;
        let leaving = leaving(departure);
        handover::enqueue(&leaving, listener.as_fd(), injector, &mut lock(queues)).map_err(|refusal| refusal.to_string())?;
        self.leave_flow(&handover::flow_of(leaving.image)).inspect_err(|_| handover::take_back(&leaving, injector))
    }

    /// The packets of the flow are the kernel's.
    pub(super) fn leave_flow(&self, flow: &Flow) -> Result<(), String> {
        lock(&self.steering).leave_flow(flow).map_err(|error| error.to_string())?;
        // The thread ends with the service.
        self.maker.send(Request::Sweep).ok();
        Ok(())
    }
}

/// Answers a program, which may have gone.
pub(super) fn answer(control: Option<&ControlConnection>, carried: &Result<(), String>) {
    control.map(|control| carried.as_ref().map_or_else(|text| control.refuse(text), |()| control.done()).ok());
}

fn leaving(departure: &Departure) -> Leaving<'_> {
    let Departure { image, options, delivered, unsent, shuts } = departure;
    Leaving { image, options, delivered, unqueued: unsent, shuts: *shuts }
}

/// Does what the program has asked for while its connection was on its way.
fn end_late(socket: &OwnedFd, late: Late) -> io::Result<()> {
    if late.resets {
        sockopt::set_socket_linger(socket, Some(Duration::ZERO))?;
    }
    match if late.shuts { shutdown(socket, Shutdown::Write) } else { Ok(()) } {
        // The peer has reset the connection.
        Ok(()) | Err(Errno::NOTCONN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Takes the connections from the front of `waiting` that come back together with `first`.
fn together(first: Offered, waiting: &mut VecDeque<Task>) -> Vec<Offered> {
    let mut batch = vec![first];
    while let Some(Task::Back(_)) = waiting.front() {
        if let Some(Task::Back(offered)) = waiting.pop_front() {
            batch.push(offered);
        }
    }
    batch
}

impl Broker {
    /// The operator wants sockets to be the kernel's, to come back, or to end.
    pub(super) fn want(&mut self, number: u64, uid: u32, words: &str) -> Result<(), String> {
        if uid != 0 && uid != rustix::process::getuid().as_raw() {
            return Err("only root and the user of the service may hand over or end sockets of all programs".to_owned());
        }
        let asked = asked(words)
            .ok_or("it must be: all, pid N, port N, or flow ADDRESS:PORT ADDRESS:PORT, behind kill, back or neither")?;
        let count = match asked {
            Asked::Leave(wanted) => {
                self.config.handovers.forget_recalls();
                self.config.worker.want(wanted)
            }
            Asked::End(wanted) => self.config.worker.kill(wanted),
            Asked::Return(wanted) => {
                self.config.handovers.recall(wanted);
                self.config.worker.recall().map(|()| 0)
            }
        };
        let count = count.map_err(|_| "the worker has stopped")?;
        let Some(connection) = self.connections.get(&number) else { return Ok(()) };
        tracing::info!(target: "ringway::handover", uid, count, "user {uid} asked for: {words}; {count} connections");
        connection.control.done_with(count).map_err(|error| error.to_string())
    }
}

/// What a tool asks of sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// They go on in the kernel.
    Leave(Wanted),
    /// They are reset.
    End(Wanted),
    /// They come back.
    Return(Wanted),
}

/// What a tool asks; `None`: that is not in the contract.
pub(super) fn asked(words: &str) -> Option<Asked> {
    match words.split_once(' ') {
        Some(("kill", words)) => wanted(words).map(Asked::End),
        Some(("back", words)) => wanted(words).map(Asked::Return),
        _ => wanted(words).map(Asked::Leave),
    }
}

/// The sockets that a tool names.
fn wanted(words: &str) -> Option<Wanted> {
    let words: Vec<&str> = words.split(' ').collect();
    match words[..] {
        ["all"] => Some(Wanted::All),
        ["pid", number] => number.parse().ok().map(Wanted::Process),
        ["port", number] => number.parse().ok().map(Wanted::Port),
        ["flow", one, other] => {
            let (one, other): (SocketAddr, SocketAddr) = (one.parse().ok()?, other.parse().ok()?);
            Some(Wanted::Flow(one, other))
        }
        _ => None,
    }
}

/// Takes a lock even after a panic: the value behind it is whole after every statement.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
