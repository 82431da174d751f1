//! The addresses that connections of a context begin at (mtcp_init_rss).
//!
//! mTCP's purpose for it, that answers come to the context's own queue, is the service's here. What is left is that many addresses of the
//! machine give more connections to one server than there are ports.

use std::net::{Ipv4Addr, SocketAddrV4};

use libc::{c_int, in_addr_t, sockaddr, sockaddr_in, socklen_t};

use crate::context::Context;
use ringway_cabi::{Answer, Errno, bind_without_port, call, checked, give};

const IN_BYTES: socklen_t = size_of::<sockaddr_in>() as socklen_t;

/// Addresses that are used in turn.
pub(crate) struct Sources {
    first: Ipv4Addr,
    count: u32,
    next: u32,
    /// Connections to this address and port; zero stands for all.
    to: SocketAddrV4,
}

impl Sources {
    /// Gives a socket that is about to connect its address; the port is found in connect. One that is bound stays where it is.
    ///
    /// # Safety
    /// As the crate says.
    pub(crate) unsafe fn bind(&mut self, fd: c_int, remote: *const sockaddr, len: socklen_t) -> Answer<()> {
        // SAFETY: as the crate says.
        let Some(remote) = (unsafe { inet(remote, len) }) else { return Ok(()) };
        let is_meant = (self.to.ip().is_unspecified() || self.to.ip() == remote.ip())
            && (self.to.port() == 0 || self.to.port() == remote.port());
        if !is_meant || name(fd)?.is_some_and(|name| name.port() != 0 || !name.ip().is_unspecified()) {
            return Ok(());
        }
        let source = u32::from(self.first).wrapping_add(self.next);
        self.next = (self.next + 1) % self.count;
        bind_without_port(fd)?;
        let local = raw(SocketAddrV4::new(source.into(), 0));
        // SAFETY: the address lives until the call returns.
        checked(unsafe { libc::bind(fd, (&raw const local).cast(), IN_BYTES) })?;
        Ok(())
    }
}

/// An IPv4 address that a program has given.
unsafe fn inet(address: *const sockaddr, len: socklen_t) -> Option<SocketAddrV4> {
    // SAFETY: as the crate says.
    let address = (!address.is_null() && len >= IN_BYTES).then(|| unsafe { address.cast::<sockaddr_in>().read_unaligned() })?;
    let is_inet = c_int::from(address.sin_family) == libc::AF_INET;
    is_inet.then(|| SocketAddrV4::new(ip(address.sin_addr.s_addr), u16::from_be(address.sin_port)))
}

fn ip(address: in_addr_t) -> Ipv4Addr {
    u32::from_be(address).into()
}

fn raw(address: SocketAddrV4) -> sockaddr_in {
    sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
        sin_zero: [0; 8],
    }
}

/// The local address of an IPv4 socket.
fn name(fd: c_int) -> Answer<Option<SocketAddrV4>> {
    let mut address = raw(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
    let mut len = IN_BYTES;
    // SAFETY: both live until the calls return; a longer address is cut.
    unsafe {
        checked(libc::getsockname(fd, (&raw mut address).cast(), &raw mut len))?;
        Ok(inet((&raw const address).cast(), len))
    }
}

/// The address that the route to `remote` has. No packet is sent.
fn of_route(remote: Ipv4Addr) -> Answer<Ipv4Addr> {
    let to = raw(SocketAddrV4::new(remote, 9));
    // SAFETY: the address lives until the call returns; the socket is closed.
    unsafe {
        let fd = checked(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0))?;
        let found = checked(libc::connect(fd, (&raw const to).cast(), IN_BYTES)).and_then(|_| name(fd));
        libc::close(fd);
        Ok(found?.map_or(Ipv4Addr::UNSPECIFIED, |name| *name.ip()))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_init_rss(
    context: *const Context,
    base: in_addr_t,
    count: c_int,
    remote: in_addr_t,
    port: in_addr_t,
) -> c_int {
    give(call!(Context::at(context)).and_then(|context| {
        let count = u32::try_from(count).ok().filter(|count| *count > 0).ok_or(Errno(libc::EINVAL))?;
        // The port is an in_addr_t in mTCP too; a port in network byte order is in its first two bytes.
        let to = SocketAddrV4::new(ip(remote), u16::from_be(port as u16));
        let first = ip(base);
        let has_choice = count > 1 || !first.is_unspecified();
        let first = if first.is_unspecified() && has_choice { of_route(*to.ip())? } else { first };
        *context.sources() = has_choice.then_some(Sources { first, count, next: 0, to });
        Ok(0)
    }))
}
