//! A connection of the stack goes on in a kernel socket: the kernel's side of handover.
//!
//! Read docs/handover.md and `ringway_device::repair` first.
//!
//! ```text
//!   closed socket --prepare--> the connection, silent --[the caller steers its packets to the kernel]--> go --> it goes on
//!        ^                             |
//!        +------------ undo -----------+
//! ```
//! `plan` says what of an image goes where, `queues` fills the queues, `settings` sets what the program has set, `inject` brings the
//! kernel segments of the peer, where no call sets what such a segment does: its FIN, its acknowledgment of ours, TS.Recent. A connection that
//! waits for accept takes another way, into the accept queue of a kernel listener: `waiting`. The other direction is `adopt`.
//! Promises: before [`Prepared::go`] the connection sends nothing but a repeated acknowledgment of the peer's FIN, and a failure leaves
//! the socket closed; what the kernel has taken over is compared with the image. Data out of order is dropped, and what was told of it is not
//! repeated: the peer has kept it and sends it again (RFC 2018 §8). Congestion control begins anew, without ECN. A connection with
//! urgent data that is unread or unacknowledged stays: repair mode knows no marks. Does not do: steering, and finding out whose socket it is; the
//! network namespace is the caller's to check. Packets that came before the flow was steered must not find the stack without its hold,
//! which would answer them with RST: the hold ends once the devices have been emptied.

pub(crate) mod adopt;
mod course;
mod inject;
mod plan;
mod queues;
mod settings;
mod waiting;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ringway_device::repair::{self, Leave, Number, Queue};
use ringway_shm::Flow;
use ringway_stack::handover::ConnectionImage;
use ringway_stack::{SocketAddress, State, TcpOptions};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketType, connect_unspec, getpeername, getsockname, ipproto, shutdown, sockopt};

use course::{Course, RoundTrip};
pub use inject::Injector;
use plan::{Fin, Plan};
use queues::Buffers;
pub use waiting::{enqueue, take_back};

/// How often a socket is taken out of repair mode against what its program does.
const LEAVING_MAX: u32 = 1_000;

/// A connection that leaves the stack, with what its owner knows of it.
#[derive(Clone, Copy, Debug)]
pub struct Leaving<'a> {
    /// The connection, as the stack has exported it.
    pub image: &'a ConnectionImage,
    /// The options that the program has set.
    pub options: &'a TcpOptions,
    /// Bytes that the program could have read and has not, before those of the image.
    pub delivered: &'a [u8],
    /// Bytes that the program has written, behind those of the image.
    pub unqueued: &'a [u8],
    /// The program has ended writing, and the stack does not know it yet.
    pub shuts: bool,
}

/// Reason why a connection stays in the stack.
#[derive(Debug)]
pub enum Refusal {
    /// It is no TCP socket, or not a closed one (for an accept queue: not a listener).
    Socket,
    /// The socket's family cannot have these addresses.
    Family,
    /// The socket is bound to another address or port, or the address is not the kernel's.
    Address,
    /// The port is below 1024, and the right to it is missing.
    LowPort,
    /// The kernel has no route to the peer, or another source address for it.
    Route,
    /// The kernel has a connection with these ends.
    InUse,
    /// Urgent data is unread or unacknowledged.
    Urgent,
    /// The image contradicts itself or what the owner says.
    Contradiction,
    /// A segment of the peer's must be repeated to the kernel, and this process cannot, or the socket did not take it.
    Injection,
    /// The accept queue of the kernel listener takes no such connection.
    Queue,
    /// The kernel's connection uses what the stack cannot go on with.
    Terms,
    /// Something of the kernel's connection is under way, or was a moment ago.
    Busy,
    /// The kernel has not taken over what it was given.
    NotTaken,
    /// The kernel refuses a call.
    System(io::Error),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Socket => "the kernel socket is not a closed socket of TCP",
            Refusal::Family => "the kernel socket has another address family",
            Refusal::Address => "the kernel socket cannot have the connection's address",
            Refusal::LowPort => "the port is below 1024 and the service has no right to it (CAP_NET_BIND_SERVICE)",
            Refusal::Route => "the kernel reaches the peer from another address or not at all",
            Refusal::InUse => "the kernel has a connection between these ends",
            Refusal::Urgent => "urgent data is under way",
            Refusal::Contradiction => "the connection contradicts itself",
            Refusal::Injection => "the kernel socket gets no segment from this process (CAP_NET_RAW, rules about lo)",
            Refusal::Queue => "the kernel's accept queue does not take the connection (full, too much unread, rules about lo)",
            Refusal::Terms => "the connection has ECN, a protocol of the kernel's above it (TLS), or a clock of microseconds",
            Refusal::Busy => "data of the connection is under way, or was a moment ago",
            Refusal::NotTaken => "the kernel has not taken the connection over",
            Refusal::System(error) => return write!(f, "the kernel refuses repair mode: {error}"),
        })
    }
}

