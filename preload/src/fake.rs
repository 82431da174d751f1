//! For this room's tests: libc functions that a test writes, in the places of the real ones, and a room whose worker the test plays.
//!
//! Both are the calling thread's alone, so that tests run beside each other, and the functions of other threads (the test
//! harness among them, which runs on this library too) stay real.

use libc::c_int;
use ringway_channel::attach::{ClientMessage, ControlConnection, ControlListener, Door, WakeFdKind, make_wake_fd};
use ringway_channel::{Attachment, ControlAnswer, Envelope, Failure, Flags, Operation, ProcessTable, Request, Shape, State};
use ringway_posix::channel::Attach;
use ringway_posix::fd_table::SocketRef;
use ringway_posix::{Posix, Settings};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};

/// What a function of libc does here: its arguments, as they lie in registers, and its answer.
type Behaviour = Box<dyn FnMut(&[usize]) -> isize>;

#[derive(Default)]
struct Table {
    behaviours: RefCell<HashMap<&'static str, Behaviour>>,
    calls: RefCell<Vec<(&'static str, Vec<usize>)>>,
}

thread_local! {
    // Without destructors: they are asked for on the way of every call, also while the thread ends.
    static TABLE: Cell<Option<&'static Table>> = const { Cell::new(None) };
    static ROOM: Cell<Option<&'static Posix>> = const { Cell::new(None) };
}

/// What the test says that this function does; `None`: the real one is to be called. Either way the call is noted.
pub(crate) fn call(name: &'static str, arguments: &[usize]) -> Option<isize> {
    let table = TABLE.get()?;
    table.calls.borrow_mut().push((name, arguments.to_vec()));
    // Not borrowed while it runs: it may call this library.
    let mut behaviour = table.behaviours.borrow_mut().remove(name)?;
    let answer = behaviour(arguments);
    table.behaviours.borrow_mut().entry(name).or_insert(behaviour);
    Some(answer)
}

/// The room of the test that runs in this thread.
pub(crate) fn posix() -> Option<&'static Posix> {
    ROOM.get()
}

