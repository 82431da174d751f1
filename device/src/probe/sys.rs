//! A network namespace of the calling thread's own.

use std::io;

use crate::sys::check;

/// Moves the calling thread to a new network namespace, which goes with the thread and its descriptors.
pub(crate) fn enter_new_namespace() -> io::Result<()> {
    // SAFETY: no pointers are passed; only this thread changes its namespace.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
    Ok(())
}
