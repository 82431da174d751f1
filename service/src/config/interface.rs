//! `[interface]`: where packets come from and go to.

use std::net::IpAddr;

use ringway_device::packet::Priorities;
use ringway_stack::{Autoconfiguration, Cidr};

use super::value::Values;
use super::{DeviceChoice, XdpChoice, parse_cidr};

/// Where packets come from and go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceConfig {
    /// Interfaces to share with the kernel; `None`: every one that is up and has an IPv4 address.
    pub names: Option<Vec<String>>,
    /// Back end.
    pub device: DeviceChoice,
    /// The way to attach that back end, if it is AF_XDP.
    pub xdp_mode: XdpChoice,
    /// Address and prefix length of the stack on a TAP interface.
    pub address: Option<Cidr>,
    /// Its IPv6 address there.
    pub address6: Option<Cidr>,
    gateway: Option<IpAddr>,
    gateway6: Option<IpAddr>,
    /// Largest IP packet, bytes; `None`: the interface's.
    pub mtu: Option<u16>,
    /// The way in which the stack makes IPv6 addresses for itself on a TAP interface.
    pub autoconfiguration: Autoconfiguration,
    /// The VLAN that the stack is on, on a TAP interface.
    pub vlan: Option<u16>,
    /// The place of packets in the queueing discipline of an interface that is shared by packet sockets.
    pub priorities: Priorities,
}

impl InterfaceConfig {
    /// As configured; see [`contradictions`](InterfaceConfig::contradictions) for what makes no sense.
    pub(super) fn new(values: &Values) -> InterfaceConfig {
        let names = values.texts("interface.name");
        InterfaceConfig {
            names: if names == ["auto"] { None } else { Some(names.to_vec()) },
            device: match values.text("interface.device") {
                "packet" => DeviceChoice::Packet,
                "xdp" => DeviceChoice::Xdp,
                "tap" => DeviceChoice::Tap,
                _ => DeviceChoice::Auto,
            },
            xdp_mode: match values.text("interface.xdp_mode") {
                "native" => XdpChoice::Native,
                "zero_copy" => XdpChoice::ZeroCopy,
                "generic" => XdpChoice::Generic,
                _ => XdpChoice::Auto,
            },
            address: parse_cidr(values.text("interface.address")),
            address6: parse_cidr(values.text("interface.address6")),
            gateway: values.text("interface.gateway").parse().ok(),
            gateway6: values.text("interface.gateway6").parse().ok(),
            mtu: values.auto_number("interface.mtu").map(|mtu| mtu as u16),
            autoconfiguration: match values.text("interface.autoconfiguration") {
                "stable" => Autoconfiguration::Stable,
                "eui64" => Autoconfiguration::Eui64,
                _ => Autoconfiguration::Off,
            },
            vlan: Some(values.u16("interface.vlan")).filter(|&vlan| vlan != 0),
            priorities: priorities(values).unwrap_or_default(),
        }
    }

    /// Complains of what does not fit together, by key.
    pub(super) fn contradictions(&self, values: &Values, complain: &mut dyn FnMut(&'static str, String)) {
        if let Err(text) = priorities(values) {
            complain("interface.priorities", text);
        }
        let tap = self.device == DeviceChoice::Tap;
        match &self.address {
            None if tap => complain("interface.address", "a tap device needs one, as \"10.0.0.2/24\"".to_owned()),
            Some(_) if !tap => {
                complain("interface.address", "only a tap device has its own; others share the kernel's".to_owned())
            }
            Some(address) if !address.ip.is_ipv4() || !(8..=30).contains(&address.prefix_len) => {
                complain("interface.address", "a tap device needs an IPv4 network of /8 to /30".to_owned());
            }
            _ => {}
        }
        match &self.address6 {
            Some(_) if !tap => {
                complain("interface.address6", "only a tap device has its own; others share the kernel's".to_owned());
            }
            Some(address) if !address.ip.is_ipv6() || !(8..=126).contains(&address.prefix_len) => {
                complain("interface.address6", "must be in an IPv6 network of /8 to /126".to_owned());
            }
            _ => {}
        }
        if self.gateway.is_some_and(|gateway| !gateway.is_ipv4()) {
            complain("interface.gateway", "is not an IPv4 address".to_owned());
        }
        if self.gateway6.is_some_and(|gateway| !gateway.is_ipv6()) {
            complain("interface.gateway6", "is not an IPv6 address".to_owned());
        }
        if !tap && self.autoconfiguration != Autoconfiguration::Off {
            complain("interface.autoconfiguration", "only a tap device makes addresses; others share the kernel's".to_owned());
        }
        if !tap && self.vlan.is_some() {
            complain("interface.vlan", "only a tap device has one; of others, name the kernel's VLAN interface".to_owned());
        }
    }

    /// The stack's addresses on a TAP interface, each with the kernel's one on the other end: as configured, else the first or
    /// second of the network that is not the stack's own.
    pub fn networks(&self) -> impl Iterator<Item = (Cidr, IpAddr)> {
        let networks = [(self.address, self.gateway), (self.address6, self.gateway6)];
        let network = |(address, gateway): (Option<Cidr>, Option<IpAddr>)| {
            let address = address?;
            Some((address, gateway.unwrap_or_else(|| neighbor_of(address))))
        };
        networks.into_iter().filter_map(network)
    }
}

/// The first address of a network, or the second if the first is this one.
fn neighbor_of(Cidr { ip, prefix_len }: Cidr) -> IpAddr {
    match ip {
        IpAddr::V4(own) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix_len)).unwrap_or(0);
            let (own, first) = (u32::from(own), (u32::from(own) & mask) + 1);
            IpAddr::V4(if own == first { first + 1 } else { first }.into())
        }
        IpAddr::V6(own) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix_len)).unwrap_or(0);
            let (own, first) = (u128::from(own), (u128::from(own) & mask) + 1);
            IpAddr::V6(if own == first { first + 1 } else { first }.into())
        }
    }
}

fn priorities(values: &Values) -> Result<Priorities, String> {
    let texts = values.texts("interface.priorities");
    let texts = if texts == ["kernel"] { &[] } else { texts };
    Priorities::read(texts.iter().map(String::as_str))
}
