//! What a worker and the service say to each other when a socket goes home to the kernel. Read docs/handover.md first.

use std::fmt;

use ringway_channel::{ProcessDescriptor, SlotRef};
use ringway_stack::TcpOptions;
use ringway_stack::handover::{ConnectionImage, ImportError};

use crate::command::RegionId;

/// A connection that has left the stack, and what lay in its slot.
#[derive(Clone, Debug, PartialEq)]
pub struct Departure {
    /// The connection. The stack holds its flow: segments for it are dropped without an answer.
    pub image: Box<ConnectionImage>,
    /// What the program has set.
    pub options: TcpOptions,
    /// Bytes that were delivered to the program and that it has not read; `image.receiving.unread` comes behind them.
    pub delivered: Vec<u8>,
    /// Bytes that the program has written behind `image.sending.extents`.
    pub unsent: Vec<u8>,
    /// The program has shut down writing, and FIN is to follow `unsent`.
    pub shuts: bool,
}

/// A connection that its program was asked for a second ago and has not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unmoved {
    /// Its group.
    pub region: RegionId,
    /// The connection.
    pub slot: SlotRef,
    /// Where its kernel socket is, as the program says.
    pub place: ProcessDescriptor,
}

/// What the program has asked for while its connection was on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Late {
    /// shutdown(SHUT_WR)
    pub shuts: bool,
    /// close with SO_LINGER of zero seconds.
    pub resets: bool,
}

/// How it ended that all sockets were to go home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Connections of programs that are still the stack's.
    pub connections: u32,
}

/// Why a socket stays with the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stays {
    /// There is no such socket.
    Unknown,
    /// It is no connection that is open, or the state is one that no kernel socket can have.
    NotConnected,
    /// It is being closed, or is on its way already.
    Ending,
    /// It waits in a listener's accept queue.
    NotAccepted,
    /// A thread of the program is in a call on it.
    Busy,
    /// Urgent data is announced that the program has not passed.
    Urgent,
    /// The program has changed the lists of its shared memory.
    Spoilt,
    /// Too many connections are on their way.
    TooMany,
    /// A listener whose port another worker has and does not let go, or that the filters have no room for.
    Shared,
}

impl fmt::Display for Stays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stays::Unknown => "there is no such socket",
            Stays::NotConnected => "it is not an open connection",
            Stays::Ending => "it is being closed",
            Stays::NotAccepted => "it waits to be accepted",
            Stays::Busy => "a thread of the program is in a call on it",
            Stays::Urgent => "it has urgent data that the program has not read",
            Stays::Spoilt => "the program has changed its shared memory",
            Stays::Shared => "its port cannot be the kernel's: another worker keeps it, or too many of its connections are open",
            Stays::TooMany => "too many connections are being handed over",
        })
    }
}

/// Why a connection of the kernel's stays there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotAdopted {
    /// There is no such slot, or it is in use.
    Unknown,
    /// No listener of the group serves its port, or rules leave the port to the kernel.
    NotServed,
    /// Its packets come to another worker.
    Elsewhere,
    /// The stack has a connection between these ends, or holds as many flows as it may.
    Known,
    /// The stack cannot go on with it.
    Refused(ImportError),
}

impl fmt::Display for NotAdopted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotAdopted::Unknown => "the slot is not there or in use",
            NotAdopted::NotServed => "no listener of the program's serves its port",
            NotAdopted::Elsewhere => "its packets come to another worker",
            NotAdopted::Known => "the stack has a connection between these ends",
            NotAdopted::Refused(error) => return write!(f, "the stack cannot go on with it: {error:?}"),
        })
    }
}

/// The sockets that are to go home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All of them.
    All,
    /// Those that a process holds.
    Process(u32),
    /// Connections with this local port, or this port of the peer.
    Port(u16),
    /// One connection, by both addresses.
    Flow(std::net::SocketAddr, std::net::SocketAddr),
}
