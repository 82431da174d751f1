//! Opening the interfaces of a `Net` in one call.
//!
//! The stack answers ARP, neighbor discovery and ICMP echo on them itself: their addresses belong to it alone. Does not
//! do: sharing an address with the kernel; that takes the service, which steers packets.

use std::io;

use ringway_device::memory::link::Link;
use ringway_device::packet::{Packet, PacketOptions};
use ringway_device::tap::Tap;
use ringway_engine::InterfaceInfo;
use ringway_shm::wire::WireEnd;
use ringway_stack::{Cidr, MacAddress};

use super::net::Net;

/// MTU of links that have none of their own, bytes.
pub(super) const MTU: u16 = 1500;

impl Net {
    /// Adds the interface that `text` names: `tap:NAME=ADDRESS/PREFIX` or `packet:NAME=ADDRESS/PREFIX`; see
    /// [`add_tap`](Net::add_tap) and [`add_packet`](Net::add_packet). Returns its number.
    ///
    /// # Errors
    /// `InvalidInput` if the text names neither; otherwise those of these two.
    pub fn open(&mut self, text: &str) -> io::Result<u32> {
        let parts = || {
            let (kind, rest) = text.split_once(':')?;
            let (name, address) = rest.split_once('=')?;
            Some((kind, name, address.parse::<Cidr>().ok()?))
        };
        match parts() {
            Some(("tap", name, address)) => self.add_tap(name, address),
            Some(("packet", name, address)) => self.add_packet(name, address),
            _ => {
                let what = format!("{text}: an interface is tap:NAME=ADDRESS/PREFIX or packet:NAME=ADDRESS/PREFIX");
                Err(io::Error::new(io::ErrorKind::InvalidInput, what))
            }
        }
    }

    /// Creates a TAP interface of this machine's kernel: the stack is the kernel's neighbor on it, with `address`. The
    /// interface goes with the `Net`; the caller must set the kernel's address on it
    /// ([`ringway_device::interface::set_up`]).
    ///
    /// # Errors
    /// No CAP_NET_ADMIN, or the name is taken.
    pub fn add_tap(&mut self, name: &str, address: Cidr) -> io::Result<u32> {
        let tap = Tap::open(name, self.arena())?;
        let info = InterfaceInfo {
            name: tap.interface().name.clone(),
            mac: own_mac(address),
            mtu: MTU,
            owned: true,
            ..InterfaceInfo::default()
        };
        Ok(self.add_interface(&info, &[address], Box::new(tap)))
    }

    /// Joins the link of an interface of this machine, with a link address and an IP address of its own: the stack is
    /// one host more on the link. The interface must pass packets to that link address (promiscuous mode, or one end of
    /// a veth pair in a bridge or alone).
    ///
    /// # Errors
    /// No such interface, or no CAP_NET_RAW.
    pub fn add_packet(&mut self, interface: &str, address: Cidr) -> io::Result<u32> {
        let packet = Packet::open(interface, None, PacketOptions { split_ring: true, ..PacketOptions::default() }, self.arena())?;
        let (name, mtu) = (packet.interface().name.clone(), packet.interface().mtu);
        let info = InterfaceInfo { name, mac: own_mac(address), mtu, owned: true, ..InterfaceInfo::default() };
        Ok(self.add_interface(&info, &[address], Box::new(packet)))
    }

    /// Takes one end of a shared-memory link to another thread or process.
    ///
    /// # Errors
    /// The end is invalid.
    pub fn add_link(&mut self, end: WireEnd, address: Cidr) -> io::Result<u32> {
        let link = Link::open(end, MTU, self.arena())?;
        let info =
            InterfaceInfo { name: "link".into(), mac: own_mac(address), mtu: MTU, owned: true, ..InterfaceInfo::default() };
        Ok(self.add_interface(&info, &[address], Box::new(link)))
    }
}

/// A locally administered link address derived from an IP address, so that those of one network differ.
pub(super) fn own_mac(address: Cidr) -> MacAddress {
    let low = match address.ip {
        std::net::IpAddr::V4(ip) => ip.octets(),
        std::net::IpAddr::V6(ip) => {
            let [.., a, b, c, d] = ip.octets();
            [a, b, c, d]
        }
    };
    MacAddress([0x02, 0x72, low[0], low[1], low[2], low[3]])
}
