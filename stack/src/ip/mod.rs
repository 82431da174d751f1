//! The Internet layer: interfaces, addresses, routes, neighbors; receives and sends packets.
//!
//! Promises: nothing here allocates per packet of a transport protocol; state that other hosts can cause is bounded;
//! `receive` only queues answers, `transmit` writes them. IPv4 and IPv6 are equal; where they differ each has its own file.

mod addresses;
mod autoconf;
mod control;
mod dad;
mod defragment;
mod discovery;
mod ecn;
mod extension;
mod fast_path;
mod fragment;
mod group;
mod header_cache;
mod icmp;
mod icmp_error;
mod icmpv6;
mod input;
mod input_ipv6;
mod interface;
pub(crate) mod limit;
pub(crate) mod loopback;
mod many;
mod output;
mod pair;
mod path_mtu;
mod reassembly;
mod redirect;
mod route;
mod route_cache;
mod router;
mod source;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ringway_shm::{Burst, FlowGroup, Frame, GroupSet, Instant};

use crate::address::MacAddress;
use crate::config::StackConfig;
use crate::event::Event;
use crate::link::arp;
use crate::link::neighbor::{Key, Limits, NeighborTable, Task};
use crate::stats::{Counter, Counters};
use crate::tcp::isn::Secrets;
use crate::timer;
use crate::wire::ndp::Message;
use crate::wire::{ipv4, ipv6};
use addresses::InterfaceState;
use control::{Control, ControlOut};
use fragment::Identifications;
use header_cache::HeaderCache;
use limit::RateLimit;
use path_mtu::PathMtus;
use reassembly::Reassembly;
use redirect::Redirects;
use route::RouteTable;
use route_cache::{CachedRoute, RouteCache};

pub(crate) use input::trim;
pub use interface::{Autoconfiguration, Interface, Medium, Role, Route};
pub(crate) use output::{Flow, OutputError, Template};
pub(crate) use pair::Pair;

/// Link properties for the transport protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkInfo {
    pub(crate) mtu: u16,
    pub(crate) medium: Medium,
    pub(crate) sends_partial_checksums: bool,
    pub(crate) segmentation_max_bytes: u32,
    pub(crate) segmentation_max_segments: u32,
    pub(crate) segments_udp: bool,
    pub(crate) gathers: bool,
}

/// Path of packets to one destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) interface: u32,
    pub(crate) source: IpAddr,
    pub(crate) next_hop: IpAddr,
    pub(crate) mtu: u16,
}

impl Path {
    /// Returns the number of bytes for transport header and payload in a packet.
    pub(crate) fn transport_max(&self) -> u16 {
        self.mtu.saturating_sub(network_header_len(self.source) as u16)
    }
}

/// Metadata of a received datagram. Its frames start at the transport header; the checksum of TCP segments has been verified
/// (here or by the device).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub(crate) pair: Pair,
    pub(crate) interface: u32,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
    /// Length of transport header and payload over all frames, bytes.
    pub(crate) len: u32,
    /// First word of a TCP header: remote and local port. 0: there is none.
    pub(crate) ports: u32,
    /// Length of the network headers that remain in front of the first frame, bytes.
    pub(crate) header_len: u16,
    /// True for a multicast or broadcast datagram (UDP only).
    pub(crate) multicast: bool,
}

impl Datagram {
    /// Returns our address.
    #[inline]
    pub(crate) fn local(&self) -> IpAddr {
        self.pair.local()
    }

    /// Returns the sender's address.
    #[inline]
    pub(crate) fn remote(&self) -> IpAddr {
        self.pair.remote()
    }
}

/// Datagrams of one burst for one protocol, in order: `headers[n]` belongs to the nth packet of `packets`. Non-empty packets
/// only; the protocol must leave it empty.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    pub(crate) headers: Vec<Datagram>,
    pub(crate) packets: Burst,
}

impl Datagrams {
    pub(crate) fn clear(&mut self) {
        self.headers.clear();
        self.packets.clear();
    }
}

/// Kind of an ICMP error (or of our own failure to resolve a neighbor).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IcmpErrorKind {
    NetworkUnreachable,
    HostUnreachable,
    ProtocolUnreachable,
    PortUnreachable,
    /// RFC 1191, RFC 8201; `mtu` 0: the router did not give it.
    FragmentationNeeded {
        mtu: u16,
    },
    /// RFC 1122 §3.2.2.1 codes 9, 10, 13.
    Prohibited,
    TimeExceeded,
    ParameterProblem,
}

