//! The abilities of this machine for an interface, as data for `ringway doctor`.
//!
//! Looking disturbs nothing: every socket and program is opened with an empty table of owned ports and
//! closed again. Native XDP is tried only when asked, because attaching it changes the offloads of a
//! veth peer; generic XDP is tried on a TAP interface of its own, because a card that had it attached once is left without LRO and
//! hardware GRO (net/core/dev.c, dev_xdp_install). Measuring happens on a wire of its own in a fresh network namespace.

mod measure;
mod sys;

use std::fmt;
use std::io;

use ringway_shm::{Arena, ArenaConfig};

use crate::interface::{Interface, set_up};
use crate::packet::{Packet, PacketOptions};
use crate::steering::{Redirect, Steering, XdpMode};
use crate::tap::Tap;
use crate::xdp::{Xdp, XdpOptions};

pub use measure::{Measurement, measure};
#[cfg(test)]
pub(crate) use sys::enter_new_namespace;

/// A back end that may serve an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidate {
    /// AF_PACKET with virtio headers, packets hidden from the kernel by TCX or a traffic-control filter.
    Packet,
    /// AF_XDP, the program in the driver.
    XdpNative,
    /// AF_XDP, the program in the generic receive path.
    XdpGeneric,
    /// A TAP interface of its own.
    Tap,
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Candidate::Packet => "packet",
            Candidate::XdpNative => "xdp (native)",
            Candidate::XdpGeneric => "xdp (generic)",
            Candidate::Tap => "tap",
        })
    }
}

/// The result of one candidate.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Which.
    pub candidate: Candidate,
    /// The back end's effect, or why it does not work.
    pub outcome: Result<String, String>,
}

/// All findings.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The interface.
    pub interface: Interface,
    /// One per candidate that was tried.
    pub findings: Vec<Finding>,
}

impl Probe {
    /// Which candidate to choose and why; `None`: none works. AF_XDP only where nothing else is: that it can be opened says little
    /// about what a driver then does to packets.
    pub fn choice(&self) -> Option<(Candidate, &'static str)> {
        let works = |candidate| self.findings.iter().any(|found| found.candidate == candidate && found.outcome.is_ok());
        [
            (
                Candidate::Packet,
                "carries 64 KiB segments and partial checksums, and costs no more per packet than AF_XDP with a copy",
            ),
            (Candidate::XdpNative, "shares the interface without traffic control"),
            (Candidate::XdpGeneric, "shares the interface without traffic control, with any driver"),
            (Candidate::Tap, "needs no interface, but an address and a route of its own"),
        ]
        .into_iter()
        .find(|(candidate, _)| works(*candidate))
    }
}

/// Looks at `interface`. Native XDP is not tried: attaching it may change the offloads of the card.
///
/// # Errors
/// There is no such interface.
pub fn probe(interface: &str) -> io::Result<Probe> {
    probe_for(interface, &[Candidate::Packet, Candidate::XdpGeneric, Candidate::Tap])
}

fn probe_for(interface: &str, candidates: &[Candidate]) -> io::Result<Probe> {
    let interface = Interface::open(interface)?;
    let findings = candidates
        .iter()
        .map(|&candidate| Finding { candidate, outcome: try_out(candidate, &interface).map_err(|error| error.to_string()) })
        .collect();
    Ok(Probe { interface, findings })
}

/// Tries whether packet sockets can share `interface` with the kernel.
///
/// # Errors
/// Why not.
pub fn packet_works(interface: &str) -> io::Result<()> {
    try_out(Candidate::Packet, &Interface::open(interface)?).map(drop)
}

fn try_out(candidate: Candidate, interface: &Interface) -> io::Result<String> {
    let arena = Arena::new(ArenaConfig { large: 512, small: 64 });
    match candidate {
        Candidate::Packet => {
            let steering = Steering::new(1)?;
            let filter = steering.socket_filter()?;
            let options = PacketOptions { ring_slots: 1, ..PacketOptions::default() };
            drop(Packet::open(&interface.name, Some(std::os::fd::AsFd::as_fd(&filter)), options, &arena)?);
            drop(steering.hide_from_kernel(interface.index)?);
            Ok("shares the interface; 64 KiB segments and partial checksums both ways".to_owned())
        }
        Candidate::XdpNative => {
            let moves = try_xdp(XdpMode::Native, &interface.name, &arena)?;
            Ok(format!("shares the interface; {moves}, {} queue(s), packets up to the MTU", interface.receive_queues))
        }
        Candidate::XdpGeneric => {
            let scratch = Tap::open("rwprobe%d", &arena)?;
            let name = &scratch.interface().name;
            set_up(name, None, None)?;
            let moves = try_xdp(XdpMode::Generic, name, &arena)?;
            let queues = interface.receive_queues;
            Ok(format!(
                "{moves}, {queues} queue(s), packets up to the MTU; opened on an interface made for it, not tried on this one"
            ))
        }
        Candidate::Tap => {
            drop(Tap::open("rwprobe%d", &arena)?);
            Ok("a private link to this machine's kernel; 64 KiB segments and partial checksums both ways".to_owned())
        }
    }
}

/// Attaches for a moment; says how packets would move.
fn try_xdp(mode: XdpMode, interface: &str, arena: &Arena) -> io::Result<&'static str> {
    let steering = Steering::new(1)?;
    let options = XdpOptions { mode: Some(mode), ring_entries: 64, ..XdpOptions::default() };
    let device = Xdp::open(interface, Redirect::Owned(&steering), options, arena)?;
    Ok(if device.mode().1 { "zero-copy" } else { "copy" })
}

#[cfg(test)]
mod tests;
