//! The channel to the worker as a trait: one attachment to a region.
//!
//! The real one is `client.rs` over `ringway_channel`; tests and the simulator have their own. Nothing here
//! blocks: a caller that wants to wait uses a wait context (`watch`, `arm`, then one kernel wait on the context's
//! wake descriptor).

use crate::fallback::Fd;
use crate::fd_table::SocketRef;
use ringway_channel::attach::Way;
use ringway_shm::{Duration, PayloadMut};
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// Readiness of a socket, read at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// State.
    pub state: State,
    /// Bytes that can be received now, up to urgent data and beyond; for a listener: number of waiting connections.
    pub readable: usize,
    /// Bytes that can be sent now.
    pub writable: usize,
    /// The peer has sent its FIN.
    pub peer_closed: bool,
    /// Our own write side is shut.
    pub write_closed: bool,
    /// Both directions have ended.
    pub hung_up: bool,
    /// The handshake is not over, although data may be sent: it goes with the SYN.
    pub is_opening: bool,
    /// Unread urgent data.
    pub urgent: Option<Urgent>,
    /// The failure, if any.
    pub failure: Option<Failure>,
    /// Increases with everything received (bytes, connections, end of stream); for edge-triggered reporting.
    pub receive_sequence: u32,
    /// Increases with everything that makes space to send; for edge-triggered reporting.
    pub send_sequence: u32,
}

/// How far a socket's handover is (docs/handover.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handover {
    /// The stack has the socket.
    Stays,
    /// The service wants the kernel to go on with it, and asks for the kernel socket.
    Wanted,
    /// Connections wait at the listener, and the service wants them to go into the accept queue of its kernel socket.
    Empties,
    /// The kernel socket under the descriptor goes on; nothing comes through the channel any more.
    Moved,
}

/// Urgent data that was announced and not passed by reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Urgent {
    /// Bytes before the urgent one.
    pub distance: usize,
    /// MSG_OOB would find the byte.
    pub fetchable: bool,
    /// SO_OOBINLINE is set.
    pub in_line: bool,
}

/// Reason why no byte moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferError {
    /// No data or no space: wait and try again.
    WouldBlock,
    /// Send only: our write side is shut, or the connection has ended.
    Closed,
    /// The connection failed; reported once.
    Failed(Failure),
    /// It was never connected (or the slot has another generation by now).
    NotConnected,
}

/// Reason why there is no urgent byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrgentError {
    /// None was announced, or it was fetched, passed by reading, or is in line.
    Nothing,
    /// It is announced and has not arrived.
    WouldBlock,
    /// The socket was never connected.
    NotConnected,
}

/// Effect of `receive` on the delivered bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taking {
    /// They leave the queue.
    Take,
    /// They stay.
    Peek,
}

/// The worker's answer to a control request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlAnswer {
    /// Carried out (for a connect: the handshake has begun).
    Done,
    /// Not an address or route of the stack: it is the kernel's.
    NotOurs,
    /// Address and port are taken.
    InUse,
    /// No local port is free, or the local address is not ours.
    AddressNotAvailable,
    /// No route to the destination.
    NoRoute,
    /// No socket, buffer or share is left.
    NoResources,
    /// Rules of the machine leave it to the kernel, for this reason.
    Kernel(KernelReason),
    /// A rule of the configuration denies it.
    Denied,
    /// The request is invalid in the socket's state, or the service is gone.
    Invalid,
    /// The requested statistics: so many bytes.
    Bytes(usize),
}

/// The workers of a service that begin to serve a port. The first one decides between processes that listen at the same moment: asked together, one
/// worker could take one process's listener and the next worker the other's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// The first.
    First,
    /// All, when the first one serves it.
    All,
}

