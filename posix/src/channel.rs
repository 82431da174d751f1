//! The worker as this room sees it: one attachment to a region, as a trait.
//!
//! The real one is `client.rs` over `ringway_shm::channel`; tests and the simulator bring their own. Nothing here blocks:
//! who wants to wait uses a wait context (`watch`, `arm`, then one kernel wait on the context's bell).

use crate::fallback::Fd;
use crate::fd_table::SocketRef;
use ringway_shm::{Duration, PayloadMut};
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// Where a socket stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Opened by us; no request has been carried out yet.
    Opening,
    /// Serves a port.
    Listening,
    /// The handshake of a `connect` is under way.
    Connecting,
    /// Carries data (one or both directions may be over).
    Connected,
    /// Over; what was received can still be read.
    Closed,
}

/// Why a socket failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The peer refused the connection.
    Refused,
    /// The peer reset the connection.
    Reset,
    /// The peer reset the connection after it had closed its side.
    Broken,
    /// No answer for too long.
    TimedOut,
    /// ICMP: host not reachable.
    HostUnreachable,
    /// ICMP: network not reachable.
    NetworkUnreachable,
    /// ICMP: the peer's host does not speak the protocol.
    ProtocolUnreachable,
    /// ICMPv6: a router's policy forbids the way; or a broadcast without leave for it.
    Prohibited,
    /// We gave it up ourselves.
    Aborted,
    /// The service is gone.
    ServiceGone,
    /// The host's packet filters have a say: the socket is the kernel's.
    Guarded,
    /// A datagram was larger than the path takes.
    MessageTooLong,
    /// No destination.
    NoDestination,
    /// Anything else.
    Other,
}

/// What a socket can do now, read at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// State.
    pub state: State,
    /// Bytes that can be received now, up to urgent data and beyond; for a listener: connections that wait.
    pub readable: usize,
    /// Bytes that can be sent now.
    pub writable: usize,
    /// The peer has sent its FIN.
    pub peer_closed: bool,
    /// Our own write side is shut.
    pub write_closed: bool,
    /// Both directions are over.
    pub hung_up: bool,
    /// What there is of urgent data.
    pub urgent: Option<Urgent>,
    /// What went wrong, if something did.
    pub failure: Option<Failure>,
    /// Grows with everything that is received (bytes, connections, end of stream); for edge-triggered reporting.
    pub receive_sequence: u32,
    /// Grows with everything that makes room to send; for edge-triggered reporting.
    pub send_sequence: u32,
}

/// Urgent data that was announced and not read over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Urgent {
    /// Bytes before the urgent one.
    pub distance: usize,
    /// MSG_OOB would find the byte.
    pub fetchable: bool,
    /// SO_OOBINLINE is set.
    pub in_line: bool,
}

/// Why no byte moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferError {
    /// Nothing there, or no room: wait and try again.
    WouldBlock,
    /// Send only: our write side is shut, or the connection is over.
    Closed,
    /// The connection failed; told once.
    Failed(Failure),
    /// It never was connected (or the slot has another generation by now).
    NotConnected,
}

/// Why there is no urgent byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrgentError {
    /// None was announced, it was fetched, or read over, or it is in line.
    Nothing,
    /// It is announced and has not come.
    WouldBlock,
    /// The socket never was connected.
    NotConnected,
}

/// What becomes of the bytes that `receive` delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taking {
    /// They are gone from the queue.
    Take,
    /// They stay.
    Peek,
}

/// The worker's answer to a control request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlAnswer {
    /// Carried out (a connect: the handshake has begun).
    Done,
    /// Not an address or route of the stack: the kernel's business.
    NotOurs,
    /// Address and port are taken.
    InUse,
    /// No local port is free, or the local address is not ours.
    AddressNotAvailable,
    /// No route to the destination.
    NoRoute,
    /// Out of sockets, buffers or permitted share.
    NoResources,
    /// The host's packet filters have a say: the kernel's business.
    Guarded,
    /// The request makes no sense in the socket's state, or the service is gone.
    Invalid,
    /// The statistics asked for: so many bytes.
    Bytes(usize),
}

