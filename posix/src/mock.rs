//! For this crate's tests: a [`Kernel`] over real descriptors, kept by number, and the worker's end of a real region in
//! the same process, driven by the test.

use crate::channel::{Attach, Channel, NotAttached, Place};
use crate::client::Attached;
use crate::errno::{Answer, Errno};
use crate::fallback::{Fd, Identity, Kernel, OnExec, RawAddress, SignalMask};
use crate::fd_table::SocketRef;
use crate::{Posix, Settings};
use ringway_channel::attach::{
    ClientMessage, ControlConnection, ControlListener, WakeFdKey, WakeFdKind, make_wake_fd, path_of_worker,
};
use ringway_channel::{Attachment, Client, Flags, Operation, ProcessTable, Shape, SlotRef, State};
use ringway_shm::{Duration, Instant, PayloadMut};
use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::collections::HashMap;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

mod service;

pub(crate) use service::{Desk, two_workers};
use service::{Played, socket_path};

const SHAPE: Shape =
    Shape { slots: 128, rx_large: 16, rx_small: 32, tx_large: 16, tx_small: 16, tx_bulk: 4, rx_bulk: 4, rx_middle: 4 };

/// Descriptors by number.
#[derive(Clone, Default)]
pub(crate) struct TestKernel {
    open: Arc<Mutex<HashMap<Fd, Arc<OwnedFd>>>>,
    /// Numbers that the channel owns.
    foreign: Arc<Mutex<Vec<Fd>>>,
    /// Length of the file that every `read_at` reads: counting bytes.
    file_len: Arc<AtomicU32>,
    /// Number of SIGPIPEs raised.
    pub(crate) broken_pipes: Arc<AtomicU32>,
    /// Result of getpid; 0 = the real one.
    pub(crate) pretended_process: Arc<AtomicU32>,
    /// Nanoseconds that every `yield_now` takes on a clock that otherwise stands still; 0 = the real clock.
    pub(crate) yield_policy_takes: Arc<AtomicU64>,
    /// That clock.
    told: Arc<AtomicU64>,
    /// Number of writes that were begun.
    pub(crate) writes: Arc<AtomicU32>,
    /// Number of pauses.
    pub(crate) pauses: Arc<AtomicU32>,
    /// Number of sleeps that threads have begun.
    pub(crate) sleeps: Arc<AtomicU32>,
    /// Descriptors stay open in the next program.
    pub(crate) stays_open: Arc<AtomicBool>,
    /// What was set on kernel sockets.
    pub(crate) given: Arc<Mutex<Vec<Given>>>,
    /// Log lines.
    pub(crate) said: Arc<Mutex<Vec<String>>>,
}

/// An option that no kernel knows.
pub(crate) const NO_OPTION: i32 = 9_999;

/// What was set on a kernel socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    Option(i32, i32, Vec<u8>),
    Status(i32),
    Owner(u32),
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno(error.raw_os_error())
}

fn timespec(span: Duration) -> Timespec {
    Timespec { tv_sec: (span.as_nanos() / 1_000_000_000) as i64, tv_nsec: (span.as_nanos() % 1_000_000_000) as i64 }
}

impl TestKernel {
    /// Takes a descriptor; returns its number.
    pub(crate) fn keep(&self, fd: OwnedFd) -> Fd {
        let number = fd.as_raw_fd();
        self.open.lock().expect("no test panics with it").insert(number, Arc::new(fd));
        number
    }

    /// Sets the length of the file.
    pub(crate) fn set_file(&self, len: usize) {
        self.file_len.store(len as u32, Ordering::Relaxed);
    }

