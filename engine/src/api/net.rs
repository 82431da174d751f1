//! A worker on the calling thread, and what its sockets have to say.
//!
//! Promises: one turn takes what has arrived, sends what was written, and collects news; each socket with news is named once,
//! so the cost of a turn follows the sockets that are active. Does not do: calling the application.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use ringway_device::Device;
use ringway_shm::{Arena, Duration, Instant};
use ringway_stack::{Cidr, Route, Stack};

use super::nets::Member;
use super::sockets::{Kind, News, Sockets};
use super::tcp::{TcpListener, TcpStream};
use super::timers::TimerId;
use super::udp::UdpSocket;
use crate::command::{InterfaceInfo, RegionId, WorkerHandle};
use crate::core::Core;
use crate::ports::{Host, PortError, Ports, Transport};
use crate::worker::{Worker, WorkerConfig};

/// While small messages are sent a turn writes no more than this, and not 512 KiB: who answers within the turn waits for all
/// of it. Programs that have their own time to answer gain nothing by it (measured: docs/lab/2026-11-23-stream-beside-small-messages.md).
const TURN_BESIDE_SMALL_BYTES: u32 = 320 << 10;

/// What a stream or a datagram socket can do now. Level values, as of the moment when the event was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// A read would not block: bytes, the end of the stream or an error are there.
    pub readable: bool,
    /// A write would not block: there is room, or an error.
    pub writable: bool,
    /// The connection has just been established.
    pub connected: bool,
    /// The peer has sent everything that it will.
    pub peer_closed: bool,
    /// The connection has failed; reads tell why when everything that had arrived is read.
    pub failed: bool,
    /// There is news of urgent data.
    pub urgent: bool,
}

/// What has happened. A socket is named once per turn, with all its news.
///
/// Events tell of changes: whoever leaves something unread hears of the socket again when more arrives, or asks with
/// [`TcpStream::again`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Connections can be accepted.
    Listener(TcpListener),
    /// Something can be done with a connection.
    Stream(TcpStream, Ready),
    /// Something can be done with a UDP socket.
    Datagram(UdpSocket, Ready),
    /// A timer has fired.
    Timer(u64),
}

/// A worker on the calling thread: interfaces, a stack, native sockets.
///
/// In an event loop of the program's own (epoll, mio, tokio) the descriptor of [`AsFd`] stands for all of it: the program runs
/// [`turn`](Net::turn) and takes the events until a turn finds nothing to do, calls [`arm`](Net::arm), and waits until the descriptor is
/// readable. It stays the worker's: it must not be read, written or changed.
pub struct Net {
    pub(super) worker: Worker,
    handle: WorkerHandle,
    routes: Vec<Route>,
    /// Which of several workers it is.
    pub(super) member: Option<Member>,
}

impl Net {
    /// Takes all memory.
    ///
    /// # Errors
    /// The system has no memory, files or descriptors.
    pub fn new(config: WorkerConfig) -> io::Result<Net> {
        Net::new_at(crate::clock::now(), config)
    }

    /// As `new`, for one whose time is told: it is driven by [`turn_at`](Net::turn_at) alone.
    ///
    /// # Errors
    /// As `new`.
    pub fn new_at(now: Instant, mut config: WorkerConfig) -> io::Result<Net> {
        let beside_small = &mut config.stack.tcp.turn_beside_small_bytes;
        *beside_small = TURN_BESIDE_SMALL_BYTES.min(*beside_small);
        let (mut worker, handle) = Worker::new_at(now, config, Box::new(Alone), Box::new(Alone))?;
        worker.idle.open_exposed()?;
        Ok(Net { worker, handle, routes: Vec::new(), member: None })
    }

    /// Adds an interface over a device whose frames come from [`arena`](Net::arena), with its addresses and the routes to
    /// their networks; returns its number.
    pub fn add_interface(&mut self, interface: &InterfaceInfo, addresses: &[Cidr], device: Box<dyn Device>) -> u32 {
        let number = self.worker.add_interface(interface, device);
        self.worker.stack().set_addresses(number, addresses.to_vec());
        for &destination in addresses {
            self.add_route(Route { destination, gateway: None, interface: number, metric: 0, source: None });
        }
        number
    }

    /// Adds a route.
    pub fn add_route(&mut self, route: Route) {
        self.routes.push(route);
        self.worker.stack().set_routes(self.routes.clone());
    }

    /// One turn at the machine's time: sends what was written, takes what has arrived. Never blocks. Returns whether it
    /// found anything to do.
    pub fn turn(&mut self) -> bool {
        self.worker.turn(crate::clock::now())
    }

    /// One turn at a time that is told.
    pub fn turn_at(&mut self, now: Instant) -> bool {
        self.worker.turn(now)
    }

    /// One turn, and when it found nothing to do, one wait for something: first by looking again for a while, if that pays,
    /// then in the kernel. An idle program uses no processor time here.
    ///
    /// # Errors
    /// The system refused to wait.
    ///
    /// # Blocking
    /// Until there may be an event; it may return without one.
    pub fn wait(&mut self) -> io::Result<()> {
        self.worker.step()
    }