/// What is asked of the worker and answered by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Serve this port.
    Listen {
        /// Address and port, bound on the program's kernel socket.
        local: SocketAddr,
        /// Length of the accept queue.
        backlog: u32,
        /// `local` is the IPv6 wildcard of a socket that serves IPv4 too (not IPV6_V6ONLY).
        dual_stack: bool,
    },
    /// Open a connection.
    Connect {
        /// What the program has bound, if anything.
        local: Option<SocketAddr>,
        /// The peer.
        remote: SocketAddr,
    },
    /// Serve datagrams; from here on the socket carries messages.
    Datagrams {
        /// Address and port, bound on the program's kernel socket.
        local: SocketAddr,
        /// `local` is the IPv6 wildcard of a socket that serves IPv4 too.
        dual_stack: bool,
    },
    /// Fix the remote end of a datagram socket; port 0 dissolves it.
    ConnectDatagrams {
        /// The peer.
        remote: SocketAddr,
    },
    /// Does an interface of the stack lead there?
    Route {
        /// Where to.
        remote: SocketAddr,
        /// Through the interface of this number; 0: any.
        interface: u32,
    },
    /// Does the stack have this address?
    Owns {
        /// The address; its port says nothing.
        local: SocketAddr,
    },
    /// Nothing: the answer comes when all that was asked for the socket before has been done, at all its workers.
    Settle,
    /// Describe the connection, laid out as Linux's `struct tcp_info`.
    Info,
}

/// Socket options that the stack acts on. The value travels as one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketOption {
    /// TCP_NODELAY, 0 or 1.
    NoDelay,
    /// TCP_CORK, 0 or 1.
    Cork,
    /// TCP_QUICKACK, 0 or 1.
    QuickAck,
    /// SO_KEEPALIVE, 0 or 1.
    KeepAlive,
    /// TCP_KEEPIDLE, seconds.
    KeepAliveIdle,
    /// TCP_KEEPINTVL, seconds.
    KeepAliveInterval,
    /// TCP_KEEPCNT.
    KeepAliveCount,
    /// TCP_USER_TIMEOUT, milliseconds.
    UserTimeout,
    /// SO_SNDBUF as the program sets it (not doubled), bytes.
    SendBuffer,
    /// SO_RCVBUF as the program sets it (not doubled), bytes.
    ReceiveBuffer,
    /// TCP_MAXSEG, bytes.
    MaxSegment,
    /// IP_TOS.
    TypeOfService,
    /// IP_TTL.
    TimeToLive,
    /// TCP_CONGESTION: 0 = reno, 1 = cubic, 2 = bbr.
    Congestion,
    /// TCP_NOTSENT_LOWAT, bytes.
    NotSentLowWater,
    /// TCP_DEFER_ACCEPT, seconds.
    DeferAccept,
    /// TCP_SYNCNT.
    SynCount,
    /// TCP_WINDOW_CLAMP, bytes.
    WindowClamp,
    /// TCP_LINGER2, seconds, signed.
    FinTimeout,
    /// TCP_FASTOPEN, connections.
    FastOpenQueue,
    /// TCP_FASTOPEN_CONNECT, 0 or 1.
    FastOpenConnect,
    /// TCP_FASTOPEN_NO_COOKIE, 0 or 1.
    FastOpenNoCookie,
    /// SO_MAX_PACING_RATE, bytes per second; all ones: without limit.
    PacingRate,
    /// SO_REUSEADDR, 0 or 1.
    ReuseAddress,
    /// SO_REUSEPORT, 0 or 1.
    ReusePort,
    /// SO_BROADCAST, 0 or 1.
    Broadcast,
    /// SO_NO_CHECK, 0 or 1.
    NoChecksum,
    /// IP_MTU_DISCOVER, as ip(7) numbers it from 0 to 5.
    PathMtuDiscovery,
    /// UDP_SEGMENT, bytes.
    SegmentSize,
    /// UDP_GRO, 0 or 1.
    Coalesce,
    /// SHUT_RD, 1.
    ReadShut,
}

pub use ringway_shm::channel::attach::Purpose;
pub use ringway_shm::channel::{Envelope, Received};

/// At which workers of the service a socket begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Whose turn it is.
    Any,
    /// The first: what uses a port that others may use too has the same worker as they.
    First,
    /// All, with one port: a listener.
    Every,
}

/// A request on its way.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    pub(crate) worker: u8,
    pub(crate) first: ringway_shm::channel::Ticket,
    /// Of a listener at the other workers.
    pub(crate) partners: [Option<ringway_shm::channel::Ticket>; PARTNERS_MAX],
}

/// Workers but the first, at most.
pub(crate) const PARTNERS_MAX: usize = ringway_shm::channel::attach::WORKERS_MAX as usize - 1;

/// The status flags that F_SETFL changes of a socket (fs/fcntl.c, setfl). All but O_NONBLOCK act on nothing here.
pub const STATUS_FLAGS: [i32; 4] = [libc::O_NONBLOCK, libc::O_APPEND, libc::O_ASYNC, libc::O_NOATIME];

/// Who sleeps on a wait context, and with it how its bell is made silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleepers {
    /// One thread: the bell is an epoll instance, which is readable after a ring until its event is taken.
    One,
    /// One thread that may make few system calls: the bell is readable until it is read.
    Confined,
    /// Any number: the bell is an epoll instance whose event nobody takes, and each thread watches it edge-triggered. Such
    /// a context is never disarmed.
    Several,
}

