//! One small enum per operation: the caller's possible reactions decide the variants.

use crate::event::SocketError;

/// Reason why `listen` was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenError {
    /// Another listener has the address and port.
    InUse,
    /// The limit of listeners is reached.
    Full,
    /// The address is not one of this stack's.
    NotLocal,
}

/// Reason why `udp_bind` was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindError {
    /// Another socket has the address and port, and the two may not share it.
    InUse,
    /// No port is free.
    NoPort,
    /// The limit of sockets is reached.
    Full,
    /// The address is not one of this stack's.
    NotLocal,
}

/// Reason why a group was not joined or left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupError {
    /// The address is not a group's, or not of the socket's family.
    NotMulticast,
    /// There is no such interface, or no interface leads to the group.
    NoInterface,
    /// The socket is already in the group.
    AlreadyMember,
    /// The socket is not in the group.
    NotMember,
    /// The socket, or the interface, has reached its limit of groups.
    Full,
    /// The name is stale.
    NotOpen,
}

/// Reason why `udp_send` took nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpSendError {
    /// The send buffer is full or no frame is free; `Event::Ready` follows when there is space.
    WouldBlock,
    /// The datagram, or with "don't fragment" its packet, is larger than can be sent.
    MessageTooLong,
    /// No route leads to the destination.
    NoRoute,
    /// The destination is a broadcast address and the socket may not broadcast.
    BroadcastForbidden,
    /// Neither the call nor `udp_connect` names a destination.
    DestinationRequired,
    /// The segment size is zero or makes too many segments, or the destination is of another family than the socket or has
    /// port 0.
    Invalid,
    /// The socket was shut down for writing.
    Closed,
    /// The name is stale.
    NotOpen,
}

/// Reason why `connect` was refused at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// The 4-tuple is in use.
    InUse,
    /// No port is free towards that peer, or the given port makes the flow another worker's.
    NoPort,
    /// No route to the peer.
    NoRoute,
    /// The limit of connections is reached.
    Full,
}

/// Reason why `accept` returned nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptError {
    /// No established connection is waiting.
    WouldBlock,
    /// The name is stale or is not a listener.
    NotListening,
}

/// Reason why `send` took nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The send buffer is full or no frame is free.
    WouldBlock,
    /// The connection is not (or no longer) open for sending.
    Closed,
    /// The name is stale.
    NotConnected,
}

/// Reason why `receive` returned nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveError {
    /// Nothing has arrived.
    WouldBlock,
    /// The peer has closed and everything was read.
    EndOfStream,
    /// The connection has failed, and everything was read.
    Failed(SocketError),
    /// The name is stale.
    NotConnected,
}

/// Implements `Display` and `Error` with a text for each variant.
macro_rules! words {
    // One macro instead of the same ten lines for each of the enums.
    ($($name:ident { $($variant:ident => $text:literal),* $(,)? })*) => {$(
        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(match self { $($name::$variant => $text),* })
            }
        }
        impl core::error::Error for $name {}
    )*};
}

words! {
    ListenError { InUse => "the port is in use", Full => "too many listeners", NotLocal => "the address is not local" }
    BindError {
        InUse => "the port is in use",
        NoPort => "no port is free",
        Full => "too many sockets",
        NotLocal => "the address is not local",
    }
    ConnectError {
        InUse => "the connection exists already",
        NoPort => "no port is free",
        NoRoute => "no route leads there",
        Full => "too many connections",
    }
    UdpSendError {
        WouldBlock => "there is no room now",
        MessageTooLong => "the message is too long",
        NoRoute => "no route leads there",
        BroadcastForbidden => "the socket may not broadcast",
        DestinationRequired => "no destination is named",
        Invalid => "the destination or the segment size is not valid",
        Closed => "the socket was shut down",
        NotOpen => "the socket is gone",
    }
}
