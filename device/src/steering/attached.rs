//! Which programs and filters stand where the stack's packets go around them. Read linux/bpf.h and linux/pkt_sched.h first.
//!
//! Promises: programs of a cgroup's ancestors count where they are in force; nothing of the machine changes. Does not do: judging what
//! programs do.
//! Programs of cgroups, TCX and network namespaces take CAP_NET_ADMIN in the first user namespace; a list of links takes CAP_SYS_ADMIN; filters
//! and XDP take nothing.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::thread;

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use super::{ingress, sys};
use crate::interface::route;

/// BPF_LINK_TYPE_NETFILTER
const LINK_TYPE_NETFILTER: u32 = 10;
/// Links of BPF that are looked at.
const LINKS_MAX: usize = 1 << 16;

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

/// A program at a hook of netfilter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HookProgram {
    /// NFPROTO_IPV4 or NFPROTO_IPV6.
    pub family: u8,
    /// NF_INET_*
    pub hook: u32,
    /// Its place among what else is at the hook.
    pub priority: i32,
    /// The kernel's number of it.
    pub program: u32,
}

/// The programs at netfilter's hooks (BPF_LINK_TYPE_NETFILTER) of all network namespaces: a link does not tell its own. Kernels before 6.4
/// have none.
///
/// # Errors
/// The caller lacks CAP_SYS_ADMIN, or there are too many links.
pub fn netfilter_links() -> io::Result<Vec<HookProgram>> {
    let (mut found, mut last) = (Vec::new(), 0);
    for _ in 0..LINKS_MAX {
        let number = match sys::next_link(last) {
            Ok(Some(number)) => number,
            Ok(None) => return Ok(found),
            // Before 5.8.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Ok(found),
            Err(error) => return Err(error),
        };
        if let Some(link) = sys::link_info(number)?.filter(|link| link.kind == LINK_TYPE_NETFILTER) {
            let sys::LinkInfo { program, family, hook, priority, .. } = link;
            found.push(HookProgram { family: family as u8, hook, priority, program });
        }
        last = number;
    }
    Err(io::Error::other(format!("there are more than {LINKS_MAX} links of BPF")))
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