impl std::error::Error for Refusal {}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Refusal {
        Refusal::System(error)
    }
}

impl From<Errno> for Refusal {
    fn from(error: Errno) -> Refusal {
        Refusal::System(error.into())
    }
}

/// A kernel socket that has the connection and is silent. Dropping it is [`undo`](Prepared::undo).
#[derive(Debug)]
pub struct Prepared {
    repaired: Repaired,
    /// Our address and the peer's, as the socket has them.
    ends: (SocketAddr, SocketAddr),
    /// What is to be sent still.
    unsent: Vec<u8>,
    ends_writing: bool,
    ends_reading: bool,
    options: TcpOptions,
}

/// A socket in repair mode, and how it was before.
#[derive(Debug)]
struct Repaired {
    /// `None`: it goes on.
    socket: Option<OwnedFd>,
    before: Before,
}

/// How a socket was.
#[derive(Clone, Copy, Debug)]
struct Before {
    reuses_address: bool,
    buffers: Buffers,
}

/// Makes `socket`, which is closed, the socket of the connection. It stays silent until [`Prepared::go`].
///
/// # Errors
/// [`Refusal`]; the socket is closed as before. One that was not bound is bound to the connection's address from then on.
///
/// # Blocking
/// As long as another process holds the socket's lock; some milliseconds where injected segments do not arrive.
pub fn prepare(leaving: &Leaving<'_>, socket: OwnedFd, injector: Option<&Injector>) -> Result<Prepared, Refusal> {
    if leaving.image.has_urgent_data() {
        return Err(Refusal::Urgent);
    }
    let plan = Plan::of(leaving)?;
    let family = check_socket(socket.as_fd(), State::Closed, leaving.image)?;
    // The kernel takes segments that come over `lo` for a socket of another interface for no one's and answers them with RST.
    let is_bound_to_interface = repair::number(socket.as_fd(), Number::BoundInterface)? != 0;
    let injector = injector.filter(|_| !is_bound_to_interface);
    if plan.needs_injection() && injector.is_none() {
        return Err(Refusal::Injection);
    }
    let repaired = Repaired::enter(socket)?;
    let course = Course { leaving, plan: &plan, family, injector, socket: repaired.socket(), before: &repaired.before };
    match course.run(RoundTrip::Shown) {
        Err(Refusal::Injection) if !plan.needs_injection() => {
            disconnect(course.socket)?;
            course.run(RoundTrip::Unknown)?;
        }
        ran => ran?,
    }
    let ends = course.ends();
    Ok(Prepared {
        repaired,
        ends,
        unsent: plan.unsent(leaving),
        ends_writing: plan.fin == Fin::Waits,
        ends_reading: leaving.image.settings.is_read_shut,
        options: *leaving.options,
    })
}

