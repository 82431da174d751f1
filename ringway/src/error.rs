//! Errors of calls on native sockets that did nothing: one small enum per operation.
//!
//! Each converts into an `io::Error` of the kind that `std::net` would return.

use std::io;

use ringway_stack::SocketError;

/// Reason why nothing was read.
///
/// ```
/// use ringway::ReadError;
/// use std::io;
///
/// assert_eq!(io::Error::from(ReadError::WouldBlock).kind(), io::ErrorKind::WouldBlock);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// Nothing has arrived; an event follows when something does.
    WouldBlock,
    /// The application holds the most chunks of this socket that it may, and must give some back first.
    Lent,
    /// The connection has failed, and all that had arrived before was read.
    Failed(SocketError),
    /// The id is stale, or its socket cannot be read.
    NotOpen,
}

/// Reason why nothing was written.
///
/// ```
/// use ringway::WriteError;
/// use std::io;
///
/// assert_eq!(io::Error::from(WriteError::Closed).kind(), io::ErrorKind::BrokenPipe);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteError {
    /// There is no space; an event follows when that changes.
    WouldBlock,
    /// The local side has shut the direction down.
    Closed,
    /// The connection has failed.
    Failed(SocketError),
    /// The id is stale, or its socket cannot be written.
    NotOpen,
}

/// Reason why no connection was accepted.
///
/// ```
/// use ringway::AcceptError;
/// use std::io;
///
/// assert_eq!(io::Error::from(AcceptError::WouldBlock).kind(), io::ErrorKind::WouldBlock);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcceptError {
    /// None is waiting; an event follows when one is.
    WouldBlock,
    /// The id is stale.
    NotOpen,
}

/// Item that a call refused.
///
/// ```
/// use ringway::{Chunk, Net, TcpStreamId};
///
/// /// Passes a chunk on; returns it when there is no space.
/// fn pass(net: &mut Net, to: TcpStreamId, chunk: Chunk) -> Option<Chunk> {
///     to.write_chunk(net, chunk).err().map(|rejected| rejected.item)
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Rejected<T> {
    /// The reason.
    pub error: WriteError,
    /// The item, unchanged.
    pub item: T,
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> io::Error {
        match error {
            ReadError::WouldBlock => io::ErrorKind::WouldBlock.into(),
            ReadError::Lent => io::Error::new(io::ErrorKind::QuotaExceeded, "too many chunks are held"),
            ReadError::Failed(error) => kind(error).into(),
            ReadError::NotOpen => io::ErrorKind::NotConnected.into(),
        }
    }
}

impl From<WriteError> for io::Error {
    fn from(error: WriteError) -> io::Error {
        match error {
            WriteError::WouldBlock => io::ErrorKind::WouldBlock.into(),
            WriteError::Closed => io::ErrorKind::BrokenPipe.into(),
            WriteError::Failed(error) => kind(error).into(),
            WriteError::NotOpen => io::ErrorKind::NotConnected.into(),
        }
    }
}

impl From<AcceptError> for io::Error {
    fn from(error: AcceptError) -> io::Error {
        match error {
            AcceptError::WouldBlock => io::ErrorKind::WouldBlock.into(),
            AcceptError::NotOpen => io::ErrorKind::InvalidInput.into(),
        }
    }
}

/// Error kind that `std::net` uses for the end of a connection.
pub(crate) fn kind(error: SocketError) -> io::ErrorKind {
    match error {
        SocketError::Reset => io::ErrorKind::ConnectionReset,
        SocketError::Refused => io::ErrorKind::ConnectionRefused,
        SocketError::TimedOut => io::ErrorKind::TimedOut,
        SocketError::HostUnreachable | SocketError::ProtocolUnreachable => io::ErrorKind::HostUnreachable,
        SocketError::NetworkUnreachable => io::ErrorKind::NetworkUnreachable,
        SocketError::Prohibited => io::ErrorKind::PermissionDenied,
        SocketError::Aborted => io::ErrorKind::ConnectionAborted,
    }
}

macro_rules! display {
    // Each displays the text of its `io::Error`.
    ($($name:ty),*) => {$(
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                io::Error::from(*self).fmt(f)
            }
        }
        impl std::error::Error for $name {}
    )*};
}

display!(ReadError, WriteError, AcceptError);
