//! The kernel of a machine: descriptors, the sockets that are not the stack's, and waits that let virtual time pass.
//!
//! A descriptor is a real one, so that nothing else in the process has its number; behind a socket's number is a local socket without a
//! peer, which poll reports like a fresh TCP socket, or like a listener without connections. Names and options are
//! kept here. Promises: no packet, port or setting of the machine below. Does not do: files, fork, signals.

use std::collections::{BTreeMap, HashMap};
use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use ringway_channel::sys;
use ringway_posix::fallback::{Fd, Identity, Kernel, OnExec, RawAddress, SignalMask};
use ringway_posix::{Answer, Errno};
use ringway_shm::{Duration, Instant, PayloadMut};
use ringway_stack::{FastOpenKeys, TcpConfig};
use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::fs::OFlags;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use rustix::process::{Resource, getrlimit};

use super::options::{Options, Settings};
use super::{names, program};

/// The machine's time, for the threads of its program.
#[derive(Clone)]
pub(super) struct Clock(Arc<AtomicU64>);

impl Clock {
    pub(super) fn new(now: Instant) -> Clock {
        Clock(Arc::new(AtomicU64::new(now.as_nanos())))
    }

    pub(super) fn set(&self, now: Instant) {
        self.0.store(now.as_nanos(), Ordering::Release);
    }

    /// Lets every wait be over.
    pub(super) fn end(&self) {
        self.0.store(u64::MAX / 2, Ordering::Release);
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.0.load(Ordering::Acquire))
    }
}

/// A socket that the stack does not have (yet).
#[derive(Clone, Default)]
struct KernelSocket {
    inet6: bool,
    bound: Option<SocketAddr>,
    listening: bool,
    options: Options,
    cookie: u64,
}

/// A descriptor.
#[derive(Clone)]
struct Descriptor {
    file: Arc<OwnedFd>,
    socket: Option<Arc<Mutex<KernelSocket>>>,
}

/// State that the threads of a program share.
#[derive(Default)]
struct Tables {
    descriptors: HashMap<Fd, Descriptor>,
    addresses: Vec<IpAddr>,
    settings: Settings,
    sockets_made: u64,
}

/// The kernel; copies share everything.
#[derive(Clone)]
pub(super) struct SimKernel {
    clock: Clock,
    tables: Arc<Mutex<Tables>>,
    /// Numbers from this one on may be the channel's, which opens its descriptors itself.
    foreign_from: Fd,
    limit: u64,
}

