//! Link addresses (IEEE 802.3 §3.2.3).

use core::net::IpAddr;

/// An Ethernet address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// ff:ff:ff:ff:ff:ff
    pub const BROADCAST: MacAddress = MacAddress([0xff; 6]);

    /// Returns true for a multicast or broadcast address.
    #[inline]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Returns the destination address of frames to a group (RFC 1112 §6.4, RFC 2464 §7).
    pub const fn of_group(group: IpAddr) -> MacAddress {
        match group {
            IpAddr::V4(ip) => {
                let [_, b, c, d] = ip.octets();
                MacAddress([0x01, 0x00, 0x5e, b & 0x7f, c, d])
            }
            IpAddr::V6(ip) => {
                let [.., a, b, c, d] = ip.octets();
                MacAddress([0x33, 0x33, a, b, c, d])
            }
        }
    }
}
