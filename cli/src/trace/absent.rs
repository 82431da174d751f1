//! What a trace does not see: connections that the kernel serves, of those that are followed.
//!
//! The statistics file has them with the reason, as `ringway ss` prints it. Does not do: find connections that no program of
//! the service has made.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use ringway_shm::capture::Ends;
use ringway_shm::stats::SocketRecord;

use crate::services::Service;
use crate::ss::LISTEN;

/// Time between two looks.
const INTERVAL: Duration = Duration::from_millis(500);

/// The kernel's connections that are known.
#[derive(Default)]
pub(super) struct Absent {
    /// By both ends: how many there were.
    counts: HashMap<[(IpAddr, u16); 2], u32>,
    looked_at: Option<Instant>,
}

impl Absent {
    /// Looks now and then; returns what is new.
    pub(super) fn look(&mut self, workers: &[Service], ends: Ends) -> Vec<String> {
        if self.looked_at.is_some_and(|at| at.elapsed() < INTERVAL) {
            return Vec::new();
        }
        let is_first = self.looked_at.replace(Instant::now()).is_none();
        let mut news = Vec::new();
        for socket in workers.iter().flat_map(|worker| worker.stats.sockets()) {
            // What was there before has ended long ago, but for listeners.
            news.extend(self.note(&socket, ends).filter(|_| !is_first || socket.state == LISTEN));
        }
        news
    }

    /// Returns a line about a socket that the kernel serves, once for each connection.
    pub(super) fn note(&mut self, socket: &SocketRecord, ends: Ends) -> Option<String> {
        let path = socket.kernel?;
        let places = [&socket.local, &socket.remote].map(|end| (end.ip, end.port));
        if !places.iter().any(|end| ends.name(*end)) {
            return None;
        }
        let known = self.counts.insert(places, path.count).unwrap_or(0);
        let [local, remote] = places.map(|(ip, port)| SocketAddr::new(ip, port));
        let what = match (socket.state, remote.port()) {
            (LISTEN, _) => format!("connections to {local}"),
            (_, 0) => format!("a connection of {local}"),
            _ => format!("{local} <> {remote}"),
        };
        let line = format!("the kernel serves {what}, reason {}: their segments are not seen", path.reason.word());
        (path.count > known).then_some(line)
    }
}
