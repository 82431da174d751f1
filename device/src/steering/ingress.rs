//! Read tc-bpf(8) and linux/pkt_sched.h first. Hiding packets from kernels before 6.6: a filter of the traffic control.
//!
//! ```text
//!   interface -- clsact qdisc -- ingress -- pref 1: cls_bpf, ours, direct action:  alive and owned -> drop
//!                                                                                   else -> the next filter, the kernel
//! ```
//! Such a filter outlives the process that made it, which a TCX link does not. So it asks a map whether that process lives: the
//! map holds an AF_XDP socket that is bound to nothing, and the kernel takes a socket out of such a map when its last
//! descriptor closes. A filter that a killed service has left behind hides nothing from that moment on. Each filter has a handle
//! that its process holds by an abstract Unix address of that number, which is of the network namespace as the
//! interface is: a handle whose address is free is a dead process's, and its filter is replaced by the next one.
//!
//! Promises: other filters stay and run after ours; a clean end removes the filter, and the qdisc where it was made here and
//! holds nothing else. Does not do: taking away a dead process's filter before the next one comes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::interface::route::{Answer, ask, ask_all, done};
use crate::netlink::{CREATE, DUMP, EXCLUSIVE, REPLACE, REQUEST, attribute, put, text, u32_at};

use super::{program, sys};

const RTM_NEWQDISC: u16 = 36;
const RTM_DELQDISC: u16 = 37;
const RTM_NEWTFILTER: u16 = 44;
const RTM_DELTFILTER: u16 = 45;
const RTM_GETTFILTER: u16 = 46;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
/// The program's result is what becomes of the packet.
const DIRECT_ACTION: u32 = 1;
const CLSACT: u32 = 0xffff_fff1;
const INGRESS: u32 = 0xffff_fff2;
const EGRESS: u32 = 0xffff_fff3;
const CLSACT_HANDLE: u32 = 0xffff_0000;
const ETH_P_ALL: u16 = 3;
/// The first place; among several eBPF filters there the newest runs first.
const PREFERENCE: u32 = 1;

/// Our handles begin here ("RW"): no others do.
const HANDLE_BASE: u32 = 0x5257_0000;
/// Services that may share one interface at a time.
const HANDLES: u32 = 64;

/// A filter that hides packets as long as this lives.
#[derive(Debug)]
pub(super) struct Filter {
    interface: u32,
    handle: u32,
    made_qdisc: bool,
    /// While it is open the program hides packets.
    _alive: OwnedFd,
    /// Holds the handle.
    _name: UnixDatagram,
}

impl Filter {
    /// Puts the program of `tables` in front of the filters of interface `interface`.
    pub(super) fn attach(tables: program::Tables<'_>, interface: u32) -> io::Result<Filter> {
        let lives = sys::create_map(sys::MapKind::Sockets, 4, 1)?;
        let alive = crate::xdp::unbound_socket()?;
        sys::update_with_socket(lives.as_fd(), 0, alive.as_fd())?;
        let program = sys::load(sys::ProgramKind::TrafficControl, &program::hide_from_kernel(tables, Some(lives.as_fd())))?;
        let (handle, name) = take_handle(interface)?;
        let made_qdisc = make_qdisc(interface)?;
        let filter = Filter { interface, handle, made_qdisc, _alive: alive, _name: name };
        // When this fails, dropping the filter takes the qdisc away again.
        add(interface, handle, program.as_fd())?;
        Ok(filter)
    }

    /// Leaves the filter as the end of a killed process does: its descriptors close, and the kernel is told nothing.
    #[cfg(test)]
    pub(super) fn abandon(mut self) {
        // Orders about an interface that does not exist do nothing.
        self.interface = i32::MAX as u32;
    }
}