    fn note_sleep(&self, timeout: Option<Duration>) {
        if timeout != Some(Duration::ZERO) {
            self.sleeps.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The descriptor behind a number; a duplicate if the channel owns it (its control connection).
    pub(crate) fn of(&self, fd: Fd) -> Answer<Arc<OwnedFd>> {
        let mut open = self.open.lock().expect("no test panics with it");
        if let Some(known) = open.get(&fd) {
            return Ok(known.clone());
        }
        // Wake descriptors come from the service, and are the only epoll instances outside the table.
        let is_wake_fd =
            std::fs::read_link(format!("/proc/self/fd/{fd}")).is_ok_and(|file| file.ends_with("anon_inode:[eventpoll]"));
        if !is_wake_fd && !self.foreign.lock().expect("no test panics with it").contains(&fd) {
            return Err(Errno::BADF);
        }
        let own = pidfd_open(getpid(), PidfdFlags::empty()).map_err(errno)?;
        let copy = Arc::new(pidfd_getfd(own, fd, PidfdGetfdFlags::empty()).map_err(errno)?);
        open.insert(fd, copy.clone());
        Ok(copy)
    }
}

impl Kernel for TestKernel {
    fn socket(&self, domain: i32, kind: i32, _protocol: i32) -> Answer<Fd> {
        assert_eq!(kind & 15, libc::SOCK_STREAM);
        let (family, kind) = (rustix::net::AddressFamily::from_raw(domain as u16), rustix::net::SocketType::STREAM);
        Ok(self.keep(rustix::net::socket(family, kind, None).map_err(errno)?))
    }

    fn bind(&self, _fd: Fd, _address: &[u8]) -> Answer<()> {
        Err(Errno(libc::ENOSYS))
    }

    fn connect(&self, _fd: Fd, _address: &[u8]) -> Answer<()> {
        Err(Errno(libc::ENOSYS))
    }

    fn listen(&self, _fd: Fd, _backlog: i32) -> Answer<()> {
        Err(Errno(libc::ENOSYS))
    }

    fn accept4(&self, _fd: Fd, _flags: i32) -> Answer<(Fd, RawAddress)> {
        Err(Errno::AGAIN)
    }

    fn shutdown(&self, _fd: Fd, _how: i32) -> Answer<()> {
        Err(Errno(libc::ENOSYS))
    }

    fn is_connected(&self, _fd: Fd) -> bool {
        false
    }

    fn local_address(&self, _fd: Fd) -> Answer<RawAddress> {
        Err(Errno(libc::ENOSYS))
    }

    fn set_option(&self, _fd: Fd, level: i32, name: i32, value: &[u8]) -> Answer<()> {
        self.given.lock().expect("no test panics with it").push(Given::Option(level, name, value.to_vec()));
        if name == NO_OPTION {
            return Err(Errno::NOPROTOOPT);
        }
        if value.len() < 4 { Err(Errno::INVAL) } else { Ok(()) }
    }

    /// Knows cookies only.
    fn option(&self, fd: Fd, level: i32, name: i32, value: &mut [u8]) -> Answer<usize> {
        match (level, name, value.first_chunk_mut::<8>()) {
            (libc::SOL_SOCKET, libc::SO_COOKIE, Some(bytes)) => {
                *bytes = (fd as u64 + 1).to_ne_bytes();
                Ok(8)
            }
            _ => Err(Errno(libc::ENOSYS)),
        }
    }

    fn close(&self, fd: Fd) -> Answer<()> {
        self.open.lock().expect("no test panics with it").remove(&fd).map(drop).ok_or(Errno::BADF)
    }

    fn duplicate(&self, fd: Fd, minimum: Fd, _on_exec: OnExec) -> Answer<Fd> {
        Ok(self.keep(rustix::io::fcntl_dupfd_cloexec(self.of(fd)?, minimum).map_err(errno)?))
    }

    /// Changes the table only: the number is not the descriptor's own.
    fn duplicate_to(&self, old: Fd, new: Fd, _on_exec: OnExec) -> Answer<Fd> {
        let file = self.of(old)?;
        self.open.lock().expect("no test panics with it").insert(new, file);
        Ok(new)
    }

    fn descriptor_flags(&self, _fd: Fd) -> Answer<i32> {
        Ok(if self.stays_open.load(Ordering::Relaxed) { 0 } else { libc::FD_CLOEXEC })
    }

    fn status_flags(&self, _fd: Fd) -> Answer<i32> {
        Ok(libc::O_RDWR)
    }

    fn set_status_flags(&self, _fd: Fd, flags: i32) -> Answer<()> {
        self.given.lock().expect("no test panics with it").push(Given::Status(flags));
        Ok(())
    }

    fn set_owner(&self, _fd: Fd, process: u32) -> Answer<()> {
        self.given.lock().expect("no test panics with it").push(Given::Owner(process));
        Ok(())
    }

    fn identity(&self, fd: Fd) -> Answer<Identity> {
        let status = rustix::fs::fstat(self.of(fd)?).map_err(errno)?;
        Ok(Identity { device: status.st_dev, inode: status.st_ino, kind: status.st_mode & libc::S_IFMT })
    }

    fn for_each_descriptor(&self, visit: &mut dyn FnMut(Fd)) -> Answer<()> {
        let open: Vec<Fd> = self.open.lock().expect("no test panics with it").keys().copied().collect();
        open.into_iter().for_each(visit);
        Ok(())
    }

    fn descriptor_limit(&self) -> u64 {
        1024
    }

    fn read(&self, fd: Fd, pieces: &mut [IoSliceMut<'_>]) -> Answer<usize> {
        rustix::io::readv(self.of(fd)?, pieces).map_err(errno)
    }

    fn write(&self, fd: Fd, pieces: &[IoSlice<'_>]) -> Answer<usize> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        rustix::io::writev(self.of(fd)?, pieces).map_err(errno)
    }

    fn read_at(&self, _fd: Fd, mut bytes: PayloadMut<'_>, offset: i64) -> Answer<usize> {
        let left = (self.file_len.load(Ordering::Relaxed) as usize).saturating_sub(offset as usize);
        let count = left.min(bytes.len());
        let content: Vec<u8> = (offset..).take(count).map(|at| at as u8).collect();
        bytes.write(0, &content);
        Ok(count)
    }

    fn seek_by(&self, _fd: Fd, _distance: i64) -> Answer<i64> {
        Err(Errno(libc::ENOSYS))
    }

    fn bytes_readable(&self, _fd: Fd) -> Answer<i32> {
        Err(Errno(libc::ENOSYS))
    }

    fn poll(&self, set: &mut [libc::pollfd], timeout: Option<Duration>, _mask: Option<SignalMask>) -> Answer<usize> {
        let held: Vec<Option<Arc<OwnedFd>>> = set.iter().map(|entry| self.of(entry.fd).ok()).collect();
        let mut asked = Vec::new();
        for (entry, fd) in set.iter_mut().zip(&held) {
            entry.revents = if entry.fd >= 0 && fd.is_none() { libc::POLLNVAL } else { 0 };
            if let Some(fd) = fd {
                asked.push(PollFd::new(fd, PollFlags::from_bits_retain(entry.events as u16)));
            }
        }
        let bad = set.iter().filter(|entry| entry.revents != 0).count();
        let timeout = if bad > 0 { Some(Duration::ZERO) } else { timeout };
        self.note_sleep(timeout);
        let ready = poll(&mut asked, timeout.map(timespec).as_ref()).map_err(errno)?;
        let places = set.iter_mut().zip(&held).filter(|(_, fd)| fd.is_some());
        for ((entry, _), asked) in places.zip(&asked) {
            entry.revents = asked.revents().bits() as i16;
        }
        Ok(ready + bad)
    }

    fn event_counter(&self) -> Answer<Fd> {
        Ok(self.keep(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(errno)?))
    }

    fn raise_event(&self, fd: Fd) {
        let fd = self.of(fd).expect("a wake_fd is open");
        assert_eq!(rustix::io::write(&fd, &1u64.to_ne_bytes()), Ok(8));
    }

    fn epoll_create(&self, _flags: i32) -> Answer<Fd> {
        Ok(self.keep(epoll::create(epoll::CreateFlags::CLOEXEC).map_err(errno)?))
    }

    fn epoll_control(&self, epoll: Fd, operation: i32, fd: Fd, event: Option<libc::epoll_event>) -> Answer<()> {
        // The control connection and the doorbell belong to the channel, not to this table.
        let (epoll, fd) = (self.of(epoll)?, self.of(fd)?);
        let (bits, data) = event.map_or((0, 0), |event| (event.events, event.u64));
        let (flags, data) = (epoll::EventFlags::from_bits_retain(bits), epoll::EventData::new_u64(data));
        match operation {
            libc::EPOLL_CTL_ADD => epoll::add(epoll, fd, data, flags),
            libc::EPOLL_CTL_MOD => epoll::modify(epoll, fd, data, flags),
            _ => epoll::delete(epoll, fd),
        }
        .map_err(errno)
    }

    fn epoll_wait(
        &self,
        epoll: Fd,
        events: &mut [libc::epoll_event],
        timeout: Option<Duration>,
        _mask: Option<SignalMask>,
    ) -> Answer<usize> {
        if events.is_empty() {
            return Err(Errno::INVAL);
        }
        let mut got = Vec::with_capacity(events.len());
        self.note_sleep(timeout);
        epoll::wait(self.of(epoll)?, spare_capacity(&mut got), timeout.map(timespec).as_ref()).map_err(errno)?;
        got.truncate(events.len());
        for (place, event) in events.iter_mut().zip(&got) {
            let (flags, data) = (event.flags, event.data);
            *place = libc::epoll_event { events: flags.bits(), u64: data.u64() };
        }
        Ok(got.len())
    }

    fn watched_words(&self, epoll: Fd) -> Answer<Vec<u64>> {
        let told = std::fs::read_to_string(format!("/proc/self/fdinfo/{epoll}"));
        let told = told.map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EIO)))?;
        Ok(crate::fallback::words_of_epoll(&told))
    }

    fn now(&self) -> Instant {
        if self.yield_policy_takes.load(Ordering::Relaxed) > 0 {
            return Instant::from_nanos(self.told.load(Ordering::Relaxed));
        }
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Instant::from_nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
    }

    fn wall_clock(&self) -> Duration {
        Duration::from_secs(1_000_000_000) + self.now().since(Instant::ZERO)
    }

    fn yield_now(&self) {
        self.told.fetch_add(self.yield_policy_takes.load(Ordering::Relaxed), Ordering::Relaxed);
        thread::yield_now();
    }

    fn pause(&self, _span: Duration) {
        self.pauses.fetch_add(1, Ordering::Relaxed);
        thread::yield_now();
    }

    fn has_other_threads(&self) -> bool {
        true
    }

    fn process_id(&self) -> u32 {
        match self.pretended_process.load(Ordering::Relaxed) {
            0 => std::process::id(),
            other => other,
        }
    }

    fn raise_broken_pipe(&self) {
        self.broken_pipes.fetch_add(1, Ordering::Relaxed);
    }

    fn restarts_after_signal(&self) -> bool {
        true
    }

    fn say(&self, line: &str) {
        self.said.lock().expect("no test panics with it").push(line.into());
    }
}

/// Returns attachments that were made before.
struct Ready(Clients);

type Clients = Arc<Mutex<Vec<Client>>>;

impl Attach for Ready {
    fn attach(&self, _floor: Fd, earlier: u32) -> Result<Box<dyn Channel>, NotAttached> {
        let client = self.0.lock().expect("no test panics with it").pop().ok_or("attached before")?;
        Ok(Box::new(Attached::new(vec![client], earlier)))
    }

