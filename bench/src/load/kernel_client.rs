//! The load generator on the kernel's stack: one thread, edge-triggered epoll.
//!
//! Promises: every reply is checked; a lost or refused connection is an error, not a smaller figure.

use std::io::{self, ErrorKind, Read};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use socket2::{Domain, Protocol, Socket, Type};

use super::exchange::{Load, Next};
use super::kernel_server::send;
use super::order::{Outcome, Plan};

/// Events per wait.
const EVENTS: usize = 1024;
const READ_BYTES: usize = 256 << 10;
const SCRATCH_BYTES: usize = 8 << 10;
/// Largest number of connections being opened at a time.
const OPENING_MAX: usize = 256;
/// Time limit for opening all connections, and for the last replies.
const PATIENCE: Duration = Duration::from_secs(20);

/// The client with its connections.
pub struct KernelClient {
    poll: Poll,
    streams: Vec<TcpStream>,
    /// True for each established connection, by its number.
    is_open: Vec<bool>,
    load: Load,
    buffer: Vec<u8>,
    scratch: Vec<u8>,
    touched: Vec<usize>,
}

impl KernelClient {
    /// Opens the connections of a plan, except those that `run` opens (short pace, log).
    ///
    /// # Errors
    /// A connection could not be opened.
    ///
    /// # Blocking
    /// Until all are open, 20 seconds at most.
    pub fn open(plan: Plan) -> io::Result<KernelClient> {
        let load = Load::new(plan, Instant::now());
        let (poll, buffer, scratch) = (Poll::new()?, vec![0; READ_BYTES], vec![0; SCRATCH_BYTES]);
        let mut client =
            KernelClient { poll, streams: Vec::new(), is_open: Vec::new(), load, buffer, scratch, touched: Vec::new() };
        if !client.load.is_short() && !client.load.opens_each() {
            client.open_all()?;
        }
        Ok(client)
    }

    fn open_all(&mut self) -> io::Result<()> {
        let wanted = self.load.plan().connections as usize;
        let limit = Instant::now() + PATIENCE;
        let mut events = Events::with_capacity(EVENTS);
        let mut open = 0;
        while open < wanted {
            while self.streams.len() < wanted && self.streams.len() - open < OPENING_MAX {
                let stream = self.connect(self.streams.len())?;
                self.streams.push(stream);
                self.is_open.push(false);
            }
            if Instant::now() > limit {
                return Err(io::Error::other(format!("only {open} of {wanted} connections were opened within {PATIENCE:?}")));
            }
            wait(&mut self.poll, &mut events, Some(Duration::from_millis(100)))?;
            for event in &events {
                let Token(index) = event.token();
                if !self.is_open[index] && self.is_established(index)? {
                    open += 1;
                }
            }
        }
        Ok(())
    }

