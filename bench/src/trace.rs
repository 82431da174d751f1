//! The traces for instruction counts.

use ringway_device::memory::MemoryOptions;
use ringway_shm::Instant;
use ringway_stack::{SendError, SocketId, Stack};

use crate::pair::{self, Application, Pair};

/// Payload of a full segment with an MTU of 1500 and timestamps.
pub const SEGMENT_BYTES: u64 = 1_448;
/// Payload of a small message.
pub const MESSAGE_BYTES: usize = 64;
/// Largest write of a bulk sender.
const WRITE_BYTES: usize = 65_536;

/// A trace with its name, its unit and the function that runs it.
pub struct Trace {
    /// Name on the command line.
    pub name: &'static str,
    /// Description of one unit.
    pub unit: &'static str,
    run: fn(u64),
}

impl Trace {
    /// Runs the trace for about `units` units.
    pub fn run(&self, units: u64) {
        (self.run)(units);
    }
}

/// All traces, in the order of the report.
pub const TRACES: &[Trace] = &[
    Trace { name: "message-1", unit: "64 B request and response, 1 connection", run: |units| messages(units, 1, plain()) },
    Trace {
        name: "message-64",
        unit: "64 B request and response, 64 connections at once",
        run: |units| messages(units, 64, plain()),
    },
    Trace {
        name: "message-32-trusted",
        unit: "64 B request and response, 32 connections at once, checksums left to the link",
        run: |units| messages(units, 32, trusted()),
    },
    Trace {
        name: "connection-32",
        unit: "connection of 64 B and 64 B back that the server closes, 32 at once",
        run: |units| connections(units, 32, plain()),
    },
    Trace { name: "send", unit: "1448 B sent in MTU-sized packets with checksum", run: |units| send(units, plain()) },
    Trace { name: "send-offload", unit: "1448 B sent in segments up to 64 KiB", run: |units| send(units, offloading()) },
    Trace { name: "receive", unit: "1448 B received in MTU-sized packets with checksum", run: |units| receive(units, plain()) },
    Trace {
        name: "receive-offload",
        unit: "1448 B received in segments up to 64 KiB",
        run: |units| receive(units, offloading()),
    },
];

/// A wire with a queue for a whole window.
fn plain() -> MemoryOptions {
    MemoryOptions { queue_packets: 4_096, ..MemoryOptions::default() }
}

/// MTU-sized packets that need no checksums, as on the local memory link.
fn trusted() -> MemoryOptions {
    MemoryOptions { partial_checksums: true, ..plain() }
}

fn offloading() -> MemoryOptions {
    MemoryOptions { queue_packets: 4_096, ..MemoryOptions::offloading() }
}

/// Requests and responses: each connection has one request in flight.
fn messages(units: u64, flows: usize, options: MemoryOptions) {
    let mut pair = Pair::new(flows, options);
    let (mut client, mut server) = (Requests::default(), Responses);
    for socket in pair.client.sockets.clone() {
        send_message(&mut pair.client.stack, socket);
    }
    while client.answers < units {
        pair.turn(&mut client, &mut server);
    }
}

/// Sends the next request when the response has arrived.
#[derive(Default)]
struct Requests {
    answers: u64,
}

impl Application for Requests {
    fn ready(&mut self, _: Instant, stack: &mut Stack, socket: SocketId) {
        if take_all(stack, socket) >= MESSAGE_BYTES {
            self.answers += 1;
            send_message(stack, socket);
        }
    }
}

/// Answers each request.
struct Responses;

impl Application for Responses {
    fn ready(&mut self, _: Instant, stack: &mut Stack, socket: SocketId) {
        if take_all(stack, socket) >= MESSAGE_BYTES {
            send_message(stack, socket);
        }
    }
}

/// Short connections: each carries one request and response and is closed, first by the server.
fn connections(units: u64, at_once: usize, options: MemoryOptions) {
    let mut pair = Pair::new(0, options);
    let (mut client, mut server) = (Visits::default(), Receptions);
    for _ in 0..at_once {
        pair::open(&mut pair.client.stack, pair.now);
    }
    while client.answers < units {
        pair.turn(&mut client, &mut server);
    }
}

/// Sends a request when connected, closes after the response, and opens the next connection.
#[derive(Default)]
struct Visits {
    answers: u64,
}

impl Application for Visits {
    fn ready(&mut self, now: Instant, stack: &mut Stack, socket: SocketId) {
        if take_all(stack, socket) < MESSAGE_BYTES {
            send_message(stack, socket);
            return;
        }
        self.answers += 1;
        stack.close(now, socket);
        pair::open(stack, now);
    }
}

/// Answers a request and closes.
struct Receptions;

impl Application for Receptions {
    fn ready(&mut self, now: Instant, stack: &mut Stack, socket: SocketId) {
        if take_all(stack, socket) >= MESSAGE_BYTES {
            send_message(stack, socket);
            stack.close(now, socket);
        }
    }
}

/// The server sends, the client reads.
fn send(units: u64, options: MemoryOptions) {
    let mut pair = Pair::new(1, options);
    let (mut client, mut server) = (Sink::default(), Source);
    Source.ready(pair.now, &mut pair.server.stack, pair.server.sockets[0]);
    while client.bytes < units * SEGMENT_BYTES {
        pair.turn(&mut client, &mut server);
    }
}

/// The client sends, the server reads.
fn receive(units: u64, options: MemoryOptions) {
    let mut pair = Pair::new(1, options);
    let (mut client, mut server) = (Source, Sink::default());
    Source.ready(pair.now, &mut pair.client.stack, pair.client.sockets[0]);
    while server.bytes < units * SEGMENT_BYTES {
        pair.turn(&mut client, &mut server);
    }
}

/// Keeps the send buffer full.
struct Source;

impl Application for Source {
    fn ready(&mut self, _: Instant, stack: &mut Stack, socket: SocketId) {
        loop {
            match stack.send_from(socket, WRITE_BYTES, &mut &PAYLOAD[..]) {
                Ok(_) => {}
                Err(SendError::WouldBlock) => return,
                Err(error) => panic!("a connection of the benchmark refuses bytes: {error:?}"),
            }
        }
    }
}

/// Reads and discards.
#[derive(Default)]
struct Sink {
    bytes: u64,
}

impl Application for Sink {
    fn ready(&mut self, _: Instant, stack: &mut Stack, socket: SocketId) {
        self.bytes += take_all(stack, socket) as u64;
    }
}

fn send_message(stack: &mut Stack, socket: SocketId) {
    let sent = stack.send_from(socket, MESSAGE_BYTES, &mut &PAYLOAD[..MESSAGE_BYTES]);
    assert_eq!(sent, Ok(MESSAGE_BYTES), "a small message always fits");
}

/// Reads all available bytes; returns their number.
fn take_all(stack: &mut Stack, socket: SocketId) -> usize {
    stack.read_with(socket, usize::MAX, &mut |_| ()).unwrap_or(0)
}

static PAYLOAD: [u8; WRITE_BYTES] = [0x5a; WRITE_BYTES];

#[cfg(test)]
mod tests;