impl Prepared {
    /// Returns the socket.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.repaired.socket()
    }

    /// Lets the connection go on: the peer is asked what it has got, what was not sent goes out, and a FIN behind it. The flow's packets must
    /// be the kernel's by now.
    ///
    /// # Errors
    /// The kernel has no memory for what is to be sent, or the program has made another connection of the socket: it is reset, and the
    /// program sees that.
    pub fn go(mut self) -> io::Result<OwnedFd> {
        // Where the peer has reset the connection meanwhile, the error is the program's to see.
        let is_over = self.is_over()?;
        if !is_over && !has_ends(self.socket(), self.ends)? {
            return Err(io::Error::other("the program has used the kernel socket for something else"));
        }
        repair::select(self.socket(), Queue::None)?;
        repair::leave(self.socket(), Leave::WithProbe)?;
        self.repaired.before.restore_reuse(self.socket())?;
        if !is_over
            && let Err(error) = self.send_rest()
            && !self.is_over()?
        {
            // Bytes are missing in the stream: the peer must not take what follows for its rest.
            disconnect(self.socket())?;
            return Err(error);
        }
        settings::limit_unsent(self.socket(), &self.options);
        self.repaired.before.buffers.settle(self.socket(), &self.options);
        Ok(self.repaired.socket.take().expect("nothing else takes it"))
    }

    fn is_over(&self) -> io::Result<bool> {
        Ok(repair::info(self.socket())?.state == State::Closed.linux())
    }

    /// Closes the socket again, without a packet. It stays bound.
    pub fn undo(self) {}

    fn send_rest(&self) -> io::Result<()> {
        let more = if self.options.more { queues::More::Comes } else { queues::More::No };
        queues::write(self.socket(), &self.unsent, more)?;
        for (ends, how) in [(self.ends_writing, Shutdown::Write), (self.ends_reading, Shutdown::Read)] {
            match if ends { shutdown(self.socket(), how) } else { Ok(()) } {
                // The peer has reset the connection meanwhile.
                Ok(()) | Err(Errno::NOTCONN) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl Repaired {
    fn enter(socket: OwnedFd) -> Result<Repaired, Refusal> {
        let (reuses_address, buffers) = (sockopt::socket_reuseaddr(&socket)?, Buffers::of(socket.as_fd())?);
        repair::enter(socket.as_fd())?;
        Ok(Repaired { socket: Some(socket), before: Before { reuses_address, buffers } })
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_ref().expect("it is taken with the value only").as_fd()
    }
}

impl Before {
    /// A socket in repair mode may bind to any port, also one of another user's. The program has the socket too: as soon as
    /// the right is not needed, it goes, and with it what repair mode makes of SO_REUSEADDR.
    fn restore_reuse(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        Ok(sockopt::set_socket_reuseaddr(socket, self.reuses_address)?)
    }
}

impl Drop for Repaired {
    /// Leaves the socket as it was. Where a call fails, the socket is closed already.
    fn drop(&mut self) {
        let Some(socket) = &self.socket else { return };
        let socket = socket.as_fd();
        self.before.restore_reuse(socket).ok();
        // A listener leaves no repair mode, and the program may make one of the socket at any moment.
        let leaves = |_: &u32| {
            disconnect(socket).ok();
            repair::select(socket, Queue::None).ok();
            repair::leave(socket, Leave::Silent).is_ok()
        };
        (0..LEAVING_MAX).find(leaves);
        self.before.restore_reuse(socket).ok();
        self.before.buffers.restore(socket);
    }
}

/// Returns true when the socket has these ends: its program may have made another connection of it.
fn has_ends(socket: BorrowedFd<'_>, (ours, peers): (SocketAddr, SocketAddr)) -> io::Result<bool> {
    // An IPv6 address has a scope and a flow label too, which are not the connection's.
    let is = |found: SocketAddr, wanted: SocketAddr| (found.ip(), found.port()) == (wanted.ip(), wanted.port());
    let found = match getpeername(socket) {
        Err(Errno::NOTCONN) | Ok(None) => return Ok(false),
        Ok(Some(found)) => SocketAddr::try_from(found)?,
        Err(error) => return Err(error.into()),
    };
    Ok(is(SocketAddr::try_from(getsockname(socket)?)?, ours) && is(found, peers))
}

/// Closes the connection of a socket: without a packet as long as it is in repair mode, else with RST.
fn disconnect(socket: BorrowedFd<'_>) -> io::Result<()> {
    connect_unspec(socket)?;
    // The error that says so is not the program's.
    sockopt::socket_error(socket)?.ok();
    Ok(())
}

/// Checks that this is a socket of TCP in `state` whose family can have the connection's addresses; returns the family.
fn check_socket(socket: BorrowedFd<'_>, state: State, image: &ConnectionImage) -> Result<Family, Refusal> {
    let is_stream = sockopt::socket_type(socket)? == SocketType::STREAM;
    let is_tcp = is_stream && sockopt::socket_protocol(socket)? == Some(ipproto::TCP);
    if !is_tcp || repair::info(socket)?.state != state.linux() {
        return Err(Refusal::Socket);
    }
    let is_ipv4 = image.local.ip.is_ipv4();
    match sockopt::socket_domain(socket)? {
        AddressFamily::INET if is_ipv4 => Ok(Family::Ipv4),
        AddressFamily::INET6 if !is_ipv4 => Ok(Family::Ipv6),
        AddressFamily::INET6 if !sockopt::ipv6_v6only(socket)? => Ok(Family::Mapped),
        _ => Err(Refusal::Family),
    }
}

/// The connection's packets, for steering.
pub(crate) fn flow_of(image: &ConnectionImage) -> Flow {
    let (local, remote) = (image.local, image.remote);
    Flow { local: (local.ip, local.port), remote: (remote.ip, remote.port) }
}

/// The family of a socket and of its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Ipv4,
    Ipv6,
    /// An IPv6 socket with IPv4-mapped addresses.
    Mapped,
}

impl Family {
    /// The address as this socket has it.
    fn address(self, end: SocketAddress) -> SocketAddr {
        match (self, end.ip) {
            (Family::Mapped, IpAddr::V4(ip)) => SocketAddr::new(ip.to_ipv6_mapped().into(), end.port),
            (_, ip) => SocketAddr::new(ip, end.port),
        }
    }
}

#[cfg(test)]
mod tests;