    /// Starts opening connection `index`.
    fn connect(&self, index: usize) -> io::Result<TcpStream> {
        let plan = self.load.plan();
        let socket = Socket::new(Domain::for_address(plan.server), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        plan.tuning.apply_at_client(&socket)?;
        if !plan.sources.is_empty() {
            let source = plan.sources[index % plan.sources.len()];
            socket.bind(&std::net::SocketAddr::new(source, 0).into())?;
        }
        if self.load.is_short() || self.load.opens_each() {
            // Reset at the end: without TIME-WAIT, ports do not run out. The server has received all bytes by then.
            socket.set_linger(Some(Duration::ZERO))?;
        }
        match socket.connect(&plan.server.into()) {
            Err(error) if error.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => return Err(error),
            _ => {}
        }
        let mut stream = TcpStream::from_std(socket.into());
        self.poll.registry().register(&mut stream, Token(index), Interest::READABLE | Interest::WRITABLE)?;
        Ok(stream)
    }

    /// Checks a connection attempt; returns true when the connection is established.
    fn is_established(&mut self, index: usize) -> io::Result<bool> {
        if let Some(error) = self.streams[index].take_error()? {
            return Err(error);
        }
        match self.streams[index].peer_addr() {
            Ok(_) => self.is_open[index] = true,
            Err(error) if error.kind() == ErrorKind::NotConnected => {}
            Err(error) => return Err(error),
        }
        Ok(self.is_open[index])
    }

    /// Runs the load for `warmup`, then `measure`, and returns the result.
    ///
    /// # Errors
    /// A connection was lost, or a reply was wrong or missing.
    ///
    /// # Blocking
    /// For that time, and until all replies have arrived.
    pub fn run(&mut self, warmup: Duration, measure: Duration, seed: u64) -> io::Result<Outcome> {
        if self.load.is_short() {
            self.reopen_all()?;
        }
        self.load.load_log(warmup + measure, seed)?;
        let now = Instant::now();
        let (from, to) = (now + warmup, now + warmup + measure);
        let mut touched = std::mem::take(&mut self.touched);
        let (is_short, opens_each) = (self.load.is_short(), self.load.opens_each());
        self.load.begin(now, from..to, seed, |index| touched.push(index));
        let mut events = Events::with_capacity(EVENTS);
        loop {
            for index in touched.drain(..) {
                if opens_each {
                    self.open_for_one(index)?;
                } else if !is_short {
                    self.flush(index)?;
                }
            }
            let now = Instant::now();
            if now > to + PATIENCE {
                return Err(io::Error::other(format!("replies were still missing {PATIENCE:?} after the last request")));
            }
            self.load.tick(now, |index| touched.push(index));
            if self.load.is_over() {
                break;
            }
            if touched.is_empty() {
                // An open loop may have to send at any moment.
                let patience = if self.load.is_open_loop() { Duration::ZERO } else { Duration::from_millis(20) };
                wait(&mut self.poll, &mut events, Some(patience))?;
                for event in &events {
                    let Token(index) = event.token();
                    self.turn(index, event.is_readable() || event.is_read_closed() || event.is_error())?;
                }
            }
        }
        self.touched = touched;
        Ok(self.load.outcome())
    }

    fn turn(&mut self, index: usize, readable: bool) -> io::Result<()> {
        if !self.is_open[index] && !self.is_established(index)? {
            return Ok(());
        }
        if readable {
            let Some(next) = self.read(index)? else { return Ok(()) };
            if next == Next::Replace {
                return self.replace(index);
            }
        }
        self.flush(index)
    }

    /// Reads all available bytes; returns `None` when there were none.
    fn read(&mut self, index: usize) -> io::Result<Option<Next>> {
        let mut next = None;
        loop {
            match self.streams[index].read(&mut self.buffer) {
                Ok(0) => return Err(lost(index)),
                Ok(count) => {
                    let received = self.load.receive(index, Instant::now(), &self.buffer[..count]);
                    next = Some(received.map_err(|corrupt| io::Error::other(corrupt.to_string()))?);
                    if count < self.buffer.len() || next == Some(Next::Replace) {
                        return Ok(next);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(next),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn flush(&mut self, index: usize) -> io::Result<()> {
        send(&mut self.streams[index], self.load.outbox(index), &mut self.scratch)
    }

    /// Opens a connection for one request, in place of the one with this number, which has got its reply.
    fn open_for_one(&mut self, index: usize) -> io::Result<()> {
        let stream = self.connect(index)?;
        if index == self.streams.len() {
            self.streams.push(stream);
            self.is_open.push(false);
        } else {
            self.streams[index] = stream;
            self.is_open[index] = false;
        }
        Ok(())
    }

    /// Opens all connections of a short pace, after closing those of the last run.
    fn reopen_all(&mut self) -> io::Result<()> {
        self.streams.clear();
        for index in 0..self.load.plan().connections as usize {
            let stream = self.connect(index)?;
            self.streams.push(stream);
        }
        self.is_open = vec![false; self.streams.len()];
        Ok(())
    }

    /// Replaces a connection that has carried its share, by closing it and opening the next; not at the run's end.
    fn replace(&mut self, index: usize) -> io::Result<()> {
        if self.load.is_draining() {
            return Ok(());
        }
        let begun = Instant::now();
        self.streams[index] = self.connect(index)?;
        self.is_open[index] = false;
        self.load.reopened(index, begun);
        Ok(())
    }
}

fn wait(poll: &mut Poll, events: &mut Events, patience: Option<Duration>) -> io::Result<()> {
    match poll.poll(events, patience) {
        Err(error) if error.kind() == ErrorKind::Interrupted => {
            events.clear();
            Ok(())
        }
        other => other,
    }
}

fn lost(index: usize) -> io::Error {
    io::Error::other(format!("the server closed connection {index} before its reply"))
}
