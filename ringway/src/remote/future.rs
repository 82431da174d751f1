//! Every operation as a `Future` that needs no particular runtime. A thread of the session calls the wakers; it starts
//! with the first future that has to wait and sleeps while nothing happens.
//!
//! Promises: a future dropped before its answer has done nothing (no byte taken, no connection accepted); dropping a
//! future of [`Session::connect_async`] closes the connection.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

use ringway_channel::{Client, Envelope, SlotRef};
use ringway_shm::Instant;

use super::session::Session;
use super::stream::Chunk;
use super::wait::{Waiter, deadline, lock};
use super::{Listener, Stream, UdpSocket};
use ringway_engine::clock;

/// Calls the wakers of a session.
pub(super) struct Reactor {
    shared: Arc<Shared>,
    /// Wakes the thread.
    nudge: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    waiter: Waiter,
    waiting: Mutex<Waiting>,
    stopping: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    /// Indexed by slot.
    slots: HashMap<u32, (SlotRef, Vec<Waker>)>,
    /// Ordered by time; the number distinguishes timers of one instant.
    timers: BinaryHeap<Reverse<(Instant, u64)>>,
    sleepers: HashMap<u64, Waker>,
    next: u64,
}

impl Reactor {
    fn start(client: &Arc<Client>) -> io::Result<Reactor> {
        let (waiter, nudge) = Waiter::open_with_nudge(client)?;
        let shared = Arc::new(Shared { waiter, waiting: Mutex::default(), stopping: AtomicBool::new(false) });
        let (client, theirs) = (client.clone(), shared.clone());
        let thread = std::thread::Builder::new().name("ringway-reactor".into()).spawn(move || theirs.run(&client))?;
        Ok(Reactor { shared, nudge, thread: Some(thread) })
    }

    fn ring(&self) {
        // A full counter rings already.
        rustix::io::write(self.nudge.as_fd(), &1u64.to_ne_bytes()).unwrap_or_default();
    }

    /// Registers `waker` for the next change of the slot. The caller must check the slot again after this.
    fn watch(&self, client: &Client, slot: SlotRef, waker: &Waker) {
        let mut waiting = lock(&self.shared.waiting);
        let (known, wakers) = waiting.slots.entry(slot.index).or_insert_with(|| (slot, Vec::new()));
        if *known != slot {
            // The slot's earlier use is over; futures that waited for it check again.
            *known = slot;
            wakers.drain(..).for_each(Waker::wake);
        }
        if !wakers.iter().any(|other| other.will_wake(waker)) {
            wakers.push(waker.clone());
        }
        client.watch(slot, self.shared.waiter.context);
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.ring();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // A panicking waker has ended it already.
            thread.join().unwrap_or_default();
        }
    }
}

impl Shared {
    fn run(&self, client: &Client) {
        while !self.stopping.load(Ordering::Acquire) {
            client.arm(self.waiter.context);
            let deadline = self.wake(client);
            if !self.stopping.load(Ordering::Acquire) && !client.has_event(self.waiter.context) {
                // Only an invalid descriptor fails here; then no waker can be called any more.
                if self.waiter.sleep(client, None, deadline).is_err() {
                    break;
                }
            }
            client.disarm(self.waiter.context);
        }
        client.close_context(self.waiter.context);
    }

    /// Calls the wakers of changed slots and of due timers; returns the time of the next timer.
    fn wake(&self, client: &Client) -> Option<Instant> {
        let mut called = Vec::new();
        let mut waiting = lock(&self.waiting);
        while let Some(index) = client.next_event(self.waiter.context) {
            if let Some((slot, wakers)) = waiting.slots.remove(&index) {
                client.unwatch(slot, self.waiter.context);
                called.extend(wakers);
            }
        }
        if client.known_dead() {
            called.extend(waiting.slots.drain().flat_map(|(_, (_, wakers))| wakers));
        }
        let now = clock::now();
        while let Some(&Reverse((at, number))) = waiting.timers.peek()
            && (at <= now || !waiting.sleepers.contains_key(&number))
        {
            waiting.timers.pop();
            called.extend(waiting.sleepers.remove(&number));
        }
        let next = waiting.timers.peek().map(|&Reverse((at, _))| at);
        drop(waiting);
        called.into_iter().for_each(Waker::wake);
        next
    }
}

/// Future that ends at its time; see [`Session::sleep`].
///
/// ```
/// use ringway::remote::Session;
/// use std::time::Duration;
///
/// async fn beat(session: Session) {
///     loop {
///         session.sleep(Duration::from_secs(1)).await;
///         println!("a second has passed");
///     }
/// }
/// ```
pub struct Sleep {
    session: Session,
    at: Instant,
    number: Option<u64>,
}

