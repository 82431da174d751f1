//! The parts of a group's sockets that BPF programs of cgroups see when the kernel has them.
//!
//! The stack runs no such programs, so what they see is the kernel's. Does not do: finding the programs; the service does.

use std::ops::BitOr;

/// Operations that are the kernel's for an application group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Guard(u8);

impl Guard {
    /// Nothing.
    pub const NOTHING: Guard = Guard(0);
    /// Listening for connections over IPv4.
    pub const LISTEN_IPV4: Guard = Guard(1);
    /// Listening for connections over IPv6.
    pub const LISTEN_IPV6: Guard = Guard(2);
    /// Opening connections over IPv4.
    pub const CONNECT_IPV4: Guard = Guard(4);
    /// Opening connections over IPv6.
    pub const CONNECT_IPV6: Guard = Guard(8);
    /// Datagrams over IPv4.
    pub const DATAGRAM_IPV4: Guard = Guard(16);
    /// Datagrams over IPv6.
    pub const DATAGRAM_IPV6: Guard = Guard(32);
    /// Everything that opens a socket.
    pub const SOCKETS: Guard = Guard(63);
    /// Every packet: connections that are open end, too.
    pub const PACKETS: Guard = Guard(127);

    /// Both.
    pub const fn and(self, other: Guard) -> Guard {
        Guard(self.0 | other.0)
    }

    /// Returns true if `part` is all in it.
    pub fn contains(self, part: Guard) -> bool {
        self.0 & part.0 == part.0
    }

    /// Returns true if nothing is the kernel's.
    pub fn is_empty(self) -> bool {
        self == Guard::NOTHING
    }

    pub(crate) fn listens(is_ipv4: bool) -> Guard {
        if is_ipv4 { Guard::LISTEN_IPV4 } else { Guard::LISTEN_IPV6 }
    }

    pub(crate) fn connects(is_ipv4: bool) -> Guard {
        if is_ipv4 { Guard::CONNECT_IPV4 } else { Guard::CONNECT_IPV6 }
    }

    pub(crate) fn datagrams(is_ipv4: bool) -> Guard {
        if is_ipv4 { Guard::DATAGRAM_IPV4 } else { Guard::DATAGRAM_IPV6 }
    }
}

impl BitOr for Guard {
    type Output = Guard;

    fn bitor(self, other: Guard) -> Guard {
        self.and(other)
    }
}
