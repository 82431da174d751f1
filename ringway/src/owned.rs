//! The owned sockets of a `Net`.
//!
//! An owned socket dereferences to its id, a copied number with all calls on the socket, and closes the socket when it is
//! dropped. Dropping needs no `Net`: it leaves a note, and the `Net` closes the socket before it takes the next event, opens
//! the next socket or runs the next iteration. Promises: a drop is a `close` (written data is still sent, then FIN; RST if
//! received data was not read); after it the socket has no events. When the `Net` is gone, a drop does nothing: the sockets
//! have ended with their stack, and no packet tells the peers.

use std::net::SocketAddr;
use std::ops::Deref;
use std::rc::Rc;

use ringway_engine::native::{Kind, Returns};
use ringway_stack::{ActiveOpen, BindError, ConnectError, ListenError, TcpOptions, UdpOptions};

use super::net::Net;
use super::tcp::{TcpListenerId, TcpStreamId, to_stack};
use super::udp::UdpSocketId;

/// Default backlog: connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// A listening socket; dropping it closes it.
///
/// All calls are those of [`TcpListenerId`].
///
/// ```
/// use ringway::{AcceptError, Net, NetConfig, TcpListener};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut net = Net::new(NetConfig::default())?;
/// let listener = TcpListener::bind(&mut net, "0.0.0.0:7".parse()?)?;
/// assert_eq!(listener.accept(&mut net).err(), Some(AcceptError::WouldBlock));
/// drop(listener);
/// let again = TcpListener::bind(&mut net, "0.0.0.0:7".parse()?)?;
/// # drop(again); Ok(()) }
/// ```
#[must_use = "dropping a listener closes it"]
pub struct TcpListener {
    id: TcpListenerId,
    /// `None`: the socket is no longer this value's.
    returns: Option<Rc<Returns>>,
}

/// A connection; dropping it closes it.
///
/// All calls are those of [`TcpStreamId`].
///
/// ```
/// use ringway::{Net, TcpStream};
///
/// /// Sends a farewell. The connection closes at the end of the function; what was written is still sent.
/// fn farewell(net: &mut Net, stream: TcpStream) {
///     stream.write(net, b"bye\n").ok();
/// }
/// ```
#[must_use = "dropping a connection closes it"]
pub struct TcpStream {
    id: TcpStreamId,
    /// `None`: the socket is no longer this value's.
    returns: Option<Rc<Returns>>,
}

/// A UDP socket; dropping it closes it.
///
/// All calls are those of [`UdpSocketId`].
///
/// ```
/// use ringway::{Net, NetConfig, ReadError, UdpSocket};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut net = Net::new(NetConfig::default())?;
/// let socket = UdpSocket::bind(&mut net, "0.0.0.0:53".parse()?)?;
/// assert_eq!(socket.recv_from(&mut net, &mut [0; 512]), Err(ReadError::WouldBlock));
/// # Ok(()) }
/// ```
#[must_use = "dropping a socket closes it"]
pub struct UdpSocket {
    id: UdpSocketId,
    /// `None`: the socket is no longer this value's.
    returns: Option<Rc<Returns>>,
}

impl TcpListener {
    /// Serves an address and port; the unspecified address means all addresses of the stack.
    ///
    /// # Errors
    /// [`ListenError`]
    pub fn bind(net: &mut Net, local: SocketAddr) -> Result<TcpListener, ListenError> {
        TcpListener::bind_with(net, local, BACKLOG, TcpOptions::default())
    }

    /// Like `bind`, with a backlog, and initial options of accepted connections.
    ///
    /// # Errors
    /// [`ListenError`]
    pub fn bind_with(net: &mut Net, local: SocketAddr, backlog: u32, options: TcpOptions) -> Result<TcpListener, ListenError> {
        let (sockets, core) = net.parts();
        sockets.close_dropped(core);
        let (index, name) = sockets.vacancy();
        let socket = core.stack.listen(to_stack(local), backlog, options, name)?;
        let id = TcpListenerId(sockets.open(index, socket, Kind::Listener));
        Ok(TcpListener::own(id, sockets.returns.clone()))
    }
}

