//! Asks the kernel to resolve neighbors; the answers come through the mirror.

use std::io;
use std::net::IpAddr;

use super::socket::{Notifications, RouteSocket};
use super::wire::resolve_request;

/// Asks for link addresses.
pub struct NeighborResolver {
    socket: RouteSocket,
}

impl NeighborResolver {
    /// # Errors
    /// The kernel refuses the socket.
    pub fn open() -> io::Result<NeighborResolver> {
        Ok(NeighborResolver { socket: RouteSocket::quiet()? })
    }

    /// Makes the kernel resolve `ip` on `link` (NTF_USE), as if it had a packet for it. Never blocks.
    ///
    /// # Errors
    /// The kernel does not take the request: no CAP_NET_ADMIN, or no memory now.
    pub fn resolve(&mut self, link: u32, ip: IpAddr) -> io::Result<()> {
        self.socket.send(|sequence| resolve_request(link, ip, sequence))?;
        // Errors are answered; they are not used, but must not fill the buffer.
        while let Notifications::Messages(_) = self.socket.receive()? {}
        Ok(())
    }
}
