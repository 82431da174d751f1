//! The calls of a seed: one connection and the calls that two programs may make on it, valid and invalid.

use std::fmt;

use crate::random::Random;

/// Caller of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// On the kernel in the reference, then on Ringway.
    Subject,
    /// Always on the kernel.
    Peer,
}

impl End {
    fn other(self) -> End {
        if self == End::Subject { End::Peer } else { End::Subject }
    }
}

/// How a step's answer is obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From one call.
    Once,
    /// From repeated calls, until one does not return EAGAIN.
    Waits,
    /// From repeated calls, until so many bytes of the stream have moved.
    Stream {
        /// Bytes of the stream that moved before.
        from: u64,
        /// Bytes to move.
        bytes: u64,
    },
    /// From repeated calls that change nothing, until the answer stays the same.
    Settles,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The caller.
    pub end: End,
    /// The call in the language of `agent.py`; the run replaces SERVER and PORT.
    pub call: String,
    /// How the answer is obtained.
    pub kind: Kind,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.end, self.call)
    }
}

/// All calls of a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calls {
    /// Over IPv6.
    pub ipv6: bool,
    /// The end that listens.
    pub server: End,
    /// In order.
    pub steps: Vec<Step>,
}

/// State of one end while its calls are drawn.
#[derive(Clone, Copy, Debug, Default)]
struct Half {
    sent: u64,
    received: u64,
    /// True once it has shut down writing.
    write_closed: bool,
    /// True once it has shut down reading.
    read_closed: bool,
    closed: bool,
}

struct Maker {
    random: Random,
    calls: Calls,
    /// State of subject and peer.
    halves: [Half; 2],
    /// True once an end has reset the connection, or may have.
    broken: bool,
}

/// Maximum of unread bytes on one side: less than any buffer, so that a write ends even if no end reads.
const UNREAD_MAX: u64 = 40_000;
/// Values include invalid ones.
const OPTIONS: [(&str, [i64; 4]); 6] = [
    ("nodelay", [0, 1, 7, -1]),
    ("cork", [0, 1, 2, 0]),
    ("keepalive", [0, 1, 5, 1]),
    ("keepidle", [0, 30, 32_768, 7_200]),
    ("keepcnt", [0, 1, 127, 128]),
    ("reuse", [0, 1, 2, 1]),
];

impl Calls {
    /// Draws the calls from the seed.
    pub fn random(seed: u64) -> Calls {
        let mut random = Random::new(seed);
        let server = if random.one_in(2) { End::Subject } else { End::Peer };
        let calls = Calls { ipv6: random.one_in(3), server, steps: Vec::new() };
        let mut maker = Maker { random, calls, halves: [Half::default(); 2], broken: false };
        maker.open();
        for _ in 0..maker.random.between(2, 14) {
            maker.act();
        }
        maker.finish();
        maker.calls
    }
}

impl Maker {
    fn add(&mut self, end: End, kind: Kind, call: impl Into<String>) {
        self.calls.steps.push(Step { end, call: call.into(), kind });
    }

    fn any_end(&mut self) -> End {
        if self.random.one_in(2) { End::Subject } else { End::Peer }
    }

    fn half(&mut self, end: End) -> &mut Half {
        &mut self.halves[usize::from(end == End::Peer)]
    }

    /// Returns the number of the stream that an end sends.
    fn pattern(end: End) -> u64 {
        if end == End::Subject { 3 } else { 101 }
    }

    /// Opens a listener and a connection, named `it` at both ends.
    fn open(&mut self) {
        let (server, client) = (self.calls.server, self.calls.server.other());
        if self.random.one_in(6) {
            // Nothing listens on the port yet.
            self.add(client, Kind::Once, "open early SERVER");
            self.add(client, Kind::Once, "connect early SERVER PORT");
            self.add(client, Kind::Settles, "poll early");
            self.add(client, Kind::Once, "get early error");
            self.add(client, Kind::Once, "get early error");
            self.add(client, Kind::Once, "recv early 10 0 0");
            self.add(client, Kind::Once, "close early");
        }
        self.add(server, Kind::Once, "open listener SERVER");
        self.add(server, Kind::Once, "listen listener SERVER PORT");
        self.add(server, Kind::Once, "get listener accepting");
        self.add(server, Kind::Once, "accept listener it");
        self.add(client, Kind::Once, "open it SERVER");
        self.add(client, Kind::Once, "state it");
        if self.random.one_in(3) {
            self.add(client, Kind::Once, "send it 3 0 10");
            self.add(client, Kind::Once, "recv it 10 0 0");
            self.add(client, Kind::Once, "peer it");
        }
        if self.random.one_in(2) {
            self.option(client);
        }
        self.add(client, Kind::Once, "connect it SERVER PORT");
        self.add(client, Kind::Settles, "state it");
        self.add(client, Kind::Settles, "poll it");
        self.add(client, Kind::Once, "get it error");
        self.add(server, Kind::Settles, "poll listener");
        self.add(server, Kind::Waits, "accept listener it");
        self.add(server, Kind::Settles, "poll listener");
        self.observe();
    }