/// The functions that the test has replaced, as long as this lives.
pub(crate) struct Libc(&'static Table);

impl Libc {
    pub(crate) fn new() -> Libc {
        let table: &Table = Box::leak(Box::default());
        TABLE.set(Some(table));
        Libc(table)
    }

    /// From now on `name` does this.
    pub(crate) fn does(&self, name: &'static str, behaviour: impl FnMut(&[usize]) -> isize + 'static) {
        self.0.behaviours.borrow_mut().insert(name, Box::new(behaviour));
    }

    /// From now on `name` answers this.
    pub(crate) fn answers(&self, name: &'static str, answer: isize) {
        self.does(name, move |_| answer);
    }

    /// From now on `name` fails.
    pub(crate) fn refuses(&self, name: &'static str, error: c_int) {
        self.does(name, move |_| {
            crate::set_errno(error);
            -1
        });
    }

    /// Every function is the real one again, and no call was made.
    pub(crate) fn forget(&self) {
        self.0.behaviours.take();
        self.all_calls();
    }

    /// The arguments of each call of `name` since the last question.
    pub(crate) fn calls(&self, name: &str) -> Vec<Vec<usize>> {
        let mut calls = self.0.calls.borrow_mut();
        let (asked, others) = calls.drain(..).partition(|(called, _)| *called == name);
        *calls = others;
        let asked: Vec<(&str, Vec<usize>)> = asked;
        asked.into_iter().map(|(_, arguments)| arguments).collect()
    }

    /// Every call since the last question, in order.
    pub(crate) fn all_calls(&self) -> Vec<(&'static str, Vec<usize>)> {
        self.0.calls.take()
    }
}

impl Drop for Libc {
    fn drop(&mut self) {
        TABLE.set(None);
    }
}

/// A service that is not there.
struct Nobody;

impl Attach for Nobody {
    fn attach(
        &self,
        _floor: c_int,
        _earlier: u32,
    ) -> Result<Box<dyn ringway_posix::channel::Channel>, ringway_posix::channel::NotAttached> {
        Err("nobody is there".into())
    }

    fn service(&self) -> String {
        "nobody".into()
    }
}

/// A room in this thread whose service does not answer, as long as this lives.
pub(crate) struct Lonely;

impl Lonely {
    pub(crate) fn new(settings: Settings) -> Lonely {
        let settings = Settings { quiet: true, ..settings };
        let posix = Posix::new(Box::new(crate::kernel::LibcKernel), Box::new(Nobody), settings);
        ROOM.set(Some(Box::leak(Box::new(posix))));
        Lonely
    }
}

impl Drop for Lonely {
    fn drop(&mut self) {
        ROOM.set(None);
    }
}

const SHAPE: Shape =
    Shape { slots: 128, rx_large: 16, rx_small: 32, tx_large: 16, tx_small: 16, tx_bulk: 4, rx_bulk: 4, rx_middle: 4 };
/// What may be sent at once.
pub(crate) const SEND_LIMIT: usize = 4_000;

/// What a test waits for comes within microseconds, on a machine that has time for it.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// A room in this thread, attached to a region whose worker says yes to everything; it lives as long as this.
pub(crate) struct Bench {
    pub(crate) libc: Libc,
    pub(crate) posix: &'static Posix,
    worker: Arc<Mutex<Attachment>>,
    requests: Arc<(Mutex<Vec<Operation>>, Condvar)>,
    service: Option<JoinHandle<()>>,
    stop: Arc<OwnedFd>,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        let (worker, region) = Attachment::create(SHAPE).expect("memory files work here");
        let counter = || eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).expect("event descriptors work here");
        let (doorbell, stop) = (counter(), Arc::new(counter()));
        let path = socket_path();
        let listener = ControlListener::bind(&path).expect("the path is free");
        let (worker, requests) = (Arc::new(Mutex::new(worker)), Arc::<(Mutex<Vec<Operation>>, Condvar)>::default());
        let service = thread::spawn({
            let (worker, requests, stop) = (worker.clone(), requests.clone(), stop.clone());
            move || Service { worker, requests, region, doorbell }.serve(&listener, &stop)
        });
        let attach = ringway_posix::client::from_environment(Door::At(path.clone()), "");
        let posix = Posix::new(Box::new(crate::kernel::LibcKernel), attach, Settings { quiet: true, ..Settings::default() });
        let posix: &'static Posix = Box::leak(Box::new(posix));
        assert!(posix.attach_early(), "the service says yes");
        std::fs::remove_file(&path).expect("it was bound");
        ROOM.set(Some(posix));
        Bench { libc: Libc::new(), posix, worker, requests, service: Some(service), stop }
    }

    /// A descriptor of a connection of ours.
    pub(crate) fn connection(&self) -> c_int {
        let fd = self.kernel_socket(libc::IPPROTO_TCP);
        let peer = sockaddr([192, 0, 2, 9], 99);
        // SAFETY: 16 bytes of a name.
        let answer = unsafe { crate::sockets::connect(fd, peer.as_ptr().cast(), peer.len() as u32) };
        assert_eq!((answer, self.posix.table().socket(fd).map(|socket| self.posix.is_datagram(socket))), (0, Some(false)));
        self.libc.forget();
        fd
    }

    /// A descriptor of a datagram socket of ours, bound to 192.0.2.1:53 as the kernel says here.
    pub(crate) fn datagrams(&self) -> c_int {
        let fd = self.kernel_socket(libc::IPPROTO_UDP);
        let name = sockaddr([192, 0, 2, 1], 53);
        self.libc.answers("bind", 0);
        self.libc.answers("connect", 0);
        // SAFETY: 16 bytes of a name.
        let bound = unsafe { crate::sockets::bind(fd, name.as_ptr().cast(), name.len() as u32) };
        assert_eq!((bound, self.posix.table().socket(fd).map(|socket| self.posix.is_datagram(socket))), (0, Some(true)));
        self.libc.forget();
        // The kernel's socket underneath has nothing.
        self.libc.refuses("recvmsg", libc::EAGAIN);
        fd
    }

    /// A descriptor that libc takes for a blocking IPv4 socket of this protocol, at 192.0.2.1:53.
    pub(crate) fn kernel_socket(&self, protocol: c_int) -> c_int {
        let name = sockaddr([192, 0, 2, 1], 53);
        self.libc.does("getsockname", move |arguments| {
            // SAFETY: the library's own room for a name of at least 16 bytes, and its length.
            unsafe {
                std::ptr::copy_nonoverlapping(name.as_ptr(), arguments[1] as *mut u8, name.len());
                *(arguments[2] as *mut u32) = name.len() as u32;
            }
            0
        });
        self.libc.does("getsockopt", move |arguments| {
            if arguments[1..3] != [libc::SOL_SOCKET as usize, libc::SO_PROTOCOL as usize] {
                crate::set_errno(libc::ENOPROTOOPT);
                return -1;
            }
            // SAFETY: the library's own room for an int.
            unsafe { *(arguments[3] as *mut c_int) = protocol };
            0
        });
        self.libc.answers("fcntl", 0);
        placeholder()
    }

    fn socket(&self, fd: c_int) -> SocketRef {
        self.posix.table().socket(fd).expect("it is ours")
    }

    /// Bytes arrive for a connection, or what they stand for at a datagram socket.
    pub(crate) fn arrive(&self, fd: c_int, bytes: &[u8]) {
        let socket = self.socket(fd);
        let mut worker = self.worker.lock().expect("no test panics with it");
        assert_eq!(worker.push_rx(socket.index, bytes), bytes.len());
        worker.signal(socket.index);
        worker.flush_wakes();
    }

    /// A datagram arrives from 192.0.2.9:99.
    pub(crate) fn datagram_arrives(&self, fd: c_int, payload: &[u8]) {
        let peer = "192.0.2.9:99".parse().expect("an address");
        let envelope = Envelope { len: payload.len(), peer: Some(peer), ..Envelope::default() };
        self.arrive(fd, &[&envelope.encode()[..], payload].concat());
    }

    /// The kernel goes on with the socket.
    pub(crate) fn moves(&self, fd: c_int) {
        let socket = self.socket(fd);
        let mut worker = self.worker.lock().expect("no test panics with it");
        worker.set_flags(socket.index, Flags::MOVED);
        worker.signal(socket.index);
        worker.flush_wakes();
    }

    /// The socket is a listener on its way to the kernel, for which the stack has accepted a connection.
    pub(crate) fn waits(&self, fd: c_int) {
        let socket = self.socket(fd);
        let mut worker = self.worker.lock().expect("no test panics with it");
        let child = worker.allocate_slot().expect("a slot is free");
        worker.set_state(child.index, State::Connected);
        worker.set_state(socket.index, State::Listening);
        assert!(worker.push_accepted(socket.index, child.index, ringway_shm::Instant::ZERO));
        worker.set_flags(socket.index, Flags::MOVED);
    }

    /// The kernel goes on with the socket when the program has filled what may be sent.
    pub(crate) fn moves_when_full(&self, fd: c_int) -> JoinHandle<()> {
        let (socket, worker) = (self.socket(fd), self.worker.clone());
        thread::spawn(move || {
            loop {
                let mut worker = worker.lock().expect("no test panics with it");
                if worker.tx_available(socket.index) >= SEND_LIMIT {
                    worker.set_flags(socket.index, Flags::MOVED);
                    worker.signal(socket.index);
                    worker.flush_wakes();
                    return;
                }
                drop(worker);
                thread::yield_now();
            }
        })
    }

    /// The peer refuses the socket when the program has read all.
    pub(crate) fn is_refused_when_read(&self, fd: c_int) -> JoinHandle<()> {
        let (socket, worker) = (self.socket(fd), self.worker.clone());
        thread::spawn(move || {
            loop {
                let mut worker = worker.lock().expect("no test panics with it");
                if worker.unread(socket.index) == 0 {
                    worker.note_error(socket.index, Failure::Refused);
                    worker.signal(socket.index);
                    worker.flush_wakes();
                    return;
                }
                drop(worker);
                thread::yield_now();
            }
        })
    }

    /// What the program has sent and the worker has not taken yet.
    pub(crate) fn sent(&self, fd: c_int) -> Vec<u8> {
        let socket = self.socket(fd);
        let mut worker = self.worker.lock().expect("no test panics with it");
        let mut bytes = vec![0; worker.tx_available(socket.index)];
        let count = worker.copy_tx(socket.index, &mut bytes);
        worker.release_tx(socket.index, count as u32);
        bytes.truncate(count);
        bytes
    }

    /// Whether the worker hears, some time, a request of this kind.
    pub(crate) fn hears(&self, wanted: impl Fn(&Operation) -> bool) -> bool {
        let (requests, more) = &*self.requests;
        let lacks = |heard: &mut Vec<Operation>| !heard.iter().any(&wanted);
        let heard = requests.lock().expect("no test panics with it");
        !more.wait_timeout_while(heard, PATIENCE, lacks).expect("no test panics with it").1.timed_out()
    }

    pub(crate) fn is_ours(&self, fd: c_int) -> bool {
        self.posix.table().socket(fd).is_some()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        ROOM.set(None);
        if rustix::io::write(&self.stop, &1u64.to_ne_bytes()).is_ok()
            && let Some(service) = self.service.take()
            && let Err(panic) = service.join()
            && !thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

/// A descriptor under which a socket of ours can stand. It has an inode of its own, by which numbers of one socket are known.
pub(crate) fn placeholder() -> c_int {
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    socket.expect("a descriptor is left").into_raw_fd()
}

/// A `sockaddr_in`.
pub(crate) fn sockaddr(ip: [u8; 4], port: u16) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    bytes[2..4].copy_from_slice(&port.to_be_bytes());
    bytes[4..8].copy_from_slice(&ip);
    bytes
}