/// Control requests to the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Serves a port.
    Listen {
        /// Address and port, bound on the program's kernel socket.
        local: SocketAddr,
        /// Length of the accept queue.
        backlog: u32,
        /// `local` is the IPv6 wildcard of a socket that serves IPv4 too (not IPV6_V6ONLY).
        dual_stack: bool,
        /// Of a socket that several workers serve: which of them.
        workers: Workers,
    },
    /// Opens a connection.
    Connect {
        /// The address that the program has bound, if any.
        local: Option<SocketAddr>,
        /// The peer.
        remote: SocketAddr,
    },
    /// Serves datagrams; from here on the socket carries messages.
    Datagrams {
        /// Address and port, bound on the program's kernel socket.
        local: SocketAddr,
        /// `local` is the IPv6 wildcard of a socket that serves IPv4 too.
        dual_stack: bool,
    },
    /// Sets the remote end of a datagram socket; port 0 clears it.
    ConnectDatagrams {
        /// The peer.
        remote: SocketAddr,
    },
    /// Asks whether an interface of the stack leads there.
    Route {
        /// The destination.
        remote: SocketAddr,
        /// Through the interface of this number; 0: any.
        interface: u32,
    },
    /// The datagram socket is to receive what arrives for a multicast group.
    JoinMulticast(Multicast),
    /// It is to receive that no more.
    LeaveMulticast(Multicast),
    /// Asks for the groups that it has joined: [`Membership`]s.
    Memberships,
    /// Asks whether the stack has this address.
    Owns {
        /// The address; its port is ignored.
        local: SocketAddr,
    },
    /// Does nothing: the answer comes when all earlier requests of the socket are done, at all its workers.
    Settle,
    /// Describes the connection in the layout of Linux's `struct tcp_info`.
    Info,
    /// Asks for the value of an option that is in effect: four bytes.
    Option {
        /// The option.
        option: SocketOption,
    },
}

pub use ringway_channel::attach::Purpose;
pub use ringway_channel::{Envelope, Failure, KernelReason, Membership, Multicast, Received, SocketOption, State};

/// Workers of the service at which a socket is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The next in turn.
    Any,
    /// The first: sockets that may share a port must have the same worker.
    First,
    /// All, with one port: a listener.
    Every,
    /// The one of this number, counted round.
    At(u32),
}

/// What the bytes of a worker's answer are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerForm {
    /// A description of the connection.
    Info,
    /// An option's value as it was set, and as it is in effect.
    Value,
    /// [`Membership`]s.
    Memberships,
}

/// A request in progress.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    pub(crate) worker: u8,
    pub(crate) first: ringway_channel::Ticket,
    /// What the bytes of an answer are.
    pub(crate) form: AnswerForm,
    /// The requests at the other workers, for a listener.
    pub(crate) members: [Option<ringway_channel::Ticket>; MEMBERS_MAX],
}

/// Maximum number of workers besides the first.
pub(crate) const MEMBERS_MAX: usize = ringway_channel::attach::WORKERS_MAX as usize - 1;

/// The status flags that F_SETFL changes of a socket (fs/fcntl.c, setfl). Only O_NONBLOCK has an effect here.
pub const STATUS_FLAGS: [i32; 4] = [libc::O_NONBLOCK, libc::O_APPEND, libc::O_ASYNC, libc::O_NOATIME];

/// Kind of a wait context's sleepers, and with it the way to silence its wake descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleepers {
    /// One thread: the wake descriptor is an epoll instance, which is readable after a ring until its event is taken.
    One,
    /// One thread that may make few system calls: the wake descriptor is readable until it is read.
    Confined,
    /// Any number: the wake descriptor is an epoll instance with an event that is never taken, and each thread watches it
    /// edge-triggered. Such a context is never disarmed.
    Several,
}

/// A wait context of the region: of one waiting thread, one epoll instance, or several threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context(pub u16);

