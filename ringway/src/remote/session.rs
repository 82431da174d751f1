//! One attachment to a service.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use ringway_channel::attach::{DIRECTORY_VARIABLE, Door, Purpose};
use ringway_channel::{Client, Failure, SlotRef};
use rustix::io::Errno;

use super::future::Reactor;
use super::wait::Waiters;
use super::{Listener, Stream, UdpSocket};

/// An attachment to a service, which makes sockets. Clones are cheap and share the attachment, which ends with the last
/// clone and the last of their sockets.
///
/// ```no_run
/// use ringway::remote::Session;
///
/// # fn main() -> std::io::Result<()> {
/// let session = Session::attach("default".as_ref())?;
/// let stream = session.connect("10.0.0.1:7".parse().expect("an address"))?;
/// println!("from {}", stream.local_addr());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Session(pub(super) Arc<Shared>);

/// State that all handles of a session share.
pub(super) struct Shared {
    pub(super) client: Arc<Client>,
    pub(super) waiters: Waiters,
    pub(super) reactor: OnceLock<Reactor>,
    /// Held by the thread with a control request under way.
    pub(super) control: Mutex<()>,
}

impl Session {
    /// Attaches, as an application group of its own, to the service with the socket `path`, or, where that has no `/` in it, to the one of
    /// this name in the network namespace of the calling thread.
    ///
    /// # Errors
    /// No service answers there, or it refuses.
    ///
    /// # Blocking
    /// Until the service answers.
    pub fn attach(path: &Path) -> io::Result<Session> {
        let mut token = [0; 16];
        rustix::rand::getrandom(&mut token, rustix::rand::GetRandomFlags::empty())?;
        Session::attach_as(path, token)
    }

    /// Like [`attach`](Self::attach), as a member of the group `token`. Processes of one group share memory, so they
    /// can harm each other.
    ///
    /// # Errors
    /// The errors of `attach`.
    pub fn attach_as(path: &Path, token: [u8; 16]) -> io::Result<Session> {
        let path = Door::of(path.as_os_str(), std::env::var_os(DIRECTORY_VARIABLE).as_deref()).path()?;
        let client = Client::attach(&path, token, 0).map_err(|error| {
            io::Error::new(io::ErrorKind::NotConnected, format!("the service at {}: {error}", path.display()))
        })?;
        Ok(Session::over(client))
    }

