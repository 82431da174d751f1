//! Passive open: listeners and their accept queues.
//!
//! Read RFC 9293 §3.10.7.2 first. Half-open connections are records in the [`SynQueue`](super::syn_queue::SynQueue); a
//! listener knows which of them are its own, and whether it has overflowed lately: only then is the ACK of a SYN cookie
//! accepted.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

use crate::address::SocketAddress;
use crate::config::{FastOpenKeys, TcpOptions};

use super::syn_queue::Line;

/// In [`SocketId::index`](crate::event::SocketId): marks the id of a listener.
pub(crate) const LISTENER_BIT: u32 = 1 << 31;
/// End of a chain; free.
const NIL: u32 = u32::MAX;

/// One listening socket.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) local: SocketAddress,
    pub(crate) backlog: u32,
    pub(crate) options: TcpOptions,
    pub(crate) user_token: u64,
    pub(crate) generation: u32,
    /// Established connections that wait to be accepted.
    pub(crate) accept_queue: VecDeque<u32>,
    /// The listener's records in the SYN queue.
    pub(crate) half_open: Line,
    /// Minute in which the last SYN cookie was sent.
    pub(crate) cookies_at: Option<u32>,
    /// Fast Open: connections that have not finished the handshake.
    pub(crate) early: u32,
    /// Fast Open: ticks until which connections that were reset still count.
    pub(crate) early_resets: VecDeque<u32>,
    /// Fast Open: keys of its own.
    pub(crate) fast_open_keys: Option<FastOpenKeys>,
    /// Number of further connections that the accepting application has space for.
    pub(crate) room: u32,
    /// Whose it is, if that is known.
    pub(crate) owner: Option<u32>,
    pub(crate) alive: bool,
    /// The next listener on the same port.
    next: u32,
}

/// All listeners, found by port with one load.
pub(crate) struct Listeners {
    list: Vec<Listener>,
    by_port: Vec<u32>,
    max: u32,
    alive: u32,
}

impl Listener {
    /// Returns true when a further handshake may begin.
    pub(crate) fn takes_syn(&self) -> bool {
        self.has_room() && ((self.half_open.len() + self.accept_queue.len() as u32) < self.room)
    }

    /// Returns true when a further connection may wait.
    pub(crate) fn has_room(&self) -> bool {
        (self.accept_queue.len() as u32) < self.backlog.max(1)
    }

    /// Linux: no more half-open connections than may wait to be accepted.
    pub(crate) fn is_syn_queue_full(&self) -> bool {
        self.half_open.len() >= self.backlog.max(1)
    }
}

impl Listeners {
    /// A table for `max` listeners.
    pub(crate) fn new(max: u32) -> Listeners {
        Listeners { list: Vec::new(), by_port: vec![NIL; 1 << 16], max, alive: 0 }
    }

    pub(crate) fn set_max(&mut self, max: u32) {
        self.max = max;
    }

    /// The listener of an index.
    pub(crate) fn get(&self, index: u32) -> Option<&Listener> {
        self.list.get(index as usize).filter(|listener| listener.alive)
    }

    /// Like [`get`](Listeners::get), mutable.
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Listener> {
        self.list.get_mut(index as usize).filter(|listener| listener.alive)
    }

    /// The listener that serves an address: an exact match comes before one for all addresses of its family.
    pub(crate) fn find(&self, ip: IpAddr, port: u16) -> Option<u32> {
        let exact = self.on_port(port).find(|(_, listener)| listener.local.ip == ip);
        let all = |listener: &Listener| listener.local.ip.is_unspecified() && listener.local.ip.is_ipv4() == ip.is_ipv4();
        exact.or_else(|| self.on_port(port).find(|(_, listener)| all(listener))).map(|(index, _)| index)
    }

    fn on_port(&self, port: u16) -> impl Iterator<Item = (u32, &Listener)> {
        let first = self.by_port[port as usize];
        let listener = |index: u32| self.list.get(index as usize).map(|listener| (index, listener));
        core::iter::successors(listener(first), move |(_, previous)| listener(previous.next))
    }

    /// The listener, among those that [`find`](Listeners::find) might return, that a flow belongs to: a reuseport group
    /// distributes flows among its members by their hash.
    pub(crate) fn find_for(&self, ip: IpAddr, port: u16, hash: impl FnOnce() -> u32) -> Option<u32> {
        let first = self.find(ip, port)?;
        let (local, shares) = self.get(first).map(|listener| (listener.local, listener.options.reuse_port))?;
        if !shares {
            return Some(first);
        }
        let group = || self.on_port(port).filter(|(_, other)| other.local == local && other.options.reuse_port);
        match group().count() {
            0 | 1 => Some(first),
            // The flow table uses the low bits of the hash.
            count => group().nth((hash() >> 16) as usize % count).map(|(index, _)| index),
        }
    }

    /// Returns true when a listener on `local` would conflict with another. IPv4 and IPv6 have separate ports.
    pub(crate) fn conflicts(&self, local: SocketAddress, options: &TcpOptions) -> bool {
        let overlap = |one: IpAddr, other: IpAddr| one == other || one.is_unspecified() || other.is_unspecified();
        self.on_port(local.port).any(|(_, other)| {
            other.local.ip.is_ipv4() == local.ip.is_ipv4()
                && overlap(other.local.ip, local.ip)
                && !(other.options.reuse_port && options.reuse_port)
        })
    }

    /// Adds a listener; `None` when there are too many.
    pub(crate) fn insert(
        &mut self,
        local: SocketAddress,
        backlog: u32,
        options: TcpOptions,
        user_token: u64,
    ) -> Option<(u32, u32)> {
        if self.alive >= self.max {
            return None;
        }
        let free = self.list.iter().position(|listener| !listener.alive);
        let generation = free.map_or(0, |index| self.list[index].generation.wrapping_add(1));
        let next = self.by_port[local.port as usize];
        let accept_queue = VecDeque::new();
        let listener = Listener {
            local,
            backlog,
            options,
            user_token,
            generation,
            accept_queue,
            half_open: Line::default(),
            cookies_at: None,
            early: 0,
            early_resets: VecDeque::new(),
            fast_open_keys: None,
            room: u32::MAX,
            owner: None,
            alive: true,
            next,
        };
        let index = match free {
            Some(index) => {
                self.list[index] = listener;
                index as u32
            }
            None => {
                self.list.push(listener);
                self.list.len() as u32 - 1
            }
        };
        self.by_port[local.port as usize] = index;
        self.alive += 1;
        Some((index, generation))
    }

    /// Removes a listener and returns the connections that were waiting.
    pub(crate) fn remove(&mut self, index: u32) -> VecDeque<u32> {
        let Some(listener) = self.get_mut(index) else { return VecDeque::new() };
        listener.alive = false;
        let waiting = core::mem::take(&mut listener.accept_queue);
        let (port, next) = (listener.local.port as usize, listener.next);
        self.alive -= 1;
        if self.by_port[port] == index {
            self.by_port[port] = next;
        } else {
            let mut previous = self.by_port[port];
            while self.list[previous as usize].next != index {
                previous = self.list[previous as usize].next;
            }
            self.list[previous as usize].next = next;
        }
        waiting
    }

    /// All listeners with their indexes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Listener)> {
        self.list.iter().enumerate().filter(|(_, listener)| listener.alive).map(|(index, listener)| (index as u32, listener))
    }
}
