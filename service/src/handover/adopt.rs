//! The other way: the connection of a kernel socket goes on in the stack, when nothing of it is under way.
//!
//! ```text
//!   ESTABLISHED --look--> may it?  [the caller has the stack hold the flow, and steers its packets to the stack]
//!               --take--> in repair mode, with the value  [the stack goes on]  --let_go--> CLOSE, without a packet
//!                                |
//!                                +-- dropped: the kernel goes on
//! ```
//! Only what any TCP can tell is taken (`ringway_stack::handover::Quiet`): all data is read, sent and acknowledged, so that no byte is in two places.
//! TS.Recent, which no call reads, is learned from the peer. What the peer sends in between it sends again. Promises: until [`Taken::let_go`] the kernel socket
//! has the connection, and a failure leaves it there. Does not do: options, which the program's library passes on.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use ringway_device::repair::{self, Info, Leave, Queue};
use ringway_stack::handover::Quiet;
use ringway_stack::{SocketAddress, State};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketType, getpeername, getsockname, ipproto, recv, sockopt};

use super::{Refusal, disconnect};

/// Nothing has been sent or received for so long.
const SILENT_MS: u32 = 100;

/// The ends of a connection, ours first.
pub(crate) type Ends = [SocketAddress; 2];

/// Returns the ends of a connection of the kernel's that may go on in the stack.
///
/// # Errors
/// [`Refusal::Socket`], [`Refusal::Terms`], [`Refusal::Busy`].
pub(crate) fn look(socket: BorrowedFd<'_>) -> Result<Ends, Refusal> {
    let is_stream = sockopt::socket_type(socket)? == SocketType::STREAM;
    if !is_stream || sockopt::socket_protocol(socket)? != Some(ipproto::TCP) {
        return Err(Refusal::Socket);
    }
    let info = repair::info(socket)?;
    if info.ecn || repair::has_protocol_above(socket)? {
        return Err(Refusal::Terms);
    }
    if !is_quiet(socket, &info)? || info.silent_ms < SILENT_MS {
        return Err(Refusal::Busy);
    }
    ends_of(socket)
}

fn ends_of(socket: BorrowedFd<'_>) -> Result<Ends, Refusal> {
    let end = |name: SocketAddr| SocketAddress { ip: name.ip().to_canonical(), port: name.port() };
    let peer = getpeername(socket)?.ok_or(Refusal::Socket)?;
    Ok([end(SocketAddr::try_from(getsockname(socket)?)?), end(SocketAddr::try_from(peer)?)])
}

/// Is it established, with nothing in its queues and no urgent data? In repair mode the receive queue is selected.
fn is_quiet(socket: BorrowedFd<'_>, info: &Info) -> Result<bool, Refusal> {
    let looked = recv(socket, &mut [0_u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
    let is_empty = info.unacknowledged == 0 && info.unsent == 0 && matches!(looked, Err(Errno::AGAIN));
    let mut entry = [PollFd::from_borrowed_fd(socket, PollFlags::PRI | PollFlags::RDHUP)];
    let is_urgent_or_ended = poll(&mut entry, Some(&Timespec::default()))? > 0;
    Ok(info.state == State::Established.linux() && is_empty && !is_urgent_or_ended)
}

/// A kernel socket in repair mode whose connection is about to go on in the stack.
#[derive(Debug)]
pub(crate) struct Taken<'a> {
    socket: BorrowedFd<'a>,
    reuses_address: bool,
    is_over: bool,
}

/// Stops the connection of a socket of which [`look`] has told the ends, and returns its value. No packet of it may reach the kernel any more.
///
/// # Errors
/// As [`look`]; the kernel goes on.
pub(crate) fn take(socket: BorrowedFd<'_>, ends: Ends) -> Result<(Taken<'_>, Quiet), Refusal> {
    let reuses_address = sockopt::socket_reuseaddr(socket)?;
    repair::enter(socket)?;
    // From here on it goes on when this is dropped.
    let taken = Taken { socket, reuses_address, is_over: false };
    let quiet = read(socket, ends)?;
    Ok((taken, quiet))
}

fn read(socket: BorrowedFd<'_>, ends: Ends) -> Result<Quiet, Refusal> {
    let [local, remote] = ends;
    // Its program may have made another connection of it since the first look.
    if ends_of(socket)? != ends {
        return Err(Refusal::Socket);
    }
    let sequence = |queue| repair::select(socket, queue).and_then(|()| repair::sequence(socket));
    let (rcv_nxt, snd_nxt) = (sequence(Queue::Receive)?, sequence(Queue::Send)?);
    repair::select(socket, Queue::None)?;
    let windows = repair::windows(socket)?;
    let timestamp = repair::timestamp(socket)?;
    // The last look: what has come until now is in the queues or in these numbers.
    let info = repair::info(socket)?;
    if sequence(Queue::Receive)? != rcv_nxt || !is_quiet(socket, &info)? {
        return Err(Refusal::Busy);
    }
    repair::select(socket, Queue::None)?;
    let counts_microseconds = timestamp & 1 != 0;
    if info.agreed.timestamps && counts_microseconds {
        return Err(Refusal::Terms);
    }
    Ok(Quiet {
        local,
        remote,
        mss: info.agreed.mss,
        send_scale: info.agreed.send_scale,
        receive_scale: info.agreed.receive_scale,
        sack: info.agreed.sack,
        timestamp: info.agreed.timestamps.then_some(timestamp),
        rcv_nxt,
        edge: windows.advertised_at.wrapping_add(windows.receive),
        snd_nxt,
        wnd: windows.send,
        wl1: windows.wl1,
        max_window: windows.send_max.max(windows.send),
        srtt_us: info.round_trip_us,
        rttvar_us: info.round_trip_variance_us,
    })
}

impl Taken<'_> {
    /// The stack has the connection: the socket is closed, without a packet.
    ///
    /// # Errors
    /// The kernel refuses. The socket stays in repair mode then, so that closing it is silent too.
    pub(crate) fn let_go(mut self) -> io::Result<()> {
        self.is_over = true;
        disconnect(self.socket)?;
        repair::leave(self.socket, Leave::Silent)?;
        Ok(sockopt::set_socket_reuseaddr(self.socket, self.reuses_address)?)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            // Where a call fails, the connection has ended already.
            repair::select(self.socket, Queue::None).ok();
            repair::leave(self.socket, Leave::Silent).ok();
            sockopt::set_socket_reuseaddr(self.socket, self.reuses_address).ok();
        }
    }
}