/// An error about a TCP segment or a UDP datagram that we sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IcmpError {
    /// Protocol of the quoted packet: TCP or UDP.
    pub(crate) protocol: u8,
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    pub(crate) local_port: u16,
    pub(crate) remote_port: u16,
    /// Sequence number of the quoted segment: the error counts only if it is outstanding (RFC 5927 §4.1). For UDP: length
    /// and checksum.
    pub(crate) sequence: u32,
    pub(crate) kind: IcmpErrorKind,
    /// Sender of the error; our own address when the neighbor does not answer.
    pub(crate) offender: IpAddr,
    /// As on the wire.
    pub(crate) icmp_type: u8,
    pub(crate) icmp_code: u8,
}

/// Interface and kind of destination of a packet that has arrived.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    interface: u32,
    /// It is for a group, or for all hosts of a network.
    multicast: bool,
}

/// The Internet layer of one stack.
pub(crate) struct Ip {
    interfaces: Vec<InterfaceState>,
    /// All our addresses, sorted.
    local: Vec<IpAddr>,
    /// Our IPv4 addresses, with which every packet is compared; few, so a linear search is the fastest.
    local_ipv4: Vec<Ipv4Addr>,
    local_ipv6: Vec<Ipv6Addr>,
    /// Addresses of the last packet to one of our IPv4 addresses: see `plain`.
    ends: fast_path::Ends,
    #[cfg(test)]
    pub(crate) long_way_only: bool,
    routes: RouteTable,
    configured_routes: Vec<Route>,
    redirects: Redirects,
    route_cache: RouteCache,
    header_cache: HeaderCache,
    neighbors: NeighborTable,
    generation: u32,
    /// Flow groups of this stack.
    groups: GroupSet,
    limit: RateLimit,
    secrets: Secrets,
    /// ICMP messages that wait for `transmit`: `reply_flows[n]` belongs to the nth packet.
    replies: Burst,
    reply_flows: VecDeque<Flow>,
    /// Per interface: complete frames that waited for a neighbor and can leave.
    outbox: Vec<Burst>,
    control: VecDeque<ControlOut>,
    resolve: VecDeque<(u32, IpAddr)>,
    errors: VecDeque<IcmpError>,
    /// Errors dropped for lack of space and not counted yet.
    errors_lost: u64,
    notices: VecDeque<Event>,
    /// Next time at which checks, lifetimes and the like are due.
    next_due: Option<Instant>,
    /// Received UDP datagrams, until `exchange_udp`.
    udp: Datagrams,
    path_mtus: PathMtus,
    identifications: Identifications,
    reassembly: Reassembly,
    /// Datagrams that stayed incomplete, until they are counted, and the first fragments of those about which an ICMP error
    /// is sent: (interface, from the IP header on).
    reassembly_timeouts: u64,
    expired: Vec<(u32, Frame)>,
    /// Scratch: the frames after the first one of the current packet.
    rest: Vec<Frame>,
    /// Scratch: the packet being sent.
    outgoing: Burst,
    /// Packets to our own addresses, from the IP header on.
    looped: Burst,
}

fn limits_of(config: &StackConfig) -> Limits {
    Limits { entries: config.neighbors_max.max(1) as usize, held_each: config.neighbor_queue_max as usize, held: HELD_MAX }
}

impl Ip {
    /// See [`Stack::set_limits`](crate::Stack::set_limits).
    pub(crate) fn set_limits(&mut self, config: &StackConfig) {
        self.neighbors.set_limits(limits_of(config));
        self.limit.set_rate(config.replies_per_second);
    }

