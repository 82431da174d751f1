//! The native API as futures: `accept`, `connect`, `read`, `write` and `sleep` that wait, on one thread.
//!
//! A [`Runtime`] holds a [`Net`] and wakes whoever waits when a turn has brought news. It has a small
//! executor of its own ([`Runtime::block_on`], [`Runtime::spawn_local`]); in another single-threaded executor the same
//! futures work when that one calls [`Runtime::turn`]. Futures use the standard wakers and nothing else. Promises: a future
//! that is dropped has taken nothing and lost nothing, except where it says so; a socket that is dropped is closed. One task
//! at a time may wait for each direction of a socket. Does not do: moving sockets or futures to other threads (wakers may
//! go there).

mod tasks;
mod tcp;
mod time;
mod udp;

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Waker};

use ringway_shm::Instant;

pub use tasks::JoinHandle;
pub use tcp::{TcpListener, TcpStream};
pub use time::{Elapsed, Sleep, Timeout};
pub use udp::UdpSocket;

use super::net::{Event, Net};
use tasks::Tasks;

/// Which half of a socket a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

/// Who waits for a socket.
#[derive(Debug, Default)]
struct Waiting {
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// What all futures of a runtime share.
struct Shared {
    net: RefCell<Net>,
    /// By the index of the socket.
    waiting: RefCell<Vec<Waiting>>,
    sleepers: RefCell<time::Sleepers>,
    /// Scratch: who is to be woken when nothing is borrowed any more.
    woken: RefCell<Vec<Waker>>,
    tasks: Tasks,
}

/// A [`Net`] that wakes tasks; a copy is the same one.
#[derive(Clone)]
pub struct Runtime {
    shared: Rc<Shared>,
}

impl Runtime {
    /// Takes over a `Net`. Its events and timers are the runtime's from now on.
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

    /// Does something with the `Net`: adds an interface, asks for counters.
    ///
    /// # Panics
    /// When called from inside itself.
    pub fn with<T>(&self, act: impl FnOnce(&mut Net) -> T) -> T {
        act(&mut self.shared.net.borrow_mut())
    }

    /// One turn of the worker; wakes those whose wait is over. Never blocks. Returns whether it found anything to do.
    pub fn turn(&self) -> bool {
        let worked = self.with(Net::turn);
        self.dispatch() | worked
    }

    /// As [`turn`](Runtime::turn), at a time that is told.
    pub fn turn_at(&self, now: Instant) -> bool {
        let worked = self.with(|net| net.turn_at(now));
        self.dispatch() | worked
    }

    /// One turn, and one wait when it found nothing to do; wakes those whose wait is over.
    ///
    /// # Errors
    /// The system refused to wait.
    ///
    /// # Blocking
    /// Until something happens, or a waker is used on another thread.
    pub fn wait(&self) -> io::Result<()> {
        self.with(Net::wait)?;
        self.dispatch();
        Ok(())
    }

    /// Wakes whoever waits for what the last turn has brought.
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

    /// The task wants to be woken when there is news of that half of a socket.
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

    /// Nobody waits for a socket any more.
    fn forget(&self, index: usize) {
        if let Some(waiting) = self.shared.waiting.borrow_mut().get_mut(index) {
            *waiting = Waiting::default();
        }
    }
}
