//! Two namespaces joined by a process that delays, loses and paces packets (`role/wire.rs`).
//!
//! Promises: the addresses are those of the veth wire; the process is bound to one core. Does not do: super-segments. All
//! packets of this wire have at most one MTU and complete checksums.

use std::io;
use std::time::Duration;

use crate::path::Path;
use crate::peer::Peer;
use crate::role::wire::ENDS;
use crate::wire::veth::{Side, Wire};

/// Time limit for the process to create its interfaces.
const START: Duration = Duration::from_secs(10);

/// Starts the process on a core and moves its interfaces to the wire's namespaces.
///
/// # Errors
/// A system call or the process failed.
pub fn join(wire: &Wire, path: &Path, core: usize) -> io::Result<Peer> {
    let mut command = wire.command(Side::Server, "taskset");
    command.args(["-c", &core.to_string()]).arg(std::env::current_exe()?);
    let words = serde_json::to_string(path).expect("a path has text keys and plain values");
    command.args(["bench", "role", "wire", "--path", &words]);
    let mut peer = Peer::start("wire", command)?;
    peer.wait_ready(START)?;
    wire.adopt(ENDS[1], Side::Client)?;
    wire.adopt(ENDS[0], Side::Server)?;
    Ok(peer)
}
