//! The sockets of programs, whichever worker has them.
//!
//! A listener of a service with several workers has a slot at each of them, and connections wait where their packets come. Programs and operators know
//! one socket: the first worker's, at which all wait that wait at any worker. Promises: a listener that one worker alone has is listed too. Does not do:
//! telling apart several listeners of one program at one address (SO_REUSEPORT); the numbers that wait may change places between them.

use std::collections::HashMap;
use std::net::IpAddr;

use ringway_shm::stats::SocketRecord;

use super::Service;
use crate::ss::LISTEN;

/// What the slots of a listener have in common.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Listener {
    ip: IpAddr,
    port: u16,
    interface: u32,
    uid: u32,
    program: String,
}

impl Listener {
    fn of(socket: &SocketRecord) -> Listener {
        let SocketRecord { local, interface, uid, program, .. } = socket;
        Listener { ip: local.ip, port: local.port, interface: *interface, uid: *uid, program: program.clone() }
    }
}

/// The sockets of these services, each once. `read` reads those of one worker.
pub(crate) fn joined(
    services: &[Service],
    read: impl Fn(&Service) -> Vec<SocketRecord>,
) -> impl Iterator<Item = (&Service, SocketRecord)> {
    services.chunk_by(Service::is_of).flat_map(move |workers| {
        let all = join(workers.iter().map(&read));
        all.into_iter().map(|(worker, socket)| (&workers[worker], socket)).collect::<Vec<_>>()
    })
}

/// Joins the sockets of one service's workers, the first worker's first; each with the number of its worker.
fn join(workers: impl Iterator<Item = Vec<SocketRecord>>) -> Vec<(usize, SocketRecord)> {
    let mut joined: Vec<(usize, SocketRecord)> = Vec::new();
    let mut first: HashMap<Listener, Vec<usize>> = HashMap::new();
    for (worker, sockets) in workers.enumerate() {
        let mut met: HashMap<Listener, usize> = HashMap::new();
        for socket in sockets {
            if socket.state != LISTEN || socket.kernel.is_some() {
                joined.push((worker, socket));
                continue;
            }
            let listener = Listener::of(&socket);
            let place = if worker == 0 { None } else { first.get(&listener) };
            let count = met.entry(listener.clone()).or_default();
            match place.and_then(|places| places.get(*count)) {
                Some(&place) => joined[place].1.receive_queue += socket.receive_queue,
                None => {
                    first.entry(listener).or_default().extend((worker == 0).then_some(joined.len()));
                    joined.push((worker, socket));
                }
            }
            *count += 1;
        }
    }
    joined
}

#[cfg(test)]
mod tests;