impl SimKernel {
    pub(super) fn new(clock: Clock, tcp: &TcpConfig, keys: FastOpenKeys) -> SimKernel {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20).min(LIMIT_MAX);
        let tables = Tables { settings: Settings::new(tcp, keys), ..Tables::default() };
        let foreign_from = (limit as Fd - FLOOR) / 2;
        SimKernel { clock, tables: Arc::new(Mutex::new(tables)), foreign_from, limit }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().expect("no panic while it is held")
    }

    pub(super) fn add_address(&self, ip: IpAddr) {
        self.tables().addresses.push(ip);
    }

    pub(super) fn reconfigure(&self, tcp: &TcpConfig) {
        let settings = &mut self.tables().settings;
        *settings = Settings::new(tcp, settings.keys());
    }

    pub(super) fn set_fast_open_keys(&self, keys: FastOpenKeys) {
        self.tables().settings.set_keys(keys);
    }

    /// Makes a pipe: the reading and the writing end. Both are non-blocking below; a read waits in virtual time.
    pub(super) fn pipe(&self) -> Answer<(Fd, Fd)> {
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).map_err(errno)?;
        Ok((self.keep(reader, None), self.keep(writer, None)))
    }

    /// Returns true for a descriptor of the program.
    pub(super) fn is_open(&self, fd: Fd) -> bool {
        self.tables().descriptors.contains_key(&fd)
    }

    /// Returns true for a socket that is not the stack's.
    pub(super) fn is_socket(&self, fd: Fd) -> bool {
        self.tables().descriptors.get(&fd).is_some_and(|descriptor| descriptor.socket.is_some())
    }

    fn keep(&self, file: OwnedFd, socket: Option<KernelSocket>) -> Fd {
        let fd = file.as_raw_fd();
        let socket = socket.map(|socket| Arc::new(Mutex::new(socket)));
        self.tables().descriptors.insert(fd, Descriptor { file: Arc::new(file), socket });
        fd
    }

    fn descriptor(&self, fd: Fd) -> Answer<Descriptor> {
        self.tables().descriptors.get(&fd).cloned().ok_or(Errno::BADF)
    }

    /// Lends the file behind a number.
    fn with_file<T>(&self, fd: Fd, act: impl FnOnce(BorrowedFd<'_>) -> rustix::io::Result<T>) -> Answer<T> {
        match self.descriptor(fd) {
            Ok(descriptor) => act(descriptor.file.as_fd()).map_err(errno),
            Err(_) if fd >= self.foreign_from => sys::with_fd(fd, act).map_err(errno),
            Err(error) => Err(error),
        }
    }

    fn with_socket<T>(&self, fd: Fd, act: impl FnOnce(&mut KernelSocket) -> Answer<T>) -> Answer<T> {
        let socket = self.descriptor(fd)?.socket.ok_or(Errno(libc::ENOTSOCK))?;
        act(&mut socket.lock().expect("no panic while it is held"))
    }

    /// Looks until `look` finds something (a number other than zero) or the time is over.
    fn wait_for(&self, timeout: Option<Duration>, mut look: impl FnMut() -> Answer<usize>) -> Answer<usize> {
        let deadline = timeout.map(|timeout| self.clock.now() + timeout);
        loop {
            let found = look()?;
            if found > 0 || deadline.is_some_and(|deadline| deadline <= self.clock.now()) {
                return Ok(found);
            }
            program::wait(deadline).map_err(|program::Ended| Errno::INTR)?;
        }
    }

    /// ppoll(2) without waiting.
    fn poll_now(&self, set: &mut [libc::pollfd]) -> usize {
        for entry in set.iter_mut().filter(|entry| entry.fd >= 0) {
            let asked = PollFlags::from_bits_retain(entry.events as u16);
            let looked = self.with_file(entry.fd, |fd| {
                let mut one = [PollFd::from_borrowed_fd(fd, asked)];
                poll(&mut one, Some(&NO_TIME))?;
                Ok(one[0].revents())
            });
            entry.revents = looked.map_or(libc::POLLNVAL, |events| events.bits() as i16);
        }
        set.iter().filter(|entry| entry.fd >= 0 && entry.revents != 0).count()
    }

    fn free_port(&self) -> u16 {
        let taken = self.bound_ports();
        (FIRST_PORT..u16::MAX).find(|port| !taken.iter().any(|(taken, _)| taken == port)).unwrap_or(0)
    }

    /// Ports that sockets are bound to, and whether another socket may share each.
    fn bound_ports(&self) -> Vec<(u16, bool)> {
        let tables = self.tables();
        let sockets = tables.descriptors.values().filter_map(|descriptor| descriptor.socket.as_ref());
        let port = |socket: &Arc<Mutex<KernelSocket>>| {
            let socket = socket.lock().expect("no panic while it is held");
            let shares = socket.options.is_on(libc::SOL_SOCKET, libc::SO_REUSEADDR) && !socket.listening;
            socket.bound.map(|bound| (bound.port(), shares))
        };
        sockets.filter_map(port).collect()
    }
}

impl Kernel for SimKernel {
    fn socket(&self, domain: i32, kind: i32, protocol: i32) -> Answer<Fd> {
        let base = kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
        if !matches!(domain, libc::AF_INET | libc::AF_INET6) {
            return Err(Errno(libc::EAFNOSUPPORT));
        }
        if base != libc::SOCK_STREAM || !matches!(protocol, 0 | libc::IPPROTO_TCP) {
            return Err(Errno(libc::EPROTONOSUPPORT));
        }
        let flags = SocketFlags::from_bits_retain((kind & (libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC)) as u32);
        let file = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(errno)?;
        let cookie = {
            let mut tables = self.tables();
            tables.sockets_made += 1;
            tables.sockets_made
        };
        let socket = KernelSocket { inet6: domain == libc::AF_INET6, cookie, ..KernelSocket::default() };
        Ok(self.keep(file, Some(socket)))
    }

    fn bind(&self, fd: Fd, address: &[u8]) -> Answer<()> {
        let local = names::parse(address).ok_or(Errno(libc::EAFNOSUPPORT))?;
        let known = local.ip().is_unspecified() || self.tables().addresses.contains(&local.ip());
        let taken = local.port() != 0 && self.bound_ports().contains(&(local.port(), false));
        let port = if local.port() == 0 { self.free_port() } else { local.port() };
        self.with_socket(fd, |socket| match socket.bound {
            Some(_) => Err(Errno::INVAL),
            None if !known && !socket.options.is_on(libc::IPPROTO_IP, libc::IP_FREEBIND) => Err(Errno::ADDRNOTAVAIL),
            None if taken => Err(Errno::ADDRINUSE),
            None => {
                socket.bound = Some(SocketAddr::new(local.ip(), port));
                Ok(())
            }
        })
    }

