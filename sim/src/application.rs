//! Applications: run on a host and use its sockets, driven by events alone.
//!
//! An application acts only on an event or on its own timer, like a program under epoll: when the stack forgets an event,
//! the run stands still.

use ringway_shm::{Duration, Instant};
use ringway_stack::{ActiveOpen, CongestionControl, Event, ReceiveError, SendError, SocketAddress, SocketId, Stack, TcpOptions};

use crate::check::{Failure, failure};
use crate::pattern::Pattern;
use crate::random::Random;

/// What the two ends of a connection do; both derive it from the client's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Bytes from client to server.
    pub up_bytes: u64,
    /// Bytes from server to client.
    pub down_bytes: u64,
    /// Largest write, bytes.
    pub write_max: usize,
    /// Microseconds that a reader pauses after each read; 0: none.
    pub rest_us: u64,
    /// Bytes after which the client resets the connection.
    pub client_aborts_after: Option<u64>,
    /// The same for the server.
    pub server_aborts_after: Option<u64>,
    /// One write in so many is urgent (MSG_OOB, in line); 0: none.
    pub urgent_one_in: u64,
    /// An end may give up although no plan says so.
    pub gives_up: bool,
    /// This end reads nothing, and ends after a while.
    pub never_reads: Option<Side>,
}

/// How long a program lives that never reads: longer than fifteen probes take.
const LIFE: Duration = Duration::from_secs(1_500);
/// Separates the draw of ends that never read from the others of a plan.
const NEVER_READS_SALT: u64 = 0x3861;

/// Approximate maximum of writes in one direction of a connection: a million one-byte writes show no more than two thousand.
const WRITES_MAX: u64 = 2_000;
/// Maximum number of pauses of one reader; then it reads on.
const RESTS_MAX: u32 = 1_000;

/// Ranges from which plans are drawn.
#[derive(Clone, Copy, Debug)]
pub struct Plans {
    /// Seed of all plans.
    pub seed: u64,
    /// Bytes from client to server: minimum, maximum.
    pub up_bytes: (u64, u64),
    /// Bytes from server to client: minimum, maximum.
    pub down_bytes: (u64, u64),
    /// True when readers may be slow.
    pub slow_readers: bool,
    /// One connection in so many is aborted; 0: none.
    pub abort_one_in: u64,
    /// One write in so many is urgent; 0: none.
    pub urgent_one_in: u64,
    /// A peer may stall an end until that end gives up.
    pub gives_up: bool,
    /// In one connection of so many an end never reads; 0: in none.
    pub never_reads_one_in: u64,
}

impl Plans {
    /// Plans in which no end does anything.
    pub fn nothing(seed: u64) -> Plans {
        let (up_bytes, down_bytes) = ((0, 0), (0, 0));
        Plans {
            seed,
            up_bytes,
            down_bytes,
            slow_readers: false,
            abort_one_in: 0,
            urgent_one_in: 0,
            gives_up: false,
            never_reads_one_in: 0,
        }
    }

    /// Returns the plan of the connection from this client port.
    pub fn plan(&self, client_port: u16) -> Plan {
        let mut random = Random::new(self.seed ^ u64::from(client_port) << 32);
        let up_bytes = random.between(self.up_bytes.0, self.up_bytes.1);
        let down_bytes = random.between(self.down_bytes.0, self.down_bytes.1);
        let mut abort =
            |bytes: u64| (self.abort_one_in != 0 && random.one_in(self.abort_one_in)).then(|| random.between(0, bytes));
        let (client_aborts_after, server_aborts_after) = (abort(up_bytes), abort(down_bytes));
        Plan {
            up_bytes,
            down_bytes,
            write_max: (1 + random.magnitude(1 << 17)).max(up_bytes.max(down_bytes) / WRITES_MAX) as usize,
            rest_us: if self.slow_readers && random.one_in(3) { random.magnitude(200_000) } else { 0 },
            client_aborts_after,
            server_aborts_after,
            urgent_one_in: self.urgent_one_in,
            gives_up: self.gives_up,
            never_reads: self.never_reads(client_port),
        }
    }

