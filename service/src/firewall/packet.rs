//! The known bits of a packet that rules are asked about. The others may be anything.
//!
//! A packet of a connection of the stack is never invalid, untracked or related: conntrack would have followed the connection
//! from its first packet, as it follows the kernel's own, and what does not belong to it (ICMP errors, stray segments) is
//! the kernel's or has no effect.

use std::net::IpAddr;

use ringway_engine::Transport;

use super::Link;

/// Bytes that a packet's headers, or all registers of nf_tables, have at most.
pub(super) const BYTES: usize = 64;

const TCP: u8 = 6;
const UDP: u8 = 17;
/// Byte 13 of a TCP header.
const FLAGS_AT: usize = 13;
const SYN: u8 = 0x02;
/// FIN, SYN, RST and ACK: those that tell a first segment from others.
const TELLING_FLAGS: u8 = 0x17;

/// An answer that may depend on bits that are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Truth {
    No,
    Maybe,
    Yes,
}

impl Truth {
    pub(super) fn or(self, other: Truth) -> Truth {
        match (self, other) {
            (Truth::Yes, _) | (_, Truth::Yes) => Truth::Yes,
            (Truth::Maybe, _) | (_, Truth::Maybe) => Truth::Maybe,
            _ => Truth::No,
        }
    }

    pub(super) fn negated_if(self, negated: bool) -> Truth {
        if negated { self.negated() } else { self }
    }

    pub(super) fn negated(self) -> Truth {
        match self {
            Truth::Yes => Truth::No,
            Truth::No => Truth::Yes,
            same => same,
        }
    }
}

/// Bytes of which some bits are known; those that are not are zero in `value`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bits {
    value: [u8; BYTES],
    known: [u8; BYTES],
}

impl Bits {
    pub(super) const UNKNOWN: Bits = Bits { value: [0; BYTES], known: [0; BYTES] };

    /// Writes bytes that are known.
    pub(super) fn set(&mut self, at: usize, bytes: &[u8]) {
        self.value[at..at + bytes.len()].copy_from_slice(bytes);
        self.known[at..at + bytes.len()].fill(0xff);
    }

    /// Writes a byte of which the bits in `known` are known.
    fn set_bits(&mut self, at: usize, value: u8, known: u8) {
        (self.value[at], self.known[at]) = (value & known, known);
    }

    pub(super) fn forget(&mut self, at: usize, len: usize) {
        self.value[at..at + len].fill(0);
        self.known[at..at + len].fill(0);
    }

    /// Copies bytes of another one.
    pub(super) fn copy(&mut self, at: usize, from: &Bits, (start, len): (usize, usize)) {
        self.value[at..at + len].copy_from_slice(&from.value[start..start + len]);
        self.known[at..at + len].copy_from_slice(&from.known[start..start + len]);
    }

    /// `byte & mask ^ xor`.
    pub(super) fn mask(&mut self, at: usize, mask: u8, xor: u8) {
        self.known[at] |= !mask;
        self.value[at] = (self.value[at] & mask ^ xor) & self.known[at];
    }

    /// Turns round the order of `len` bytes.
    pub(super) fn swap(&mut self, at: usize, len: usize) {
        self.value[at..at + len].reverse();
        self.known[at..at + len].reverse();
    }

    pub(super) fn is_known(&self, at: usize, len: usize) -> bool {
        self.known[at..at + len].iter().all(|known| *known == 0xff)
    }

    pub(super) fn equals(&self, at: usize, bytes: &[u8]) -> Truth {
        let mut is_certain = true;
        for (place, byte) in bytes.iter().enumerate() {
            let (value, known) = (self.value[at + place], self.known[at + place]);
            if value != byte & known {
                return Truth::No;
            }
            is_certain &= known == 0xff;
        }
        if is_certain { Truth::Yes } else { Truth::Maybe }
    }

    /// Compares the bytes, as a number in network order, with the range `low` to `high`, which are of one length.
    pub(super) fn is_between(&self, at: usize, low: &[u8], high: &[u8]) -> Truth {
        if low == high {
            return self.equals(at, low);
        }
        let places = at..at + low.len();
        let least = &self.value[places.clone()];
        // Where an unknown bit is, the greatest has a one.
        let mut greatest = [0; BYTES];
        for (byte, place) in greatest.iter_mut().zip(places) {
            *byte = self.value[place] | !self.known[place];
        }
        let greatest = &greatest[..low.len()];
        match () {
            () if greatest < low || least > high => Truth::No,
            () if least >= low && greatest <= high => Truth::Yes,
            () => Truth::Maybe,
        }
    }
}