    /// Nothing is reached but through the stack.
    fn connect(&self, fd: Fd, _address: &[u8]) -> Answer<()> {
        self.with_socket(fd, |_| Err(Errno(libc::ENETUNREACH)))
    }

    fn listen(&self, fd: Fd, _backlog: i32) -> Answer<()> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let port = self.free_port();
        let begins = self.with_socket(fd, |socket| {
            let any: IpAddr = if socket.inet6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
            socket.bound.get_or_insert(SocketAddr::new(any, port));
            Ok(!std::mem::replace(&mut socket.listening, true))
        })?;
        if !begins {
            return Ok(());
        }
        let name = format!("ringway-sim-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let name = SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(errno)?;
        // A socket that was shut down has its name already.
        self.with_file(fd, |file| {
            rustix::net::bind(file, &name).ok();
            rustix::net::listen(file, 1)
        })
    }

    fn accept4(&self, fd: Fd, _flags: i32) -> Answer<(Fd, RawAddress)> {
        self.with_socket(fd, |socket| if socket.listening { Err(Errno::AGAIN) } else { Err(Errno::INVAL) })
    }

    fn shutdown(&self, fd: Fd, _how: i32) -> Answer<()> {
        self.with_socket(fd, |socket| match std::mem::take(&mut socket.listening) {
            true => Ok(()),
            false => Err(Errno::NOTCONN),
        })
    }

    fn is_connected(&self, _fd: Fd) -> bool {
        false
    }

    fn local_address(&self, fd: Fd) -> Answer<RawAddress> {
        self.with_socket(fd, |socket| {
            let any: IpAddr = if socket.inet6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
            Ok(names::raw(socket.bound.unwrap_or(SocketAddr::new(any, 0)), socket.inet6))
        })
    }

    fn set_option(&self, fd: Fd, level: i32, name: i32, value: &[u8]) -> Answer<()> {
        let settings = self.tables().settings.clone();
        self.with_socket(fd, |socket| socket.options.set(&settings, (level, name), value, socket.listening))
    }