/// One attachment. All methods may be called from any thread.
pub trait Channel: Send + Sync {
    /// Returns true if the service still lives. Cheap; may notice a death late (the control descriptor hangs up at
    /// once).
    fn alive(&self) -> bool;
    /// Checks, after a hang-up of the control connection, whether the service is gone, for `alive`.
    fn confirm_death(&self);
    /// The control connection: every wait includes it; POLLHUP means that the service is gone.
    fn control_descriptor(&self) -> Fd;
    /// All descriptors that this attachment keeps open.
    fn descriptors(&self) -> Vec<Fd>;
    /// Returns true if no other process of the group has attached before.
    fn is_first_of_group(&self) -> bool;
    /// Gives up the descriptors and the memory of a service that is long dead. Calls find no socket from then on.
    fn retire(&self);

    /// Takes a free slot for a `connect` or `listen`.
    fn open(&self, place: Place) -> Option<SocketRef>;
    /// Reads the socket's state; `None` if the slot has another generation.
    fn view(&self, socket: SocketRef) -> Option<View>;
    /// O_NONBLOCK of the open file description, which several processes may share.
    fn nonblocking(&self, socket: SocketRef) -> bool;
    /// Sets O_NONBLOCK.
    fn set_nonblocking(&self, socket: SocketRef, on: bool);
    /// The status flags of the open file description among `STATUS_FLAGS`, in the form of F_GETFL.
    fn status_flags(&self, socket: SocketRef) -> i32;
    /// Sets these flags, and clears the others among `STATUS_FLAGS`.
    fn set_status_flags(&self, socket: SocketRef, flags: i32);
    /// Takes the socket's failure, reported once (SO_ERROR).
    fn take_failure(&self, socket: SocketRef) -> Option<Failure>;
    /// Leaves a failure that was taken for the next call.
    fn put_failure_back(&self, socket: SocketRef, failure: Failure);
    /// Local and remote address.
    fn addresses(&self, socket: SocketRef) -> Option<(SocketAddr, SocketAddr)>;
    /// Bytes queued for sending that occupy the channel: until the worker has copied them, or the peer has acknowledged them.
    fn unacknowledged(&self, socket: SocketRef) -> usize;