impl Drop for Filter {
    /// The interface may be gone, and its filters with it; nothing of ours is left then either.
    fn drop(&mut self) {
        let removed = done(RTM_DELTFILTER, 0, &filter_message(self.interface, self.handle));
        if self.made_qdisc && is_empty(self.interface).unwrap_or(false) {
            done(RTM_DELQDISC, 0, &message(self.interface, CLSACT_HANDLE, CLSACT, 0)).ok();
        }
        removed.ok();
    }
}

/// A handle that no living process has.
fn take_handle(interface: u32) -> io::Result<(u32, UnixDatagram)> {
    for number in 1..=HANDLES {
        let name = format!("ringway-ingress-{interface}-{number}");
        match UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?) {
            Ok(socket) => return Ok((HANDLE_BASE + number, socket)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(format!("{HANDLES} services share this interface already")))
}

/// `true`: it was not there before.
fn make_qdisc(interface: u32) -> io::Result<bool> {
    let mut body = message(interface, CLSACT_HANDLE, CLSACT, 0);
    put(&mut body, TCA_KIND, b"clsact\0");
    match done(RTM_NEWQDISC, CREATE | EXCLUSIVE, &body) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(explain("the kernel makes no clsact queueing discipline (sch_ingress)", &error)),
    }
}

fn add(interface: u32, handle: u32, program: BorrowedFd<'_>) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let mut options = Vec::new();
    put(&mut options, TCA_BPF_FD, &program.as_raw_fd().to_ne_bytes());
    put(&mut options, TCA_BPF_NAME, b"ringway\0");
    put(&mut options, TCA_BPF_FLAGS, &DIRECT_ACTION.to_ne_bytes());
    let mut body = filter_message(interface, handle);
    put(&mut body, TCA_KIND, b"bpf\0");
    put(&mut body, TCA_OPTIONS, &options);
    done(RTM_NEWTFILTER, CREATE | REPLACE, &body).map_err(|error| {
        explain("the kernel takes no eBPF filter (cls_bpf), or a filter of another kind or protocol has pref 1", &error)
    })
}

/// Returns true if the qdisc has no filters.
fn is_empty(interface: u32) -> io::Result<bool> {
    for parent in [INGRESS, EGRESS] {
        let answer = ask(RTM_GETTFILTER, REQUEST | DUMP, &message(interface, 0, parent, 0))?;
        if answer.kind == RTM_NEWTFILTER {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Filters that are not ours, in words.
pub(super) fn others(interface: u32) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for (parent, direction) in [(INGRESS, "ingress"), (EGRESS, "egress")] {
        for answer in ask_all(RTM_GETTFILTER, &message(interface, 0, parent, 0))? {
            found.extend(other(&answer, direction));
        }
    }
    Ok(found)
}

/// The words for a filter that is not ours, from a message of the kernel.
fn other(answer: &Answer, direction: &str) -> Option<String> {
    if answer.kind != RTM_NEWTFILTER {
        return None;
    }
    let (handle, info) = (u32_at(&answer.body, 8)?, u32_at(&answer.body, 16)?);
    let name = attribute(answer.body.get(20..)?, TCA_KIND).map(text)?;
    // The kernel lists the head of a list of eBPF filters, too, without a handle.
    let is_head = handle == 0;
    let is_ours = info >> 16 == PREFERENCE && (HANDLE_BASE..=HANDLE_BASE + HANDLES).contains(&handle);
    let is_other = name != "bpf" || !(is_head || is_ours);
    is_other.then(|| format!("{direction} filter {name} pref {}", info >> 16))
}

fn filter_message(interface: u32, handle: u32) -> Vec<u8> {
    message(interface, handle, INGRESS, PREFERENCE << 16 | u32::from(ETH_P_ALL.to_be()))
}

/// `struct tcmsg`
fn message(interface: u32, handle: u32, parent: u32, info: u32) -> Vec<u8> {
    [0, interface, handle, parent, info].iter().flat_map(|word: &u32| word.to_ne_bytes()).collect()
}

fn explain(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

#[cfg(test)]
mod tests;
