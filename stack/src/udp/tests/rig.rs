//! The rig: packets as bytes in, packets as bytes out.

use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use ringway_shm::{Arena, ArenaConfig, Burst, Class, Frame};

use crate::Instant;
use crate::address::{Cidr, MacAddress, SocketAddress};
use crate::config::{StackConfig, UdpOptions};
use crate::error::UdpSendError;
use crate::event::{Event, SocketId};
use crate::ip::{Autoconfiguration, Interface, Medium, Role, Route};
use crate::stack::Stack;
use crate::stats::Counter;
use crate::udp::{UdpMessage, UdpSend};
use crate::wire::udp::{Header, checksum_field};
use crate::wire::{checksum, ipv4};

pub(super) const LOCAL: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(super) const REMOTE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
pub(super) const TOKEN: u64 = 9;

pub(super) struct Rig {
    pub(super) stack: Stack,
    pub(super) arena: Arena,
    pub(super) now: Instant,
}

/// A UDP datagram on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wire {
    pub(super) header: ipv4::Header,
    pub(super) ports: (u16, u16),
    pub(super) payload: Vec<u8>,
}

/// What the link of a rig can do.
#[derive(Clone, Copy)]
pub(super) struct Link {
    pub(super) partial_checksums: bool,
    pub(super) gathers: bool,
    pub(super) mtu: u16,
    pub(super) segments: bool,
    pub(super) segments_max: u32,
    pub(super) medium: Medium,
    pub(super) role: Role,
}

pub(super) const PLAIN: Link = Link {
    partial_checksums: false,
    gathers: true,
    mtu: 1_500,
    segments: false,
    segments_max: u32::MAX,
    medium: Medium::Ip,
    role: Role::Owned,
};

pub(super) fn any(port: u16) -> SocketAddress {
    SocketAddress { ip: Ipv4Addr::UNSPECIFIED.into(), port }
}

pub(super) fn at(ip: Ipv4Addr, port: u16) -> SocketAddress {
    SocketAddress { ip: ip.into(), port }
}

pub(super) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 11 % 253) as u8).collect()
}

/// A datagram from `from`, with its checksum.
pub(super) fn datagram(from: SocketAddress, to: SocketAddress, payload: &[u8]) -> Vec<u8> {
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (from.ip, to.ip) else { panic!("IPv4") };
    let length = 8 + payload.len() as u16;
    let mut bytes = vec![0; 28];
    ipv4::Header::atomic(source, destination, 17, 61, 20 + length).write(&mut bytes[..20]);
    Header { source_port: from.port, destination_port: to.port, length, checksum: 0 }.write(&mut bytes[20..]);
    bytes.extend_from_slice(payload);
    let pseudo = checksum::pseudo_header(from.ip, to.ip, 17, length.into());
    let field = checksum_field(checksum::add(pseudo, checksum::sum(&bytes[20..])));
    bytes[26..28].copy_from_slice(&field.to_be_bytes());
    bytes
}

impl Rig {
    pub(super) fn new() -> Rig {
        Rig::on(PLAIN)
    }

    pub(super) fn on(link: Link) -> Rig {
        let arena = Arena::new(ArenaConfig { large: 512, small: 512 });
        let config = StackConfig { seed: 7, ..StackConfig::default() };
        let mut stack = Stack::new(config, arena.clone(), Instant::ZERO);
        let interface = stack.add_interface(Interface {
            name: "test".into(),
            medium: link.medium,
            mac: MacAddress::default(),
            mtu: link.mtu,
            sends_partial_checksums: link.partial_checksums,
            segmentation_max_bytes: if link.segments { 65_535 } else { 0 },
            segmentation_max_segments: link.segments_max,
            segments_udp: link.segments,
            gathers: link.gathers,
            role: link.role,
            autoconfiguration: Autoconfiguration::Off,
            detects_duplicates: false,
            vlan: None,
        });
        let network = Cidr { ip: LOCAL.into(), prefix_len: 24 };
        let second = Cidr { ip: Ipv4Addr::new(10, 0, 0, 9).into(), prefix_len: 24 };
        stack.set_addresses(interface, vec![network, second]);
        stack.set_routes(vec![Route { destination: network, gateway: None, interface, metric: 0, source: None }]);
        Rig { stack, arena, now: Instant::from_millis(1_000) }
    }