    pub(crate) fn new(config: &StackConfig, _now: Instant) -> Ip {
        Ip {
            interfaces: Vec::new(),
            local: Vec::new(),
            local_ipv4: Vec::new(),
            local_ipv6: Vec::new(),
            ends: fast_path::Ends::NONE,
            #[cfg(test)]
            long_way_only: false,
            routes: RouteTable::default(),
            configured_routes: Vec::new(),
            redirects: Redirects::default(),
            route_cache: RouteCache::default(),
            header_cache: HeaderCache::default(),
            neighbors: NeighborTable::new(limits_of(config)),
            generation: 0,
            groups: GroupSet::ALL,
            limit: RateLimit::new(config.replies_per_second),
            secrets: Secrets::new(config.seed ^ SECRETS_SALT),
            replies: Burst::default(),
            reply_flows: VecDeque::new(),
            outbox: Vec::new(),
            control: VecDeque::new(),
            resolve: VecDeque::new(),
            errors: VecDeque::new(),
            errors_lost: 0,
            notices: VecDeque::new(),
            next_due: None,
            udp: Datagrams::default(),
            path_mtus: PathMtus::new(config.path_mtus_max as usize),
            identifications: Identifications::new(config.seed),
            reassembly: Reassembly::new(config.reassembly_memory_bytes),
            reassembly_timeouts: 0,
            expired: Vec::new(),
            rest: Vec::new(),
            outgoing: Burst::default(),
            looped: Burst::default(),
        }
    }

    /// Returns the flow groups of this stack.
    pub(crate) fn groups(&mut self) -> &mut GroupSet {
        &mut self.groups
    }

    /// Returns true when the flow between these two ends belongs to this stack. Flows between our own addresses stay inside.
    #[inline]
    pub(crate) fn has_flow(&self, local: (IpAddr, u16), remote: (IpAddr, u16)) -> bool {
        self.groups == GroupSet::ALL || self.groups.contains(FlowGroup::of(local, remote)) || self.owns(remote.0)
    }

    pub(crate) fn add_interface(&mut self, interface: Interface) -> u32 {
        assert!(self.interfaces.len() < INTERFACES_MAX, "an interface's index fits a byte");
        self.interfaces.push(InterfaceState::new(interface));
        self.outbox.push(Burst::default());
        let number = (self.interfaces.len() - 1) as u32;
        self.begin_autoconfiguration(number);
        number
    }

    pub(crate) fn set_routes(&mut self, routes: Vec<Route>) {
        self.configured_routes = routes;
        self.redirects.clear();
        self.refresh_routes();
    }

    pub(crate) fn set_neighbor(&mut self, interface: u32, ip: IpAddr, mac: Option<MacAddress>) {
        self.neighbors.told((interface, ip), mac);
        self.run_tasks();
    }

    /// Returns true when `ip` is one of our addresses.
    #[inline]
    pub(crate) fn owns(&self, ip: IpAddr) -> bool {
        self.local.binary_search(&ip).is_ok()
    }

    /// Returns true when `ip` is the broadcast address of one of our networks, or the limited one.
    pub(crate) fn is_broadcast(&self, ip: IpAddr) -> bool {
        let IpAddr::V4(ip) = ip else { return false };
        ip.is_broadcast() || self.interfaces.iter().any(|state| state.broadcasts.contains(&ip))
    }

