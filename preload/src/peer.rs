//! Can the process at the other end of an AF_UNIX socket use a descriptor of ours?
//!
//! Promises: `lacks_library` is true only for a process that exists, whose maps can be read, and that has not mapped this library: one
//! outside of Ringway, which would get an unconnected socket. Does not do: looking for processes that have inherited the other end
//! (unix(7), SO_PEERCRED names the one that connected, listened or made the pair), and telling one group from another.

use crate::real;
use libc::{c_int, c_void, socklen_t};
use std::ffi::CStr;

/// Returns true if the peer of this socket is surely outside of Ringway.
pub(crate) fn lacks_library(fd: c_int) -> bool {
    let Some(process) = peer_of(fd).filter(|process| *process != std::process::id()) else { return false };
    let Some(name) = own_name() else { return false };
    std::fs::read(format!("/proc/{process}/maps")).is_ok_and(|maps| maps_without(&maps, name))
}

/// Returns true for the maps (proc_pid_maps(5)) of a process that has not mapped a file of this name. Empty: the process has ended, and
/// waits for its parent.
fn maps_without(maps: &[u8], name: &[u8]) -> bool {
    let mut files = maps.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b" (deleted)").unwrap_or(line));
    !maps.is_empty() && files.all(|file| !file.ends_with(name))
}

/// `None`: it has none, or one of another PID namespace.
fn peer_of(fd: c_int) -> Option<u32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as socklen_t;
    let place = (&raw mut peer).cast::<c_void>();
    // SAFETY: room for a ucred, and its length.
    let answer = unsafe { real::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, place, &raw mut len) };
    u32::try_from(peer.pid).ok().filter(|process| answer == 0 && *process != 0)
}

/// The name of this library's file, with the slash in front: it may lie elsewhere for another process.
fn own_name() -> Option<&'static [u8]> {
    // SAFETY: null pointers are what dladdr may leave.
    let mut known: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: a function of this library, and a local.
    let found = unsafe { libc::dladdr(lacks_library as *const c_void, &raw mut known) };
    if found == 0 || known.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's own C string, which lives as long as the library.
    let path = unsafe { CStr::from_ptr(known.dli_fname) }.to_bytes();
    path.iter().rposition(|byte| *byte == b'/').map(|slash| &path[slash..])
}

#[cfg(test)]
mod tests;
