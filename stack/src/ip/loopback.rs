//! Packets to our own addresses: they bypass the devices. Read RFC 1122 §3.2.1.3, §3.3.1.1 first.
//!
//! `place` queues them, and the next `handle_timeout` receives them; until then a timer is due. Checksums are neither
//! computed nor verified. One frame holds a segment, because the sender's queue keeps its own frames; fragments of larger
//! datagrams are reassembled like others.
//!
//! Conditions: only the stack has the addresses of an owned interface, so all packets to them come here. The kernel also has
//! the addresses of a shared interface, so only sockets of this stack are reached here (`Tcp::connect`).

use core::net::IpAddr;

use ringway_shm::Frame;

use super::{Arrival, Datagram, Datagrams, Ip, LinkInfo, Medium, Pair, Path, Role};
use crate::env::IpEnv;
use crate::stats::Counter;
use crate::wire::{ipv4, ipv6};

/// Number of the loopback interface, which has no entry.
pub(crate) const LOOPBACK: u32 = u32::MAX - 1;
/// Arrival of a looped packet: none is for a group.
const ARRIVAL: Arrival = Arrival { interface: LOOPBACK, multicast: false };

/// Maximum length of an IP packet, as on Linux.
const MTU: u16 = u16::MAX;

/// Link properties for TCP and UDP.
pub(super) const LINK: LinkInfo = LinkInfo {
    mtu: MTU,
    medium: Medium::Ip,
    sends_partial_checksums: true,
    segmentation_max_bytes: 0,
    segmentation_max_segments: u32::MAX,
    segments_udp: false,
    gathers: false,
};

impl Ip {
    /// Returns the path to an address of our own.
    pub(super) fn loopback_path(&self, remote: IpAddr, local: Option<IpAddr>) -> Option<Path> {
        let source = local.map_or(Some(remote), |ip| Some(ip).filter(|ip| ip.is_ipv4() == remote.is_ipv4() && self.owns(*ip)))?;
        Some(Path { interface: LOOPBACK, source, next_hop: remote, mtu: MTU })
    }

    /// Returns true when only this stack has the address, so that no one else answers packets to it.
    pub(crate) fn is_only_ours(&self, ip: IpAddr) -> bool {
        self.interfaces.iter().any(|state| state.interface.role == Role::Owned && state.has(ip))
    }

    /// Returns the owner of the addresses of an interface.
    pub(super) fn role(&self, interface: u32) -> Role {
        self.interfaces.get(interface as usize).map_or(Role::Owned, |state| state.interface.role)
    }

    /// Returns true when packets wait to be received.
    #[inline]
    pub(crate) fn has_looped(&self) -> bool {
        !self.looped.is_empty()
    }

    /// Receives the waiting packets; those that arrive meanwhile wait for the next iteration.
    pub(crate) fn receive_looped(&mut self, env: &mut IpEnv, datagrams: &mut Datagrams) {
        let mut looped = core::mem::take(&mut self.looped);
        while let Some(first) = looped.pop() {
            let mut more = first.continues();
            while more && let Some(frame) = looped.pop() {
                more = frame.continues();
                self.rest.push(frame);
            }
            env.counters.count(Counter::IpInReceives);
            match self.receive_looped_packet(env, first, datagrams) {
                Ok(()) => env.counters.count(Counter::IpInDelivers),
                Err(reason) => env.counters.count(reason),
            }
            self.rest.clear();
        }
        self.run_tasks();
    }

    fn receive_looped_packet(&mut self, env: &mut IpEnv, first: Frame, datagrams: &mut Datagrams) -> Result<(), Counter> {
        let ours = |ip: &Ip, destination: IpAddr| ip.owns(destination).then_some(()).ok_or(Counter::IpInAddrErrors);
        if first.bytes().first().is_some_and(|first| first >> 4 == 6) {
            let header = ipv6::Header::parse(first.bytes()).ok_or(Counter::IpInHdrErrors)?;
            ours(self, header.destination.into())?;
            return self.receive_ipv6_packet(env, ARRIVAL, (&header, first), datagrams);
        }
        let header = ipv4::Header::parse(first.bytes()).ok_or(Counter::IpInHdrErrors)?;
        ours(self, header.destination.into())?;
        let (header, mut first) = match header.is_fragment() {
            false => (header, first),
            true => match self.reassemble_ipv4(env, ARRIVAL, &header, first)? {
                Some(whole) => whole,
                None => return Ok(()),
            },
        };
        let datagram = Datagram {
            pair: Pair::ipv4(header.destination, header.source),
            interface: LOOPBACK,
            tos: header.tos,
            ttl: header.ttl,
            len: u32::from(header.total_len) - u32::from(header.header_len),
            header_len: header.header_len.into(),
            ports: 0,
            multicast: false,
        };
        match header.protocol {
            ipv4::PROTOCOL_TCP => {
                first.pull(header.header_len.into());
                self.deliver_tcp(env.counters, datagram, first, datagrams)
            }
            ipv4::PROTOCOL_UDP => {
                first.pull(header.header_len.into());
                self.deliver_udp(datagram, first);
                Ok(())
            }
            ipv4::PROTOCOL_ICMP => self.receive_icmp(env, LOOPBACK, &header, first),
            _ => Err(Counter::IpInUnknownProtos),
        }
    }
}

#[cfg(test)]
mod tests;
