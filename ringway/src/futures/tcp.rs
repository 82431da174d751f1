//! TCP as futures.
//!
//! A listener or stream is owned: dropping it closes it. Its methods take `&self`, so that one task may read while another
//! writes.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use super::{Direction, Runtime};
use crate::error::kind;
use crate::{
    AcceptError, Chunk, ConnectError, Content, ListenError, Net, ReadError, Rejected, Reservation, TcpOptions, TcpStreamId,
    WriteError,
};

/// A listening socket; dropping it closes it.
///
/// ```
/// use ringway::futures::{Runtime, TcpListener};
///
/// async fn serve(runtime: Runtime) -> Result<(), Box<dyn std::error::Error>> {
///     let listener = TcpListener::bind(&runtime, "0.0.0.0:7".parse()?)?;
///     loop {
///         let stream = listener.accept().await?;
///         runtime.spawn_local(async move { stream.write_all(b"hello\n").await });
///     }
/// }
/// ```
pub struct TcpListener {
    runtime: Runtime,
    listener: crate::TcpListener,
}

/// A connection; dropping it closes it: written data is still sent.
///
/// ```
/// use ringway::futures::TcpStream;
///
/// /// Sends everything back, without a copy.
/// async fn echo(stream: TcpStream) -> Result<(), Box<dyn std::error::Error>> {
///     while let Some(chunk) = stream.read_chunk().await? {
///         stream.write_chunk(chunk).await?;
///     }
///     Ok(())
/// }
/// ```
pub struct TcpStream {
    pub(super) runtime: Runtime,
    pub(super) stream: crate::TcpStream,
}

impl TcpListener {
    /// Serves an address and port.
    ///
    /// # Errors
    /// [`ListenError`]
    pub fn bind(runtime: &Runtime, local: SocketAddr) -> Result<TcpListener, ListenError> {
        let listener = runtime.with(|net| crate::TcpListener::bind(net, local))?;
        Ok(TcpListener { runtime: runtime.clone(), listener })
    }

    /// Like `bind`, with a backlog, and initial options of accepted connections.
    ///
    /// # Errors
    /// [`ListenError`]
    pub fn bind_with(
        runtime: &Runtime,
        local: SocketAddr,
        backlog: u32,
        options: TcpOptions,
    ) -> Result<TcpListener, ListenError> {
        let listener = runtime.with(|net| crate::TcpListener::bind_with(net, local, backlog, options))?;
        Ok(TcpListener { runtime: runtime.clone(), listener })
    }

    /// Accepts the next connection. Dropping the future loses none.
    ///
    /// # Errors
    /// [`AcceptError::NotOpen`]
    pub async fn accept(&self) -> Result<TcpStream, AcceptError> {
        let accept = |net: &mut Net| match self.listener.accept(net) {
            Err(AcceptError::WouldBlock) => None,
            answer => Some(answer),
        };
        let stream = self.runtime.ready(self.listener.index(), Direction::Read, accept).await?;
        Ok(TcpStream { runtime: self.runtime.clone(), stream })
    }
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        self.runtime.forget(self.listener.index());
    }
}

impl TcpStream {
    /// Connects. Dropping the future gives up the attempt.
    ///
    /// # Errors
    /// The errors of `std::net::TcpStream::connect`.
    pub async fn connect(runtime: &Runtime, remote: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::connect_with(runtime, None, remote, TcpOptions::default()).await
    }

    /// Like `connect`, from a local address (parts of which may be unspecified), with options.
    ///
    /// # Errors
    /// The errors of `std::net::TcpStream::connect`.
    pub async fn connect_with(
        runtime: &Runtime,
        local: Option<SocketAddr>,
        remote: SocketAddr,
        options: TcpOptions,
    ) -> io::Result<TcpStream> {
        let stream = runtime.with(|net| crate::TcpStream::connect_with(net, local, remote, options)).map_err(refusal)?;
        let stream = TcpStream { runtime: runtime.clone(), stream };
        let opened = |net: &mut Net| {
            let failed = stream.stream.error(net);
            (failed.is_some() || stream.stream.readiness(net).writable).then_some(failed)
        };
        match stream.runtime.ready(stream.stream.index(), Direction::Write, opened).await {
            Some(error) => Err(kind(error).into()),
            None => Ok(stream),
        }
    }

    /// Copies received bytes into `buffer`; zero: the peer has sent everything. Dropping the future takes nothing.
    ///
    /// # Errors
    /// [`ReadError`], except `WouldBlock`.
    pub async fn read(&self, buffer: &mut [u8]) -> Result<usize, ReadError> {
        self.reading(|net| self.stream.read(net, buffer)).await
    }

    /// Returns the next received bytes in place. `None`: the peer has sent everything. Dropping the future takes
    /// nothing.
    ///
    /// # Errors
    /// [`ReadError`], except `WouldBlock`.
    pub async fn read_chunk(&self) -> Result<Option<Chunk>, ReadError> {
        self.reading(|net| self.stream.read_chunk(net)).await
    }