/// A wait context of the region: one waiting thread or one epoll instance, or several threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context(pub u16);

/// One attachment. All methods may be called from any thread.
pub trait Channel: Send + Sync {
    /// Does the service still live? Cheap; may notice a death late (the control descriptor hangs up at once).
    fn alive(&self) -> bool;
    /// The control connection has hung up: looks whether the service is gone, for `alive`.
    fn confirm_death(&self);
    /// The connection to the service: every wait includes it; POLLHUP means that the service is gone.
    fn control_descriptor(&self) -> Fd;
    /// All descriptors that this attachment keeps open.
    fn descriptors(&self) -> Vec<Fd>;

    /// Takes a free slot for a `connect` or `listen`.
    fn open(&self, place: Place) -> Option<SocketRef>;
    /// Reads the socket's state; `None` when the slot has another generation.
    fn view(&self, socket: SocketRef) -> Option<View>;
    /// O_NONBLOCK of the open file description (shared by all processes that have it).
    fn nonblocking(&self, socket: SocketRef) -> bool;
    /// Sets O_NONBLOCK.
    fn set_nonblocking(&self, socket: SocketRef, on: bool);
    /// The status flags of the open file description among `STATUS_FLAGS`, as F_GETFL names them.
    fn status_flags(&self, socket: SocketRef) -> i32;
    /// Sets these, and clears the others among `STATUS_FLAGS`.
    fn set_status_flags(&self, socket: SocketRef, flags: i32);
    /// The socket's failure, told once (SO_ERROR).
    fn take_failure(&self, socket: SocketRef) -> Option<Failure>;
    /// Local and remote address.
    fn addresses(&self, socket: SocketRef) -> Option<(SocketAddr, SocketAddr)>;
    /// Bytes queued for sending and not yet acknowledged by the peer.
    fn unacknowledged(&self, socket: SocketRef) -> usize;

