//! Reasons why a handover was refused.

use crate::tcp::State;

/// Reason why a connection does not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportError {
    /// The name is stale, or a listener's.
    NotConnected,
    /// A connection in this state has nothing to move, or nothing yet.
    State(State),
    /// It waits in a listener's accept queue: accept it first.
    NotAccepted,
    /// There are as many held four-tuples as there may be connections.
    Full,
}

/// Reason why an image was refused. Nothing of it is left in the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportError {
    /// The local address is not one of this stack's, or the flow belongs to another worker.
    NotLocal,
    /// Not the addresses of a TCP connection: two families, a port 0, a group or no address.
    Addresses,
    /// The stack has a connection, a half-open one or a TIME-WAIT record with this four-tuple.
    InUse,
    /// The limit of connections is reached.
    Full,
    /// Too few frames are free for the queues.
    NoFrames,
    /// No connection in this state can move.
    State(State),
    /// A window scale, segment size or buffer that TCP does not have.
    Terms,
    /// The receive sequence space contradicts itself or its data.
    Receiving,
    /// The send sequence space contradicts itself or its data.
    Sending,
    /// Congestion control or loss recovery speaks of what is not in flight.
    Recovering,
    /// A time or an estimate that no timer can have.
    Deadlines,
}

/// Reason why bytes are no image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// They end too early, or a length is larger than the rest.
    Truncated,
    /// Another version has written them.
    OtherVersion,
    /// A value that is none of the choices of its field.
    Unknown,
    /// Bytes follow the image.
    Trailing,
}
