//! `ss -K`: connections are reset, as ss(8) does it to the kernel's.
//!
//! Promises: only connections that the filter names, one by one, and only those that ended are shown. Does not do: listeners, UDP sockets, and what the
//! kernel serves.

use std::io;

use ringway_channel::attach::want_sockets;
use ringway_shm::stats::SocketRecord;

use super::{Filter, LISTEN, Shown, sockets};
use crate::services::Service;

/// Resets the connections that the filter wants, and returns them.
pub(super) fn kill<'a>(services: &'a [Service], filter: &Filter) -> io::Result<Vec<Shown<'a>>> {
    let mut killed = Vec::new();
    for (service, shown) in sockets(services).into_iter().filter(|(_, shown)| filter.wants(&shown.socket)) {
        let Some(words) = words(&shown.socket) else { continue };
        let count = want_sockets(&service.file("sock"), &words);
        if count.map_err(|error| io::Error::other(format!("service {}: {error}", service.label)))? > 0 {
            killed.push(shown);
        }
    }
    Ok(killed)
}

/// The words of the service for a connection; `None`: it is none.
fn words(socket: &SocketRecord) -> Option<String> {
    let end = |end: &ringway_shm::stats::Endpoint| std::net::SocketAddr::new(end.ip, end.port);
    let is_connection = !socket.datagrams && socket.state != LISTEN && socket.kernel.is_none() && socket.remote.port != 0;
    is_connection.then(|| format!("kill flow {} {}", end(&socket.local), end(&socket.remote)))
}

#[cfg(test)]
mod tests;
