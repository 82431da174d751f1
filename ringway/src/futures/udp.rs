//! UDP as futures.

use std::net::SocketAddr;

use super::{Direction, Runtime};
use crate::{BindError, Datagram, Net, ReadError, UdpOptions, UdpSendError, UdpSocketId};

/// A UDP socket; dropping it closes it.
///
/// ```
/// use ringway::futures::{Runtime, UdpSocket};
///
/// async fn reflect(runtime: Runtime) -> Result<(), Box<dyn std::error::Error>> {
///     let socket = UdpSocket::bind(&runtime, "0.0.0.0:7".parse()?)?;
///     loop {
///         let datagram = socket.recv_chunk().await?;
///         socket.send_to(&datagram.bytes(), datagram.from()).await?;
///     }
/// }
/// ```
pub struct UdpSocket {
    runtime: Runtime,
    socket: crate::UdpSocket,
}

impl UdpSocket {
    /// Serves an address and port.
    ///
    /// # Errors
    /// [`BindError`]
    pub fn bind(runtime: &Runtime, local: SocketAddr) -> Result<UdpSocket, BindError> {
        UdpSocket::bind_with(runtime, local, UdpOptions::default())
    }

    /// Like `bind`, with options.
    ///
    /// # Errors
    /// [`BindError`]
    pub fn bind_with(runtime: &Runtime, local: SocketAddr, options: UdpOptions) -> Result<UdpSocket, BindError> {
        let socket = runtime.with(|net| crate::UdpSocket::bind_with(net, local, options))?;
        Ok(UdpSocket { runtime: runtime.clone(), socket })
    }

    /// Copies the next datagram into `buffer`; bytes that do not fit are lost. Dropping the future takes none.
    ///
    /// # Errors
    /// [`ReadError`], except `WouldBlock`.
    pub async fn recv_from(&self, buffer: &mut [u8]) -> Result<(usize, SocketAddr), ReadError> {
        self.reading(|net| self.socket.recv_from(net, buffer)).await
    }

    /// Returns the next datagram in place. Dropping the future takes none.
    ///
    /// # Errors
    /// [`ReadError`], except `WouldBlock`.
    pub async fn recv_chunk(&self) -> Result<Datagram, ReadError> {
        self.reading(|net| self.socket.recv_chunk(net)).await
    }

    /// Sends a copy of `bytes` to `to`. Dropping the future sends nothing.
    ///
    /// # Errors
    /// [`UdpSendError`], except `WouldBlock`.
    pub async fn send_to(&self, bytes: &[u8], to: SocketAddr) -> Result<usize, UdpSendError> {
        let send = |net: &mut Net| {
            Some(self.socket.send_to(net, bytes, to)).filter(|answer| !matches!(answer, Err(UdpSendError::WouldBlock)))
        };
        self.runtime.ready(self.socket.index(), Direction::Write, send).await
    }

    /// The id, for calls that need no waiting.
    pub fn id(&self) -> UdpSocketId {
        self.socket.id()
    }

    async fn reading<T>(&self, mut act: impl FnMut(&mut Net) -> Result<T, ReadError>) -> Result<T, ReadError> {
        let act = |net: &mut Net| Some(act(net)).filter(|answer| !matches!(answer, Err(ReadError::WouldBlock)));
        self.runtime.ready(self.socket.index(), Direction::Read, act).await
    }
}

impl Drop for UdpSocket {
    fn drop(&mut self) {
        self.runtime.forget(self.socket.index());
    }
}
