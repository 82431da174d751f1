//! Events for the engine: names of sockets and what changed.

/// Names a connection or a listener of one stack. The generation identifies stale names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId {
    /// Index in the slab.
    pub index: u32,
    /// Number of earlier uses of the index.
    pub generation: u32,
}

/// Reason why a connection ended other than by FIN. `posix::errno` maps these.
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
    /// ICMP: the host does not support the protocol.
    ProtocolUnreachable,
    /// ICMPv6: a router's policy prohibits the destination.
    Prohibited,
    /// The local side aborted.
    Aborted,
}

/// Operations that are possible on a socket now. Level values: true as long as the condition holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Bytes, a FIN, an error or (listener) a connection can be taken without waiting.
    pub readable: bool,
    /// Bytes can be queued, or an error can be taken, without waiting.
    pub writable: bool,
    /// The peer has sent FIN and everything before it was received.
    pub peer_closed: bool,
    /// Both directions are closed, or the connection was reset.
    pub hung_up: bool,
}

/// The last urgent byte that the peer has announced (RFC 9293 §3.8.5), until the application has read beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Urgent {
    /// Bytes of the stream before it, modulo 2^32.
    pub at: u32,
    /// The byte; `None`: it has not arrived yet.
    pub byte: Option<u8>,
}

/// Something happened on a socket; at most one event of each kind per socket and iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An active open was answered: the connection is established.
    Connected {
        /// The connection.
        socket: SocketId,
        /// Its user token.
        user_token: u64,
    },
    /// A listener has a new established connection to accept. `user_token` is the listener's.
    Accepted {
        /// The listener.
        listener: SocketId,
        /// The listener's user token.
        user_token: u64,
    },
    /// A connection became readable or writable, or ended.
    Ready {
        /// The connection.
        socket: SocketId,
        /// Its user token.
        user_token: u64,
    },
    /// Urgent data was announced or arrived: call [`Stack::urgent`](crate::Stack::urgent). Comes before the `Ready` of the
    /// bytes.
    Urgent {
        /// The connection.
        socket: SocketId,
        /// Its user token.
        user_token: u64,
    },
    /// The connection ended with an error (also for a failed active open).
    Failed {
        /// The connection.
        socket: SocketId,
        /// Its user token.
        user_token: u64,
        /// The reason.
        error: SocketError,
    },
    /// The socket is gone and its name invalid: closed and acknowledged, or TIME-WAIT took over.
    Closed {
        /// The connection.
        socket: SocketId,
        /// Its user token.
        user_token: u64,
        /// True when TIME-WAIT took over: its pair of addresses stays in use.
        time_wait: bool,
    },
    /// The kernel must resolve a neighbor (links whose neighbors are mirrored).
    ResolveNeighbor {
        /// The interface.
        interface: u32,
        /// The neighbor.
        ip: core::net::IpAddr,
    },
    /// The stack changed the addresses of an interface.
    Address {
        /// The interface.
        interface: u32,
        /// The change.
        change: AddressChange,
    },
}

/// Change of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressChange {
    /// It was made or checked and can be used now.
    Added(crate::Cidr),
    /// The stack had made it, and it is gone.
    Removed(core::net::IpAddr),
    /// Another host on the link uses it. If it was being checked, it is not used; if in use, it is kept and defended.
    Duplicate(core::net::IpAddr),
}
