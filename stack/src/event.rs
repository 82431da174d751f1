//! What the stack tells the engine: names of sockets and what changed.

/// Names a connection or a listener of one stack. Stale names are recognised by the generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId {
    /// Index in the slab.
    pub index: u32,
    /// How often the index had been used before.
    pub generation: u32,
}

/// Why a connection ended other than by FIN. `posix::errno` maps these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketError {
    /// The peer reset the connection.
    Reset,
    /// The peer refused the connection (RST in SYN-SENT).
    Refused,
    /// Retransmissions, keepalives or the user timeout ran out.
    TimedOut,
    /// ICMP: no route to the host.
    HostUnreachable,
    /// ICMP: no route to the network.
    NetworkUnreachable,
    /// ICMP: the protocol is not served.
    ProtocolUnreachable,
    /// ICMPv6: a router's policy forbids the way.
    Prohibited,
    /// The local side aborted.
    Aborted,
}

/// What can be done with a socket now. Level values: true as long as the condition holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Bytes, a FIN, an error or (listener) a connection can be taken without waiting.
    pub readable: bool,
    /// Bytes can be queued, or an error can be taken, without waiting.
    pub writable: bool,
    /// The peer has sent FIN and all before it was received.
    pub peer_closed: bool,
    /// Both directions are closed, or the connection was reset.
    pub hung_up: bool,
}

/// The last urgent byte that the peer has announced (RFC 9293 §3.8.5), until the application has read beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Urgent {
    /// Bytes of the stream before it, modulo 2^32.
    pub at: u32,
    /// The byte; `None`: it has not come yet.
    pub byte: Option<u8>,
}

/// Something happened on a socket; at most one of each kind per socket and turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An active open was answered: the connection is established.
    Connected {
        /// The connection.
        socket: SocketId,
        /// What the application named it by.
        cookie: u64,
    },
    /// A listener has a new established connection to accept. `cookie` is the listener's.
    Accepted {
        /// The listener.
        listener: SocketId,
        /// What the application named it by.
        cookie: u64,
    },
    /// Readiness of a connection changed for the better: more to read, room to write, an end.
    Ready {
        /// The connection.
        socket: SocketId,
        /// What the application named it by.
        cookie: u64,
    },
    /// There is news of urgent data: ask [`Stack::urgent`](crate::Stack::urgent). Comes before the `Ready` of the bytes.
    Urgent {
        /// The connection.
        socket: SocketId,
        /// What the application named it by.
        cookie: u64,
    },
    /// The connection ended with an error (also for a failed active open).
    Failed {
        /// The connection.
        socket: SocketId,
        /// What the application named it by.
        cookie: u64,
        /// Why.
        error: SocketError,
    },
    /// The socket is gone and its name invalid: closed and acknowledged, or TIME-WAIT took over.
    Closed {
        /// The connection.
        socket: SocketId,
        /// What the application named it by.
        cookie: u64,
        /// TIME-WAIT took over: its pair of addresses stays taken.
        time_wait: bool,
    },
    /// A neighbor must be resolved by the kernel (links whose neighbors are mirrored).
    ResolveNeighbor {
        /// The interface.
        interface: u32,
        /// The neighbor.
        ip: core::net::IpAddr,
    },
    /// Which addresses an interface has, has changed by itself.
    Address {
        /// The interface.
        interface: u32,
        /// What happened.
        change: AddressChange,
    },
}

/// What has happened to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressChange {
    /// It was made or checked and can be used now.
    Added(crate::Cidr),
    /// It was made by the stack and is gone.
    Removed(core::net::IpAddr),
    /// Somebody else on the link uses it. One that was being checked is not used; one in use is kept and defended.
    Duplicate(core::net::IpAddr),
}