    fn service(&self) -> String {
        "test".into()
    }
}

/// The crate's state, attached to a region with a worker that the test plays.
pub(crate) struct Bench {
    pub(crate) posix: Posix,
    pub(crate) kernel: TestKernel,
    pub(crate) desk: Arc<Desk>,
    broker: Option<thread::JoinHandle<()>>,
    stop: Arc<OwnedFd>,
    clients: Clients,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        Bench::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Bench {
        let path = socket_path();
        let Played { desk, broker, stop } = Played::at(&path);
        let client = Client::attach(&path, [7; 16], 0).expect("the broker accepts");
        std::fs::remove_file(&path).expect("it was bound");
        let kernel = TestKernel::default();
        kernel.foreign.lock().expect("it is not locked").extend(client.internal_fds());
        let clients: Clients = Arc::new(Mutex::new(vec![client]));
        let posix = Posix::new(Box::new(kernel.clone()), Box::new(Ready(clients.clone())), settings);
        assert!(posix.attach_early());
        Bench { posix, kernel, desk, broker, stop, clients }
    }

    /// Another service takes the place of the one before, which is dead.
    pub(crate) fn start_service(&mut self) {
        assert!(self.broker.is_none(), "one at a time");
        let path = socket_path();
        let Played { desk, broker, stop } = Played::at(&path);
        let client = Client::attach(&path, [7; 16], 0).expect("the broker accepts");
        std::fs::remove_file(&path).expect("it was bound");
        self.kernel.foreign.lock().expect("it is not locked").extend(client.internal_fds());
        self.clients.lock().expect("no test panics with it").push(client);
        (self.desk, self.broker, self.stop) = (desk, broker, stop);
    }

