//! Serving a port.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use ringway_channel::attach::Purpose;
use ringway_channel::{Operation, SlotRef, SocketOption};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, accept_with, bind, getsockname, listen, socket_with, sockopt};

use super::session::{Session, error_of, gone};
use super::stream::Stream;

/// A served port. Dropping it resets the connections that were not accepted.
///
/// ```
/// use ringway::remote::Session;
/// use std::io::Write;
///
/// fn greet(session: &Session) -> std::io::Result<()> {
///     let listener = session.listen("[::]:7".parse().expect("an address"), 128)?;
///     loop {
///         let (stream, _peer) = listener.accept()?;
///         (&stream).write_all(b"hello\n")?;
///     }
/// }
/// ```
pub struct Listener {
    pub(super) session: Session,
    pub(super) slot: SlotRef,
    local: SocketAddr,
    /// Kernel socket that holds the port, visible to the whole machine. Connections to it over the kernel's interfaces
    /// are reset.
    shadow: OwnedFd,
    nonblocking: AtomicBool,
}

impl Listener {
    pub(super) fn open(session: &Session, local: SocketAddr, backlog: u32) -> io::Result<Listener> {
        let shadow = kernel_socket(SocketType::STREAM, local)?;
        listen(&shadow, 1)?;
        let local = SocketAddr::try_from(getsockname(&shadow)?)?;
        let slot = session.open_slot()?;
        let listener = Listener { session: session.clone(), slot, local, shadow, nonblocking: AtomicBool::new(false) };
        session.show(slot, Purpose::Listen, &listener.shadow)?;
        let operation = Operation::Listen { local, backlog, dual_stack: is_wild_ipv6(local) };
        session.command(slot, operation, Errno::ADDRNOTAVAIL)?;
        Ok(listener)
    }

    /// The local address and port.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Sets whether [`accept`](Self::accept) fails with EAGAIN instead of waiting.
    pub fn set_nonblocking(&self, on: bool) {
        self.nonblocking.store(on, Ordering::Relaxed);
    }

    /// Sets an option of the listener, which its connections inherit.
    ///
    /// # Errors
    /// EINVAL, ENOPROTOOPT.
    pub fn set_option(&self, option: SocketOption, value: u32) -> io::Result<()> {
        self.session.set_option(self.slot, option, value)
    }

    /// Accepts the connection that has waited longest; returns it and its peer.
    ///
    /// # Errors
    /// EAGAIN if non-blocking and none waits; ECONNRESET if the service has died.
    ///
    /// # Blocking
    /// Until there is one.
    pub fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        if self.nonblocking.load(Ordering::Relaxed) {
            return self.try_accept();
        }
        self.session.block_on(self.slot, Some(self.shadow.as_fd()), None, || self.try_accept())
    }

    pub(super) fn try_accept(&self) -> io::Result<(Stream, SocketAddr)> {
        let client = self.session.client();
        if let Some(slot) = client.accept(self.slot) {
            let stream = Stream::over(&self.session, slot);
            let peer = stream.peer_addr();
            return Ok((stream, peer));
        }
        if client.known_dead() {
            return Err(gone());
        }
        if let Some(failure) = client.slot(self.slot.index).take_error() {
            return Err(error_of(failure));
        }
        self.refuse_kernel_connections();
        Err(Errno::AGAIN.into())
    }

    /// Resets connections that reach the kernel socket over the kernel's interfaces.
    fn refuse_kernel_connections(&self) {
        while let Ok(connection) = accept_with(&self.shadow, SocketFlags::CLOEXEC) {
            // If the option cannot be set, the peer gets a FIN instead.
            sockopt::set_socket_linger(&connection, Some(std::time::Duration::ZERO)).unwrap_or_default();
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.session.release(self.slot, None);
    }
}

/// Creates the kernel socket that takes the port.
pub(super) fn kernel_socket(kind: SocketType, local: SocketAddr) -> io::Result<OwnedFd> {
    let family = if local.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    if kind == SocketType::STREAM {
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    bind(&socket, &local)?;
    Ok(socket)
}

/// Returns true for `[::]`, which serves both families.
pub(super) fn is_wild_ipv6(local: SocketAddr) -> bool {
    local.is_ipv6() && local.ip().is_unspecified()
}
