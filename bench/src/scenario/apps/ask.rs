//! `ringway bench ask`: a closed loop in a server's own protocol, for servers without an installed load generator.
//!
//! Promises: every reply is compared byte by byte; latency is from the request (on short connections,
//! from the connect) to the end of the reply. Does not do: pipelining, several threads.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use serde::{Deserialize, Serialize};

use super::program::{BODY, FILE};
use crate::load::latency::Latencies;

/// Arguments of `ringway bench ask`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Protocol of the server
    #[arg(value_enum)]
    language: Language,
    /// Address of the server
    server: SocketAddr,
    /// Number of open connections
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,
    /// Seconds to run
    #[arg(long, default_value_t = 1)]
    seconds: u32,
    /// Send one request per connection
    #[arg(long)]
    short: bool,
    /// Send one request in all
    #[arg(long)]
    once: bool,
}

/// Protocol of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Language {
    Http,
    Redis,
    Memcached,
}

/// The result, printed as JSON on standard output.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(super) struct Told {
    pub(super) replies: u64,
    pub(super) seconds: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
}

/// A request and its expected reply.
struct Dialogue {
    /// Request and reply of a first, single exchange.
    before: Option<(Vec<u8>, Vec<u8>)>,
    request: Vec<u8>,
    /// The whole reply, or its beginning when the rest may differ.
    reply: Vec<u8>,
}

const LONGEST_WAIT: Duration = Duration::from_secs(10);

impl Language {
    fn dialogue(self) -> Dialogue {
        let text = |text: String| text.into_bytes();
        match self {
            Language::Http => Dialogue {
                before: None,
                request: text(format!("GET /{FILE} HTTP/1.1\r\nHost: bench\r\n\r\n")),
                reply: text("HTTP/1.1 200 OK\r\n".into()),
            },
            Language::Redis => Dialogue { before: None, request: text("PING\r\n".into()), reply: text("+PONG\r\n".into()) },
            Language::Memcached => Dialogue {
                before: Some((text(format!("set key 0 0 {}\r\n{BODY}\r\n", BODY.len())), text("STORED\r\n".into()))),
                request: text("get key\r\n".into()),
                reply: text(format!("VALUE key 0 {}\r\n{BODY}\r\nEND\r\n", BODY.len())),
            },
        }
    }
}

/// Runs the loop and prints the result.
pub fn run(arguments: &Arguments) -> ExitCode {
    let done = ask(arguments).and_then(|told| {
        let line = serde_json::to_string(&told).expect("numbers under text keys");
        writeln!(io::stdout(), "{line}")
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ringway bench ask: {}: {error}", arguments.server);
            ExitCode::FAILURE
        }
    }
}

fn ask(arguments: &Arguments) -> io::Result<Told> {
    let dialogue = arguments.language.dialogue();
    if let Some((request, reply)) = &dialogue.before {
        once(arguments.server, request, reply)?;
    }
    if arguments.once || arguments.language == Language::Http {
        once(arguments.server, &dialogue.request, &dialogue.reply)?;
        return Ok(Told { replies: 1, ..Told::default() });
    }
    Asker::new(arguments, &dialogue)?.run(Duration::from_secs(u64::from(arguments.seconds)))
}

/// Sends one request on a new connection and checks the reply.
fn once(server: SocketAddr, request: &[u8], reply: &[u8]) -> io::Result<()> {
    let mut stream = std::net::TcpStream::connect_timeout(&server, LONGEST_WAIT)?;
    stream.set_read_timeout(Some(LONGEST_WAIT))?;
    stream.write_all(request)?;
    let mut got = vec![0; reply.len()];
    stream.read_exact(&mut got)?;
    if got == reply { Ok(()) } else { Err(wrong(&got)) }
}

fn wrong(got: &[u8]) -> io::Error {
    io::Error::other(format!("the reply is wrong: {:?}", String::from_utf8_lossy(&got[..got.len().min(80)])))
}

struct Connection {
    stream: TcpStream,
    begun: Instant,
    sent: usize,
    got: Vec<u8>,
}

struct Asker<'a> {
    server: SocketAddr,
    is_short: bool,
    dialogue: &'a Dialogue,
    poll: Poll,
    connections: Vec<Connection>,
    latencies: Latencies,
}

impl<'a> Asker<'a> {
    fn new(arguments: &Arguments, dialogue: &'a Dialogue) -> io::Result<Asker<'a>> {
        let mut asker = Asker {
            server: arguments.server,
            is_short: arguments.short,
            dialogue,
            poll: Poll::new()?,
            connections: Vec::new(),
            latencies: Latencies::default(),
        };
        for index in 0..arguments.connections as usize {
            let connection = asker.open(index)?;
            asker.connections.push(connection);
        }
        Ok(asker)
    }

    fn open(&self, index: usize) -> io::Result<Connection> {
        let begun = Instant::now();
        let mut stream = TcpStream::connect(self.server)?;
        self.poll.registry().register(&mut stream, Token(index), Interest::READABLE | Interest::WRITABLE)?;
        Ok(Connection { stream, begun, sent: 0, got: Vec::new() })
    }

    fn run(&mut self, time: Duration) -> io::Result<Told> {
        let mut events = Events::with_capacity(1024);
        let begun = Instant::now();
        while begun.elapsed() < time {
            self.poll.poll(&mut events, Some(LONGEST_WAIT))?;
            if events.is_empty() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, format!("no reply for {LONGEST_WAIT:?}")));
            }
            for event in &events {
                self.advance(event.token().0)?;
            }
        }
        let (p50_us, p99_us) = (self.latencies.percentile_us(50.0), self.latencies.percentile_us(99.0));
        Ok(Told { replies: self.latencies.count(), seconds: begun.elapsed().as_secs_f64(), p50_us, p99_us })
    }

    /// Sends the rest of the request and reads all available bytes; a whole reply starts the next request.
    fn advance(&mut self, index: usize) -> io::Result<()> {
        loop {
            if !self.send(index)? || !self.receive(index)? {
                return Ok(());
            }
            let connection = &mut self.connections[index];
            if connection.got != self.dialogue.reply {
                return Err(wrong(&connection.got));
            }
            self.latencies.add(connection.begun.elapsed());
            if self.is_short {
                // Fails when the server has closed first.
                connection.stream.shutdown(Shutdown::Both).unwrap_or_default();
                let next = self.open(index)?;
                self.connections[index] = next;
                return Ok(());
            }
            connection.got.clear();
            connection.sent = 0;
            connection.begun = Instant::now();
        }
    }

    /// Sends the request; returns true when all of it is sent.
    fn send(&mut self, index: usize) -> io::Result<bool> {
        let (connection, request) = (&mut self.connections[index], &self.dialogue.request);
        while connection.sent < request.len() {
            match connection.stream.write(&request[connection.sent..]) {
                Ok(count) => connection.sent += count,
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected) => {
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Reads the reply; returns true when all of it has arrived.
    fn receive(&mut self, index: usize) -> io::Result<bool> {
        let (connection, length) = (&mut self.connections[index], self.dialogue.reply.len());
        let mut buffer = [0; 4096];
        while connection.got.len() < length {
            let room = buffer.len().min(length - connection.got.len());
            match connection.stream.read(&mut buffer[..room]) {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed a connection")),
                Ok(count) => connection.got.extend_from_slice(&buffer[..count]),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected) => {
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
