//! A worker on the calling thread, and the events of its sockets.
//!
//! Promises: one iteration takes what has arrived, sends what was written, and collects news. Each socket with news is
//! named once, so the cost of an iteration follows the active sockets. Does not do: calling the application.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use ringway_device::Device;
use ringway_engine::native::{self, Kind, News, Sockets};
use ringway_engine::{Core, Host, InterfaceInfo, PortError, Ports, RegionId, Transport, Worker, WorkerHandle, clock};
use ringway_shm::{Arena, Instant};
use ringway_stack::congestion::{Controller, Flow};
use ringway_stack::{Cidr, CongestionControl, Route, Stack};

use super::config::NetConfig;
use super::hook::{Hooked, PacketHook};
use super::nets::Member;
use super::tcp::{TcpListenerId, TcpStreamId};
use super::udp::UdpSocketId;

/// While small messages are sent, an iteration writes no more than this instead of 512 KiB: an application that answers
/// within the iteration waits for all of it. Programs that answer at their own time gain nothing (measured:
/// docs/lab/2026-11-23-stream-beside-small-messages.md).
const TURN_BESIDE_SMALL_BYTES: u32 = 320 << 10;

/// Operations that a stream or a datagram socket can do without blocking. Levels, as of the moment when the event was
/// taken.
///
/// ```
/// use ringway::{Net, Ready, TcpStreamId};
///
/// fn on_stream(net: &mut Net, stream: TcpStreamId, ready: Ready) {
///     if ready.failed {
///         eprintln!("{:?}", stream.error(net));
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ready {
    /// A read would not block: there are bytes, the end of the stream or an error.
    pub readable: bool,
    /// A write would not block: there is space, or an error.
    pub writable: bool,
    /// The connection has just been established.
    pub connected: bool,
    /// The peer has sent all its data.
    pub peer_closed: bool,
    /// The connection has failed; reads return the reason when everything that had arrived is read.
    pub failed: bool,
    /// There is news of urgent data.
    pub urgent: bool,
}

/// An event. A socket is named once per iteration, with all its news.
///
/// Events report changes: an application that leaves data unread gets another event when more arrives, or calls
/// [`TcpStreamId::again`].
///
/// ```
/// use ringway::{Event, Net, TcpStream, TcpStreamId};
/// use std::collections::HashMap;
///
/// fn serve(net: &mut Net, event: Event, streams: &mut HashMap<TcpStreamId, TcpStream>) {
///     match event {
///         Event::Listener(listener) => {
///             while let Ok(stream) = listener.accept(net) {
///                 streams.insert(stream.id(), stream);
///             }
///         }
///         // Dropping the stream closes it.
///         Event::Stream(id, ready) if ready.peer_closed => drop(streams.remove(&id)),
///         // Later versions may have other events.
///         _ => {}
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Connections can be accepted.
    Listener(TcpListenerId),
    /// A connection is ready.
    Stream(TcpStreamId, Ready),
    /// A UDP socket is ready.
    Datagram(UdpSocketId, Ready),
    /// A timer has fired.
    Timer(u64),
}

/// A worker on the calling thread: interfaces, a stack, native sockets.
///
/// In an event loop of the program's own (epoll, mio, tokio) the descriptor of [`AsFd`] stands for all of it: the program runs
/// [`turn`](Net::turn) and takes the events until a turn finds nothing to do, calls [`arm`](Net::arm), and waits until the descriptor is
/// readable. It stays the worker's: it must not be read, written or changed.
///
/// ```
/// use ringway::NetConfig;
/// use ringway::{Event, Instant, Net};
/// use std::time::Duration;
///
/// # fn main() -> std::io::Result<()> {
/// // In virtual time; `Net::new` and `turn` use the machine's clock.
/// let start = Instant::from_millis(1);
/// let mut net = Net::new_at(start, NetConfig::default())?;
/// net.after(Duration::from_millis(5), 7);
/// net.turn_at(start + Duration::from_millis(5).into());
/// assert_eq!(net.next_event(), Some(Event::Timer(7)));
/// # Ok(()) }
/// ```
pub struct Net {
    pub(super) worker: Worker,
    handle: NetHandle,
    routes: Vec<Route>,
    /// Index among several workers; `None`: alone.
    pub(super) member: Option<Member>,
    hooks: Option<MakeHook>,
}

/// Gives an interface its hook.
type MakeHook = Box<dyn FnMut(&InterfaceInfo) -> Box<dyn PacketHook>>;