impl Future for Sleep {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if clock::now() >= self.at {
            return Poll::Ready(Ok(()));
        }
        let session = self.session.clone();
        let reactor = match session.reactor() {
            Ok(reactor) => reactor,
            Err(error) => return Poll::Ready(Err(error)),
        };
        let mut waiting = lock(&reactor.shared.waiting);
        let number = match self.number {
            Some(number) if waiting.sleepers.contains_key(&number) => number,
            _ => {
                waiting.next += 1;
                let number = waiting.next;
                waiting.timers.push(Reverse((self.at, number)));
                number
            }
        };
        waiting.sleepers.insert(number, context.waker().clone());
        drop(waiting);
        self.number = Some(number);
        reactor.ring();
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let (Some(number), Some(reactor)) = (self.number, self.session.0.reactor.get()) {
            lock(&reactor.shared.waiting).sleepers.remove(&number);
        }
    }
}

impl Session {
    fn reactor(&self) -> io::Result<&Reactor> {
        if let Some(reactor) = self.0.reactor.get() {
            return Ok(reactor);
        }
        // Of two threads that come here at once, one starts a reactor in vain; that one is stopped.
        let reactor = Reactor::start(&self.0.client)?;
        Ok(self.0.reactor.get_or_init(|| reactor))
    }

    /// Makes the attempt until its result is not EAGAIN.
    async fn until<T>(&self, slot: SlotRef, mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        poll_fn(|context| self.poll_until(context, slot, &mut attempt)).await
    }

    /// Makes the attempt; if its result is EAGAIN, the task is woken when the slot changes.
    pub(super) fn poll_until<T>(
        &self,
        context: &Context<'_>,
        slot: SlotRef,
        mut attempt: impl FnMut() -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        for looked_again in [false, true] {
            match attempt() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                answer => return Poll::Ready(answer),
            }
            if !looked_again {
                match self.reactor() {
                    Ok(reactor) => reactor.watch(self.client(), slot, context.waker()),
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
        }
        Poll::Pending
    }

    /// Like [`connect`](Self::connect).
    ///
    /// # Errors
    /// The errors of `connect`.
    pub async fn connect_async(&self, remote: SocketAddr) -> io::Result<Stream> {
        let stream = self.start_connect(remote)?;
        self.until(stream.slot, || stream.is_open()).await?;
        Ok(stream)
    }

    /// Returns a future that ends after `duration`.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        Sleep { session: self.clone(), at: deadline(duration), number: None }
    }
}

impl Listener {
    /// Like [`accept`](Self::accept).
    ///
    /// # Errors
    /// The errors of `accept`, except EAGAIN.
    pub async fn accept_async(&self) -> io::Result<(Stream, SocketAddr)> {
        self.session.until(self.slot, || self.try_accept()).await
    }
}

impl Stream {
    /// Reads the available bytes, at least one; 0 at the end of the stream.
    ///
    /// # Errors
    /// The errors of a blocking read, except EAGAIN.
    pub async fn read_async(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.session.until(self.slot, || self.try_read(&mut [IoSliceMut::new(buffer)])).await
    }

    /// Like [`read_chunk`](Self::read_chunk).
    ///
    /// # Errors
    /// The errors of `read_chunk`, except EAGAIN.
    pub async fn read_chunk_async(&self) -> io::Result<Option<Chunk<'_>>> {
        self.session.until(self.slot, || self.try_read_chunk()).await
    }

    /// Writes as much as there is space for, at least one byte.
    ///
    /// # Errors
    /// The errors of a blocking write, except EAGAIN.
    pub async fn write_async(&self, bytes: &[u8]) -> io::Result<usize> {
        self.session.until(self.slot, || self.try_write(&[IoSlice::new(bytes)])).await
    }

    /// Writes everything. A future dropped half-way has written a part.
    ///
    /// # Errors
    /// The errors of `write_async`; the number of bytes written is unknown then.
    pub async fn write_all_async(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = self.write_async(bytes).await?;
            bytes = &bytes[count..];
        }
        Ok(())
    }
}

impl UdpSocket {
    /// Like [`send_to`](Self::send_to).
    ///
    /// # Errors
    /// The errors of `send_to`, except EAGAIN.
    pub async fn send_to_async(&self, bytes: &[u8], peer: SocketAddr) -> io::Result<()> {
        let envelope = Envelope { len: bytes.len(), peer: Some(peer), ..Envelope::default() };
        self.session.until(self.slot, || self.try_send(&envelope, &[IoSlice::new(bytes)])).await
    }

    /// Like [`recv_from`](Self::recv_from).
    ///
    /// # Errors
    /// The errors of `recv_from`, except EAGAIN.
    pub async fn recv_from_async(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<SocketAddr>)> {
        let (copied, envelope) = self.session.until(self.slot, || self.try_receive(&mut [IoSliceMut::new(buffer)])).await?;
        Ok((copied, envelope.peer))
    }
}