    fn never_reads(&self, client_port: u16) -> Option<Side> {
        let mut random = Random::new(self.seed ^ NEVER_READS_SALT ^ u64::from(client_port) << 32);
        let is_drawn = self.never_reads_one_in != 0 && random.one_in(self.never_reads_one_in);
        is_drawn.then(|| if random.one_in(2) { Side::Client } else { Side::Server })
    }
}

/// End of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Opened actively.
    Client,
    /// Accepted.
    Server,
}

/// Result of a connection for one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All bytes and FINs in both directions.
    Complete,
    /// This end gave up as planned.
    Aborted,
    /// The stack reported an error.
    Failed(ringway_stack::SocketError),
}

/// One end of one connection.
#[derive(Debug)]
pub struct Endpoint {
    side: Side,
    id: SocketId,
    plan: Plan,
    outgoing: Pattern,
    incoming: Pattern,
    sent: u64,
    received: u64,
    write_closed: bool,
    read_closed: bool,
    closed: bool,
    outcome: Option<Outcome>,
    gone: bool,
    ready: bool,
    rests_until: Option<Instant>,
    /// When a program that never reads ends.
    life_ends: Option<Instant>,
    rests: u32,
    writes: u64,
}

impl Endpoint {
    fn new(side: Side, id: SocketId, plan: Plan, pattern: &Pattern, client_port: u16) -> Endpoint {
        let up = pattern.stream(u64::from(client_port));
        let down = pattern.stream(u64::from(client_port) + 65_536);
        let (outgoing, incoming) = if side == Side::Client { (up, down) } else { (down, up) };
        Endpoint {
            side,
            id,
            plan,
            outgoing,
            incoming,
            sent: 0,
            received: 0,
            write_closed: false,
            read_closed: false,
            closed: false,
            outcome: None,
            gone: false,
            ready: false,
            rests_until: None,
            life_ends: None,
            rests: 0,
            writes: 0,
        }
    }

    fn bytes(&self) -> (u64, u64) {
        match self.side {
            Side::Client => (self.plan.up_bytes, self.plan.down_bytes),
            Side::Server => (self.plan.down_bytes, self.plan.up_bytes),
        }
    }

    /// Does what can be done now. Returns true when it did anything.
    fn work(&mut self, now: Instant, stack: &mut Stack) -> Result<bool, Failure> {
        if self.rests_until.is_some_and(|until| until <= now) {
            self.rests_until = None;
            self.ready = true;
        }
        if !self.ready || self.closed {
            return Ok(false);
        }
        self.ready = false;
        let before = (self.sent, self.received);
        let reads = self.plan.never_reads != Some(self.side);
        let life_ends = *self.life_ends.get_or_insert(now + LIFE);
        if self.aborts() || !reads && life_ends <= now {
            stack.abort(now, self.id);
            (self.closed, self.outcome) = (true, Some(Outcome::Aborted));
            return Ok(true);
        }
        self.write(now, stack)?;
        if !reads {
            self.rests_until = Some(life_ends);
        } else if self.rests_until.is_none() {
            self.read(now, stack)?;
        }
        if self.write_closed && self.read_closed && !self.closed {
            stack.close(now, self.id);
            (self.closed, self.outcome) = (true, Some(Outcome::Complete));
        }
        Ok(self.closed || before != (self.sent, self.received))
    }

    fn aborts(&self) -> bool {
        let limit = match self.side {
            Side::Client => self.plan.client_aborts_after,
            Side::Server => self.plan.server_aborts_after,
        };
        limit.is_some_and(|limit| self.sent >= limit)
    }

    fn write(&mut self, now: Instant, stack: &mut Stack) -> Result<(), Failure> {
        let (total, _) = self.bytes();
        while self.sent < total {
            let count = (total - self.sent).min(self.plan.write_max as u64) as usize;
            let (mut offset, outgoing) = (self.sent, &self.outgoing);
            let mut copy = |piece: &mut [u8]| {
                outgoing.fill(offset, piece);
                offset += piece.len() as u64;
            };
            match stack.send_with(self.id, count, &mut copy) {
                Ok(0) => return failure("send_with took nothing and said so"),
                Ok(taken) if taken > count || offset != self.sent + taken as u64 => {
                    return failure(format!("send_with took {taken} of {count} but asked for {}", offset - self.sent));
                }
                Ok(taken) => {
                    self.sent += taken as u64;
                    self.writes += 1;
                    let one_in = self.plan.urgent_one_in;
                    if one_in != 0 && self.writes.is_multiple_of(one_in) {
                        stack.mark_urgent(self.id, 0);
                    }
                }
                Err(SendError::WouldBlock) => return Ok(()),
                Err(SendError::Closed | SendError::NotConnected) => return Ok(()),
            }
        }
        if !self.write_closed {
            self.write_closed = true;
            stack.shutdown_write(now, self.id);
        }
        Ok(())
    }