    pub(crate) fn local_addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.local.iter().copied()
    }

    /// Returns the path of packets to `remote`, with the source address to use unless `local` names one. Returns `None` also
    /// for multicast and broadcast addresses.
    pub(crate) fn route(&self, remote: IpAddr, local: Option<IpAddr>) -> Option<Path> {
        let way = match self.route_cache.find(remote, local, self.generation) {
            Some(way) => way,
            None if !is_host(remote) || self.is_broadcast(remote) => return None,
            None if self.owns(remote) => return self.loopback_path(remote, local),
            None => {
                let way = self.find_cached_route(remote, local)?;
                self.route_cache.remember(remote, local, self.generation, way);
                way
            }
        };
        let CachedRoute { interface, source, next_hop } = way;
        let mtu = self.path_mtus.limit(remote, self.interfaces.get(interface as usize)?.mtu_for(remote));
        Some(Path { interface, source, next_hop, mtu })
    }

    /// Finds the route to another host, for [`route`](Ip::route).
    fn find_cached_route(&self, remote: IpAddr, local: Option<IpAddr>) -> Option<CachedRoute> {
        let (interface, gateway, preferred) = match self.link_of(local, remote) {
            Some(interface) => (interface, None, None),
            None => {
                let route = self.routes.lookup(remote)?;
                (route.interface, route.gateway, route.source)
            }
        };
        let redirected = self.redirects.find(remote).filter(|(on, _)| *on == interface).map(|(_, hop)| hop);
        let state = self.interfaces.get(interface as usize)?;
        let next_hop = redirected.or(gateway).unwrap_or(remote);
        let source = match local {
            Some(local) => Some(local).filter(|&ip| ip.is_ipv4() == remote.is_ipv4() && self.owns(ip)),
            None => preferred.filter(|&ip| self.owns(ip)).or_else(|| state.source_towards(next_hop, remote)),
        }?;
        Some(CachedRoute { interface, source, next_hop })
    }

    /// RFC 4007: link-local addresses are valid on one link only; our own end identifies it.
    fn link_of(&self, local: Option<IpAddr>, remote: IpAddr) -> Option<u32> {
        let (Some(IpAddr::V6(local)), IpAddr::V6(remote)) = (local, remote) else { return None };
        if !(local.is_unicast_link_local() && remote.is_unicast_link_local()) {
            return None;
        }
        self.interfaces.iter().position(|state| state.has(local.into())).map(|at| at as u32)
    }

    /// Changes whenever addresses, routes or neighbors change: cached header templates are then stale.
    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// Returns the bytes of transport header and payload that a packet to us may have: the link's limit, whatever the known
    /// MTU of the path (RFC 9293 §3.7.1).
    pub(crate) fn offered_max(&self, path: &Path) -> u16 {
        let state = self.interfaces.get(path.interface as usize);
        let mtu = state.map_or(loopback::LINK.mtu, |state| state.mtu_for(path.source));
        mtu.saturating_sub(network_header_len(path.source) as u16)
    }

    /// Returns the frame format of an interface; `None` when its frames are tagged.
    pub(crate) fn plain_medium(&self, interface: u32) -> Option<Medium> {
        let interface = &self.interfaces.get(interface as usize)?.interface;
        interface.vlan.is_none().then_some(interface.medium)
    }

    /// Returns the link properties of an interface.
    #[inline]
    pub(crate) fn link(&self, interface: u32) -> LinkInfo {
        let Some(InterfaceState { interface, .. }) = self.interfaces.get(interface as usize) else { return loopback::LINK };
        LinkInfo {
            mtu: interface.mtu,
            medium: interface.medium,
            sends_partial_checksums: interface.sends_partial_checksums,
            segmentation_max_bytes: interface.segmentation_max_bytes,
            segmentation_max_segments: interface.segmentation_max_segments,
            segments_udp: interface.segments_udp,
            gathers: interface.gathers,
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.neighbors.handle_timeout(now);
        self.path_mtus.handle_timeout(now);
        self.reassembly_timeouts += self.reassembly.expire(now, &mut self.expired);
        self.tend(now);
        self.run_tasks();
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        if self.has_looped() {
            return Some(Instant::ZERO);
        }
        let (path_mtus, reassembly) = (self.path_mtus.poll_timeout(), self.reassembly.poll_timeout());
        timer::earliest(&[self.neighbors.poll_timeout(), path_mtus, reassembly, self.next_due])
    }

    /// Returns the next neighbor that the kernel must resolve: (interface, address).
    pub(crate) fn poll_resolve(&mut self) -> Option<(u32, IpAddr)> {
        self.resolve.pop_front()
    }

    /// Lowers the path MTU: a router has reported that packets to `remote` must not exceed `mtu` bytes (0: not given), and
    /// the affected flow has found the message credible (RFC 5927 §7).
    pub(crate) fn learn_path_mtu(&mut self, now: Instant, remote: IpAddr, mtu: u16) {
        if let Some(path) = self.route(remote, None) {
            self.path_mtus.learn(now, remote, mtu, path.mtu);
        }
    }

    /// Returns true when UDP datagrams have arrived.
    #[inline]
    pub(crate) fn has_udp(&self) -> bool {
        !self.udp.headers.is_empty()
    }

    /// Swaps the received UDP datagrams with those in `datagrams`.
    pub(crate) fn exchange_udp(&mut self, datagrams: &mut Datagrams) {
        core::mem::swap(&mut self.udp, datagrams);
    }

    /// Returns the next error about a packet of ours, for `Tcp::icmp_error` or `Udp::icmp_error`.
    pub(crate) fn poll_error(&mut self) -> Option<IcmpError> {
        self.errors.pop_front()
    }

    fn bump_generation(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// Runs the tasks of the neighbor table.
    fn run_tasks(&mut self) {
        while let Some(task) = self.neighbors.poll_task() {
            match task {
                Task::Ask(key, known) => self.ask(key, known),
                Task::Release(key, mac, packets) => self.release(key, mac, packets),
                Task::Fail(packets) => self.fail(packets),
                Task::Lost(now, key) => self.neighbor_lost(now, key),
            }
        }
        if self.neighbors.take_changed() {
            self.bump_generation();
        }
    }

    fn ask(&mut self, (interface, ip): Key, known: Option<MacAddress>) {
        let state = &self.interfaces[interface as usize];
        match (state.interface.role, ip) {
            (Role::Shared, _) => self.resolve.push_back((interface, ip)),
            (Role::Owned, IpAddr::V4(target)) => {
                let Some(IpAddr::V4(own_ip)) = state.source_towards(ip, ip) else { return };
                let packet = arp::request(state.interface.mac, own_ip, target);
                let destination = known.unwrap_or(MacAddress::BROADCAST);
                self.control.push_back(ControlOut { interface, destination, message: Control::Arp(packet) });
            }
            (Role::Owned, IpAddr::V6(target)) => {
                let Some(IpAddr::V6(source)) = state.source_towards(ip, ip) else { return };
                let group = ipv6::solicited_node(target);
                let (destination, to) = match known {
                    Some(mac) => (mac, target),
                    None => (MacAddress::of_group(group.into()), group),
                };
                let message = Message::NeighborSolicitation { target, source_link: Some(state.interface.mac), nonce: None };
                self.control.push_back(ControlOut {
                    interface,
                    destination,
                    message: Control::Discovery { source, to, message },
                });
            }
        }
    }

    /// Moves traffic away from a neighbor that does not answer, if there is another route.
    fn neighbor_lost(&mut self, now: Instant, key: Key) {
        if self.redirects.forget(now, Some(key)) {
            self.bump_generation();
            self.reschedule();
        }
        if self.interfaces[key.0 as usize].routers.len() > 1 {
            self.demote_router(key);
        }
    }

    fn count_dropped(&mut self, counters: &mut Counters) {
        counters.add(Counter::DropNoNeighbor, self.neighbors.take_dropped());
        counters.add(Counter::DropIcmpError, core::mem::take(&mut self.errors_lost));
    }

    /// Queues an error for TCP or UDP.
    ///
    /// # Errors
    /// Returns the counter of dropped errors when the queue is full.
    fn keep_error(&mut self, error: IcmpError) -> Result<(), Counter> {
        if self.errors.len() >= ERRORS_MAX {
            return Err(Counter::DropIcmpError);
        }
        self.errors.push_back(error);
        Ok(())
    }
}

/// Returns true when an address can be that of one host on a wire (RFC 1122 §3.2.1.3).
fn is_host(ip: IpAddr) -> bool {
    match ip {
        // 0.0.0.0/8 is "this network", 240.0.0.0/4 with broadcast is reserved.
        IpAddr::V4(ip) => !(ip.octets()[0] == 0 || ip.is_loopback() || ip.is_multicast() || ip.octets()[0] >= 240),
        // RFC 4291 §2.5.5.2: mapped addresses stand for IPv4 in programs' interfaces, never on a wire.
        IpAddr::V6(ip) => !(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || ip.to_ipv4_mapped().is_some()),
    }
}

/// Returns the length of the IP header in an address's family, bytes.
pub(crate) fn network_header_len(ip: IpAddr) -> usize {
    match ip {
        IpAddr::V4(_) => ipv4::HEADER_LEN,
        IpAddr::V6(_) => ipv6::HEADER_LEN,
    }
}

/// Maximum number of interfaces of one stack: the index fits a byte in header templates.
const INTERFACES_MAX: usize = 255;
/// Maximum number of packets that wait for neighbors.
const HELD_MAX: usize = 1_024;
/// Maximum number of ICMP messages that wait to be written.
const REPLIES_MAX: usize = 256;
/// Maximum number of ARP and neighbor discovery answers that wait to be written.
const CONTROL_MAX: usize = 256;
/// Separates the secrets of this layer from those of TCP.
const SECRETS_SALT: u64 = 0x1970_0a4e_0000_8200;
/// Maximum number of errors that wait for TCP and UDP.
const ERRORS_MAX: usize = 256;

#[cfg(test)]
mod tests;
