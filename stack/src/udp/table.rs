//! Finds the socket of a datagram: the connected one of its 4-tuple, else one bound to its address, else one bound to all
//! addresses. Read RFC 1122 §4.1.3.5 first; the order is Linux's.
//!
//! Connected sockets are in a keyed flow table, others in a list per port; a lookup costs one probe and a walk over the
//! unconnected sockets of one port. A reuseport group shares datagrams by the hash of the flow; otherwise the socket bound
//! last comes first.

use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

use crate::address::SocketAddress;
use crate::config::UdpOptions;
use crate::tcp::demux::{FlowHasher, FlowKey, FlowTable, Target};

use super::socket::Socket;

/// All sockets.
pub(crate) struct Table {
    sockets: Vec<Option<Socket>>,
    /// By index: the generation of its next socket.
    generations: Vec<u32>,
    free: Vec<u32>,
    max: u32,
    hasher: FlowHasher,
    flows: FlowTable,
    /// By port: unconnected sockets, and connected ones, in the order of binding.
    open: Vec<Vec<u32>>,
    connected: Vec<Vec<u32>>,
}

impl Table {
    /// Makes an empty table for `max` sockets.
    pub(crate) fn new(seed: u64, max: u32) -> Table {
        let lists = (max as usize).next_power_of_two().clamp(1, PORT_LISTS_MAX);
        Table {
            sockets: Vec::new(),
            generations: Vec::new(),
            free: Vec::new(),
            max: max.min(INDEXES_MAX),
            hasher: FlowHasher::new(seed),
            flows: FlowTable::new(),
            open: vec![Vec::new(); lists],
            connected: vec![Vec::new(); lists],
        }
    }

    /// Returns the list of a port.
    fn list_of(&self, port: u16) -> usize {
        port as usize & (self.open.len() - 1)
    }