    /// Queues bytes for sending; returns how many (fewer if space runs out).
    fn send(&self, socket: SocketRef, pieces: &[IoSlice<'_>]) -> Result<usize, TransferError>;
    /// Queues up to `count` bytes that `fill` writes, piece by piece, into the chunks that are sent. `fill` returns how
    /// many it wrote; fewer than there is space for end the call. `WouldBlock`: too little space to be worthwhile.
    fn send_in_place(
        &self,
        socket: SocketRef,
        count: usize,
        fill: &mut dyn FnMut(PayloadMut<'_>) -> usize,
    ) -> Result<usize, TransferError>;
    /// Like `send`; the last byte is urgent (MSG_OOB).
    fn send_urgent(&self, socket: SocketRef, pieces: &[IoSlice<'_>]) -> Result<usize, TransferError>;
    /// The urgent byte (MSG_OOB). `Ok(None)`: the stream has ended without it.
    fn receive_urgent(&self, socket: SocketRef, taking: Taking) -> Result<Option<u8>, UrgentError>;
    /// SO_OOBINLINE.
    fn set_urgent_in_line(&self, socket: SocketRef, on: bool);
    /// F_SETOWN: the process that gets SIGURG; 0: none.
    fn set_owner(&self, socket: SocketRef, pid: u32);
    /// F_GETOWN.
    fn owner(&self, socket: SocketRef) -> u32;
    /// Discards received bytes (MSG_TRUNC on a stream).
    fn discard(&self, socket: SocketRef, count: usize) -> Result<usize, TransferError>;
    /// Delivers received bytes. `Ok(0)` for a non-empty destination means end of stream.
    fn receive(&self, socket: SocketRef, pieces: &mut [IoSliceMut<'_>], taking: Taking) -> Result<usize, TransferError>;
    /// Queues one datagram (or several, cut by the stack), whole or not at all.
    fn send_datagram(&self, socket: SocketRef, envelope: &Envelope, pieces: &[IoSlice<'_>]) -> Result<(), TransferError>;
    /// Delivers the next datagram; bytes that do not fit are lost.
    fn receive_datagram(
        &self,
        socket: SocketRef,
        pieces: &mut [IoSliceMut<'_>],
        taking: Taking,
    ) -> Result<Received, TransferError>;
    /// Payload of the next datagram, bytes.
    fn next_datagram(&self, socket: SocketRef) -> Option<usize>;
    /// Returns true if several workers serve the socket. They carry out requests at different times.
    fn is_served_by_several(&self, socket: SocketRef) -> bool;
    /// Takes the next accepted connection of a listener.
    fn accept(&self, listener: SocketRef) -> Option<SocketRef>;

    /// Shows the service the kernel socket `fd`, which holds the port that `socket` will serve; must precede the
    /// request that names the port. Returns false if the service does not accept it as a right to the port.
    fn show(&self, socket: SocketRef, purpose: Purpose, fd: Fd) -> bool;
    /// Has the kernel go on with the socket, in the kernel socket `fd` (docs/handover.md). Returns true if it does: `handover`
    /// says so from then on. Blocks for some 100 us; the caller holds no lock of the socket.
    fn hand_over(&self, socket: SocketRef, fd: Fd) -> bool;
    /// Has the stack go on with the connections of kernel sockets, each in a socket of the stack that was opened for it at the first worker
    /// (docs/handover.md). Returns for which it does; `None`: the service wants none. Blocks for some ten milliseconds; nothing else may use the kernel
    /// sockets meanwhile.
    fn adopt(&self, way: Way, offers: &[(SocketRef, Fd)]) -> Option<Vec<bool>>;
    /// Another number whenever the service has begun to wish for sockets.
    fn wishes(&self) -> u32;
    /// Another number whenever the service has asked for connections back that it has handed over itself.
    fn recalls(&self) -> u32;
    /// How far the socket's handover is; `None` if the slot has another generation.
    fn handover(&self, socket: SocketRef) -> Option<Handover>;
    /// Notes in the slot that a process gives the kernel socket the rest of the socket's state. Returns true if no other has done so.
    fn leaves_first(&self, socket: SocketRef) -> bool;
    /// Waits until the kernel has the ports of closed sockets and dead processes again.
    fn settle(&self);
    /// The cookie of the network namespace in which the service believes this process is; `None`: this kernel has none.
    fn network(&self) -> Option<u64>;
    /// Makes a request. `None`: another request for this socket is in progress (try again soon), or the service is
    /// gone.
    fn request(&self, socket: SocketRef, request: Request) -> Option<Ticket>;
    /// The answer, once it is there; the socket then changes. For the requesting thread.
    fn answer(&self, ticket: Ticket, bytes: &mut [u8]) -> Option<ControlAnswer>;
    /// Gives up waiting for the answer.
    fn abandon(&self, ticket: Ticket);
    /// Sends FIN after the queued data.
    fn shutdown_write(&self, socket: SocketRef);
    /// Closes as the kernel would, after the last holder; `linger_s` is SO_LINGER (zero: a reset).
    fn close(&self, socket: SocketRef, linger_s: Option<u16>);
    /// Passes an option to the stack.
    fn set_option(&self, socket: SocketRef, option: SocketOption, value: u32);
    /// TCP_FASTOPEN_KEY: the key that makes cookies, and a backup key; cookies of both are valid.
    fn set_fast_open_keys(&self, socket: SocketRef, primary: [u8; 16], backup: Option<[u8; 16]>);

    /// Notes that this process has a descriptor of the socket. (`open` and `accept` do so themselves.)
    fn hold(&self, socket: SocketRef);
    /// Notes that a descriptor of the socket is about to be sent to another process. Returns false if that cannot be
    /// recorded; this process must then hold the socket until it ends.
    fn pass(&self, socket: SocketRef) -> bool;
    /// Notes that a sent descriptor has arrived here, after `hold`; or that it was not sent after all.
    fn arrive(&self, socket: SocketRef);
    /// Returns true if a descriptor that this process has sent is in flight.
    fn is_in_flight(&self, socket: SocketRef) -> bool;
    /// Notes that no descriptor sent by this process is in flight any more: the messages are gone. `release` is due.
    fn lose(&self, socket: SocketRef);
    /// Notes that this process has no descriptor any more; returns true if no process has one, and `close` is due.
    fn release(&self, socket: SocketRef) -> bool;
    /// Returns true if another process holds the socket.
    fn is_held_elsewhere(&self, socket: SocketRef) -> bool;
    /// Returns true if any process holds the socket, or a message to one. The socket may be any two numbers.
    fn is_open(&self, socket: SocketRef) -> bool;
    /// Sockets that this process holds; after exec: that the previous image held.
    fn held(&self) -> Vec<SocketRef>;
    /// Records the inode of the socket's descriptor, by which processes that inherit the descriptor find the socket.
    fn set_inode(&self, socket: SocketRef, inode: u64);
    /// Notes the number by which this process knows the socket from now on, for `ringway ss -p`.
    fn note_descriptor(&self, socket: SocketRef, fd: Fd);
    /// Notes that the number is closed. Returns true if it was the one noted: no number is now.
    fn forget_descriptor(&self, socket: SocketRef, fd: Fd) -> bool;
    /// Notes that a process that has the socket has filtered its system calls: the service takes nothing out of it.
    fn note_confined(&self, socket: SocketRef);
    /// The held socket with this inode.
    fn find_inode(&self, inode: u64) -> Option<SocketRef>;

    /// Takes a wait context, with the wake descriptor by which the service wakes it.
    fn claim_context(&self, sleepers: Sleepers) -> Option<(Context, OwnedFd)>;
    /// Gives back a wait context, which may watch nothing any more.
    fn release_context(&self, context: Context);
    /// Makes changes of `socket` events of `context`.
    fn watch(&self, socket: SocketRef, context: Context);
    /// Ends that.
    fn unwatch(&self, socket: SocketRef, context: Context);
    /// Requests one ring of the wake descriptor at the next event. The caller must check its sockets once more before sleeping.
    fn arm(&self, context: Context);
    /// Withdraws that request.
    fn disarm(&self, context: Context);
    /// The next socket with a possible change of readiness. Later changes are reported again.
    fn next_event(&self, context: Context) -> Option<SocketRef>;
    /// Returns true if `next_event` would return a socket.
    fn has_event(&self, context: Context) -> bool;

    /// Time to look for events before sleeping, from the service; not validated.
    fn spin_limit(&self) -> Duration;
    /// Returns true if the service sleeps and brings nothing until it is woken. A hint.
    fn sleeps(&self) -> bool;

    /// Reserves, before a child process is made, a number under which the child holds all that we hold.
    fn before_fork(&self);
    /// In the parent, once the child's number is known; `None`: there is no child.
    fn after_fork_in_parent(&self, child: Option<u32>);
    /// In a child of `vfork`, before it executes a program: reserves a number for that program.
    fn before_borrowed_exec(&self);
    /// In the child of `fork`: becomes a process of its own. It attaches when it first needs a wait context. Returns
    /// false if no number was left for it; the service is then gone for this child.
    fn after_fork_in_child(&self) -> bool;
}

/// Why a process has no channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotAttached {
    /// The kernel serves it.
    Kernel(String),
    /// A rule denies it its sockets.
    Denied(String),
}

impl From<&str> for NotAttached {
    fn from(reason: &str) -> NotAttached {
        NotAttached::Kernel(reason.to_owned())
    }
}

/// Way for a process to get a channel.
pub trait Attach: Send + Sync {
    /// Attaches now, with all descriptors at `floor` or above; the text gives the reason of a failure. `earlier`: services that this
    /// process was attached to before. References to their sockets mean nothing to the new channel.
    fn attach(&self, floor: Fd, earlier: u32) -> Result<Box<dyn Channel>, NotAttached>;
    /// The service's name, for messages.
    fn service(&self) -> String;
}
