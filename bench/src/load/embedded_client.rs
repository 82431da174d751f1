//! The load generator on Ringway's stack, with the native API.
//!
//! It gives the same load as `kernel_client`. The clock is read once per iteration: before the replies of the iteration are
//! read, and before its requests are sent, so that latencies are never too short. Promises: every reply is checked; a lost
//! or refused connection is an error, not a smaller figure.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use ringway::{CongestionControl, Content, Event, Net, TcpStream, TcpStreamId};

use super::embedded_server::{read, send};
use super::exchange::{Load, Next};
use super::message;
use super::message::Corrupt;
use super::order::{Order, Outcome, Plan};
use super::tuning::add_timely;

/// Largest number of connections being opened at a time.
const OPENING_MAX: usize = 1024;
/// Time limit for opening all connections, beyond a millisecond each, and for the last replies.
const PATIENCE: Duration = Duration::from_secs(20);
/// Interval at which an idle run checks the time.
const TICK: Duration = Duration::from_millis(5);

/// The client with its connections.
pub struct EmbeddedClient {
    net: Net,
    timely: CongestionControl,
    load: Option<Load>,
    streams: Vec<Option<TcpStreamId>>,
    /// The client's number of each connection, by the number that the `Net` gives it.
    numbers: Vec<usize>,
    open: usize,
    content: Content,
}

impl EmbeddedClient {
    /// Creates a client on a stack that has its interfaces.
    pub fn new(mut net: Net) -> EmbeddedClient {
        let (timely, content) = (add_timely(&mut net), message::content());
        EmbeddedClient { net, timely, load: None, streams: Vec::new(), numbers: Vec::new(), open: 0, content }
    }

    /// The client's stack.
    pub fn net(&mut self) -> &mut Net {
        &mut self.net
    }

