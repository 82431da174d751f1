//! One UDP socket: its addresses and its queues.
//!
//! It knows nothing of tables or of the paths of frames; its buffers are its limits.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ringway_shm::Burst;

use crate::address::SocketAddress;
use crate::config::{UdpConfig, UdpOptions};
use crate::event::Readiness;
use crate::ip::{Flow, Template};

use super::error::{UdpError, UdpErrorReport};
use super::receive::UdpMessage;

/// One socket.
pub(crate) struct Socket {
    pub(crate) generation: u32,
    /// Address given to `bind`.
    pub(crate) bound: SocketAddress,
    /// The same, with the address that `connect` has chosen while connected.
    pub(crate) local: SocketAddress,
    pub(crate) remote: Option<SocketAddress>,
    pub(crate) options: UdpOptions,
    pub(crate) user_token: u64,
    /// Received messages, and their frames in the same order.
    pub(crate) messages: VecDeque<UdpMessage>,
    pub(crate) frames: Burst,
    /// Memory of received messages, bytes.
    pub(crate) received_memory: u32,
    /// Memory of datagrams that wait to be sent, bytes.
    pub(crate) sending_memory: u32,
    pub(crate) receive_buffer: u32,
    pub(crate) send_buffer: u32,
    /// SO_ERROR
    pub(crate) pending: Option<UdpError>,
    /// Error queue (IP_RECVERR).
    pub(crate) reports: VecDeque<UdpErrorReport>,
    /// Joined groups and their interfaces.
    pub(crate) groups: Vec<(u32, IpAddr)>,
    pub(crate) shut_read: bool,
    pub(crate) shut_write: bool,
    pub(crate) signalled: bool,
    /// True when a send was refused because the buffer was full.
    pub(crate) wants_room: bool,
    /// Header template of the last flow sent.
    pub(crate) template: Option<(Flow, Template)>,
    /// Datagrams dropped for lack of space (SO_RXQ_OVFL).
    pub(crate) drops: u32,
}

/// Information on a UDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UdpInfo {
    /// Address given to `udp_bind`, with the chosen port.
    pub bound: SocketAddress,
    /// The remote end while connected.
    pub remote: Option<SocketAddress>,
    /// IP_MTU: maximum packet to the remote end, bytes, while connected.
    pub path_mtu: Option<u16>,
    /// Memory of received messages not taken yet, and its limit, bytes.
    pub receive_memory: (u32, u32),
    /// Memory of datagrams that wait to be sent, and its limit, bytes.
    pub send_memory: (u32, u32),
    /// Datagrams dropped because the receive buffer was full.
    pub drops: u32,
}

impl Socket {
    /// Makes a socket bound to `local`.
    pub(crate) fn new(local: SocketAddress, options: UdpOptions, user_token: u64, config: &UdpConfig) -> Socket {
        let mut socket = Socket {
            generation: 0,
            bound: local,
            local,
            remote: None,
            options: UdpOptions::default(),
            user_token,
            messages: VecDeque::new(),
            frames: Burst::default(),
            received_memory: 0,
            sending_memory: 0,
            receive_buffer: 0,
            send_buffer: 0,
            pending: None,
            reports: VecDeque::new(),
            groups: Vec::new(),
            shut_read: false,
            shut_write: false,
            signalled: false,
            wants_room: false,
            template: None,
            drops: 0,
        };
        socket.configure(options, config);
        socket
    }

    /// Applies options.
    pub(crate) fn configure(&mut self, options: UdpOptions, config: &UdpConfig) {
        let or = |own: u32, default: u32| if own == 0 { default } else { own };
        self.receive_buffer = or(options.receive_buffer_bytes, config.receive_buffer_bytes).clamp(BUFFER_MIN, BUFFER_MAX);
        self.send_buffer = or(options.send_buffer_bytes, config.send_buffer_bytes).clamp(BUFFER_MIN, BUFFER_MAX);
        if !options.receive_errors {
            self.reports.clear();
        }
        self.options = options;
        self.template = None;
    }

    /// Returns true when the socket supports the family of an address.
    pub(crate) fn speaks(&self, ip: IpAddr) -> bool {
        match (self.bound.ip, ip) {
            (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_)) => true,
            (IpAddr::V6(bound), IpAddr::V4(_)) => bound.is_unspecified() && !self.options.only_ipv6,
            (IpAddr::V4(_), IpAddr::V6(_)) => false,
        }
    }

    /// Returns true when it receives datagrams to `ip` through `interface`, from any sender.
    #[inline]
    pub(crate) fn serves(&self, ip: IpAddr, port: u16, interface: u32) -> bool {
        self.bound.port == port
            && (self.bound.ip == ip || (self.bound.ip.is_unspecified() && self.speaks(ip)))
            && self.options.interface.is_none_or(|own| own == interface)
    }

    /// Returns true when it receives from a multicast address: a group that it (or, with `multicast_all`, any socket) has
    /// joined.
    pub(crate) fn hears(&self, ip: IpAddr, interface: u32) -> bool {
        !ip.is_multicast() || self.options.multicast_all || self.groups.contains(&(interface, ip))
    }

    pub(crate) fn readiness(&self) -> Readiness {
        let error = self.pending.is_some() || !self.reports.is_empty();
        Readiness {
            readable: !self.messages.is_empty() || error || self.shut_read,
            writable: self.sending_memory < self.send_buffer || error || self.shut_write,
            peer_closed: self.shut_read,
            hung_up: self.shut_read && self.shut_write,
        }
    }

    pub(crate) fn addresses(&self) -> (SocketAddress, SocketAddress) {
        let any = if self.local.ip.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
        (self.local, self.remote.unwrap_or(SocketAddress { ip: any, port: 0 }))
    }

    pub(crate) fn info(&self, path_mtu: Option<u16>) -> UdpInfo {
        UdpInfo {
            bound: self.bound,
            remote: self.remote,
            path_mtu,
            receive_memory: (self.received_memory, self.receive_buffer),
            send_memory: (self.sending_memory, self.send_buffer),
            drops: self.drops,
        }
    }
}

/// Linux: SOCK_MIN_RCVBUF, approximately.
const BUFFER_MIN: u32 = 4_608;
const BUFFER_MAX: u32 = 1 << 30;
