//! The kernel's description of a network interface, asked once by name.

mod abilities;
pub(crate) mod route;
mod settings;
mod sys;

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use crate::Medium;
pub use abilities::{Abilities, Queues, XdpSupport};
pub use settings::SettingsWatch;

/// A network interface of this machine, in the namespace of the calling thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// Its hardware address; all zero when it has none.
    pub mac: [u8; 6],
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// True if it is administratively up.
    pub up: bool,
    /// The driver's name, "" when the driver does not say.
    pub driver: String,
    /// Receive queues; 1 when the driver does not say.
    pub receive_queues: u32,
    /// It cuts trains of UDP datagrams itself.
    pub udp_segmentation: bool,
    /// It cuts super-segments of TCP itself, in both families and with congestion marks.
    pub tcp_segmentation: bool,
    /// Largest super-segment that it cuts itself, bytes with the link header.
    pub segmentation_max_bytes: u32,
    /// Segments that a super-segment may have there.
    pub segmentation_max_segments: u32,
}

/// The features of an interface for which every super-segment is cut behind the queueing discipline.
const TCP_SEGMENTATION: &[&str] = &["tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-tcp-ecn-segmentation"];

impl Interface {
    /// Asks the kernel about `name`.
    ///
    /// # Errors
    /// There is no such interface, or the name is longer than 15 bytes.
    pub fn open(name: &str) -> io::Result<Interface> {
        let socket = sys::Control::open()?;
        let (flags, index) = (socket.flags(name)?, socket.index(name)?);
        let limits = route::limits(index)?;
        Ok(Interface {
            name: name.to_owned(),
            index,
            mac: socket.mac(name)?,
            mtu: u16::try_from(socket.mtu(name)?).unwrap_or(u16::MAX),
            up: flags & libc::IFF_UP != 0,
            driver: socket.driver(name).unwrap_or_default(),
            receive_queues: socket.receive_queues(name).unwrap_or(1).max(1),
            udp_segmentation: socket.has_features(name, &["tx-udp-segmentation"]).unwrap_or(false),
            tcp_segmentation: socket.has_features(name, TCP_SEGMENTATION).unwrap_or(false),
            // The kernel compares before it has made the link header, or after: both must pass.
            segmentation_max_bytes: limits.bytes.saturating_sub(1 + Medium::Ethernet.header_bytes() as u32),
            segmentation_max_segments: limits.segments.max(1),
        })
    }

    /// Returns true if `name` cuts a super-segment of TCP of so many bytes, link header counted, now; `false` when it is gone.
    pub(crate) fn cuts_segments(name: &str, bytes: usize) -> bool {
        Interface::open(name).is_ok_and(|now| now.tcp_segmentation && bytes <= now.segmentation_max_bytes as usize)
    }
}

/// Offloads, by the kernel's numbers of them: one bit each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Features(Vec<u32>);

impl Features {
    /// Those that are here and not in `other`.
    pub(crate) fn without(&self, other: &Features) -> Features {
        let word = |(at, word): (usize, &u32)| word & !other.0.get(at).copied().unwrap_or(0);
        Features(self.0.iter().enumerate().map(word).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Of these numbers, 32 in a word.
    pub(crate) fn of(words: &[u32]) -> Features {
        Features(words.to_vec())
    }

    pub(crate) fn words(&self) -> &[u32] {
        &self.0
    }
}

/// The offloads of `name` that are wanted and on.
///
/// # Errors
/// No such interface, or its driver does not say.
pub(crate) fn features(name: &str) -> io::Result<Features> {
    sys::Control::open()?.features_on(name).map(Features)
}

/// Wants these offloads too.
///
/// # Errors
/// No such interface, or no CAP_NET_ADMIN.
pub(crate) fn want_features(name: &str, more: &Features) -> io::Result<()> {
    sys::Control::open()?.want_features(name, &more.0)
}

/// The names of those of `some` that are not wanted of `name`, or not on, now.
///
/// # Errors
/// No such interface, or its driver does not say.
pub(crate) fn features_off(name: &str, some: &Features) -> io::Result<Vec<String>> {
    sys::Control::open()?.features_off(name, &some.0)
}

/// The number of the interface `name`.
///
/// # Errors
/// No such interface.
pub(crate) fn index(name: &str) -> io::Result<u32> {
    sys::Control::open()?.index(name)
}

/// Counters of an interface that should not move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) receive_errors: u64,
    pub(crate) transmit_errors: u64,
    pub(crate) receive_dropped: u64,
    pub(crate) transmit_dropped: u64,
}

/// Returns the health of the link of interface `index`: true if it carries packets now, and the troubles so far.
///
/// # Errors
/// No such interface.
pub(crate) fn health(index: u32) -> io::Result<(bool, Trouble)> {
    route::health(index)
}

/// Adds an address to the interface with this number, for use at once, without duplicate address detection.
///
/// # Errors
/// No such interface, or no CAP_NET_ADMIN.
pub fn add_address(index: u32, ip: IpAddr, prefix_len: u8) -> io::Result<()> {
    route::add_address(index, ip, prefix_len)
}

/// Brings `name` up, with `mtu` and an IPv4 address when they are given.
///
/// # Errors
/// No such interface, or no CAP_NET_ADMIN.
pub fn set_up(name: &str, mtu: Option<u16>, address: Option<(Ipv4Addr, u8)>) -> io::Result<()> {
    let socket = sys::Control::open()?;
    if let Some(mtu) = mtu {
        socket.set_mtu(name, mtu)?;
    }
    if let Some((address, prefix)) = address {
        socket.set_address(name, address)?;
        socket.set_netmask(name, netmask(prefix))?;
    }
    socket.set_flags(name, socket.flags(name)? | libc::IFF_UP)
}

/// Takes `name` down.
///
/// # Errors
/// No such interface, or no CAP_NET_ADMIN.
pub fn set_down(name: &str) -> io::Result<()> {
    let socket = sys::Control::open()?;
    socket.set_flags(name, socket.flags(name)? & !libc::IFF_UP)
}

fn netmask(prefix: u8) -> Ipv4Addr {
    Ipv4Addr::from(u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0))
}
