//! Connections that move between stacks.

use ringway_shm::Instant;

use super::Stack;
use crate::address::SocketAddress;
use crate::env::Env;
use crate::event::SocketId;
use crate::handover::{ConnectionImage, ExportError, ImportError};

impl Stack {
    /// Takes a connection out of the stack as a value, with all its state and both queues, and without a packet: nothing
    /// more is sent for it, its frames are free, its name is stale, and no event says so. An orphan can be taken too.
    /// Segments that arrive for it from now on are dropped and counted as `RingwayDropHandedOver`, not answered with RST,
    /// and no connection can be opened with its four-tuple: until [`import`](Self::import) takes it back, or
    /// [`release_hold`](Self::release_hold) ends that. Events of the connection that were not polled may still come.
    ///
    /// Only what the stack holds is in the value. Bytes that the caller has taken and not given to its application
    /// (between `take_frame` and `consumed`), bytes that its application has written and the caller has not queued, and
    /// what it knows of the socket (descriptors, readiness that was reported, options that never reach the stack) are the
    /// caller's to move.
    ///
    /// # Errors
    /// [`ExportError`]; the connection stays as it is.
    pub fn export(&mut self, now: Instant, id: SocketId) -> Result<ConnectionImage, ExportError> {
        let (tcp, env) = env!(self);
        tcp.export(now, env, id)
    }

    /// Goes on with a connection that another stack, or this one, has exported: unacknowledged data can be sent again,
    /// unread data can be read, timers go on with what was left of them. No event follows: [`readiness`](Self::readiness) and
    /// [`urgent`](Self::urgent) say how it is. The time between export and import does not count. The image is not trusted.
    ///
    /// # Errors
    /// [`ImportError`]; nothing of the image is left.
    pub fn import(&mut self, now: Instant, image: &ConnectionImage, user_token: u64) -> Result<SocketId, ImportError> {
        let (tcp, env) = env!(self);
        tcp.import(now, env, image, user_token)
    }

    /// Begins silence about a connection that another TCP has and that is to be imported: from now on its segments are dropped here as those of
    /// one that was [exported](Self::export). Returns false when the stack knows the four-tuple, or holds as many as it may.
    pub fn hold(&mut self, local: SocketAddress, remote: SocketAddress) -> bool {
        self.tcp.hold(local, remote)
    }

    /// Ends the silence about a connection that was exported: its segments no longer arrive here, or the connection has
    /// ended. Returns false when there was none.
    pub fn release_hold(&mut self, local: SocketAddress, remote: SocketAddress) -> bool {
        self.tcp.release_hold(local, remote)
    }
}