impl Net {
    /// Creates a `Net` and takes all its memory.
    ///
    /// # Errors
    /// The system has no memory, files or descriptors.
    pub fn new(config: NetConfig) -> io::Result<Net> {
        Net::new_at(clock::now(), config)
    }

    /// Like `new`, for a time that is passed in: the caller must drive it by [`turn_at`](Net::turn_at) alone.
    ///
    /// # Errors
    /// The errors of `new`.
    pub fn new_at(now: Instant, mut config: NetConfig) -> io::Result<Net> {
        let beside_small = &mut config.stack.tcp.turn_beside_small_bytes;
        *beside_small = TURN_BESIDE_SMALL_BYTES.min(*beside_small);
        let (mut worker, handle) = Worker::new_at(now, config.into(), Box::new(Alone), Box::new(Alone))?;
        worker.open_wait_fd()?;
        Ok(Net { worker, handle: NetHandle(handle), routes: Vec::new(), member: None, hooks: None })
    }

    /// Adds an interface over a device that takes its frames from [`arena`](Net::arena), with its addresses and the
    /// routes to their networks; returns its number.
    pub fn add_interface(&mut self, interface: &InterfaceInfo, addresses: &[Cidr], device: Box<dyn Device>) -> u32 {
        let device = match &mut self.hooks {
            Some(make) => Box::new(Hooked::new(device, make(interface))),
            None => device,
        };
        let number = self.worker.add_interface(interface, device);
        self.worker.stack().set_addresses(number, addresses.to_vec());
        for &destination in addresses {
            self.add_route(Route { destination, gateway: None, interface: number, metric: 0, source: None });
        }
        number
    }

    /// Shows the packets of the interfaces that are added from now on to `hook`, which `make` gives for each of them; see [`PacketHook`].
    pub fn hook_packets(&mut self, make: impl FnMut(&InterfaceInfo) -> Box<dyn PacketHook> + 'static) {
        self.hooks = Some(Box::new(make));
    }

    /// Adds a congestion control of the program's own; `make` gives each of its connections a [`Controller`]. The value that is returned
    /// chooses it in [`TcpOptions`](crate::TcpOptions), of sockets of this `Net` alone.
    ///
    /// ```
    /// use ringway::congestion::{Timely, TimelyParameters};
    /// use ringway::{Net, NetConfig, TcpOptions};
    ///
    /// # fn main() -> std::io::Result<()> {
    /// # let mut net = Net::new_at(ringway::Instant::from_millis(1), NetConfig::default())?;
    /// let timely = net.add_congestion_control(|flow| Box::new(Timely::new(flow, TimelyParameters::default())));
    /// let options = TcpOptions { congestion_control: timely, ..TcpOptions::default() };
    /// # drop(options); Ok(()) }
    /// ```
    ///
    /// # Panics
    /// When there are already eight.
    pub fn add_congestion_control(&mut self, make: impl Fn(&Flow) -> Box<dyn Controller> + Send + 'static) -> CongestionControl {
        self.worker.stack().add_congestion_control(make)
    }

    /// Adds a route.
    pub fn add_route(&mut self, route: Route) {
        self.routes.push(route);
        self.worker.stack().set_routes(self.routes.clone());
    }

    /// Runs one iteration at the machine's time: sends what was written, takes what has arrived. Never blocks. Returns
    /// true if it found work.
    pub fn turn(&mut self) -> bool {
        self.worker.turn(clock::now())
    }

    /// Runs one iteration at the time `now`.
    pub fn turn_at(&mut self, now: Instant) -> bool {
        self.worker.turn(now)
    }

