//! What an application asks of a worker: 32 bytes in a request ring, and the answer in the slot.
//!
//! ```text
//!   word 0: op 8 | sequence 8 | port 16 | slot 32     word 1: generation 32 | argument 32
//!   words 2, 3: address, 16 bytes (IPv4 mapped)
//! ```
//! A request about a multicast group has the group in the first four bytes of the address, and an interface's in the next.
//! `Transmit`, `Consumed`, `Urgent`, `Reclaim` and `Forked` have no answer. All others are answered once, in
//! the turn that takes them (a `Connect` is answered when the handshake has been *started*), with the
//! request's sequence number.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::options::SocketOption;
use super::slot::{Failure, SlotRef};

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Serve a port. Unspecified address: all local ones.
    Listen {
        /// Address and port, both already bound on the application's kernel socket.
        local: SocketAddr,
        /// Length of the accept queue.
        backlog: u32,
        /// `local` is the IPv6 wildcard of a socket that is not IPV6_V6ONLY: it serves IPv4 too.
        dual_stack: bool,
    },
    /// Open a connection. The address that the program has bound, if any, is in the slot's local
    /// address (port 0 and unspecified: not bound).
    Connect {
        /// The peer.
        remote: SocketAddr,
    },
    /// Serve datagrams. From here on the slot carries messages (see [`datagram`](super::datagram)).
    Datagram {
        /// Address and port, both already bound on the application's kernel socket.
        local: SocketAddr,
        /// `local` is the IPv6 wildcard of a socket that serves IPv4 too.
        dual_stack: bool,
    },
    /// Fix the remote end of a datagram socket; port 0 dissolves it.
    ConnectDatagram {
        /// The peer.
        remote: SocketAddr,
    },
    /// Only asks whether an interface of ours leads there. Any slot may ask.
    Route {
        /// Where to.
        remote: SocketAddr,
        /// Through the interface of this number of the kernel's; 0: any.
        interface: u32,
    },
    /// Only asks whether the stack has this address. Any slot may ask.
    Owns {
        /// The address; its port says nothing.
        local: SocketAddr,
    },
    /// Bytes wait in the slot's send stack.
    Transmit,
    /// The application has read enough that the window may open.
    Consumed,
    /// No more bytes will be written (FIN after what is queued).
    Shutdown,
    /// The last descriptor is gone. The slot is the worker's from here on.
    Close {
        /// SO_LINGER: `None` off; `Some(0)`: reset.
        linger_s: Option<u16>,
    },
    /// Reset the connection and free the slot.
    Abort,
    /// Change an option.
    SetOption {
        /// Which.
        option: SocketOption,
        /// To what.
        value: u32,
    },
    /// Read an option; the answer carries the four bytes of its value, little-endian.
    Option {
        /// Which.
        option: SocketOption,
    },
    /// What is written to the slot up to here is urgent (MSG_OOB).
    Urgent {
        /// Bytes ever written, up to and with the urgent one, modulo 2^32.
        position: u32,
    },
    /// Describe the connection (TCP_INFO); the answer carries bytes.
    Info,
    /// A child process was made; it holds what `process` says. `slot` is not used.
    Forked {
        /// Its number in the region.
        process: u32,
        /// Its process number in the kernel; 0: the fork failed, there is no child.
        pid: u32,
    },
    /// A key of a listener's Fast Open cookies (TCP_FASTOPEN_KEY).
    FastOpenKey {
        /// The key's bytes.
        key: [u8; 16],
        /// It is the second one, beside the one that was given before; else the only one.
        backup: bool,
    },
    /// A datagram socket is to receive what arrives for a multicast group.
    JoinMulticast(Multicast),
    /// It is to receive that no more.
    LeaveMulticast(Multicast),
    /// Tells the groups that it has joined; the answer carries [`Membership`]s.
    Memberships,
    /// Receive chunks came back while the worker lacked some. `slot` is not used.
    Reclaim,
}

/// A multicast group at an interface, as ip(7) IP_ADD_MEMBERSHIP names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multicast {
    /// The group.
    pub group: Ipv4Addr,
    /// The kernel's number of the interface; 0: the one of `address`.
    pub interface: u32,
    /// An address of the interface; unspecified: the routes decide.
    pub address: Ipv4Addr,
}