impl TcpStream {
    /// Starts to connect; an event reports success or failure. The stack chooses address and port.
    ///
    /// # Errors
    /// [`ConnectError`]: the attempt did not start.
    pub fn connect(net: &mut Net, remote: SocketAddr) -> Result<TcpStream, ConnectError> {
        TcpStream::connect_with(net, None, remote, TcpOptions::default())
    }

    /// Like `connect`, from a local address (parts of which may be unspecified), with options.
    ///
    /// # Errors
    /// [`ConnectError`]: the attempt did not start.
    pub fn connect_with(
        net: &mut Net,
        local: Option<SocketAddr>,
        remote: SocketAddr,
        options: TcpOptions,
    ) -> Result<TcpStream, ConnectError> {
        let (sockets, core) = net.parts();
        sockets.close_dropped(core);
        let (index, name) = sockets.vacancy();
        let open = ActiveOpen { local: local.map(to_stack), remote: to_stack(remote), options, user_token: name };
        let socket = core.stack.connect(core.now, open)?;
        sockets.touched = true;
        let id = TcpStreamId(sockets.open(index, socket, Kind::Stream));
        Ok(TcpStream::own(id, sockets.returns.clone()))
    }

    /// Longest reservation, bytes: what one frame holds.
    pub const RESERVE_MAX: usize = TcpStreamId::RESERVE_MAX;

    /// Resets the connection with RST.
    pub fn abort(self, net: &mut Net) {
        self.into_id().abort(net);
    }
}

impl UdpSocket {
    /// Serves an address and port. The unspecified address means all addresses of the stack; for port 0 the stack
    /// chooses.
    ///
    /// # Errors
    /// [`BindError`]
    pub fn bind(net: &mut Net, local: SocketAddr) -> Result<UdpSocket, BindError> {
        UdpSocket::bind_with(net, local, UdpOptions::default())
    }

    /// Like `bind`, with options.
    ///
    /// # Errors
    /// [`BindError`]
    pub fn bind_with(net: &mut Net, local: SocketAddr, options: UdpOptions) -> Result<UdpSocket, BindError> {
        let (sockets, core) = net.parts();
        sockets.close_dropped(core);
        let (index, name) = sockets.vacancy();
        let socket = core.stack.udp_bind(to_stack(local), options, name)?;
        let id = UdpSocketId(sockets.open(index, socket, Kind::Datagram));
        Ok(UdpSocket::own(id, sockets.returns.clone()))
    }

    /// Longest datagram written in place, bytes: what one frame holds. `send_to` takes longer ones.
    pub const RESERVE_MAX: usize = UdpSocketId::RESERVE_MAX;
}

macro_rules! owned {
    // A socket of `Net` and its id.
    ($($name:ident: $id:ident),*) => {$(
        impl $name {
            pub(crate) fn own(id: $id, returns: Rc<Returns>) -> $name {
                $name { id, returns: Some(returns) }
            }

            /// Takes over the socket of `id`, which was given away by [`into_id`](Self::into_id): it closes when the
            /// returned value is dropped.
            pub fn from_id(net: &mut Net, id: $id) -> $name {
                $name::own(id, net.parts().0.returns.clone())
            }

            /// The socket's id, as events name it. The socket stays this value's.
            #[inline]
            pub fn id(&self) -> $id {
                self.id
            }

            /// Gives the socket away: it lives until it is closed by its id, or as long as the `Net`.
            #[must_use = "nothing else names the socket"]
            pub fn into_id(mut self) -> $id {
                self.returns = None;
                self.id
            }

            /// Closes the socket now, as dropping it does a little later.
            pub fn close(self, net: &mut Net) {
                self.into_id().close(net);
            }
        }

        impl Deref for $name {
            type Target = $id;

            #[inline]
            fn deref(&self) -> &$id {
                &self.id
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                if let Some(returns) = self.returns.take() {
                    returns.push_dropped(self.id.0);
                }
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple(stringify!($name)).field(&self.id).finish()
            }
        }
    )*};
}

owned!(TcpListener: TcpListenerId, TcpStream: TcpStreamId, UdpSocket: UdpSocketId);