fn socket_path() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("ringway-preload-test-{}-{number}", std::process::id()))
}

/// The service's side: broker and worker in one thread.
struct Service {
    worker: Arc<Mutex<Attachment>>,
    requests: Arc<(Mutex<Vec<Operation>>, Condvar)>,
    region: OwnedFd,
    doorbell: OwnedFd,
}

impl Service {
    fn serve(&self, listener: &ControlListener, stop: &OwnedFd) {
        assert!(self.wait(listener.as_fd(), stop), "it is told to end before anybody comes");
        let connection = listener.accept().expect("somebody connected");
        let processes = ProcessTable::new(self.region.as_fd(), SHAPE).expect("the region is of that shape");
        while self.wait(connection.as_fd(), stop) {
            match connection.receive().expect("something came") {
                ClientMessage::Hello { wanted, .. } => {
                    let process = processes.claim(connection.credentials().pid, wanted).expect("a number is free");
                    connection.welcome(SHAPE, process, self.region.as_fd(), self.doorbell.as_fd()).expect("it listens");
                }
                ClientMessage::Context { context, key: None, kind } => self.give_wake_fd(&connection, context, kind),
                ClientMessage::Claim { .. } | ClientMessage::Settle => connection.done().expect("it listens"),
                ClientMessage::Handover { slot, .. } => {
                    self.worker.lock().expect("no test panics with it").set_flags(slot.index, Flags::MOVED);
                    connection.done().expect("it listens");
                }
                ClientMessage::Gone => return,
                message => panic!("not expected: {message:?}"),
            }
        }
    }

