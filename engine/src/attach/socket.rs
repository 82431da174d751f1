//! The worker's own, checked state of one slot.

use std::net::IpAddr;

use ringway_channel::{KernelReason, SlotIndex, SlotRef};
use ringway_shm::{Frame, Instant};
use ringway_stack::{CongestionControl, FastOpenKeys, SocketId, TcpOptions};

use super::bulk::Carried;
use super::datagram::Datagrams;
use crate::claim::Claim;
use crate::verdict::{Terms, lower};

/// Entries of one page of the table.
const PAGE: usize = 256;

/// Kind of a socket, from the worker's view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// Has requested nothing but options yet.
    #[default]
    Fresh,
    Listener,
    Connection,
    Datagram,
}

/// State of a listener; partly of a datagram socket too.
#[derive(Debug, Default)]
pub(super) struct Listening {
    pub(super) port: u16,
    /// Requested addresses: one, or all of one family or of both.
    pub(super) local: Vec<IpAddr>,
    /// The stack's second listener of a socket for both families; the first is the socket's `id`.
    pub(super) second: Option<SocketId>,
    /// Addresses of which packets are steered to it.
    pub(super) owned: Vec<IpAddr>,
    pub(super) backlog: u32,
    /// Since this instant new connections are to be the kernel's.
    pub(super) left: Option<Instant>,
    /// The program has been told that it is the kernel's.
    pub(super) is_gone: bool,
    /// The kernel has got the datagram socket back, for this reason.
    pub(super) given_back: Option<KernelReason>,
    /// Its terms have changed: connections that were there before, and wait to be accepted, get the new ones then.
    pub(super) has_other_terms: bool,
}

impl Listening {
    /// Returns true if connections to `ip`, an address of the stack, are this listener's.
    pub(super) fn serves(&self, ip: IpAddr) -> bool {
        self.local.iter().any(|local| *local == ip || (local.is_unspecified() && local.is_ipv4() == ip.is_ipv4()))
    }
}

/// One socket of an application group.
#[derive(Debug)]
pub(super) struct Socket {
    /// The use of the slot that this socket belongs to.
    pub(super) slot: SlotRef,
    pub(super) kind: Kind,
    /// The stack's id; `None`: none yet, or no longer.
    pub(super) id: Option<SocketId>,
    pub(super) options: TcpOptions,
    /// Terms of rules, whatever its program asks for.
    pub(super) terms: Terms,
    /// Bytes that its program wants it to send in a second at most; 0: no limit.
    pub(super) rate_asked: u64,
    /// UserToken keys of a listener that has its own.
    pub(super) fast_open_keys: Option<Box<FastOpenKeys>>,
    /// State of a datagram socket.
    pub(super) datagrams: Datagrams,
    pub(super) listening: Option<Box<Listening>>,
    /// The right to the port of a listener or datagram socket.
    pub(super) claim: Option<Claim>,
    /// True if the other workers listen on its port too.
    pub(super) every_worker: bool,
    /// Closing resets, also after the death of the last holder.
    pub(super) resets_at_close: bool,
    /// The local port that a connection uses.
    pub(super) port: Option<(IpAddr, u16)>,
    /// Payload that did not fit into the channel.
    pub(super) leftover: Option<Frame>,
    /// Bytes that the application may write ahead of the stack.
    pub(super) send_limit: u32,
    /// Bytes in send chunks at the last check; 1 if the socket is held back.
    pub(super) waiting: u32,
    /// Bytes wait in the channel for space in the stack.
    pub(super) send_blocked: bool,
    /// The application may write nothing until the peer has taken some data.
    pub(super) held_back: bool,
    /// The application reports reading sooner than usual.
    pub(super) notified_soon: bool,
    /// In the retry list.
    pub(super) retrying: bool,
    /// In the list of sockets that lack receive chunks.
    pub(super) starved: bool,
    /// Send FIN once everything queued is in the stack.
    pub(super) shutdown: bool,
    /// The kernel goes on with it; the slot stays until the application has seen that.
    pub(super) moved: bool,
    /// The application has closed it; free the slot once everything queued is in the stack.
    pub(super) closing: bool,
    /// How much it had carried at the last look; `None`: bulk data does not matter.
    pub(super) carried: Option<Box<Carried>>,
    /// Index of the statistics record.
    pub(super) record: Option<u32>,
    /// The record is stale, and the socket is in the list of those.
    pub(super) touched: bool,
}