    /// Copies as much of `bytes` as there is space for. Dropping the future sends nothing.
    ///
    /// # Errors
    /// [`WriteError`], except `WouldBlock`.
    pub async fn write(&self, bytes: &[u8]) -> Result<usize, WriteError> {
        self.writing(|net| self.stream.write(net, bytes)).await
    }

    /// Copies all of `bytes`. If the future is dropped, it is unknown how many were sent.
    ///
    /// # Errors
    /// [`WriteError`], except `WouldBlock`.
    pub async fn write_all(&self, bytes: &[u8]) -> Result<(), WriteError> {
        let mut sent = 0;
        while sent < bytes.len() {
            sent += self.write(&bytes[sent..]).await?;
        }
        Ok(())
    }

    /// Sends all of `content` without a copy; see [`TcpStreamId::write_content`]. After dropping the future it is
    /// unknown how many bytes were sent.
    ///
    /// # Errors
    /// [`WriteError`], except `WouldBlock`.
    pub async fn write_content(&self, content: &Content) -> Result<(), WriteError> {
        let mut sent = 0;
        while sent < content.len() {
            sent += self.writing(|net| self.stream.write_content(net, content, sent..content.len())).await?;
        }
        Ok(())
    }

    /// Reserves space for up to `len` bytes in place; see [`TcpStreamId::reserve`]. Dropping the future takes
    /// nothing.
    ///
    /// # Errors
    /// [`WriteError`], except `WouldBlock`.
    pub async fn reserve(&self, len: usize) -> Result<Reservation, WriteError> {
        self.writing(|net| self.stream.reserve(net, len)).await
    }

    /// Sends the first `len` bytes of a reservation. Dropping the future before that drops the reservation.
    ///
    /// # Errors
    /// [`WriteError`], except `WouldBlock`.
    pub async fn commit(&self, reservation: Reservation, len: usize) -> Result<(), WriteError> {
        let mut item = Some(reservation);
        self.writing(|net| again(&mut item, |reservation| self.stream.commit(net, reservation, len))).await
    }

    /// Sends a chunk on without copying it. Dropping the future before that drops the chunk.
    ///
    /// # Errors
    /// [`WriteError`], except `WouldBlock`.
    pub async fn write_chunk(&self, chunk: Chunk) -> Result<(), WriteError> {
        let mut item = Some(chunk);
        self.writing(|net| again(&mut item, |chunk| self.stream.write_chunk(net, chunk))).await
    }

    /// Sends FIN after the written data; reading goes on.
    pub fn shutdown_write(&self) {
        self.runtime.with(|net| self.stream.shutdown_write(net));
    }

    /// Resets the connection with RST.
    pub fn abort(self) {
        self.runtime.with(|net| self.stream.id().abort(net));
    }

    /// The id, for calls that need no waiting: addresses, options, counters.
    pub fn id(&self) -> TcpStreamId {
        self.stream.id()
    }

    async fn reading<T>(&self, mut act: impl FnMut(&mut Net) -> Result<T, ReadError>) -> Result<T, ReadError> {
        let act = |net: &mut Net| Some(act(net)).filter(|answer| !matches!(answer, Err(ReadError::WouldBlock)));
        self.runtime.ready(self.stream.index(), Direction::Read, act).await
    }

    async fn writing<T>(&self, mut act: impl FnMut(&mut Net) -> Result<T, WriteError>) -> Result<T, WriteError> {
        let act = |net: &mut Net| Some(act(net)).filter(|answer| !matches!(answer, Err(WriteError::WouldBlock)));
        self.runtime.ready(self.stream.index(), Direction::Write, act).await
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        self.runtime.forget(self.stream.index());
    }
}

impl Runtime {
    /// Waits until `act` returns an answer; calls it at once, and again after each news of that direction of the
    /// socket.
    pub(super) async fn ready<T>(&self, index: usize, direction: Direction, mut act: impl FnMut(&mut Net) -> Option<T>) -> T {
        poll_fn(|context| self.poll_ready(context, index, direction, &mut act)).await
    }

    /// Calls `act`; if it has no answer, the task is woken by news of that direction of the socket.
    pub(super) fn poll_ready<T>(
        &self,
        context: &Context<'_>,
        index: usize,
        direction: Direction,
        act: impl FnMut(&mut Net) -> Option<T>,
    ) -> Poll<T> {
        match self.with(act) {
            Some(answer) => Poll::Ready(answer),
            None => {
                self.register(index, direction, context);
                Poll::Pending
            }
        }
    }
}

/// Tries to send `item`; if refused, the item stays there.
fn again<T>(item: &mut Option<T>, send: impl FnOnce(T) -> Result<(), Rejected<T>>) -> Result<(), WriteError> {
    let sent = item.take().map_or(Ok(()), send);
    sent.map_err(|rejected| {
        *item = Some(rejected.item);
        rejected.error
    })
}

fn refusal(error: ConnectError) -> io::Error {
    let kind = match error {
        ConnectError::InUse => io::ErrorKind::AddrInUse,
        ConnectError::NoPort => io::ErrorKind::AddrNotAvailable,
        ConnectError::NoRoute => io::ErrorKind::NetworkUnreachable,
        ConnectError::Full => io::ErrorKind::OutOfMemory,
    };
    io::Error::new(kind, error)
}
