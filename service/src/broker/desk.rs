//! Looks at the kernel sockets that programs show, and keeps those that hold a served port.
//!
//! ```text
//!   broker --socket--> the user's own thread: checks -> claim to the worker, Done to the program
//!   worker --end of the claim--------------> the same thread: closes the socket
//!   kernel socket shut down, disconnected --> watch: the worker ends what the claim was used for
//! ```
//! A program that has a socket can hold its lock for as long as it likes (a send that faults on the program's own memory), and
//! SO_LINGER makes its last close wait. So another user's descriptors are touched only in a thread for that user, and a program
//! can only keep its own user waiting. Promises: a claim is given for a socket of this network namespace that is bound to the
//! port named (listening, where it is to listen), cannot lose it, and shares it with no other user's socket; the socket is kept
//! as long as the claim lives. Does not do: asking which process made the socket; its holder may pass it on.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use ringway_channel::SlotRef;
use ringway_channel::attach::ControlConnection;
use ringway_engine::{Claim, Purpose, Quota, RegionId, Transport, Usage, WorkerHandle};
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fs::fstat;
use rustix::net::{AddressFamily, SocketType, connect_unspec, getpeername, getsockname, ipproto, sockopt};

use crate::config::Adopts;
use crate::live::Live;
use crate::ports::listeners;

/// Most sockets of one user that may wait to be looked at.
const PENDING_MAX: usize = 256;
const STOP: u64 = 0;

/// The desk of all brokers of a service.
#[derive(Clone)]
pub(crate) struct Desk(Arc<Inner>);

struct Inner {
    /// The namespace that is served; `None`: this kernel does not tell.
    network: Option<u64>,
    users: Mutex<HashMap<u32, Arc<User>>>,
    kept: AtomicUsize,
    limits: Live<KeptLimits>,
    refused: AtomicUsize,
    watch: Watch,
}

/// Sockets that are kept at most: so many ports can be listened on or bound. One descriptor each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptLimits {
    pub(crate) per_user: u32,
    pub(crate) all: u32,
    /// What was an earlier service's and may come back.
    pub(crate) adopts: Adopts,
}

/// One user's thread.
struct User {
    jobs: Sender<Job>,
    pending: AtomicUsize,
    kept: AtomicUsize,
}

/// A socket that a program shows.
pub(super) struct Shown {
    pub(super) control: Arc<ControlConnection>,
    pub(super) worker: WorkerHandle,
    pub(super) region: RegionId,
    pub(super) slot: SlotRef,
    pub(super) purpose: Purpose,
    pub(super) socket: OwnedFd,
}

enum Job {
    Look(Box<Shown>),
    Close(OwnedFd, Option<u64>),
    Drop(Box<dyn Send>),
    Settle(Arc<ControlConnection>),
}

/// A socket that is kept; the end of it is the user's thread's work.
struct Kept {
    socket: Option<OwnedFd>,
    number: u64,
    user: Arc<User>,
    desk: Arc<Inner>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.desk.kept.fetch_sub(1, Ordering::Relaxed);
        self.user.kept.fetch_sub(1, Ordering::Relaxed);
        if let Some(socket) = self.socket.take() {
            self.user.put(Job::Close(socket, Some(self.number)));
        }
    }
}

impl User {
    fn put(&self, job: Job) {
        // The thread runs as long as the desk does; at the end of the service the kernel closes what is left.
        self.jobs.send(job).ok();
    }
}

impl Desk {
    /// Starts the watch, which ends when `stop` is readable.
    pub(crate) fn start(stop: &Arc<OwnedFd>, limits: impl Into<Live<KeptLimits>>) -> io::Result<(Desk, JoinHandle<()>)> {
        let watch =
            Watch { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, claims: Mutex::default(), next: AtomicUsize::new(1) };
        epoll::add(&watch.epoll, stop, epoll::EventData::new_u64(STOP), epoll::EventFlags::IN)?;
        let inner = Inner {
            network: ringway_channel::sys::network_here().ok(),
            users: Mutex::default(),
            kept: AtomicUsize::new(0),
            limits: limits.into(),
            refused: AtomicUsize::new(0),
            watch,
        };
        let (desk, stop) = (Desk(Arc::new(inner)), stop.clone());
        let theirs = desk.0.clone();
        let thread = Builder::new().name("ringway-claims".to_owned()).spawn(move || theirs.watch.run(&stop))?;
        Ok((desk, thread))
    }

    /// Returns true if a program shows a socket of the namespace that is served.
    pub(super) fn is_served(&self, socket: Option<&OwnedFd>) -> bool {
        let Some(network) = self.0.network else { return true };
        socket.is_some_and(|socket| ringway_channel::sys::network_of(socket.as_fd()).is_ok_and(|theirs| theirs == network))
    }