    /// RFC 9293 §3.8.5: checks that the urgent byte is the stream's byte at its place, and one that was sent.
    fn check_urgent(&self, stack: &Stack) -> Result<(), Failure> {
        let Some(urgent) = stack.urgent(self.id) else { return Ok(()) };
        let (_, expected) = self.bytes();
        let wrong = urgent.byte.is_some_and(|byte| self.incoming.matching(urgent.at.into(), &[byte]) == 0);
        if self.plan.urgent_one_in == 0 || u64::from(urgent.at) >= expected || wrong {
            return failure(format!("{:?}: {urgent:?} of {expected} bytes, never sent", self.side));
        }
        Ok(())
    }

    fn read(&mut self, now: Instant, stack: &mut Stack) -> Result<(), Failure> {
        loop {
            match stack.take_frame(self.id) {
                Ok(frame) => {
                    let good = self.incoming.matching(self.received, frame.bytes());
                    if good < frame.len() {
                        return failure(format!("{:?}: byte {} of the stream is wrong", self.side, self.received + good as u64));
                    }
                    self.received += frame.len() as u64;
                    let len = frame.len();
                    drop(frame);
                    stack.consumed(self.id, len);
                    if self.plan.rest_us > 0 && self.rests < RESTS_MAX {
                        self.rests += 1;
                        self.rests_until = Some(now + Duration::from_micros(self.plan.rest_us));
                        return Ok(());
                    }
                }
                Err(ReceiveError::EndOfStream) => return self.end_of_stream(),
                Err(ReceiveError::WouldBlock | ReceiveError::NotConnected | ReceiveError::Failed(_)) => return Ok(()),
            }
        }
    }

    fn end_of_stream(&mut self) -> Result<(), Failure> {
        let (_, expected) = self.bytes();
        self.read_closed = true;
        if self.received == expected {
            return Ok(());
        }
        failure(format!("{:?}: the stream ended after {} of {expected} bytes", self.side, self.received))
    }

    /// Returns true when the connection was reset although no plan said so.
    fn on_failed(&mut self, now: Instant, stack: &mut Stack, error: ringway_stack::SocketError) -> bool {
        let Plan { client_aborts_after, server_aborts_after, gives_up, never_reads, .. } = self.plan;
        let planned = client_aborts_after.is_some() || server_aborts_after.is_some() || never_reads.is_some() || gives_up;
        let lost = !planned && self.outcome.is_none() && error == ringway_stack::SocketError::Reset;
        self.outcome.get_or_insert(Outcome::Failed(error));
        if !self.closed {
            self.closed = true;
            stack.close(now, self.id);
        }
        self.gone = true;
        lost
    }
}

/// Connection to be opened.
#[derive(Clone, Copy, Debug)]
struct Opening {
    local: Option<SocketAddress>,
    remote: SocketAddress,
    side: Side,
}

/// The application of a host.
#[derive(Debug)]
pub struct Application {
    plans: Plans,
    pattern: Pattern,
    options: TcpOptions,
    listener: Option<SocketId>,
    endpoints: Vec<Endpoint>,
    /// Connections still to be opened, the next one last.
    to_open: Vec<Opening>,
    open_at_once: usize,
    mixed_control: bool,
    lost_peers: u64,
}

/// User token of the listener; an endpoint's token is its index.
const LISTENER: u64 = u64::MAX;