/// A port of the machine's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LocalPort {
    /// This one.
    Is(u16),
    /// 32768 or above, as those that the kernel chooses for connections are where nothing else is configured.
    Upper,
}

/// The way in which a flow begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Beginning {
    /// A peer connects, or the socket is one of datagrams, to which any peer may send.
    Theirs,
    /// The machine connects.
    Ours,
}

/// The packets of a connection or port, as far as they are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Its protocol.
    pub transport: Transport,
    /// The end that begins.
    pub beginning: Beginning,
    /// The family of its addresses.
    pub is_ipv4: bool,
    /// The machine's address; `None`: any.
    pub ip: Option<IpAddr>,
    /// The machine's port.
    pub port: LocalPort,
    /// `None`: any peer.
    pub peer: Option<IpAddr>,
    /// The peer's port; `None`: any.
    pub peer_port: Option<u16>,
}

/// Which way packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// They have come by the interface, and have none that they leave by: to a rule that is number 0 without a name.
    In,
    /// The other way round.
    Out,
}

/// The state that conntrack reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Established,
    New,
}

/// One kind of packet of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    pub(super) link: Link<'a>,
    pub(super) flow: Flow,
    pub(super) way: Way,
    pub(super) state: State,
    /// As the first packet of its connection went (0), or as the answers (1); `None`: either.
    pub(super) direction: Option<u8>,
    pub(super) network: Bits,
    pub(super) transport: Bits,
}

impl Packet<'_> {
    /// All kinds of packets that a flow has on a link.
    pub(super) fn of(flow: Flow, link: Link<'_>) -> Vec<Packet<'_>> {
        let (first, answer, either) = (Some(0), Some(1), None);
        let kinds: &[_] = match (flow.transport, flow.beginning) {
            (Transport::Tcp, Beginning::Theirs) => {
                &[(Way::In, State::New, first), (Way::In, State::Established, first), (Way::Out, State::Established, answer)]
            }
            (Transport::Tcp, Beginning::Ours) => {
                &[(Way::Out, State::New, first), (Way::Out, State::Established, first), (Way::In, State::Established, answer)]
            }
            (Transport::Udp, _) => &[
                (Way::In, State::New, first),
                (Way::In, State::Established, either),
                (Way::Out, State::New, first),
                (Way::Out, State::Established, either),
            ],
        };
        let packet = |&(way, state, direction)| Packet {
            link,
            flow,
            way,
            state,
            direction,
            network: network(flow, way),
            transport: transport(flow, way, state),
        };
        kinds.iter().map(packet).collect()
    }

    /// Returns true if nothing comes of the flow without packets of this kind: all of TCP's, and the first datagram of a peer's.
    pub(super) fn is_needed(&self) -> bool {
        self.flow.transport == Transport::Tcp || (self.way, self.state) == (Way::In, State::New)
    }

    /// Its number in IP's header.
    pub(super) fn protocol(&self) -> u8 {
        protocol(self.flow.transport)
    }
}

fn protocol(transport: Transport) -> u8 {
    match transport {
        Transport::Tcp => TCP,
        Transport::Udp => UDP,
    }
}

fn network(flow: Flow, way: Way) -> Bits {
    let mut header = Bits::UNKNOWN;
    let (source, destination, len) = if flow.is_ipv4 { (12, 16, 4) } else { (8, 24, 16) };
    if flow.is_ipv4 {
        header.set_bits(0, 0x40, 0xf0);
        header.set(9, &[protocol(flow.transport)]);
    } else {
        header.set_bits(0, 0x60, 0xf0);
    }
    let (local, peer) = if way == Way::In { (destination, source) } else { (source, destination) };
    for (at, ip) in [(local, flow.ip), (peer, flow.peer)] {
        match ip {
            Some(IpAddr::V4(ip)) if len == 4 => header.set(at, &ip.octets()),
            Some(IpAddr::V6(ip)) if len == 16 => header.set(at, &ip.octets()),
            _ => {}
        }
    }
    header
}

fn transport(flow: Flow, way: Way, state: State) -> Bits {
    let mut header = Bits::UNKNOWN;
    let (local, peer) = if way == Way::In { (2, 0) } else { (0, 2) };
    match flow.port {
        LocalPort::Is(port) => header.set(local, &port.to_be_bytes()),
        LocalPort::Upper => header.set_bits(local, 0x80, 0x80),
    }
    if let Some(port) = flow.peer_port {
        header.set(peer, &port.to_be_bytes());
    }
    if flow.transport == Transport::Tcp && state == State::New {
        header.set_bits(FLAGS_AT, SYN, TELLING_FLAGS);
    }
    header
}