impl Multicast {
    fn address_bytes(self) -> SocketAddr {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&self.group.octets());
        bytes[4..8].copy_from_slice(&self.address.octets());
        // The last bytes are not those of an IPv4-mapped address.
        SocketAddr::new(IpAddr::V6(bytes.into()), 0)
    }

    fn read(interface: u32, bytes: [u8; 16]) -> Multicast {
        let part = |at: usize| Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]);
        Multicast { group: part(0), interface, address: part(4) }
    }
}

/// A group that a socket has joined here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The group.
    pub group: Ipv4Addr,
    /// The kernel's number of the interface; 0: the kernel does not have its packets.
    pub interface: u32,
}

impl Membership {
    /// Bytes of one in an answer.
    pub const BYTES: usize = 8;

    /// Its bytes.
    pub fn to_bytes(self) -> [u8; Membership::BYTES] {
        let mut bytes = [0; Membership::BYTES];
        bytes[..4].copy_from_slice(&self.group.octets());
        bytes[4..].copy_from_slice(&self.interface.to_le_bytes());
        bytes
    }

    /// Those that an answer holds.
    pub fn read_all(bytes: &[u8]) -> impl Iterator<Item = Membership> + '_ {
        bytes.chunks_exact(Membership::BYTES).map(|bytes| Membership {
            group: Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]),
            interface: u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        })
    }
}

/// One entry of a request ring, already checked for form (not for sense).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Which socket.
    pub slot: SlotRef,
    /// To be repeated in the answer.
    pub sequence: u8,
    /// What to do.
    pub operation: Operation,
}

const NO_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);

impl Request {
    /// The entry's words.
    pub(crate) fn encode(&self) -> [u64; 4] {
        let (op, port, argument, address): (u64, u16, u32, SocketAddr) = match self.operation {
            Operation::Listen { local, backlog, dual_stack: false } => (1, local.port(), backlog, local),
            Operation::Listen { local, backlog, dual_stack: true } => (12, local.port(), backlog, local),
            Operation::Connect { remote } => (2, remote.port(), 0, remote),
            Operation::Transmit => (3, 0, 0, NO_ADDRESS),
            Operation::Consumed => (4, 0, 0, NO_ADDRESS),
            Operation::Shutdown => (5, 0, 0, NO_ADDRESS),
            Operation::Close { linger_s } => (6, 0, linger_s.map_or(0, |s| u32::from(s) + 1), NO_ADDRESS),
            Operation::Abort => (7, 0, 0, NO_ADDRESS),
            Operation::SetOption { option, value } => (8, option as u16, value, NO_ADDRESS),
            Operation::Info => (9, 0, 0, NO_ADDRESS),
            Operation::Forked { process, pid } => (10, process as u16, pid, NO_ADDRESS),
            Operation::Reclaim => (11, 0, 0, NO_ADDRESS),
            Operation::Datagram { local, dual_stack } => (13, local.port(), dual_stack.into(), local),
            Operation::ConnectDatagram { remote } => (14, remote.port(), 0, remote),
            Operation::Route { remote, interface } => (15, remote.port(), interface, remote),
            Operation::Urgent { position } => (16, 0, position, NO_ADDRESS),
            Operation::Owns { local } => (17, local.port(), 0, local),
            Operation::FastOpenKey { key, backup } => (18, 0, backup.into(), SocketAddr::new(IpAddr::V6(key.into()), 0)),
            Operation::Option { option } => (19, option as u16, 0, NO_ADDRESS),
            Operation::JoinMulticast(which) => (20, 0, which.interface, which.address_bytes()),
            Operation::LeaveMulticast(which) => (21, 0, which.interface, which.address_bytes()),
            Operation::Memberships => (22, 0, 0, NO_ADDRESS),
        };
        let ip = wide(address.ip());
        [
            op | u64::from(self.sequence) << 8 | u64::from(port) << 16 | u64::from(self.slot.index) << 32,
            u64::from(self.slot.generation) | u64::from(argument) << 32,
            (ip >> 64) as u64,
            ip as u64,
        ]
    }