    /// Prepares to wait for the descriptor of [`AsFd`], after a turn that found nothing to do. Returns true when the next turn
    /// has something to do already: then the program runs it instead of waiting. The descriptor is readable as soon as
    /// something has arrived, a deadline has passed, or another thread calls the [`handle`](Net::handle).
    ///
    /// # Errors
    /// epoll_ctl(2)'s and timerfd_settime(2)'s.
    ///
    /// # Blocking
    /// Never.
    pub fn arm(&mut self) -> io::Result<bool> {
        let pending = self.worker.native.is_touched() || self.worker.native.has_news();
        Ok(self.worker.arm()? || pending)
    }

    /// Waits, and hands each event to `serve`, until [`stop`](Net::stop), or `handle().stop()` on another thread.
    ///
    /// # Errors
    /// The system refused to wait.
    ///
    /// # Blocking
    /// That is its purpose.
    pub fn run(&mut self, mut serve: impl FnMut(&mut Net, Event)) -> io::Result<()> {
        while !self.worker.is_stopping() {
            self.wait()?;
            while let Some(event) = self.next_event() {
                serve(self, event);
            }
        }
        Ok(())
    }

    /// Ends [`run`](Net::run) when the events of this turn are handed out.
    pub fn stop(&mut self) {
        self.worker.stop();
    }

    /// The next event, or `None` when everything has been told.
    #[inline]
    pub fn next_event(&mut self) -> Option<Event> {
        if let Some(token) = self.worker.native.timers.next_fired() {
            return Some(Event::Timer(token));
        }
        let (handle, socket, kind, news) = self.worker.native.next_ready()?;
        if kind == Kind::Listener {
            return Some(Event::Listener(TcpListener(handle)));
        }
        let readiness = self.worker.core.stack.readiness(socket);
        let ready = Ready {
            readable: readiness.readable,
            writable: readiness.writable,
            connected: news.has(News::CONNECTED),
            peer_closed: readiness.peer_closed,
            failed: news.has(News::FAILED),
            urgent: news.has(News::URGENT),
        };
        match kind {
            Kind::Datagram => Some(Event::Datagram(UdpSocket(handle), ready)),
            _ => Some(Event::Stream(TcpStream(handle), ready)),
        }
    }

    /// When a turn has something to do although nothing arrives; for those who drive it by [`turn_at`](Net::turn_at).
    pub fn poll_timeout(&self) -> Option<Instant> {
        let now = self.now();
        if self.worker.native.is_touched() || self.worker.native.has_news() { Some(now) } else { self.worker.next_timeout(now) }
    }

    /// The time of the turn: all calls between two turns happen at it.
    #[inline]
    pub fn now(&self) -> Instant {
        self.worker.core.now
    }

    /// Fires `token` once, `delay` from now.
    pub fn after(&mut self, delay: Duration, token: u64) -> TimerId {
        let due = self.now() + delay;
        self.worker.native.timers.start(due, None, token)
    }

    /// Fires `token` every `period`, first one period from now. A period of zero is one firing.
    pub fn every(&mut self, period: Duration, token: u64) -> TimerId {
        let due = self.now() + period;
        self.worker.native.timers.start(due, Some(period), token)
    }

    /// Stops a timer. `false`: it had fired already (its event may still be told), or was stopped before.
    pub fn cancel(&mut self, timer: TimerId) -> bool {
        self.worker.native.timers.stop(timer)
    }

    /// Payload bytes that were copied between frames and the application so far.
    pub fn copied_bytes(&self) -> u64 {
        self.worker.native.copied
    }

    /// Where the frames of devices come from.
    pub fn arena(&self) -> &Arena {
        self.worker.arena()
    }

    /// The stack below: addresses, neighbors, statistics.
    pub fn stack(&mut self) -> &mut Stack {
        self.worker.stack()
    }

    /// Ends a [`wait`](Net::wait) from any thread, and can do what the service does to a worker.
    pub fn handle(&self) -> WorkerHandle {
        self.handle.clone()
    }

    /// The table and what it works on.
    #[inline]
    pub(super) fn parts(&mut self) -> (&mut Sockets, &mut Core) {
        (&mut self.worker.native, &mut self.worker.core)
    }
}

impl AsFd for Net {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.worker.idle.exposed().expect("`new_at` has opened it")
    }
}

/// Nobody shares the addresses: the stack chooses ports and resolves neighbors.
struct Alone;

impl Ports for Alone {
    fn reserve(&mut self, _: IpAddr, _: u16) -> Result<u16, PortError> {
        Err(PortError::NotLocal)
    }
    fn release(&mut self, _: IpAddr, _: u16) {}
    fn own(&mut self, _: Transport, _: IpAddr, _: u16) -> Result<(), PortError> {
        Err(PortError::NoSteering)
    }
    fn disown(&mut self, _: Transport, _: IpAddr, _: u16) {}
}

impl Host for Alone {
    fn resolve(&mut self, _: u32, _: IpAddr) {}
    fn forked(&mut self, _: RegionId, _: u32, _: u32) {}
}