    pub(super) fn bind(&mut self, local: SocketAddress, options: UdpOptions) -> SocketId {
        self.stack.udp_bind(local, options, TOKEN).expect("nothing stands in the way")
    }

    /// Packets arrive in one burst.
    pub(super) fn receive(&mut self, packets: &[Vec<u8>]) {
        let mut burst = Burst::default();
        for bytes in packets {
            let count = bytes.len().div_ceil(1_900);
            for (at, part) in bytes.chunks(1_900).enumerate() {
                let mut frame = self.arena.alloc(Class::Large).expect("the arena is large enough");
                frame.extend(part.len()).copy_from_slice(part);
                frame.set_continues(at + 1 < count);
                burst.push(frame);
            }
        }
        self.stack.receive(self.now, 0, &mut burst);
    }

    /// The next message with its payload.
    pub(super) fn take(&mut self, id: SocketId) -> Option<(UdpMessage, Vec<u8>)> {
        let mut frames = Burst::default();
        let message = self.stack.udp_receive(id, &mut frames)?;
        assert_eq!(frames.packets(), usize::from(message.len > 0), "one packet, or nothing");
        let bytes: Vec<u8> = frames.iter().flat_map(Frame::bytes).copied().collect();
        assert_eq!(bytes.len(), message.len as usize);
        Some((message, bytes))
    }

    pub(super) fn payloads(&mut self, id: SocketId) -> Vec<Vec<u8>> {
        core::iter::from_fn(|| self.take(id)).map(|(_, bytes)| bytes).collect()
    }

    pub(super) fn send(&mut self, id: SocketId, to: Option<SocketAddress>, payload: &[u8]) -> Result<usize, UdpSendError> {
        self.send_as(id, &UdpSend { len: payload.len(), to, ..UdpSend::default() }, payload)
    }

    pub(super) fn send_as(&mut self, id: SocketId, send: &UdpSend, payload: &[u8]) -> Result<usize, UdpSendError> {
        let mut copied = 0;
        let result = self.stack.udp_send(self.now, id, send, &mut |piece| {
            piece.copy_from_slice(&payload[copied..copied + piece.len()]);
            copied += piece.len();
        });
        assert_eq!(copied, *result.as_ref().unwrap_or(&0), "all of it or nothing");
        result
    }

    /// Everything that leaves now, one vector per packet.
    pub(super) fn packets(&mut self) -> Vec<Vec<u8>> {
        let mut out = [Burst::default()];
        while self.stack.transmit(self.now, &mut out) {}
        let mut packets = vec![];
        let mut packet = Vec::new();
        while let Some(frame) = out[0].pop() {
            packet.extend_from_slice(frame.bytes());
            if !frame.continues() {
                packets.push(core::mem::take(&mut packet));
            }
        }
        packets
    }

    /// The datagrams that leave now, whole ones with good checksums.
    pub(super) fn sent(&mut self) -> Vec<Wire> {
        self.packets().iter().map(|bytes| parse(bytes)).collect()
    }

    pub(super) fn events(&mut self) -> Vec<Event> {
        core::iter::from_fn(|| self.stack.poll_event()).collect()
    }

    pub(super) fn count(&self, counter: Counter) -> u64 {
        self.stack.counters().get(counter)
    }

    /// Every frame is back.
    pub(super) fn assert_no_leak(&self) {
        for class in [Class::Large, Class::Small] {
            assert_eq!(self.arena.free(class), self.arena.capacity(class));
        }
    }
}

fn parse(bytes: &[u8]) -> Wire {
    let header = ipv4::Header::parse(bytes).expect("a true IP header");
    assert_eq!((usize::from(header.total_len), header.protocol, header.is_fragment()), (bytes.len(), 17, false));
    let udp = Header::parse(&bytes[20..]).expect("a UDP header");
    assert_eq!(usize::from(udp.length), bytes.len() - 20);
    let pseudo = checksum::pseudo_header(header.source.into(), header.destination.into(), 17, udp.length.into());
    assert_eq!(checksum::add(pseudo, checksum::sum(&bytes[20..])), 0xffff, "the checksum");
    Wire { header, ports: (udp.source_port, udp.destination_port), payload: bytes[28..].to_vec() }
}