    /// Lets the worker act and end its iteration.
    pub(crate) fn turn<T>(&self, act: impl FnOnce(&mut Attachment) -> T) -> T {
        let mut worker = self.desk.worker.lock().expect("no test panics with it");
        let result = act(&mut worker);
        worker.flush_wakes();
        result
    }

    /// A descriptor of a socket in `state`, with space to send.
    pub(crate) fn socket(&self, state: State) -> (Fd, SocketRef) {
        self.socket_at(self.kernel.socket(libc::AF_INET, libc::SOCK_STREAM, 0).expect("sockets work here"), state)
    }

    /// Likewise, over this kernel socket.
    pub(crate) fn socket_at(&self, fd: Fd, state: State) -> (Fd, SocketRef) {
        let socket = self.posix.attached().expect("it is attached").open(Place::First).expect("a slot is free");
        self.posix.descriptions.install(socket, &[]);
        self.turn(|worker| {
            worker.set_send_limit(socket.index, 1000);
            worker.set_state(socket.index, state);
        });
        self.posix.set_socket(fd, socket);
        (fd, socket)
    }

    /// Delivers bytes to the socket.
    pub(crate) fn arrive(&self, socket: SocketRef, bytes: &[u8]) {
        self.turn(|worker| {
            assert_eq!(worker.push_rx(socket.index, bytes), bytes.len());
            worker.signal(socket.index);
        });
    }