    /// Has a socket looked at, and its program answered.
    pub(super) fn show(&self, uid: u32, shown: Shown) -> Result<(), String> {
        let user = self.user(uid)?;
        if user.pending.fetch_add(1, Ordering::Relaxed) >= PENDING_MAX {
            user.pending.fetch_sub(1, Ordering::Relaxed);
            let answer = shown.control.refuse("too many sockets of this user wait to be looked at");
            user.put(Job::Close(shown.socket, None));
            return answer.map_err(|error| error.to_string());
        }
        user.put(Job::Look(Box::new(shown)));
        Ok(())
    }

    /// Answers a program when all that the user has closed before is closed.
    pub(super) fn settle(&self, uid: u32, control: Arc<ControlConnection>) -> Result<(), String> {
        self.user(uid)?.put(Job::Settle(control));
        Ok(())
    }

    /// Closes another user's descriptors.
    pub(super) fn discard(&self, uid: u32, what: impl Send + 'static) {
        if let Ok(user) = self.user(uid) {
            user.put(Job::Drop(Box::new(what)));
        }
    }

    /// Returns the users' numbers of kept sockets. `None`: a user is being added just now.
    pub(crate) fn usage(&self) -> Option<Vec<Usage>> {
        let users = self.0.users.try_lock().ok()?;
        let count = |kept: &AtomicUsize| kept.load(Ordering::Relaxed) as u64;
        let limits = self.0.limits.get();
        let of_user = |(&holder, user): (&u32, &Arc<User>)| {
            let (used, limit) = (Some(count(&user.kept)), limits.per_user.into());
            Usage { quota: Quota::ShownSocketsOfUser, holder, used, limit, hits: None }
        };
        let of_all = Usage {
            quota: Quota::ShownSockets,
            holder: 0,
            used: Some(count(&self.0.kept)),
            limit: limits.all.into(),
            hits: None,
        };
        Some(users.iter().map(of_user).chain([of_all]).collect())
    }

    fn user(&self, uid: u32) -> Result<Arc<User>, String> {
        let mut users = lock(&self.0.users);
        if let Some(user) = users.get(&uid) {
            return Ok(user.clone());
        }
        let (jobs, queue) = channel();
        let user = Arc::new(User { jobs, pending: AtomicUsize::new(0), kept: AtomicUsize::new(0) });
        let (desk, theirs) = (self.0.clone(), user.clone());
        let thread = Builder::new().name(format!("ringway-u{uid}"));
        thread.spawn(move || desk.serve(uid, &theirs, &queue)).map_err(|error| error.to_string())?;
        users.insert(uid, user.clone());
        Ok(user)
    }
}

impl Inner {
    fn serve(self: &Arc<Self>, uid: u32, user: &Arc<User>, queue: &Receiver<Job>) {
        while let Ok(job) = queue.recv() {
            match job {
                Job::Look(shown) => {
                    user.pending.fetch_sub(1, Ordering::Relaxed);
                    let control = shown.control.clone();
                    let answer = match self.look(uid, user, *shown) {
                        Ok(()) => control.done(),
                        Err(text) => {
                            self.refused.fetch_add(1, Ordering::Relaxed);
                            control.refuse(&text)
                        }
                    };
                    // A program that has gone wants no answer.
                    answer.ok();
                }
                Job::Close(socket, number) => {
                    if let Some(number) = number {
                        self.watch.forget(&socket, number);
                    }
                    drop(socket);
                }
                Job::Drop(what) => drop(what),
                Job::Settle(control) => control.done().unwrap_or_default(),
            }
        }
    }

    fn look(self: &Arc<Self>, uid: u32, user: &Arc<User>, shown: Shown) -> Result<(), String> {
        let Shown { worker, region, slot, purpose, socket, .. } = shown;
        let purpose = match purpose {
            Purpose::ListenAgain if self.limits.get().adopts == Adopts::Nothing => {
                return Err("listeners of earlier services stay with the kernel (policy.adopt)".to_owned());
            }
            Purpose::ListenAgain => Purpose::Listen,
            purpose => purpose,
        };
        let (local, dual_stack) = self.examine(uid, purpose, socket.as_fd())?;
        let kept = user.kept.fetch_add(1, Ordering::Relaxed);
        let all = self.kept.fetch_add(1, Ordering::Relaxed);
        let number = self.watch.next.fetch_add(1, Ordering::Relaxed) as u64;
        // From here on its end is counted.
        let keeping = Kept { socket: Some(socket), number, user: user.clone(), desk: self.clone() };
        let hit = match self.limits.get() {
            KeptLimits { per_user, .. } if kept >= per_user as usize => Some((Quota::ShownSocketsOfUser, uid)),
            KeptLimits { all: most, .. } if all >= most as usize => Some((Quota::ShownSockets, 0)),
            _ => None,
        };
        if let Some((quota, holder)) = hit {
            // A worker that has stopped counts nothing.
            worker.quota_hit(quota, holder).ok();
            let key = quota.info().key;
            return Err(format!("user {uid} has {kept} ports and all users {all}, and may have no more (limits.{key})"));
        }
        if purpose != Purpose::Datagrams {
            let watched = Watched { worker: worker.clone(), region, slot, is_new: purpose == Purpose::Connect };
            let socket = keeping.socket.as_ref().ok_or("it has just been put there")?;
            self.watch.add(socket, number, watched).map_err(|error| error.to_string())?;
        }
        let claim = Claim { purpose, local, dual_stack, kept: Arc::new(keeping) };
        match worker.claim(region, slot, claim) {
            Ok(true) => Ok(()),
            Ok(false) => Err("there is no such socket".to_owned()),
            Err(_) => Err("the worker has stopped".to_owned()),
        }
    }

