//! The service as a test plays it: regions, each with a worker, and their brokers.

use super::*;
use ringway_channel::attach::Way;

/// The service's side of a region.
pub(crate) struct Desk {
    pub(super) worker: Mutex<Attachment>,
    /// The kernel goes on with connections that are handed over. Else all are refused.
    pub(crate) hands_over: AtomicBool,
    /// Number of handovers that were asked for.
    pub(crate) handovers: AtomicU32,
}

/// A region with a worker that the test plays, and its broker.
pub(super) struct Played {
    pub(super) desk: Arc<Desk>,
    pub(super) broker: Option<thread::JoinHandle<()>>,
    pub(super) stop: Arc<OwnedFd>,
}

impl Played {
    pub(super) fn at(path: &std::path::Path) -> Played {
        let (worker, region) = Attachment::create(SHAPE).expect("memory files work here");
        let doorbell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).expect("event descriptors work here");
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).expect("event descriptors work here"));
        let listener = ControlListener::bind(path).expect("the path is free");
        let (worker, hands_over, handovers) = (Mutex::new(worker), AtomicBool::new(false), AtomicU32::new(0));
        let desk = Arc::new(Desk { worker, hands_over, handovers });
        let broker = thread::spawn({
            let (desk, stop) = (desk.clone(), stop.clone());
            move || serve(&listener, &desk, &region, &doorbell, &stop)
        });
        Played { desk, broker: Some(broker), stop }
    }
}

/// A service of two workers that the test plays.
pub(crate) struct House {
    played: [Played; 2],
    path: std::path::PathBuf,
}

pub(crate) fn two_workers() -> House {
    let path = socket_path();
    let played = [0, 1].map(|worker| Played::at(&path_of_worker(&path, worker)));
    House { played, path }
}

impl House {
    /// Clients of one process to both workers; may be called once.
    pub(crate) fn clients(&self) -> Vec<Client> {
        let attach = |worker| {
            let path = path_of_worker(&self.path, worker);
            let client = Client::attach(&path, [7; 16], 0).expect("the broker accepts");
            std::fs::remove_file(&path).expect("it was bound");
            client
        };
        [0, 1].map(attach).into()
    }

    /// Both workers.
    pub(crate) fn workers(&self) -> (MutexGuard<'_, Attachment>, MutexGuard<'_, Attachment>) {
        let lock = |worker: usize| self.played[worker].desk.worker.lock().expect("no test panics with it");
        (lock(0), lock(1))
    }
}

impl Drop for House {
    fn drop(&mut self) {
        for played in &mut self.played {
            assert_eq!(rustix::io::write(&played.stop, &1u64.to_ne_bytes()), Ok(8));
            played.broker.take().expect("it runs").join().expect("it does not panic");
        }
    }
}

pub(super) fn socket_path() -> std::path::PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("ringway-posix-test-{}-{number}", std::process::id()))
}

/// Serves one process as a broker, until told to stop.
fn serve(listener: &ControlListener, desk: &Desk, region: &OwnedFd, doorbell: &OwnedFd, stop: &OwnedFd) {
    wait_readable(listener.as_fd(), stop);
    let connection = listener.accept().expect("a connection");
    let processes = ProcessTable::new(region.as_fd(), SHAPE).expect("the region is of that shape");
    while wait_readable(connection.as_fd(), stop) {
        match connection.receive().expect("something came") {
            ClientMessage::Hello { wanted, .. } => {
                let process = processes.claim(connection.credentials().pid, wanted).expect("a number is free");
                connection.welcome(SHAPE, process, region.as_fd(), doorbell.as_fd()).expect("it listens");
            }
            ClientMessage::Context { context, key, kind } => register(&connection, &desk.worker, context, key, kind),
            ClientMessage::Nonsense(text, _) => panic!("{text}"),
            ClientMessage::Claim { .. } | ClientMessage::Settle => connection.done().expect("it listens"),
            ClientMessage::Handover { slot, way: Way::Home, .. } => hand_over(&connection, desk, slot),
            ClientMessage::Handover { slot, way: Way::Back | Way::Recalled, .. } => adopt(&connection, desk, slot),
            ClientMessage::Want(_) => panic!("no tool is here"),
            ClientMessage::Child { .. } => {}
            ClientMessage::Gone => return,
        }
    }
}

fn hand_over(connection: &ControlConnection, desk: &Desk, slot: SlotRef) {
    desk.handovers.fetch_add(1, Ordering::Relaxed);
    if !desk.hands_over.load(Ordering::Relaxed) {
        return connection.refuse("everything stays here").expect("it listens");
    }
    let mut worker = desk.worker.lock().expect("no test panics with it");
    worker.set_flags(slot.index, Flags::MOVED);
    worker.signal(slot.index);
    worker.flush_wakes();
    connection.done().expect("it listens");
}

fn adopt(connection: &ControlConnection, desk: &Desk, slot: SlotRef) {
    if !desk.hands_over.load(Ordering::Relaxed) {
        return connection.refuse("everything stays there").expect("it listens");
    }
    desk.worker.lock().expect("no test panics with it").set_state(slot.index, State::Connected);
    connection.done().expect("it listens");
}

/// Ringers of the wake descriptors of all tests' services, selected by the wake descriptor's key.
static RINGERS: Mutex<Vec<Arc<OwnedFd>>> = Mutex::new(Vec::new());

fn register(connection: &ControlConnection, worker: &Mutex<Attachment>, context: u32, key: Option<WakeFdKey>, kind: WakeFdKind) {
    let mut ringers = RINGERS.lock().expect("no test panics with it");
    let use_ringer = |ringer| assert!(worker.lock().expect("no test panics with it").register_context(context, ringer));
    if let Some(key) = key {
        use_ringer(ringers[u128::from_ne_bytes(key) as usize - 1].clone());
        return connection.done().expect("it listens");
    }
    let (ringer, wake_fd) = make_wake_fd(kind).expect("descriptors are left");
    ringers.push(Arc::new(ringer));
    use_ringer(ringers[ringers.len() - 1].clone());
    connection.give_wake_fd((ringers.len() as u128).to_ne_bytes(), wake_fd.as_fd()).expect("it listens");
}

/// Waits for `fd`; returns false if told to stop.
fn wait_readable(fd: std::os::fd::BorrowedFd<'_>, stop: &OwnedFd) -> bool {
    let mut set = [PollFd::new(stop, PollFlags::IN), PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    poll(&mut set, None).expect("plain poll");
    set[0].revents().is_empty()
}