    /// Reads up to `count` bytes for the program.
    pub(crate) fn read(&self, socket: SocketRef, count: usize) -> usize {
        let mut bytes = vec![0; count];
        let channel = self.posix.attached().expect("it is attached");
        let taken = channel.receive(socket, &mut [IoSliceMut::new(&mut bytes)], crate::channel::Taking::Take);
        taken.expect("bytes are there")
    }

    /// Takes the program's requests to the worker.
    pub(crate) fn requests(&self) -> Vec<Operation> {
        self.turn(|worker| std::iter::from_fn(|| worker.next_request()).map(|request| request.operation).collect())
    }

    /// The service says this of the socket's handover, once a thread has begun to sleep.
    pub(crate) fn say_to_sleeper(&self, socket: SocketRef, flags: Flags) {
        while self.kernel.sleeps.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
        self.say(socket, flags);
    }

    /// The service says this of the socket's handover.
    pub(crate) fn say(&self, socket: SocketRef, flags: Flags) {
        self.turn(|worker| {
            worker.set_flags(socket.index, flags);
            worker.signal(socket.index);
        });
    }

    /// The service wishes for these sockets, or for what waits at them.
    pub(crate) fn ask(&self, sockets: &[SocketRef], flags: Flags) {
        self.turn(|worker| {
            sockets.iter().for_each(|socket| worker.set_flags(socket.index, flags));
            worker.note_wishes();
        });
    }

    /// Kills the service.
    pub(crate) fn kill_service(&mut self) {
        if let Some(broker) = self.broker.take() {
            assert_eq!(rustix::io::write(&self.stop, &1u64.to_ne_bytes()), Ok(8));
            broker.join().expect("it does not panic");
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.kill_service();
    }
}