    /// Returns the socket's address, and true if it serves both families; an error if it may not be served for `purpose`.
    fn examine(&self, uid: u32, purpose: Purpose, socket: BorrowedFd<'_>) -> Result<(SocketAddr, bool), String> {
        let system = |error: rustix::io::Errno| error.to_string();
        if self.network.is_some_and(|network| ringway_channel::sys::network_of(socket).ok() != Some(network)) {
            return Err("the socket belongs to another network namespace".to_owned());
        }
        let family = sockopt::socket_domain(socket).map_err(system)?;
        let (kind, protocol) = match purpose {
            Purpose::Datagrams => (SocketType::DGRAM, ipproto::UDP),
            Purpose::Listen | Purpose::Connect | Purpose::ListenAgain => (SocketType::STREAM, ipproto::TCP),
        };
        let fits = sockopt::socket_type(socket) == Ok(kind) && sockopt::socket_protocol(socket) == Ok(Some(protocol));
        if !fits || !matches!(family, AddressFamily::INET | AddressFamily::INET6) {
            return Err("the socket is of another kind".to_owned());
        }
        if sockopt::socket_acceptconn(socket).map_err(system)? != (purpose == Purpose::Listen) {
            return Err("the socket is not in the state that it is shown for".to_owned());
        }
        if purpose != Purpose::Listen && getpeername(socket).is_ok_and(|peer| peer.is_some()) {
            return Err("the socket is connected".to_owned());
        }
        if purpose == Purpose::Datagrams {
            // A port that the kernel has chosen would go whenever the program disconnects the socket. Now it goes at once.
            connect_unspec(socket).map_err(system)?;
        }
        let local = SocketAddr::try_from(getsockname(socket).map_err(system)?).map_err(system)?;
        if local.port() == 0 {
            return Err("the socket is not bound to a port that it keeps".to_owned());
        }
        let wild = family == AddressFamily::INET6 && local.ip().is_unspecified();
        let dual_stack = wild && !sockopt::ipv6_v6only(socket).map_err(system)?;
        let local = SocketAddr::new(local.ip().to_canonical(), local.port());
        let transport = if purpose == Purpose::Datagrams { Transport::Udp } else { Transport::Tcp };
        let inode = fstat(socket).map_err(system)?.st_ino;
        if uid != 0 && listeners::others(transport, local, dual_stack, (uid, inode)).map_err(|error| error.to_string())? {
            return Err("a kernel socket of another user has the same port".to_owned());
        }
        Ok((local, dual_stack))
    }
}

/// Sees what programs do to sockets that are kept.
struct Watch {
    epoll: OwnedFd,
    claims: Mutex<HashMap<u64, Watched>>,
    next: AtomicUsize,
}

struct Watched {
    worker: WorkerHandle,
    region: RegionId,
    slot: SlotRef,
    /// A socket that is only bound reports that it hangs up, once.
    is_new: bool,
}

impl Watch {
    fn add(&self, socket: &OwnedFd, number: u64, watched: Watched) -> io::Result<()> {
        lock(&self.claims).insert(number, watched);
        Ok(epoll::add(&self.epoll, socket, epoll::EventData::new_u64(number), epoll::EventFlags::ET)?)
    }

    fn forget(&self, socket: &OwnedFd, number: u64) {
        if lock(&self.claims).remove(&number).is_some() {
            // It is closed next; where the program has it too, its events name nothing any more.
            epoll::delete(&self.epoll, socket).unwrap_or_default();
        }
    }

    /// A socket that leaves its state (shutdown, connect to nothing, SOCK_DESTROY) wakes its waiters, whatever else it does.
    fn run(&self, _stop: &OwnedFd) {
        let mut events = Vec::with_capacity(64);
        loop {
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
            for event in &events {
                let number = event.data.u64();
                if number == STOP {
                    return;
                }
                if let Some(watched) = lock(&self.claims).get_mut(&number)
                    && !std::mem::take(&mut watched.is_new)
                {
                    // A worker that has stopped serves nothing.
                    watched.worker.revoke(watched.region, watched.slot).ok();
                }
            }
        }
    }
}

/// Takes a lock even after a panic: the value behind it is whole after every statement.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
