//! Leak check: when all connections are gone, every frame is back and no socket is left.

use ringway_shm::Class;
use ringway_stack::State;

use super::{Failure, failure};
use crate::host::Host;

/// Checks that no frame and no socket is left, after everything has been closed and TIME-WAIT is over.
///
/// # Errors
/// When a frame or a socket is left.
pub fn check_nothing_left(host: &Host) -> Result<(), Failure> {
    let mut left = Vec::new();
    host.stack.for_each_socket(&mut |socket| {
        if socket.state != State::Listen {
            left.push(format!("{:?} {:?} {:?}", socket.state, socket.local, socket.remote));
        }
    });
    if !left.is_empty() {
        return failure(format!("{}: {} sockets are left: {}", host.name, left.len(), left.join(", ")));
    }
    for class in [Class::Large, Class::Small] {
        let (free, all) = (host.arena.free(class), host.arena.capacity(class));
        if free != all {
            return failure(format!("{}: {} of {all} {class:?} frames leaked\n{}", host.name, all - free, host.describe()));
        }
    }
    Ok(())
}