    /// Returns the socket of an index.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&Socket> {
        self.sockets.get(index as usize)?.as_ref()
    }

    /// Returns the socket of an index, mutable.
    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Socket> {
        self.sockets.get_mut(index as usize)?.as_mut()
    }

    /// Returns all sockets with their indexes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Socket)> {
        self.sockets.iter().enumerate().filter_map(|(index, socket)| socket.as_ref().map(|socket| (index as u32, socket)))
    }

    /// Returns true when a socket on `local` would conflict with another one.
    pub(crate) fn conflicts(&self, local: SocketAddress, options: &UdpOptions) -> bool {
        let list = self.list_of(local.port);
        let others = self.open[list].iter().chain(&self.connected[list]);
        others.filter_map(|&index| self.get(index)).any(|other| {
            let shares =
                (other.options.reuse_port && options.reuse_port) || (other.options.reuse_address && options.reuse_address);
            let apart = matches!((other.options.interface, options.interface), (Some(a), Some(b)) if a != b);
            other.bound.port == local.port && !shares && !apart && overlap(other, local.ip, options)
        })
    }

    /// Adds a socket; returns its index and generation. `None`: there are too many.
    pub(crate) fn insert(&mut self, mut socket: Socket) -> Option<(u32, u32)> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.sockets.len() < self.max as usize => {
                self.sockets.push(None);
                self.generations.push(0);
                self.sockets.len() as u32 - 1
            }
            None => return None,
        };
        socket.generation = self.generations[index as usize];
        let generation = socket.generation;
        let list = self.list_of(socket.bound.port);
        self.open[list].push(index);
        self.sockets[index as usize] = Some(socket);
        Some((index, generation))
    }

    /// Removes a socket with all its queues.
    pub(crate) fn remove(&mut self, index: u32) {
        self.reconnect(index, IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED), None);
        let Some(socket) = self.sockets[index as usize].take() else { return };
        let list = self.list_of(socket.bound.port);
        self.open[list].retain(|&other| other != index);
        self.generations[index as usize] = self.generations[index as usize].wrapping_add(1);
        self.free.push(index);
    }

    /// Sets or clears the remote end of a socket, and its local address with it.
    pub(crate) fn reconnect(&mut self, index: u32, local: IpAddr, remote: Option<SocketAddress>) {
        let mask = self.open.len() - 1;
        let Some(socket) = self.sockets[index as usize].as_mut() else { return };
        let list = socket.bound.port as usize & mask;
        if let Some(key) = key_of(socket) {
            self.flows.remove(self.hasher.hash(&key), Target::Connection(index));
            self.connected[list].retain(|&other| other != index);
        } else {
            self.open[list].retain(|&other| other != index);
        }
        socket.local.ip = local;
        socket.remote = remote;
        socket.template = None;
        if let Some(key) = key_of(socket) {
            self.flows.insert(self.hasher.hash(&key), Target::Connection(index));
            self.connected[list].push(index);
        } else {
            self.open[list].push(index);
        }
    }

    /// Returns the socket of a flow's datagrams.
    #[inline]
    pub(crate) fn find(&self, key: &FlowKey, interface: u32) -> Option<u32> {
        let hash = self.hasher.hash(key);
        let connected = self.flows.find(hash, |target| match target {
            Target::Connection(index) => self.get(index).is_some_and(|socket| {
                key_of(socket) == Some(*key) && socket.options.interface.is_none_or(|own| own == interface)
            }),
            Target::HalfOpen(_) | Target::TimeWait(_) => false,
        });
        match connected {
            Some(Target::Connection(index)) => Some(index),
            _ => self.find_open(key, interface, hash),
        }
    }

    fn find_open(&self, key: &FlowKey, interface: u32, hash: u32) -> Option<u32> {
        let rank = |socket: &Socket| {
            // An exact address outranks an exact interface; IPv4 prefers a socket of its own family.
            let family = socket.bound.ip.is_ipv4() == key.local.is_ipv4();
            u8::from(!socket.bound.ip.is_unspecified()) * 4 + u8::from(family) * 2 + u8::from(socket.options.interface.is_some())
        };
        let serving = || {
            let list = &self.open[self.list_of(key.local_port)];
            let sockets = list.iter().rev().filter_map(|&index| self.get(index).map(|socket| (index, socket)));
            sockets.filter(|(_, socket)| socket.serves(key.local, key.local_port, interface))
        };
        let mut best: Option<(u32, &Socket)> = None;
        for (index, socket) in serving() {
            if best.is_none_or(|(_, other)| rank(other) < rank(socket)) {
                best = Some((index, socket));
            }
        }
        let (index, socket) = best?;
        if !socket.options.reuse_port {
            return Some(index);
        }
        let group = || serving().filter(|(_, other)| other.options.reuse_port && rank(other) == rank(socket));
        // The table itself uses the low bits of the hash.
        let turn = (hash >> 16) as usize % group().count().max(1);
        group().nth(turn).map(|(index, _)| index)
    }

    /// Finds all sockets of a multicast or broadcast datagram.
    pub(crate) fn find_all(&self, key: &FlowKey, interface: u32, found: &mut Vec<u32>) {
        let list = self.list_of(key.local_port);
        let all = self.open[list].iter().chain(&self.connected[list]);
        found.extend(all.copied().filter(|&index| {
            self.get(index).is_some_and(|socket| {
                let from = SocketAddress { ip: key.remote, port: key.remote_port };
                let serves = socket.serves(key.local, key.local_port, interface) && socket.hears(key.local, interface);
                serves && socket.remote.is_none_or(|remote| remote == from)
            })
        }));
    }
}

fn key_of(socket: &Socket) -> Option<FlowKey> {
    let remote = socket.remote?;
    Some(FlowKey { local: socket.local.ip, remote: remote.ip, local_port: socket.local.port, remote_port: remote.port })
}

/// Returns true when two sockets of one port would share an address.
fn overlap(other: &Socket, ip: IpAddr, options: &UdpOptions) -> bool {
    let serves_both = |any: IpAddr, only_ipv6: bool, ip: IpAddr| {
        any.is_unspecified() && (any.is_ipv4() == ip.is_ipv4() || (any.is_ipv6() && !only_ipv6))
    };
    other.bound.ip == ip
        || serves_both(other.bound.ip, other.options.only_ipv6, ip)
        || serves_both(ip, options.only_ipv6, other.bound.ip)
}

/// Maximum number of lists by port; fewer when fewer sockets are allowed.
const PORT_LISTS_MAX: usize = 4_096;
/// The index leaves bits free for the kinds of names.
const INDEXES_MAX: u32 = 1 << 29;