impl Application {
    /// Makes an application that does nothing until told to listen or to connect.
    pub fn new(plans: Plans, pattern: &Pattern, options: TcpOptions) -> Application {
        Application {
            plans,
            pattern: pattern.clone(),
            options,
            listener: None,
            endpoints: Vec::new(),
            to_open: Vec::new(),
            open_at_once: 1,
            mixed_control: false,
            lost_peers: 0,
        }
    }

    /// Selects whether each opened connection uses another congestion control than the one before.
    pub fn mix_control(&mut self, mixed: bool) {
        self.mixed_control = mixed;
    }

    /// Sets the congestion control of what it opens from now on.
    pub fn set_control(&mut self, control: CongestionControl) {
        self.options.congestion_control = control;
    }

    /// Listens on `local`.
    ///
    /// # Panics
    /// When the stack refuses.
    pub fn listen(&mut self, stack: &mut Stack, local: SocketAddress, backlog: u32) {
        self.listener = Some(stack.listen(local, backlog, self.options, LISTENER).expect("the port is free"));
    }

    /// Opens `count` connections to `server`, `at_once` at a time.
    pub fn connect(&mut self, server: SocketAddress, count: usize, at_once: usize) {
        let opening = Opening { local: None, remote: server, side: Side::Client };
        (self.to_open, self.open_at_once) = (vec![opening; count], at_once);
    }

    /// Opens one connection actively, in the role of either side, for a simultaneous open (RFC 9293 §3.5). `local` and
    /// `remote` have the same port.
    pub fn connect_as(&mut self, side: Side, local: SocketAddress, remote: SocketAddress) {
        self.to_open.push(Opening { local: Some(local), remote, side });
    }