impl Socket {
    pub(super) fn new(slot: SlotRef, options: TcpOptions) -> Socket {
        Socket {
            slot,
            kind: Kind::Fresh,
            id: None,
            options,
            terms: Terms::default(),
            rate_asked: 0,
            fast_open_keys: None,
            datagrams: Datagrams::default(),
            listening: None,
            claim: None,
            every_worker: false,
            resets_at_close: false,
            port: None,
            leftover: None,
            send_limit: 0,
            waiting: 0,
            send_blocked: false,
            held_back: false,
            notified_soon: false,
            retrying: false,
            starved: false,
            shutdown: false,
            moved: false,
            closing: false,
            carried: None,
            record: None,
            touched: false,
        }
    }

    /// From now on these terms hold; without any, the congestion control is `default`.
    pub(super) fn accept_terms(&mut self, terms: Terms, default: CongestionControl) {
        if self.terms.congestion_control == Some(self.options.congestion_control) {
            // It was not the program's choice.
            self.options.congestion_control = default;
        }
        self.terms = terms;
        terms.bind(&mut self.options, default, self.rate_asked);
    }

    /// The options that a kernel socket can have in its place: a rate that it shared is its own limit there.
    pub(super) fn options_at_kernel(&self) -> TcpOptions {
        let shared = self.options.shared_rates.iter().flatten().map(|shared| shared.rate());
        TcpOptions { pacing_rate_max: shared.fold(self.options.pacing_rate_max, lower), ..self.options }
    }

    /// Returns true if this is the stack's `id`.
    #[inline]
    pub(super) fn is(&self, id: SocketId) -> bool {
        self.id == Some(id) || self.listening.as_ref().is_some_and(|listening| listening.second == Some(id))
    }
}

type Page = [Option<Box<Socket>>; PAGE];

/// Sockets by slot, in pages that are allocated at first use.
#[derive(Default)]
pub(super) struct Table {
    pages: Vec<Option<Box<Page>>>,
    count: u32,
}

impl Table {
    pub(super) fn new(slots: u32) -> Table {
        let mut pages = Vec::new();
        pages.resize_with((slots as usize).div_ceil(PAGE), || None);
        Table { pages, count: 0 }
    }

    /// Number of sockets.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    #[inline]
    pub(super) fn get(&mut self, slot: SlotIndex) -> Option<&mut Socket> {
        let page = self.pages.get_mut(slot as usize / PAGE)?.as_mut()?;
        page[slot as usize % PAGE].as_deref_mut()
    }

    /// # Panics
    /// Panics if the slot is outside the table; the channel has checked it.
    pub(super) fn insert(&mut self, socket: Socket) -> &mut Socket {
        let slot = socket.slot.index as usize;
        let page = self.pages[slot / PAGE].get_or_insert_with(|| Box::new([const { None }; PAGE]));
        let place = &mut page[slot % PAGE];
        self.count += u32::from(place.is_none());
        place.insert(Box::new(socket))
    }

    pub(super) fn remove(&mut self, slot: SlotIndex) -> Option<Box<Socket>> {
        let page = self.pages.get_mut(slot as usize / PAGE)?.as_mut()?;
        let socket = page[slot as usize % PAGE].take()?;
        self.count -= 1;
        Some(socket)
    }

    /// The slots that have a socket.
    pub(super) fn slots(&self) -> Vec<SlotIndex> {
        let pages = self.pages.iter().flatten();
        pages.flat_map(|page| page.iter().flatten()).map(|socket| socket.slot.index).collect()
    }
}
