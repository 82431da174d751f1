//! The native API as futures: `accept`, `connect`, `read`, `write` and `sleep` that wait, on one thread.
//!
//! A [`Runtime`] holds a [`Net`] and wakes the tasks for which an iteration has brought news. It has a small executor
//! of its own ([`Runtime::block_on`], [`Runtime::spawn_local`]); the same futures work in another single-threaded
//! executor that calls [`Runtime::turn`]. Futures use the standard wakers and nothing else. Promises: a dropped future
//! has taken and lost nothing, unless its text says so; a dropped socket is closed, as in the crate's root. One task at a time may wait for
//! each direction of a socket. Does not do: moving sockets or futures to other threads (wakers may go there).

#[cfg(feature = "futures-io")]
mod io;
mod tasks;
mod tcp;
mod time;
mod udp;

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Waker};

use ringway_shm::Instant;

pub use tasks::JoinHandle;
pub use tcp::{TcpListener, TcpStream};
pub use time::{Elapsed, Sleep, Timeout};
pub use udp::UdpSocket;

use super::net::{Event, Net};
use tasks::Tasks;

/// Direction of a socket that a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

/// Tasks that wait for a socket.
#[derive(Debug, Default)]
struct Waiting {
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// State that all futures of a runtime share.
struct Shared {
    net: RefCell<Net>,
    /// Indexed by the socket's index.
    waiting: RefCell<Vec<Waiting>>,
    sleepers: RefCell<time::Sleepers>,
    /// Scratch: wakers to call when nothing is borrowed any more.
    woken: RefCell<Vec<Waker>>,
    tasks: Tasks,
}

/// A [`Net`] that wakes tasks; clones are the same runtime.
///
/// ```
/// use ringway::NetConfig;
/// use ringway::Net;
/// use ringway::futures::Runtime;
/// use std::time::Duration;
///
/// # fn main() -> std::io::Result<()> {
/// let runtime = Runtime::new(Net::new(NetConfig::default())?);
/// runtime.block_on(runtime.sleep(Duration::from_millis(1)))?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Runtime {
    shared: Rc<Shared>,
}

impl Runtime {
    /// Takes over a `Net`, its events and its timers.
    pub fn new(net: Net) -> Runtime {
        let tasks = Tasks::new(net.handle());
        let shared = Shared {
            net: RefCell::new(net),
            waiting: RefCell::default(),
            sleepers: RefCell::default(),
            woken: RefCell::default(),
            tasks,
        };
        Runtime { shared: Rc::new(shared) }
    }

    /// Calls `act` with the `Net`, for instance to add an interface or to read counters.
    ///
    /// # Panics
    /// Panics if called from inside itself.
    pub fn with<T>(&self, act: impl FnOnce(&mut Net) -> T) -> T {
        act(&mut self.shared.net.borrow_mut())
    }

    /// Runs one iteration of the worker and wakes the tasks with news. Never blocks. Returns true if it found work.
    pub fn turn(&self) -> bool {
        let worked = self.with(Net::turn);
        self.dispatch() | worked
    }

    /// Like [`turn`](Runtime::turn), at the time `now`.
    pub fn turn_at(&self, now: Instant) -> bool {
        let worked = self.with(|net| net.turn_at(now));
        self.dispatch() | worked
    }

    /// Runs one iteration and, if it found no work, waits once; wakes the tasks with news.
    ///
    /// # Errors
    /// The system refused to wait.
    ///
    /// # Blocking
    /// Until something happens, or a waker is used on another thread.
    pub fn wait(&self) -> std::io::Result<()> {
        self.with(Net::wait)?;
        self.dispatch();
        Ok(())
    }

    /// Wakes the tasks that wait for news of the last iteration.
    fn dispatch(&self) -> bool {
        let mut woken = self.shared.woken.take();
        {
            let mut net = self.shared.net.borrow_mut();
            let mut waiting = self.shared.waiting.borrow_mut();
            while let Some(event) = net.next_event() {
                let (index, reads, writes) = match event {
                    Event::Listener(listener) => (listener.index(), true, false),
                    Event::Stream(stream, ready) => (stream.index(), ready.readable, ready.writable),
                    Event::Datagram(socket, ready) => (socket.index(), ready.readable, ready.writable),
                    Event::Timer(token) => {
                        woken.extend(self.shared.sleepers.borrow_mut().fire(token));
                        continue;
                    }
                };
                let Some(waiting) = waiting.get_mut(index) else { continue };
                woken.extend(waiting.reader.take_if(|_| reads));
                woken.extend(waiting.writer.take_if(|_| writes));
            }
        }
        let any = !woken.is_empty();
        woken.drain(..).for_each(Waker::wake);
        *self.shared.woken.borrow_mut() = woken;
        any
    }

    /// Registers the task for news of that direction of a socket.
    fn register(&self, index: usize, direction: Direction, context: &Context<'_>) {
        let mut all = self.shared.waiting.borrow_mut();
        if all.len() <= index {
            all.resize_with(index + 1, Waiting::default);
        }
        let waiting = &mut all[index];
        let place = if direction == Direction::Read { &mut waiting.reader } else { &mut waiting.writer };
        match place {
            Some(waker) if waker.will_wake(context.waker()) => {}
            place => *place = Some(context.waker().clone()),
        }
    }

    /// Drops the wakers of a closed socket.
    fn forget(&self, index: usize) {
        // A waker may own the task with the next socket that is dropped.
        let wakers = self.shared.waiting.borrow_mut().get_mut(index).map(std::mem::take);
        drop(wakers);
    }
}