    /// Returns the outcome of each connection so far, if it has ended.
    pub fn outcomes(&self) -> impl Iterator<Item = Option<Outcome>> + '_ {
        self.endpoints.iter().map(|endpoint| endpoint.outcome)
    }

    /// Returns the same for connections of which both ends read.
    pub fn outcomes_of_readers(&self) -> impl Iterator<Item = Option<Outcome>> + '_ {
        self.endpoints.iter().filter(|endpoint| endpoint.plan.never_reads.is_none()).map(|endpoint| endpoint.outcome)
    }

    /// Returns the same for ends whose peer never reads, and whether they had bytes left to send.
    pub fn outcomes_beside_never_readers(&self) -> impl Iterator<Item = (Option<Outcome>, bool)> + '_ {
        let beside = |endpoint: &&Endpoint| endpoint.plan.never_reads.is_some_and(|side| side != endpoint.side);
        self.endpoints.iter().filter(beside).map(|endpoint| (endpoint.outcome, endpoint.sent < endpoint.bytes().0))
    }

    /// Returns the payload bytes received in order.
    pub fn received_bytes(&self) -> u64 {
        self.endpoints.iter().map(|endpoint| endpoint.received).sum()
    }

    /// Returns the number of ends whose peer is gone although no plan said so: reset, or left alone.
    pub fn lost_peers(&self) -> u64 {
        self.lost_peers
    }

    /// Gives up all ends that still wait, if there are at most `most`. Returns true when it did.
    pub fn lose_patience(&mut self, now: Instant, stack: &mut Stack, most: u64) -> bool {
        let waits = |endpoint: &&mut Endpoint| !endpoint.gone && !endpoint.closed;
        let count = self.endpoints.iter_mut().filter(waits).count() as u64;
        if count == 0 || count > most {
            return false;
        }
        for endpoint in self.endpoints.iter_mut().filter(waits) {
            stack.abort(now, endpoint.id);
            (endpoint.closed, endpoint.outcome) = (true, Some(Outcome::Aborted));
        }
        self.lost_peers += count;
        true
    }

    /// Returns true when all its connections have been opened and have ended.
    pub fn is_done(&self) -> bool {
        self.to_open.is_empty() && self.endpoints.iter().all(|endpoint| endpoint.outcome.is_some() && endpoint.gone)
    }

    /// Describes what it waits for, for the report.
    pub fn describe(&self, stack: &Stack) -> String {
        let open = self.endpoints.iter().enumerate().filter(|(_, endpoint)| !endpoint.gone);
        let lines = open.take(5).map(|(index, endpoint)| {
            format!(
                "endpoint {index} {:?} sent {} received {} closed {} {:?} rests {:?} info {:?}",
                endpoint.side,
                endpoint.sent,
                endpoint.received,
                endpoint.closed,
                stack.readiness(endpoint.id),
                endpoint.rests_until,
                stack.info(endpoint.id)
            )
        });
        format!("{} to open; {}", self.to_open.len(), lines.collect::<Vec<_>>().join("\n"))
    }

    /// Returns the time at which it wants to work without an event.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.endpoints.iter().filter(|endpoint| !endpoint.closed).filter_map(|endpoint| endpoint.rests_until).min()
    }

    /// Handles one event.
    ///
    /// # Errors
    /// When the event is one that must not happen.
    pub fn on_event(&mut self, now: Instant, stack: &mut Stack, event: Event) -> Result<(), Failure> {
        match event {
            Event::Accepted { listener, .. } => self.accept_all(stack, listener),
            Event::Connected { user_token, .. } | Event::Ready { user_token, .. } => {
                if user_token != LISTENER {
                    self.endpoint(user_token)?.ready = true;
                }
                Ok(())
            }
            Event::Failed { user_token, error, .. } => {
                let lost = self.endpoint(user_token)?.on_failed(now, stack, error);
                self.lost_peers += u64::from(lost);
                Ok(())
            }
            Event::Closed { user_token, .. } => {
                if user_token != LISTENER {
                    self.endpoint(user_token)?.gone = true;
                }
                Ok(())
            }
            Event::Urgent { user_token, .. } => self.endpoint(user_token)?.check_urgent(stack),
            Event::Address { .. } => Ok(()),
            Event::ResolveNeighbor { .. } => failure("an owned interface asks the kernel for a neighbor"),
        }
    }

    fn endpoint(&mut self, user_token: u64) -> Result<&mut Endpoint, Failure> {
        let text = format!("an event for unknown token {user_token}");
        self.endpoints.get_mut(user_token as usize).ok_or(Failure(text))
    }

    fn accept_all(&mut self, stack: &mut Stack, listener: SocketId) -> Result<(), Failure> {
        while let Ok(id) = stack.accept(listener, self.endpoints.len() as u64) {
            let Some((_, remote)) = stack.addresses(id) else { return failure("an accepted connection has no addresses") };
            let plan = self.plans.plan(remote.port);
            let mut endpoint = Endpoint::new(Side::Server, id, plan, &self.pattern, remote.port);
            // Data that arrived before the accept was announced to the listener.
            endpoint.ready = true;
            self.endpoints.push(endpoint);
        }
        Ok(())
    }

    /// Does what can be done now. Returns true when it did anything.
    ///
    /// # Errors
    /// When a stream is wrong.
    pub fn work(&mut self, now: Instant, stack: &mut Stack) -> Result<bool, Failure> {
        let mut progress = self.open_more(now, stack)?;
        for endpoint in &mut self.endpoints {
            progress |= endpoint.work(now, stack)?;
        }
        Ok(progress)
    }

    fn open_more(&mut self, now: Instant, stack: &mut Stack) -> Result<bool, Failure> {
        let open = self.endpoints.iter().filter(|endpoint| !endpoint.gone).count();
        let count = self.open_at_once.saturating_sub(open).min(self.to_open.len());
        for opening in self.to_open.split_off(self.to_open.len() - count) {
            let user_token = self.endpoints.len() as u64;
            let mut options = self.options;
            if self.mixed_control {
                let all = CongestionControl::ALL;
                options.congestion_control = all[self.endpoints.len() % all.len()];
            }
            let open = ActiveOpen { local: opening.local, remote: opening.remote, options, user_token };
            let id = match stack.connect(now, open) {
                Ok(id) => id,
                Err(error) => return failure(format!("connect: {error:?}")),
            };
            let Some((local, _)) = stack.addresses(id) else { return failure("a connection has no addresses") };
            let plan = self.plans.plan(local.port);
            let mut endpoint = Endpoint::new(opening.side, id, plan, &self.pattern, local.port);
            // RFC 7413: data written now may go with the SYN; with nothing to write the open would wait for ever.
            endpoint.ready = self.options.fast_open;
            self.endpoints.push(endpoint);
        }
        Ok(count > 0)
    }
}
