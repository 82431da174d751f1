//! Which programs and filters stand where the stack's packets go around them. Read linux/bpf.h and linux/pkt_sched.h first.
//!
//! Promises: programs of a cgroup's ancestors count where they are in force; nothing of the machine changes. Does not do: judging what
//! programs do.
//! Programs of cgroups, TCX and network namespaces take CAP_NET_ADMIN in the first user namespace; filters and XDP take nothing.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::thread;

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use super::{ingress, sys};
use crate::interface::route;

/// The root directory of the caller's cgroup namespace in the file system cgroup2, which needs to be mounted nowhere and is not mounted
/// anywhere afterwards. To be used by openat(2).
///
/// # Errors
/// The caller lacks CAP_SYS_ADMIN, or the kernel is older than 5.2.
pub fn root_of_cgroups() -> io::Result<OwnedFd> {
    // A new mount brings its own options for the whole file system, so that one without `nsdelegate` takes it from all. The kernel takes
    // them from the first cgroup namespace only, and the root from the namespace that has opened the file system. So a thread of its own
    // opens it and changes the namespace before the mount is made.
    let make = || {
        let context = fsopen("cgroup2", FsOpenFlags::FSOPEN_CLOEXEC)?;
        sys::leave_cgroup_namespace()?;
        fsconfig_create(&context)?;
        let harmless = MountAttrFlags::MOUNT_ATTR_RDONLY
            | MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, harmless)?)
    };
    thread::Builder::new().spawn(make)?.join().unwrap_or_else(|_| Err(io::Error::other("a thread has panicked")))
}

/// The number of programs of type `attach_type` are in force for the processes of `cgroup`, a directory of a cgroup2 file system. A kernel
/// that does not know the type has none.
///
/// # Errors
/// The caller lacks CAP_NET_ADMIN, or it is no cgroup.
pub fn in_force(cgroup: BorrowedFd<'_>, attach_type: u32) -> io::Result<u32> {
    match sys::count_in_force(cgroup, attach_type) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(0),
        answer => answer,
    }
}

/// The kernel's numbers of the programs at the traffic-control hooks of an interface (TCX), both directions.
///
/// # Errors
/// The caller lacks CAP_NET_ADMIN.
pub fn programs_at(interface: u32) -> io::Result<Vec<u32>> {
    match sys::tcx_programs(interface) {
        // Before 6.6.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(Vec::new()),
        answer => answer,
    }
}

/// The number of programs that choose sockets for packets that arrive in the network namespace `namespace`, a file of /proc/PID/ns/net
/// (BPF_SK_LOOKUP).
///
/// # Errors
/// The caller lacks CAP_NET_ADMIN, or it is no namespace.
pub fn socket_lookups_in(namespace: BorrowedFd<'_>) -> io::Result<u32> {
    match sys::count_socket_lookups(namespace) {
        // Before 5.9. A descriptor of something else is no question of a service.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(0),
        answer => answer,
    }
}

/// The kernel's number of the XDP program of an interface. It runs before any device of Ringway but AF_XDP, which needs its place.
///
/// # Errors
/// There is no such interface, or the kernel does not tell.
pub fn xdp_at(interface: u32) -> io::Result<Option<u32>> {
    route::xdp_program(interface)
}

/// Filters of the queueing discipline clsact (or ingress) of an interface that are not Ringway's, by their kinds and places.
///
/// # Errors
/// The kernel does not tell.
pub fn filters_at(interface: u32) -> io::Result<Vec<String>> {
    ingress::others(interface)
}

#[cfg(test)]
mod tests;
