//! Result of poll(2) for a socket of ours: the kernel's `tcp_poll`, bit by bit.

use crate::Posix;
use crate::channel::{Failure, State, View};
use crate::descriptions::{Description, Flag};
use crate::errno::Errno;
use crate::fd_table::SocketRef;
use crate::options::receive_low_water;

/// Readiness, with the sequences by which edge-triggered reporting distinguishes new events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// POLLIN, POLLOUT, POLLRDHUP, POLLHUP, POLLERR and their RDNORM/WRNORM equivalents.
    pub events: u32,
    /// Changes with every arrival (bytes, connections, end, failure).
    pub receive_sequence: u32,
    /// Changes with every growth of send space.
    pub send_sequence: u32,
}

impl Posix {
    /// The socket's current readiness.
    pub fn readiness(&self, socket: SocketRef) -> Readiness {
        let description = self.descriptions.about(socket);
        let view = self.attached().and_then(|channel| channel.view(socket));
        // When the service dies, a listener goes on as its kernel shadow; a connection is reset.
        if self.service_is_dead() && self.is_datagram(socket) {
            // The next call finds the kernel socket in its place, as after the death of a listener.
            // What it has received is still read here.
            let events = if view.is_some_and(|view| view.readable > 0) { IN | OUT } else { OUT };
            return Readiness { events, receive_sequence: 0, send_sequence: 0 };
        }
        if self.service_is_dead() && !view.is_some_and(|view| view.state == State::Listening) {
            return Readiness { events: GONE, receive_sequence: u32::MAX, send_sequence: u32::MAX };
        }
        match view {
            Some(view) => Readiness {
                events: events(&view, description),
                receive_sequence: view.receive_sequence,
                send_sequence: view.send_sequence,
            },
            None => Readiness { events: OUT | HUP, receive_sequence: 0, send_sequence: 0 },
        }
    }

    /// Takes the socket's pending failure, reported once (by SO_ERROR or the first call that meets it).
    pub(crate) fn take_failure(&self, socket: SocketRef) -> Option<Errno> {
        let failure = self.attached()?.take_failure(socket)?;
        Some(failure.into())
    }

    /// Leaves a failure for the next call that a call has met behind messages that it returns (net/socket.c, do_recvmmsg). Errors of the
    /// call itself are none of the socket's.
    pub fn put_failure_back(&self, socket: SocketRef, error: Errno) {
        let failure = PENDING.into_iter().find(|&failure| Errno::from(failure) == error);
        if let (Some(channel), Some(failure)) = (self.attached(), failure) {
            channel.put_failure_back(socket, failure);
        }
    }
}

/// What a socket can have failed of.
const PENDING: [Failure; 9] = [
    Failure::Refused,
    Failure::Reset,
    Failure::TimedOut,
    Failure::HostUnreachable,
    Failure::NetworkUnreachable,
    Failure::ProtocolUnreachable,
    Failure::Prohibited,
    Failure::Aborted,
    Failure::MessageTooLong,
];

/// net/ipv4/tcp.c, tcp_poll.
fn events(view: &View, description: &Description) -> u32 {
    if view.state == State::Listening {
        return if view.readable > 0 { IN } else { 0 };
    }
    if description.is(Flag::CONNECT_FAILED) {
        // net/ipv4/tcp.c, tcp_disconnect: like a socket that was never connected.
        return OUT | HUP;
    }
    let read_over = view.peer_closed || view.hung_up || description.is(Flag::READ_SHUT);
    let write_over = view.write_closed || description.is(Flag::WRITE_SHUT);
    let mut events = 0;
    if view.hung_up || view.state == State::Free || (read_over && write_over) {
        events |= HUP;
    }
    if read_over {
        events |= IN | libc::POLLRDHUP as u32;
    }
    if matches!(view.state, State::Connected | State::Closed) {
        // An urgent byte that is not in line is not readable (net/ipv4/tcp.c, tcp_poll).
        let hole = view.urgent.is_some_and(|urgent| urgent.distance == 0 && !urgent.in_line);
        let low_water = receive_low_water(description).min(LOW_WATER_MAX);
        if view.readable >= low_water + usize::from(hole) {
            events |= IN;
        }
        if view.urgent.is_some_and(|urgent| urgent.fetchable) {
            events |= libc::POLLPRI as u32;
        }
        // Until the SYN that took the first data is answered, no more is taken (TCP_SYN_SENT without DEFER_CONNECT).
        let awaits_answer = view.is_opening && !description.is(Flag::OPENS_WITH_DATA);
        if view.writable > 0 && !awaits_answer || write_over || view.hung_up {
            events |= OUT;
        }
    }
    if view.state == State::Free {
        events |= OUT;
    }
    if view.failure.is_some() {
        events |= libc::POLLERR as u32;
    }
    events
}

/// Bytes that can wait for the program even if the region is short of chunks (`engine/src/attach/share.rs`); waiting
/// for more might never end.
const LOW_WATER_MAX: usize = 4 << 10;
const IN: u32 = (libc::POLLIN | libc::POLLRDNORM) as u32;
const OUT: u32 = (libc::POLLOUT | libc::POLLWRNORM) as u32;
const HUP: u32 = libc::POLLHUP as u32;
const GONE: u32 = IN | OUT | HUP | (libc::POLLRDHUP | libc::POLLERR) as u32;