    /// Runs one iteration and, if it found no work, waits for some: first by spinning for a while, if that pays, then
    /// in the kernel. An idle program uses no processor time here.
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
        let pending = self.worker.sockets().is_touched() || self.worker.sockets().has_news();
        Ok(self.worker.arm()? || pending)
    }

    /// Waits, and hands each event to `serve`, until [`stop`](Net::stop), or `handle().stop()` on another thread.
    ///
    /// # Errors
    /// The system refused to wait.
    ///
    /// # Blocking
    /// Until stopped.
    pub fn run(&mut self, mut serve: impl FnMut(&mut Net, Event)) -> io::Result<()> {
        while !self.worker.is_stopping() {
            self.wait()?;
            while let Some(event) = self.next_event() {
                serve(self, event);
            }
        }
        Ok(())
    }

    /// Ends [`run`](Net::run) after the events of this iteration.
    pub fn stop(&mut self) {
        self.worker.stop();
    }

    /// The next event, or `None` when all were returned.
    #[inline]
    pub fn next_event(&mut self) -> Option<Event> {
        let (sockets, core) = self.parts();
        if let Some(token) = sockets.timers.next_fired() {
            return Some(Event::Timer(token));
        }
        sockets.close_dropped(core);
        let (handle, socket, kind, news) = sockets.next_ready()?;
        if kind == Kind::Listener {
            return Some(Event::Listener(TcpListenerId(handle)));
        }
        let readiness = core.stack.readiness(socket);
        let ready = Ready {
            readable: readiness.readable,
            writable: readiness.writable,
            connected: news.has(News::CONNECTED),
            peer_closed: readiness.peer_closed,
            failed: news.has(News::FAILED),
            urgent: news.has(News::URGENT),
        };
        match kind {
            Kind::Datagram => Some(Event::Datagram(UdpSocketId(handle), ready)),
            _ => Some(Event::Stream(TcpStreamId(handle), ready)),
        }
    }

    /// Time at which an iteration has work although nothing arrives; for callers that drive it by
    /// [`turn_at`](Net::turn_at).
    pub fn poll_timeout(&self) -> Option<Instant> {
        let now = self.now();
        if self.worker.sockets().is_touched() || self.worker.sockets().has_news() {
            Some(now)
        } else {
            self.worker.next_timeout(now)
        }
    }

    /// The time of the iteration: all calls between two iterations happen at it.
    #[inline]
    pub fn now(&self) -> Instant {
        self.worker.context().now
    }

    /// Starts a timer that fires `token` once, `delay` from now.
    pub fn after(&mut self, delay: Duration, token: u64) -> TimerId {
        let due = self.now() + delay.into();
        TimerId(self.parts().0.timers.start(due, None, token))
    }

    /// Starts a timer that fires `token` every `period`, first one period from now. With a period of zero it fires
    /// once.
    pub fn every(&mut self, period: Duration, token: u64) -> TimerId {
        let period = period.into();
        let due = self.now() + period;
        TimerId(self.parts().0.timers.start(due, Some(period), token))
    }

    /// Stops a timer. Returns false if it had fired already (its event may still follow), or was stopped before.
    pub fn cancel(&mut self, timer: TimerId) -> bool {
        self.parts().0.timers.stop(timer.0)
    }

    /// Payload bytes copied between frames and the application so far.
    pub fn copied_bytes(&self) -> u64 {
        self.worker.sockets().copied
    }

    /// Source of the devices' frames.
    pub fn arena(&self) -> &Arena {
        self.worker.arena()
    }

    /// The stack below: addresses, neighbors, statistics.
    pub fn stack(&mut self) -> &mut Stack {
        self.worker.stack()
    }

    /// A handle for other threads.
    pub fn handle(&self) -> NetHandle {
        self.handle.clone()
    }

    /// The socket table and its context.
    #[inline]
    pub(super) fn parts(&mut self) -> (&mut Sockets, &mut Core) {
        self.worker.native()
    }
}

impl AsFd for Net {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.worker.wait_fd().expect("`new_at` has opened it")
    }
}

/// Reaches a [`Net`] from other threads.
///
/// ```
/// use ringway::{Net, NetConfig};
///
/// # fn main() -> std::io::Result<()> {
/// let mut net = Net::new(NetConfig::default())?;
/// let handle = net.handle();
/// std::thread::spawn(move || handle.stop());
/// net.run(|_net, event| println!("{event:?}"))?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct NetHandle(WorkerHandle);

impl NetHandle {
    /// Ends one [`wait`](Net::wait): the one that goes on, or the next.
    pub fn wake(&self) {
        self.0.wake();
    }

    /// Ends [`run`](Net::run). Does nothing when the `Net` is gone.
    pub fn stop(&self) {
        // Without a worker there is nothing to stop.
        self.0.stop().unwrap_or_default();
    }
}

impl std::fmt::Debug for NetHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NetHandle")
    }
}

/// Names a timer until it has fired (if periodic, for ever) or was stopped.
///
/// ```
/// use ringway::{Net, NetConfig};
/// use std::time::Duration;
///
/// # fn main() -> std::io::Result<()> {
/// let mut net = Net::new(NetConfig::default())?;
/// let timer = net.every(Duration::from_secs(1), 0);
/// assert!(net.cancel(timer));
/// assert!(!net.cancel(timer), "it was stopped before");
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimerId(native::TimerId);

/// The addresses are not shared: the stack chooses ports and resolves neighbors.
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