    fn option(&self, fd: Fd, level: i32, name: i32, value: &mut [u8]) -> Answer<usize> {
        let settings = self.tables().settings.clone();
        let bytes = self.with_socket(fd, |socket| match (level, name) {
            (libc::SOL_SOCKET, libc::SO_COOKIE) => Ok(socket.cookie.to_ne_bytes().to_vec()),
            (libc::SOL_SOCKET, libc::SO_DOMAIN) => {
                Ok(if socket.inet6 { libc::AF_INET6 } else { libc::AF_INET }.to_ne_bytes().to_vec())
            }
            (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => Ok(i32::from(socket.listening).to_ne_bytes().to_vec()),
            _ => socket.options.get(&settings, level, name),
        })?;
        let len = bytes.len().min(value.len());
        value[..len].copy_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn close(&self, fd: Fd) -> Answer<()> {
        self.tables().descriptors.remove(&fd).map(drop).ok_or(Errno::BADF)
    }

    fn duplicate(&self, fd: Fd, minimum: Fd, _on_exec: OnExec) -> Answer<Fd> {
        let descriptor = self.descriptor(fd)?;
        let file = rustix::io::fcntl_dupfd_cloexec(&descriptor.file, minimum).map_err(errno)?;
        let copy = file.as_raw_fd();
        self.tables().descriptors.insert(copy, Descriptor { file: Arc::new(file), socket: descriptor.socket });
        Ok(copy)
    }

    fn duplicate_to(&self, _old: Fd, _new: Fd, _on_exec: OnExec) -> Answer<Fd> {
        Err(Errno(libc::ENOSYS))
    }

    fn descriptor_flags(&self, fd: Fd) -> Answer<i32> {
        self.with_file(fd, |file| rustix::io::fcntl_getfd(file)).map(|flags| flags.bits() as i32)
    }

    fn status_flags(&self, fd: Fd) -> Answer<i32> {
        self.with_file(fd, |file| rustix::fs::fcntl_getfl(file)).map(|flags| flags.bits() as i32)
    }

    fn set_status_flags(&self, fd: Fd, flags: i32) -> Answer<()> {
        self.with_file(fd, |file| rustix::fs::fcntl_setfl(file, OFlags::from_bits_retain(flags as u32)))
    }

    /// No signals here.
    fn set_owner(&self, fd: Fd, _process: u32) -> Answer<()> {
        self.with_file(fd, |_| Ok(()))
    }

    fn identity(&self, fd: Fd) -> Answer<Identity> {
        let status = self.with_file(fd, |file| rustix::fs::fstat(file))?;
        Ok(Identity { device: status.st_dev, inode: status.st_ino, kind: status.st_mode & libc::S_IFMT })
    }

    fn for_each_descriptor(&self, visit: &mut dyn FnMut(Fd)) -> Answer<()> {
        let sorted: BTreeMap<Fd, ()> = self.tables().descriptors.keys().map(|fd| (*fd, ())).collect();
        sorted.into_keys().for_each(visit);
        Ok(())
    }

    fn descriptor_limit(&self) -> u64 {
        self.limit
    }

    fn read(&self, fd: Fd, pieces: &mut [IoSliceMut<'_>]) -> Answer<usize> {
        if self.is_socket(fd) {
            return Err(Errno::NOTCONN);
        }
        loop {
            match self.with_file(fd, |file| rustix::io::readv(file, pieces)) {
                Err(Errno::AGAIN) => program::wait(None).map_err(|program::Ended| Errno::INTR)?,
                answer => return answer,
            }
        }
    }

    fn write(&self, fd: Fd, pieces: &[IoSlice<'_>]) -> Answer<usize> {
        if self.is_socket(fd) {
            return Err(Errno::PIPE);
        }
        self.with_file(fd, |file| rustix::io::writev(file, pieces))
    }

    fn read_at(&self, _fd: Fd, _bytes: PayloadMut<'_>, _offset: i64) -> Answer<usize> {
        Err(Errno::SPIPE)
    }

    fn seek_by(&self, _fd: Fd, _distance: i64) -> Answer<i64> {
        Err(Errno::SPIPE)
    }

    fn bytes_readable(&self, _fd: Fd) -> Answer<i32> {
        Ok(0)
    }

    fn poll(&self, set: &mut [libc::pollfd], timeout: Option<Duration>, _mask: Option<SignalMask>) -> Answer<usize> {
        self.wait_for(timeout, || Ok(self.poll_now(set)))
    }

    fn event_counter(&self) -> Answer<Fd> {
        Ok(self.keep(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(errno)?, None))
    }

    fn raise_event(&self, fd: Fd) {
        // A full counter is fine.
        self.with_file(fd, |file| rustix::io::write(file, &1_u64.to_ne_bytes())).ok();
    }

    fn epoll_create(&self, _flags: i32) -> Answer<Fd> {
        Ok(self.keep(epoll::create(epoll::CreateFlags::CLOEXEC).map_err(errno)?, None))
    }

    fn epoll_control(&self, epoll: Fd, operation: i32, fd: Fd, event: Option<libc::epoll_event>) -> Answer<()> {
        let (bits, word) = event.map_or((0, 0), |event| (event.events, event.u64));
        let (flags, data) = (epoll::EventFlags::from_bits_retain(bits), epoll::EventData::new_u64(word));
        let instance = self.descriptor(epoll)?;
        self.with_file(fd, |file| match operation {
            libc::EPOLL_CTL_ADD => epoll::add(&instance.file, file, data, flags),
            libc::EPOLL_CTL_MOD => epoll::modify(&instance.file, file, data, flags),
            _ => epoll::delete(&instance.file, file),
        })
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
        self.wait_for(timeout, || {
            let mut got = Vec::with_capacity(events.len());
            self.with_file(epoll, |file| epoll::wait(file, spare_capacity(&mut got), Some(&NO_TIME)))?;
            got.truncate(events.len());
            for (place, event) in events.iter_mut().zip(&got) {
                let (flags, data) = (event.flags, event.data);
                *place = libc::epoll_event { events: flags.bits(), u64: data.u64() };
            }
            Ok(got.len())
        })
    }

    fn watched_words(&self, _epoll: Fd) -> Answer<Vec<u64>> {
        Err(Errno(libc::ENOSYS))
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn wall_clock(&self) -> Duration {
        self.clock.now().since(Instant::ZERO)
    }

    fn yield_now(&self) {}

    fn pause(&self, span: Duration) {
        // Without a machine the time is over at once.
        self.wait_for(Some(span), || Ok(0)).ok();
    }

    fn has_other_threads(&self) -> bool {
        false
    }

    fn process_id(&self) -> u32 {
        std::process::id()
    }

    fn raise_broken_pipe(&self) {}

    fn restarts_after_signal(&self) -> bool {
        false
    }

    fn say(&self, line: &str) {
        eprintln!("{line}");
    }
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno(error.raw_os_error())
}

const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// The first port that the kernel chooses itself.
const FIRST_PORT: u16 = 30_000;
/// Numbers are below this one, whatever the system allows.
const LIMIT_MAX: u64 = 2_048;
/// Numbers below the limit at which the library opens its own.
const FLOOR: Fd = 128;