    /// Attaches to the service named by RINGWAY_SOCKET, as a member of the group named by RINGWAY_GROUP (`ringway run`
    /// sets both), or without that as a group of its own.
    ///
    /// # Errors
    /// RINGWAY_SOCKET is not set, RINGWAY_GROUP is not 32 hexadecimal digits, or the errors of `attach`.
    pub fn from_environment() -> io::Result<Session> {
        let socket = std::env::var_os("RINGWAY_SOCKET").filter(|socket| !socket.is_empty());
        let socket = socket.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "RINGWAY_SOCKET is not set"))?;
        let Some(group) = std::env::var_os("RINGWAY_GROUP") else { return Session::attach(Path::new(&socket)) };
        let digits = group.to_str().filter(|digits| digits.len() == 32);
        let token = digits.and_then(|digits| u128::from_str_radix(digits, 16).ok());
        let token =
            token.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "RINGWAY_GROUP is not 32 hexadecimal digits"))?;
        Session::attach_as(Path::new(&socket), token.to_be_bytes())
    }

    pub(super) fn over(client: Client) -> Session {
        let client = Arc::new(client);
        Session(Arc::new(Shared { client, waiters: Waiters::default(), reactor: OnceLock::new(), control: Mutex::new(()) }))
    }

    /// Serves a port on Ringway's interfaces; port 0: a free one. The kernel's port is taken too. `[::]` serves IPv4 as
    /// well.
    ///
    /// # Errors
    /// EADDRINUSE, EACCES as of bind(2) and listen(2); EADDRNOTAVAIL if Ringway does not serve the address.
    pub fn listen(&self, local: SocketAddr, backlog: u32) -> io::Result<Listener> {
        Listener::open(self, local, backlog)
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// ECONNREFUSED, ETIMEDOUT and others as of connect(2); ENETUNREACH if no interface of Ringway leads there.
    ///
    /// # Blocking
    /// Until the handshake is over.
    pub fn connect(&self, remote: SocketAddr) -> io::Result<Stream> {
        let stream = self.start_connect(remote)?;
        stream.finish_connect()?;
        Ok(stream)
    }

    /// Begins to open a connection; it is open when it becomes writable. [`Stream::take_error`] returns the reason of a
    /// failure.
    ///
    /// # Errors
    /// Errors that are known at once: ENETUNREACH, EADDRNOTAVAIL.
    pub fn start_connect(&self, remote: SocketAddr) -> io::Result<Stream> {
        Stream::start(self, remote)
    }

    /// Opens a datagram socket on `local`; port 0: a free one.
    ///
    /// # Errors
    /// The errors of bind(2); EADDRNOTAVAIL if Ringway does not serve the address.
    pub fn bind_udp(&self, local: SocketAddr) -> io::Result<UdpSocket> {
        UdpSocket::open(self, local)
    }

    /// Returns true if the service still runs.
    pub fn is_alive(&self) -> bool {
        self.0.client.service_alive()
    }

    pub(super) fn client(&self) -> &Client {
        &self.0.client
    }

    /// Takes a slot for a new socket.
    pub(super) fn open_slot(&self) -> io::Result<SlotRef> {
        let slot = self.client().open_slot();
        slot.ok_or_else(|| if self.is_alive() { Errno::NFILE.into() } else { gone() })
    }

    /// Shows the service the kernel socket that holds the port of `slot`.
    pub(super) fn show(&self, slot: SlotRef, purpose: Purpose, shadow: &OwnedFd) -> io::Result<()> {
        self.client().show(slot, purpose, shadow.as_raw_fd()).map_err(|error| io::Error::other(error.to_string()))
    }

    /// Closes a socket: written bytes are still sent, unless received bytes are unread.
    pub(super) fn release(&self, slot: SlotRef, linger_s: Option<u16>) {
        // Sockets that another process holds, or a dead service has forgotten, stay open.
        if self.client().is_current(slot) && self.client().release(slot.index) {
            self.client().close(slot, linger_s);
        }
    }
}

/// The error for a dead service.
pub(super) fn gone() -> io::Error {
    Errno::CONNRESET.into()
}

/// The errno of a failure, as of Linux's socket calls.
pub(super) fn error_of(failure: Failure) -> io::Error {
    let errno = match failure {
        Failure::Refused => Errno::CONNREFUSED,
        Failure::Reset | Failure::ServiceGone => Errno::CONNRESET,
        Failure::Broken => Errno::PIPE,
        Failure::TimedOut => Errno::TIMEDOUT,
        Failure::HostUnreachable => Errno::HOSTUNREACH,
        Failure::NetworkUnreachable => Errno::NETUNREACH,
        Failure::InUse => Errno::ADDRINUSE,
        Failure::NotAvailable => Errno::ADDRNOTAVAIL,
        Failure::Aborted => Errno::CONNABORTED,
        Failure::NoResources => Errno::NOBUFS,
        Failure::Invalid => Errno::INVAL,
        Failure::NotSupported => Errno::OPNOTSUPP,
        Failure::NotConnected => Errno::NOTCONN,
        Failure::ProtocolUnreachable => Errno::NOPROTOOPT,
        Failure::Prohibited | Failure::Denied => Errno::ACCESS,
        // The kernel's errno for packets that its own output chain has refused.
        Failure::Guarded | Failure::CgroupProgram | Failure::Rule | Failure::PortWaits | Failure::NotOurs => Errno::PERM,
        Failure::MessageTooLong => Errno::MSGSIZE,
    };
    errno.into()
}