    /// Reads an entry back; `None` when it is nonsense.
    pub(crate) fn decode(words: [u64; 4]) -> Option<Request> {
        let port = (words[0] >> 16) as u16;
        let argument = (words[1] >> 32) as u32;
        let ip = IpAddr::V6(Ipv6Addr::from(u128::from(words[2]) << 64 | u128::from(words[3]))).to_canonical();
        let address = SocketAddr::new(ip, port);
        let operation = match words[0] as u8 {
            1 => Operation::Listen { local: address, backlog: argument, dual_stack: false },
            2 => Operation::Connect { remote: address },
            3 => Operation::Transmit,
            4 => Operation::Consumed,
            5 => Operation::Shutdown,
            6 => Operation::Close { linger_s: argument.checked_sub(1).map(|s| s.min(u32::from(u16::MAX)) as u16) },
            7 => Operation::Abort,
            8 => Operation::SetOption { option: SocketOption::from_number(port)?, value: argument },
            9 => Operation::Info,
            10 => Operation::Forked { process: u32::from(port), pid: argument },
            11 => Operation::Reclaim,
            12 => Operation::Listen { local: address, backlog: argument, dual_stack: true },
            13 => Operation::Datagram { local: address, dual_stack: argument != 0 },
            14 => Operation::ConnectDatagram { remote: address },
            15 => Operation::Route { remote: address, interface: argument },
            16 => Operation::Urgent { position: argument },
            17 => Operation::Owns { local: address },
            18 => Operation::FastOpenKey { key: wide(ip).to_be_bytes(), backup: argument != 0 },
            19 => Operation::Option { option: SocketOption::from_number(port)? },
            20 => Operation::JoinMulticast(Multicast::read(argument, wide(ip).to_be_bytes())),
            21 => Operation::LeaveMulticast(Multicast::read(argument, wide(ip).to_be_bytes())),
            22 => Operation::Memberships,
            _ => return None,
        };
        let slot = SlotRef { index: (words[0] >> 32) as u32, generation: words[1] as u32 };
        Some(Request { slot, sequence: (words[0] >> 8) as u8, operation })
    }

    /// Whether the request is about a slot.
    pub(crate) fn names_slot(&self) -> bool {
        !matches!(self.operation, Operation::Forked { .. } | Operation::Reclaim)
    }
}

/// The answer to a control request, as the worker gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlAnswer {
    /// Done (or, for a connect, started).
    Done,
    /// No interface of ours reaches that address: the kernel shall do it.
    NotOurs,
    /// Refused.
    Failed(Failure),
}

/// An address as 128 bits, IPv4 mapped.
pub(crate) fn wide(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(v4) => u128::from(v4.to_ipv6_mapped()),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

/// The completion word: sequence 8 | kind 8 | length 16 | value 32.
pub(crate) mod completion {
    use super::{ControlAnswer, Failure};

    pub(crate) const DONE: u8 = 1;
    pub(crate) const NOT_OURS: u8 = 2;
    pub(crate) const FAILED: u8 = 3;
    pub(crate) const BYTES: u8 = 4;

    pub(crate) fn answer(sequence: u8, answer: ControlAnswer) -> u64 {
        let (kind, value) = match answer {
            ControlAnswer::Done => (DONE, 0),
            ControlAnswer::NotOurs => (NOT_OURS, 0),
            ControlAnswer::Failed(failure) => (FAILED, failure as u32),
        };
        pack(sequence, kind, 0, value)
    }

    pub(crate) fn bytes(sequence: u8, chunk: u32, len: u16) -> u64 {
        pack(sequence, BYTES, len, chunk)
    }

    fn pack(sequence: u8, kind: u8, len: u16, value: u32) -> u64 {
        u64::from(sequence) | u64::from(kind) << 8 | u64::from(len) << 16 | u64::from(value) << 32
    }

    /// Sequence, kind, length, value.
    pub(crate) fn unpack(word: u64) -> (u8, u8, u16, u32) {
        (word as u8, (word >> 8) as u8, (word >> 16) as u16, (word >> 32) as u32)
    }

    /// The answer that a word other than `BYTES` holds.
    pub(crate) fn read(kind: u8, value: u32) -> Option<ControlAnswer> {
        Some(match kind {
            DONE => ControlAnswer::Done,
            NOT_OURS => ControlAnswer::NotOurs,
            FAILED => ControlAnswer::Failed(Failure::from_word(value).unwrap_or(Failure::Invalid)),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests;
