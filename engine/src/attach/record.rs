//! Statistics and `TCP_INFO` records of a socket.

use std::net::IpAddr;

use ringway_channel::SlotIndex;
use ringway_shm::Instant;
use ringway_shm::stats::{Endpoint, HOLDERS_NAMED, InfoRecord, SocketRecord};
use ringway_stack::{EndedConnection, Protocol, SocketAddress, SocketId, SocketSummary, State};

use super::region::Region;
use super::socket::Kind;
use super::{Attachments, UserToken};
use crate::core::{Core, Orphan, Owner};
use crate::info_record::{record_of, timer_record};

/// Number of sockets with a retransmission timer that get fresh statistics without an event.
const WAITING_MAX: usize = 256;
/// Linux's number of a closed socket.
pub(super) const UNCONNECTED: u8 = State::Closed.linux();

impl Region {
    /// Writes the statistics of the sockets that have changed.
    pub(super) fn write_records(&mut self, core: &mut Core) {
        let mut again = Vec::new();
        for slot in std::mem::take(&mut self.touched) {
            let Some(socket) = self.sockets.get(slot) else { continue };
            socket.touched = false;
            let index = socket.record;
            if index.is_none() && core.bulk.is_none() {
                continue;
            }
            let record = self.record(slot, core);
            if let Some(index) = index {
                core.metrics.write_socket(index, &record);
            }
            self.watch_bulk(slot, &record.info, core);
            // A retransmission raises no event: sockets that wait for one are checked again, up to WAITING_MAX.
            if again.len() < WAITING_MAX && record.timer.is_some_and(|timer| timer.retransmits()) {
                again.push(slot);
            }
        }
        again.into_iter().for_each(|slot| self.touch(slot));
    }

    fn record(&mut self, slot: SlotIndex, core: &mut Core) -> SocketRecord {
        let unread = self.channel.unread(slot);
        let waiting = self.channel.tx_available(slot) as u32;
        let shared = self.channel.slot(slot);
        let (local, remote, unaccepted) = (shared.local(), shared.remote(), shared.unaccepted());
        let descriptor = shared.place().map(|place| place.number);
        let (guard, verdict) = (self.guard, self.verdict);
        let socket = self.sockets.get(slot).expect("the caller has looked");
        let datagrams = socket.kind == Kind::Datagram;
        let tcp_id = socket.id.filter(|_| !datagrams);
        let info = match datagrams {
            true => socket.datagrams.info(),
            false => tcp_id.and_then(|id| info_record(id, core)).unwrap_or_default(),
        };
        let timer = tcp_id.and_then(|id| core.stack.summary(id)).and_then(|summary| timer_record(&summary, core.now));
        let held = tcp_id.map_or(0, |id| core.stack.unread(id)) as u32;
        let options = socket.options;
        let listening = socket.listening.as_ref();
        let (state, receive_queue, send_queue) = match (socket.kind, listening) {
            (Kind::Datagram, _) => {
                let state = if remote.port() == 0 { UNCONNECTED } else { State::Established.linux() };
                (state, unread, waiting)
            }
            (Kind::Listener, Some(listening)) => (State::Listen.linux(), unaccepted, listening.backlog),
            _ => {
                let state = if info.state == 0 { UNCONNECTED } else { info.state as u8 };
                (state, unread + held, waiting + info.unacked_bytes as u32 + info.unsent_bytes as u32)
            }
        };
        let mut holders = [0; HOLDERS_NAMED];
        holders.iter_mut().zip(self.channel.holders_of(slot)).for_each(|(place, pid)| *place = pid);
        let limit = |asked: u32| if asked == 0 { core.buffer_bytes } else { asked };
        SocketRecord {
            state,
            datagrams,
            local: Endpoint { ip: local.ip(), port: local.port() },
            remote: Endpoint { ip: remote.ip(), port: remote.port() },
            receive_queue,
            send_queue,
            interface: u32::MAX,
            pid: self.owner.pid,
            uid: self.owner.uid,
            program: self.owner.program.clone(),
            region: self.number,
            slot,
            congestion_control: if listening.is_some() { String::new() } else { options.congestion_control.name().into() },
            info,
            timer,
            memory: [receive_queue, limit(options.receive_buffer_bytes), send_queue, limit(options.send_buffer_bytes)],
            kernel: listening.filter(|_| !datagrams).and_then(|listening| listening.kernel_path(guard, verdict, core)),
            holders,
            descriptor,
        }
    }
}

impl Region {
    /// What stays of a connection that its program gives up.
    pub(super) fn left_behind(&self, port: Option<(IpAddr, u16)>, core: &Core) -> Orphan {
        let owner = core.stack.wants_ends().then(|| Box::new(self.origin()));
        Orphan { region: self.number, port, owner }
    }

    fn origin(&self) -> Owner {
        Owner { pid: self.owner.pid, uid: self.owner.uid, program: self.owner.program.clone() }
    }

    /// Tells tools that listen of the end of a listener or of a socket of UDP.
    pub(super) fn tell_end(&mut self, slot: SlotIndex, core: &mut Core) {
        let listening = self.sockets.get(slot).and_then(|socket| socket.listening.as_ref());
        let is_served = listening.is_some_and(|listening| listening.given_back.is_none());
        if is_served && core.stack.wants_ends() {
            let record = self.record(slot, core);
            core.metrics.write_end(core.now, &record);
        }
    }
}

impl Attachments {
    /// Tells tools that listen of the connections that have ended, before the applications hear of it.
    #[inline]
    pub(crate) fn tell_ends(&mut self, core: &mut Core) {
        for ended in core.stack.take_ends() {
            self.tell_of(&ended, core);
        }
    }

    #[cold]
    fn tell_of(&mut self, ended: &EndedConnection, core: &mut Core) {
        let EndedConnection { summary, info } = ended;
        let owner = match core.owner_of_orphan(summary.id) {
            Some(owner) => owner.clone(),
            None => {
                self.region(UserToken::from_word(summary.user_token).region).map(|region| region.origin()).unwrap_or_default()
            }
        };
        let Owner { pid, uid, program } = owner;
        let info = record_of(info, summary.remote.ip.is_ipv6());
        core.metrics.write_end(core.now, &SocketRecord { pid, uid, program, info, timer: None, ..orphan(summary, core.now) });
    }
}

/// Record of an orphan.
pub(super) fn orphan(summary: &SocketSummary, now: Instant) -> SocketRecord {
    let endpoint = |address: SocketAddress| Endpoint { ip: address.ip, port: address.port };
    SocketRecord {
        state: summary.state.linux(),
        datagrams: summary.protocol == Protocol::Udp,
        local: endpoint(summary.local),
        remote: endpoint(summary.remote),
        receive_queue: summary.receive_queue,
        send_queue: summary.send_queue,
        interface: u32::MAX,
        pid: 0,
        uid: 0,
        program: String::new(),
        region: u32::MAX,
        slot: u32::MAX,
        congestion_control: String::new(),
        info: InfoRecord::default(),
        timer: timer_record(summary, now),
        memory: [summary.receive_queue, 0, summary.send_queue, 0],
        kernel: None,
        holders: [0; HOLDERS_NAMED],
        descriptor: None,
    }
}

/// The stack's description of a connection in the channel's format.
pub(super) fn info_record(id: SocketId, core: &Core) -> Option<InfoRecord> {
    let is_ipv6 = core.stack.addresses(id).is_some_and(|(_, remote)| remote.ip.is_ipv6());
    core.stack.info_at(core.now, id).map(|info| record_of(&info, is_ipv6))
}