    fn give_wake_fd(&self, connection: &ControlConnection, context: u32, kind: WakeFdKind) {
        let (ringer, wake_fd) = make_wake_fd(kind).expect("descriptors are left");
        let registered = self.worker.lock().expect("no test panics with it").register_context(context, Arc::new(ringer));
        assert!(registered);
        connection.give_wake_fd([1; 16], wake_fd.as_fd()).expect("it listens");
    }

    /// Works until `fd` is readable; `false`: told to end.
    fn wait(&self, fd: BorrowedFd<'_>, stop: &OwnedFd) -> bool {
        loop {
            self.turn();
            let interest = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
            let mut set = [interest(stop.as_fd()), interest(fd), interest(self.doorbell.as_fd())];
            poll(&mut set, None).expect("plain poll");
            match set.map(|entry| !entry.revents().is_empty()) {
                [true, ..] => return false,
                [_, true, _] => return true,
                _ => {}
            }
            let mut count = [0; 8];
            assert!(matches!(rustix::io::read(&self.doorbell, &mut count), Ok(8) | Err(rustix::io::Errno::AGAIN)));
        }
    }

    fn turn(&self) {
        let mut worker = self.worker.lock().expect("no test panics with it");
        worker.disarm();
        loop {
            while let Some(request) = worker.next_request() {
                self.answer(&mut worker, &request);
            }
            worker.flush_wakes();
            if worker.arm() {
                return;
            }
        }
    }

    fn answer(&self, worker: &mut Attachment, request: &Request) {
        if matches!(request.operation, Operation::Datagram { .. } | Operation::Connect { .. }) {
            worker.set_send_limit(request.slot.index, SEND_LIMIT as u32);
            worker.set_state(request.slot.index, State::Connected);
        }
        worker.answer(request, ControlAnswer::Done);
        self.requests.0.lock().expect("no test panics with it").push(request.operation);
        self.requests.1.notify_all();
    }
}