    /// Runs the stack until an order arrives; returns `None` when no more will arrive.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn idle(&mut self, orders: &Receiver<Order>) -> io::Result<Option<Order>> {
        loop {
            match orders.try_recv() {
                Ok(order) => return Ok(Some(order)),
                Err(TryRecvError::Disconnected) => return Ok(None),
                Err(TryRecvError::Empty) => self.net.wait()?,
            }
            while let Some(event) = self.net.next_event() {
                if let Event::Stream(_, ready) = event
                    && (ready.failed || ready.peer_closed)
                    && !self.is_short()
                {
                    return Err(io::Error::other("the server closed a connection that was idle"));
                }
            }
        }
    }

    fn is_short(&self) -> bool {
        self.load.as_ref().is_some_and(Load::is_short)
    }

    fn opens_each(&self) -> bool {
        self.load.as_ref().is_some_and(Load::opens_each)
    }

    /// Opens the connections of a plan, except those that `run` opens (short pace, log).
    ///
    /// # Errors
    /// A connection could not be opened.
    ///
    /// # Blocking
    /// Until all are open.
    pub fn prepare(&mut self, plan: Plan) -> io::Result<()> {
        self.release()?;
        let wanted = plan.connections as usize;
        self.load = Some(Load::new(plan, Instant::now()));
        self.streams = vec![None; wanted];
        if self.is_short() || self.opens_each() {
            return Ok(());
        }
        let limit = Instant::now() + PATIENCE + Duration::from_millis(wanted as u64);
        let timer = self.net.every(TICK, 0);
        let mut begun = 0;
        while self.open < wanted {
            while begun < wanted && begun - self.open < OPENING_MAX {
                self.connect(begun)?;
                begun += 1;
            }
            if Instant::now() > limit {
                return Err(io::Error::other(format!("only {} of {wanted} connections were opened in time", self.open)));
            }
            self.net.wait()?;
            while let Some(event) = self.net.next_event() {
                if let Event::Stream(stream, ready) = event {
                    self.look(stream, ready.connected, ready.failed)?;
                }
            }
        }
        self.net.cancel(timer);
        Ok(())
    }

    fn look(&mut self, stream: TcpStreamId, connected: bool, failed: bool) -> io::Result<()> {
        if failed {
            let why = stream.error(&mut self.net);
            return Err(io::Error::other(format!("a connection failed: {why:?}")));
        }
        self.open += usize::from(connected);
        Ok(())
    }

    /// Closes all connections.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn release(&mut self) -> io::Result<()> {
        for (count, stream) in self.streams.drain(..).flatten().enumerate() {
            stream.abort(&mut self.net);
            // A reset that finds no room at the server is lost, and leaves its connection there for good.
            if count % OPENING_MAX == OPENING_MAX - 1 {
                self.net.turn();
            }
        }
        self.open = 0;
        self.load = None;
        self.net.turn();
        Ok(())
    }

    /// Starts opening connection `number`.
    fn connect(&mut self, number: usize) -> io::Result<()> {
        let plan = self.load.as_ref().expect("it was planned").plan();
        let sources = &plan.sources;
        let local = (!sources.is_empty()).then(|| SocketAddr::new(sources[number % sources.len()], 0));
        let (remote, options) = (plan.server, plan.tuning.options(self.timely));
        let stream = TcpStream::connect_with(&mut self.net, local, remote, options)
            .map(TcpStream::into_id)
            .map_err(|error| io::Error::other(format!("connect: {error:?}")))?;
        if self.numbers.len() <= stream.index() {
            self.numbers.resize(stream.index() + 1, usize::MAX);
        }
        self.numbers[stream.index()] = number;
        self.streams[number] = Some(stream);
        Ok(())
    }

    /// Runs the load for `warmup`, then `measure`, and returns the result.
    ///
    /// # Errors
    /// A connection was lost, or a reply was wrong or missing.
    ///
    /// # Blocking
    /// For that time, and until all replies have arrived.
    pub fn run(&mut self, warmup: Duration, measure: Duration, seed: u64) -> io::Result<Outcome> {
        let is_short = self.is_short();
        let mut load = self.load.take().ok_or_else(|| io::Error::other("a run without a plan"))?;
        load.load_log(warmup + measure, seed)?;
        let opens_each = load.opens_each();
        let now = Instant::now();
        let (from, to) = (now + warmup, now + warmup + measure);
        let mut touched = Vec::new();
        load.begin(now, from..to, seed, |number| touched.push(number));
        self.load = Some(load);
        if is_short {
            self.reopen_all()?;
            touched.clear();
        }
        let timer = self.net.every(TICK, 0);
        let mut now = now;
        loop {
            for number in touched.drain(..) {
                if opens_each {
                    self.open_for_one(number)?;
                } else {
                    self.flush(number)?;
                }
            }
            let load = self.load.as_mut().expect("it was put back");
            load.tick(now, |number| touched.push(number));
            if load.is_over() {
                break;
            }
            if now > to + PATIENCE {
                return Err(io::Error::other(format!("replies were still missing {PATIENCE:?} after the last request")));
            }
            if load.is_open_loop() {
                self.net.turn();
            } else if touched.is_empty() {
                self.net.wait()?;
            }
            now = Instant::now();
            while let Some(event) = self.net.next_event() {
                if let Event::Stream(stream, ready) = event {
                    if ready.connected || ready.failed {
                        self.look(stream, ready.connected, ready.failed)?;
                    }
                    self.turn(stream, now)?;
                }
            }
        }
        self.net.cancel(timer);
        Ok(self.load.as_ref().expect("it was put back").outcome())
    }

    fn turn(&mut self, stream: TcpStreamId, now: Instant) -> io::Result<()> {
        let Some(&number) = self.numbers.get(stream.index()) else { return Ok(()) };
        if self.streams.get(number) != Some(&Some(stream)) {
            // The connection was replaced in this iteration.
            return Ok(());
        }
        let load = self.load.as_mut().expect("events of connections come after a plan");
        let (mut next, mut wrong) = (Next::Continue, None);
        let alive = read(&mut self.net, stream, |bytes| {
            match load.receive(number, now, bytes) {
                Ok(found) => next = found,
                Err(corrupt) => wrong = Some(corrupt),
            }
            wrong.is_none() && next == Next::Continue
        });
        if let Some(corrupt) = wrong {
            return Err(wrong_reply(corrupt));
        }
        match next {
            Next::Replace => self.replace(number),
            Next::Continue if !alive => Err(io::Error::other(format!("the server closed connection {number} before its reply"))),
            Next::Continue => self.flush(number),
        }
    }

    fn flush(&mut self, number: usize) -> io::Result<()> {
        let Some(stream) = self.streams[number] else { return Ok(()) };
        let load = self.load.as_mut().expect("it was planned");
        send(&mut self.net, stream, load.outbox(number), &self.content)
            .map_err(|error| io::Error::other(format!("write: {error:?}")))
    }

    /// Opens a connection for one request, after resetting the one with this number, which has got its reply.
    fn open_for_one(&mut self, number: usize) -> io::Result<()> {
        if let Some(old) = self.streams[number].take() {
            old.abort(&mut self.net);
        }
        self.connect(number)
    }

    /// Opens all connections of a short pace, after resetting those of the last run.
    fn reopen_all(&mut self) -> io::Result<()> {
        for number in 0..self.streams.len() {
            if let Some(old) = self.streams[number].take() {
                old.abort(&mut self.net);
            }
            self.connect(number)?;
        }
        Ok(())
    }

    /// Replaces a connection that has carried its share, by resetting it and opening the next; not at the run's end.
    fn replace(&mut self, number: usize) -> io::Result<()> {
        if self.load.as_ref().is_some_and(Load::is_draining) {
            return Ok(());
        }
        if let Some(old) = self.streams[number].take() {
            old.abort(&mut self.net);
        }
        let begun = Instant::now();
        self.connect(number)?;
        self.load.as_mut().expect("it was planned").reopened(number, begun);
        Ok(())
    }
}

fn wrong_reply(corrupt: Corrupt) -> io::Error {
    io::Error::other(corrupt.to_string())
}