    /// Observes both ends.
    fn observe(&mut self) {
        for end in [End::Subject, End::Peer] {
            if !self.half(end).closed {
                self.add(end, Kind::Settles, "state it");
                self.add(end, Kind::Settles, "poll it");
            }
        }
    }

    fn act(&mut self) {
        let end = self.any_end();
        if self.half(end).closed {
            return;
        }
        match self.random.between(0, 11) {
            0..=2 => self.send(end),
            3..=5 => self.receive(end),
            6 => self.shut_down(end),
            7 => self.close(end),
            8 => self.option(end),
            9 => self.wrong(end),
            10 => self.add(end, Kind::Once, "peer it"),
            _ => self.add(end, Kind::Settles, "peek it 5 0 1000000000"),
        }
        self.observe();
    }

    fn send(&mut self, end: End) {
        let other = *self.half(end.other());
        let unread = self.half(end).sent - other.received;
        let bytes = self.random.magnitude(UNREAD_MAX).min(UNREAD_MAX.saturating_sub(unread));
        let nobody_reads = other.closed || other.write_closed && other.read_closed;
        if self.half(end).write_closed || nobody_reads || self.broken {
            self.add(end, Kind::Once, format!("send it {} 0 10", Maker::pattern(end)));
            // Data that no end will read is answered by a reset; after its own shutdown an end sends nothing.
            self.broken |= !self.half(end).write_closed;
            return;
        }
        if bytes == 0 {
            return;
        }
        let from = self.half(end).sent;
        self.half(end).sent += bytes;
        self.add(end, Kind::Stream { from, bytes }, format!("send it {} FROM COUNT", Maker::pattern(end)));
    }

    fn receive(&mut self, end: End) {
        let from = self.half(end).received;
        let unread = self.half(end.other()).sent - from;
        let call = format!("recv it COUNT {} FROM", Maker::pattern(end.other()));
        if unread == 0 || self.broken {
            // Nothing, end of stream or an error: the answer that stays.
            let call = call.replace("COUNT", "9").replace("FROM", "0");
            self.add(end, if self.broken { Kind::Once } else { Kind::Settles }, call);
            return;
        }
        let bytes = self.random.between(1, unread);
        self.half(end).received += bytes;
        self.add(end, Kind::Stream { from, bytes }, call);
    }

    fn shut_down(&mut self, end: End) {
        let how = self.random.between(0, 3);
        self.wait_for_arrivals(end);
        self.add(end, Kind::Once, format!("shutdown it {how}"));
        self.half(end).write_closed |= how == 1 || how == 2;
        self.half(end).read_closed |= how == 0 || how == 2;
    }

    /// Waits for all data: what arrives after the socket's end is reset, and Nagle's rule may still hold back the peer's
    /// last data.
    fn wait_for_arrivals(&mut self, end: End) {
        if !self.broken {
            self.add(end, Kind::Settles, "unread it");
        }
    }

    /// Closes, sometimes with a reset.
    fn close(&mut self, end: End) {
        let unread = self.half(end.other()).sent - self.half(end).received;
        let abrupt = self.random.one_in(3);
        self.wait_for_arrivals(end);
        if abrupt {
            self.add(end, Kind::Once, "linger it 1 0");
        }
        self.add(end, Kind::Once, "close it");
        self.half(end).closed = true;
        self.broken |= abrupt || unread > 0;
        let other = end.other();
        if !self.half(other).closed {
            self.add(other, Kind::Settles, "poll it");
            self.add(other, Kind::Settles, "state it");
        }
    }

    fn option(&mut self, end: End) {
        let (name, values) = OPTIONS[self.random.between(0, OPTIONS.len() as u64 - 1) as usize];
        let value = values[self.random.between(0, 3) as usize];
        self.add(end, Kind::Once, format!("set it {name} {value}"));
        self.add(end, Kind::Once, format!("get it {name}"));
    }

    /// Adds calls that are invalid here.
    fn wrong(&mut self, end: End) {
        let call = ["connect it SERVER PORT", "accept it never", "get it type", "set it error 1", "get it accepting"];
        let call = call[self.random.between(0, call.len() as u64 - 1) as usize];
        self.add(end, Kind::Once, call);
    }

    /// Closes everything.
    fn finish(&mut self) {
        for end in [End::Subject, End::Peer] {
            if !self.half(end).closed {
                self.close(end);
            }
        }
        let server = self.calls.server;
        self.add(server, Kind::Once, "close listener");
    }
}