    /// Queues bytes for sending; answers how many (short when room runs out).
    fn send(&self, socket: SocketRef, pieces: &[IoSlice<'_>]) -> Result<usize, TransferError>;
    /// Queues up to `count` bytes that `fill` writes, piece by piece, to where they leave from; it says how many, and fewer than
    /// there is room for are the last. `WouldBlock`: there is too little room to be worth it.
    fn send_in_place(
        &self,
        socket: SocketRef,
        count: usize,
        fill: &mut dyn FnMut(PayloadMut<'_>) -> usize,
    ) -> Result<usize, TransferError>;
    /// As `send`; the last byte is urgent (MSG_OOB).
    fn send_urgent(&self, socket: SocketRef, pieces: &[IoSlice<'_>]) -> Result<usize, TransferError>;
    /// The urgent byte (MSG_OOB). `Ok(None)`: the stream has ended without it.
    fn receive_urgent(&self, socket: SocketRef, taking: Taking) -> Result<Option<u8>, UrgentError>;
    /// SO_OOBINLINE.
    fn set_urgent_in_line(&self, socket: SocketRef, on: bool);
    /// F_SETOWN: the process that gets SIGURG; 0: none.
    fn set_owner(&self, socket: SocketRef, pid: u32);
    /// F_GETOWN.
    fn owner(&self, socket: SocketRef) -> u32;
    /// Throws received bytes away (MSG_TRUNC on a stream).
    fn discard(&self, socket: SocketRef, count: usize) -> Result<usize, TransferError>;
    /// Delivers received bytes. `Ok(0)` for a non-empty destination means end of stream.
    fn receive(&self, socket: SocketRef, pieces: &mut [IoSliceMut<'_>], taking: Taking) -> Result<usize, TransferError>;
    /// Queues one datagram (or a train of them), whole or not at all.
    fn send_datagram(&self, socket: SocketRef, envelope: &Envelope, pieces: &[IoSlice<'_>]) -> Result<(), TransferError>;
    /// Delivers the next datagram; what there is no room for is lost.
    fn receive_datagram(
        &self,
        socket: SocketRef,
        pieces: &mut [IoSliceMut<'_>],
        taking: Taking,
    ) -> Result<Received, TransferError>;
    /// Payload of the next datagram, bytes.
    fn next_datagram(&self, socket: SocketRef) -> Option<usize>;
    /// Whether several workers serve the socket. They do what they are asked at different times.
    fn is_served_by_several(&self, socket: SocketRef) -> bool;
    /// Takes the next accepted connection of a listener.
    fn accept(&self, listener: SocketRef) -> Option<SocketRef>;

    /// Shows the service the kernel socket `fd`, which holds the port that `socket` will serve; to be done before the request
    /// that names the port. `false`: the service does not take it for a right to the port.
    fn show(&self, socket: SocketRef, purpose: Purpose, fd: Fd) -> bool;
    /// Waits until ports of sockets that are closed, or whose processes have died, are the kernel's again.
    fn settle(&self);
    /// The network namespace that the service has taken this process for, by its cookie; `None`: this kernel does not tell.
    fn network(&self) -> Option<u64>;
    /// Asks for something. `None`: another request for this socket is under way (try again soon), or nobody is there.
    fn request(&self, socket: SocketRef, request: Request) -> Option<Ticket>;
    /// The answer, once it is there; the socket changes then. For the thread that asked.
    fn answer(&self, ticket: Ticket, bytes: &mut [u8]) -> Option<ControlAnswer>;
    /// Gives up waiting for the answer.
    fn abandon(&self, ticket: Ticket);
    /// Sends FIN after what is queued.
    fn shutdown_write(&self, socket: SocketRef);
    /// The last holder has gone: closes as the kernel would; `linger_s` is SO_LINGER (zero: a reset).
    fn close(&self, socket: SocketRef, linger_s: Option<u16>);
    /// Passes an option on.
    fn set_option(&self, socket: SocketRef, option: SocketOption, value: u32);
    /// TCP_FASTOPEN_KEY: the key that makes cookies, and one whose cookies are still good.
    fn set_fast_open_keys(&self, socket: SocketRef, primary: [u8; 16], backup: Option<[u8; 16]>);

    /// This process has a descriptor of the socket. (`open` and `accept` say so by themselves.)
    fn hold(&self, socket: SocketRef);
    /// A descriptor of the socket is about to be sent to another process. `false`: that cannot be noted, and this process has to
    /// hold the socket until it ends.
    fn pass(&self, socket: SocketRef) -> bool;
    /// A descriptor that was sent has arrived here, and `hold` has been called; or it was not sent after all.
    fn arrive(&self, socket: SocketRef);
    /// Is a descriptor that this process has sent in flight?
    fn is_in_flight(&self, socket: SocketRef) -> bool;
    /// None that this process has sent is in flight any more: the messages are gone. `release` is due.
    fn lose(&self, socket: SocketRef);
    /// This process has none any more; true when no process has one, and `close` is due.
    fn release(&self, socket: SocketRef) -> bool;
    /// Does a process other than this one hold the socket?
    fn is_held_elsewhere(&self, socket: SocketRef) -> bool;
    /// What this process holds; after exec: what the image before this one held.
    fn held(&self) -> Vec<SocketRef>;
    /// Notes the inode of the socket's descriptor: its name for those who inherit the descriptor.
    fn set_inode(&self, socket: SocketRef, inode: u64);
    /// The socket that somebody holds under this inode.
    fn find_inode(&self, inode: u64) -> Option<SocketRef>;

    /// Takes a wait context, with the bell by which the service wakes it.
    fn claim_context(&self, sleepers: Sleepers) -> Option<(Context, OwnedFd)>;
    /// Gives it back; nothing may watch through it any more.
    fn release_context(&self, context: Context);
    /// From now on changes of `socket` are events of `context`.
    fn watch(&self, socket: SocketRef, context: Context);
    /// No longer.
    fn unwatch(&self, socket: SocketRef, context: Context);
    /// Asks for one ring of the bell at the next event. Look once more at what you wait for before sleeping.
    fn arm(&self, context: Context);
    /// Takes that back.
    fn disarm(&self, context: Context);
    /// The next socket whose readiness may have changed. Later changes are reported again.
    fn next_event(&self, context: Context) -> Option<SocketRef>;
    /// Whether `next_event` would name one.
    fn has_event(&self, context: Context) -> bool;

    /// How long to look for events before sleeping, as the service says; nobody has checked it.
    fn spin_limit(&self) -> Duration;
    /// Whether the service sleeps: until somebody wakes it, nothing comes. A hint.
    fn sleeps(&self) -> bool;

    /// Before a child process is made: reserves a number for it, under which it holds all that we hold.
    fn before_fork(&self);
    /// In the parent, when the child's number is known; `None`: there is no child.
    fn after_fork_in_parent(&self, child: Option<u32>);
    /// In a child of `vfork`, before it executes a program: reserves a number for that.
    fn before_borrowed_exec(&self);
    /// In the child of `fork`: becomes a process of its own. It attaches when it first needs a wait context. `false`: no
    /// number was left for it, and to this child the service is gone.
    fn after_fork_in_child(&self) -> bool;
}

/// How this process gets a channel.
pub trait Attach: Send + Sync {
    /// Attaches now, with all descriptors at `floor` or above; the text says why not.
    fn attach(&self, floor: Fd) -> Result<Box<dyn Channel>, String>;
}
