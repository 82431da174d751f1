//! Which rights the service's threads hold, and that they hold no others.
//!
//! ```text
//!   Service::start --> thread "ringway-start": no_new_privs, the rights of opening devices, nothing else
//!        workers, netlink, watches: made now, hold what devices that come later need
//!        then it gives up all: notices, claims, brokers are made now and hold nothing
//!   confine_process --> the caller holds what it names, the process is not dumpable, leaves no core,
//!                       and every thread has the filter of system calls
//! ```
//! Capabilities belong to a thread and pass to those that it makes; that is why the order above is the mechanism. What is given
//! up cannot come back: the permitted, inheritable, ambient and bounding sets lose it, and no_new_privs keeps a program from
//! bringing it. The bounding set is emptied by root only (CAP_SETPCAP). `ringway run` starts its program from the caller's
//! thread before [`confine_process`], so the program inherits nothing of this. Promises: a thread never holds more than before.
//! Does not do: a wall between threads; they share their memory. See docs/isolation.md.

use std::io;
use std::thread::{Builder, JoinHandle};

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use crate::config::Config;
use crate::plan::{Backend, Planned};
use crate::system_calls;

/// The rights to open any device, to hand sockets over, and to send SIGURG to programs of other users.
pub(crate) const STARTING: CapabilitySet =
    CapabilitySet::NET_RAW.union(CapabilitySet::BPF).union(XDP).union(CapabilitySet::KILL).union(HANDING_OVER);
/// The rights to make a kernel socket anew: TCP_REPAIR, and its port, also one below 1024. Without the second one connections of
/// such ports stay in the stack.
pub(crate) const HANDING_OVER: CapabilitySet = CapabilitySet::NET_ADMIN.union(CapabilitySet::NET_BIND_SERVICE);
/// The additional right to take sockets out of programs that sleep.
const TAKING: CapabilitySet = CapabilitySet::SYS_PTRACE;
/// The additional rights for AF_XDP: its program adds numbers of a packet to a pointer, and its memory is locked.
const XDP: CapabilitySet = CapabilitySet::PERFMON.union(CapabilitySet::IPC_LOCK);
/// Those for which CAP_SYS_ADMIN stands where a unit or a container gives only that.
const OF_BPF: CapabilitySet = CapabilitySet::BPF.union(CapabilitySet::PERFMON);
/// Capabilities that a kernel may know of, by number.
const BITS: u32 = 64;

/// Returns the rights that the threads which hand sockets over keep.
pub(crate) fn of_handovers(config: &Config) -> CapabilitySet {
    if config.takes_sockets { HANDING_OVER.union(TAKING) } else { HANDING_OVER }
}

/// Returns the rights that workers and the thread that follows interfaces keep for these devices, which may come and change at any time.
pub(crate) fn of_devices(served: &[Planned]) -> CapabilitySet {
    let has = |backend| served.iter().any(|planned| planned.backend == backend);
    let mut kept = CapabilitySet::NET_ADMIN | CapabilitySet::KILL;
    if has(Backend::Packet) || has(Backend::Xdp) {
        kept |= CapabilitySet::NET_RAW | CapabilitySet::BPF;
    }
    if has(Backend::Xdp) {
        kept |= XDP;
    }
    kept
}

/// Leaves this thread, and those that it makes, of its capabilities those in `kept`, and keeps programs from bringing others.
///
/// # Errors
/// The system refuses.
pub(crate) fn keep(kept: CapabilitySet) -> io::Result<()> {
    let held = capabilities(None)?;
    set_no_new_privs(true)?;
    clear_ambient_capability_set()?;
    if held.effective.contains(CapabilitySet::SETPCAP) {
        for bit in 0..BITS {
            let one = CapabilitySet::from_bits_retain(1 << bit);
            // `Err`: this kernel knows fewer.
            if capability_is_in_bounding_set(one).unwrap_or(false) {
                remove_capability_from_bounding_set(one)?;
            }
        }
    }
    let stands_in = if held.permitted.contains(kept & OF_BPF) { CapabilitySet::empty() } else { CapabilitySet::SYS_ADMIN };
    let left = held.permitted & (kept | stands_in);
    Ok(set_capabilities(None, CapabilitySets { effective: left, permitted: left, inheritable: CapabilitySet::empty() })?)
}

/// Starts a thread that has no rights from its beginning: once the process is confined it could not give them up. Made by one
/// that holds nothing, so that none of the caller's rights are given up.
///
/// # Errors
/// There is no thread, or the system refuses.
pub(crate) fn spawn_without<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    spawn_with(CapabilitySet::empty(), name, body)
}

/// As [`spawn_without`], for a thread that holds no more than `kept`.
///
/// # Errors
/// There is no thread, or the system refuses.
pub(crate) fn spawn_with<T: Send + 'static>(
    kept: CapabilitySet,
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let name = name.to_owned();
    let maker = Builder::new().spawn(move || {
        keep(kept)?;
        Builder::new().name(name).spawn(body)
    })?;
    maker.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the service panicked")))
}

/// Gives up rights when the process will start no program any more: the calling thread keeps only what signals to the program of
/// another user take, no process may trace it, and all its threads have the filter of system calls.
///
/// # Errors
/// The system refuses; what was given up stays so.
pub(crate) fn confine_process(config: &Config) -> io::Result<()> {
    keep(CapabilitySet::KILL)?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    system_calls::filter(config.system_calls, if config.takes_sockets { &[libc::SYS_pidfd_getfd] } else { &[] })
}

#[cfg(test)]
mod tests;
