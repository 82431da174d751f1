//! What a network card and its driver can do, for people: offloads, queues, and XDP. Read ethtool(8) and
//! Documentation/netlink/specs/netdev.yaml of the kernel first.
//!
//! Promises: what the kernel or the driver does not say is `None` or not listed. Changes nothing. Does not do: judging.

use std::fmt;
use std::io;

use super::route::{ask_generic, attribute_of, family_of};
use super::sys;
use crate::netlink::{put, u32_at, u64_at};

/// See the module's text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Those that the driver has, in the words of ethtool(8), and whether they are on.
    pub offloads: Vec<(&'static str, bool)>,
    /// `None`: the driver does not say.
    pub queues: Option<Queues>,
    /// What the driver does for XDP programs; `None`: the kernel (before 6.3) does not say.
    pub xdp: Option<XdpSupport>,
}

/// Numbers of queues, as ethtool(8) shows them with `-l`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queues {
    /// Those that receive only, those that send only, and those that do both.
    pub now: [u32; 3],
    /// As many as there can be.
    pub most: [u32; 3],
}

/// The bits of `enum netdev_xdp_act`; none: programs run behind the driver (generic XDP).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpSupport(u64);

const XDP_WORDS: [&str; 7] = [
    "native",
    "redirect",
    "sending what others redirect",
    "zero-copy AF_XDP",
    "programs in the card",
    "large packets",
    "large sending",
];

/// Words of ethtool(8), and the features of the kernel of which one is enough.
const OFFLOADS: [(&str, &[&str]); 8] = [
    ("rx-checksumming", &["rx-checksum"]),
    ("tx-checksumming", &["tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6"]),
    ("tcp-segmentation-offload", &["tx-tcp-segmentation"]),
    ("tx-udp-segmentation", &["tx-udp-segmentation"]),
    ("generic-segmentation-offload", &["tx-generic-segmentation"]),
    ("generic-receive-offload", &["rx-gro"]),
    ("rx-gro-hw", &["rx-gro-hw"]),
    ("large-receive-offload", &["rx-lro"]),
];

const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;

impl Abilities {
    /// Asks about interface `name`.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn of(name: &str) -> io::Result<Abilities> {
        let socket = sys::Control::open()?;
        let index = socket.index(name)?;
        let features = socket.features(name).unwrap_or_default();
        Ok(Abilities { offloads: offloads(&features), queues: socket.queues(name).ok(), xdp: xdp_support(index).ok() })
    }

    /// Returns true if the offload of this name (ethtool(8)) is on.
    pub fn is_on(&self, offload: &str) -> bool {
        self.offloads.iter().any(|&(name, on)| name == offload && on)
    }
}

/// `features`: those that the driver has, and whether they are on.
fn offloads(features: &[(String, bool)]) -> Vec<(&'static str, bool)> {
    let state = |names: &[&str]| {
        let mut known = features.iter().filter(|(name, _)| names.contains(&name.as_str())).map(|(_, on)| *on).peekable();
        known.peek().is_some().then(|| known.any(|on| on))
    };
    OFFLOADS.iter().filter_map(|(word, names)| Some((*word, state(names)?))).collect()
}

fn xdp_support(index: u32) -> io::Result<XdpSupport> {
    let missing = || io::Error::other("the kernel does not say");
    let family = family_of(b"netdev\0")?;
    let mut body = vec![NETDEV_CMD_DEV_GET, 1, 0, 0];
    put(&mut body, NETDEV_A_DEV_IFINDEX, &index.to_ne_bytes());
    let bits = attribute_of(&ask_generic(family, &body)?, NETDEV_A_DEV_XDP_FEATURES).ok_or_else(missing)?;
    // The kernel may write it in four bytes.
    let bits = u64_at(&bits, 0).or_else(|| u32_at(&bits, 0).map(u64::from)).ok_or_else(missing)?;
    Ok(XdpSupport(bits))
}

impl XdpSupport {
    /// Returns true if the driver itself runs programs.
    pub fn is_native(self) -> bool {
        self.0 & 1 != 0
    }
}

impl fmt::Display for XdpSupport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> =
            XDP_WORDS.iter().enumerate().filter(|(bit, _)| self.0 >> bit & 1 != 0).map(|(_, word)| *word).collect();
        f.write_str(if words.is_empty() { "generic only" } else { "" })?;
        f.write_str(&words.join(", "))
    }
}

impl fmt::Display for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = ["receive", "transmit", "combined"];
        let some = |at: usize| self.most[at] > 0 || self.now[at] > 0;
        let of = |at: usize| format!("{} of {} {} queue(s)", self.now[at], self.most[at].max(self.now[at]), kinds[at]);
        f.write_str(&(0..3).filter(|at| some(*at)).map(of).collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_of_every_interface() {
        let found = Abilities::of("lo").expect("every machine has it");
        assert!(found.offloads.iter().all(|(word, _)| OFFLOADS.iter().any(|(known, _)| known == word)));
        assert!(!found.is_on("large-receive-offload"));
        assert!(found.xdp.is_none_or(|xdp| !xdp.is_native()), "the loopback runs programs behind the driver");
        assert!(Abilities::of("no such one").is_err());
    }

    #[test]
    fn one_feature_of_several_is_enough() {
        let features = [("tx-checksum-ipv4", false), ("tx-checksum-ipv6", true), ("rx-lro", false), ("other", true)];
        let features = features.map(|(name, on)| (name.to_owned(), on));
        assert_eq!(offloads(&features), [("tx-checksumming", true), ("large-receive-offload", false)]);
    }

    #[test]
    fn what_is_found_is_said_in_words() {
        assert_eq!(XdpSupport(0).to_string(), "generic only");
        assert_eq!(XdpSupport(0b1011).to_string(), "native, redirect, zero-copy AF_XDP");
        let queues = Queues { now: [0, 0, 2], most: [0, 0, 8] };
        assert_eq!(queues.to_string(), "2 of 8 combined queue(s)");
        let queues = Queues { now: [1, 1, 0], most: [0, 4, 0] };
        assert_eq!(queues.to_string(), "1 of 1 receive queue(s), 1 of 4 transmit queue(s)");
    }
}
