//! Requests about a socket: listen, connect, options, information.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ringway_channel::{ControlAnswer, Failure, Operation, Request, SlotIndex, State};
use ringway_shm::stats::InfoRecord;
use ringway_stack::{ActiveOpen, CongestionControl, ConnectError, ListenError, SocketAddress, SocketId, TcpOptions};

use super::claims::PortUse;
use super::close::Closing;
use super::record;
use super::region::Region;
use super::socket::{Kind, Listening};
use crate::claim::{Claim, Purpose};
use crate::core::Core;
use crate::guard::Guard;
use crate::metrics::Work;
use crate::port_table::NotReserved;
use crate::ports::{PortError, Transport};
use crate::quota::Quota;
use crate::verdict::Terms;

/// Longest accept queue; Linux's somaxconn.
pub(super) const BACKLOG_MAX: u32 = 4096;
/// Number of other connections' ports to try when no fresh one may be taken.
const LENDINGS: usize = 16;

/// A request for a listener.
struct Listen {
    local: SocketAddr,
    backlog: u32,
    /// Of the IPv6 wildcard: serves IPv4 too.
    dual_stack: bool,
}

impl Region {
    pub(super) fn execute_on_socket(&mut self, request: &Request, core: &mut Core) {
        let slot = request.slot.index;
        if self.movings.keep(request) {
            return;
        }
        if self.sockets.count() >= self.quotas.sockets && self.sockets.get(slot).is_none() {
            core.metrics.add(Work::RefusedSockets, 1);
            core.metrics.hit(Quota::SocketsOfGroup, self.number);
            self.answer(request, ControlAnswer::Failed(Failure::NoResources), core);
            return;
        }
        self.socket(request, core);
        self.touch(slot);
        match request.operation {
            Operation::Transmit => self.send(slot, core),
            Operation::Consumed => self.read_on(slot, core),
            Operation::Listen { local, backlog, dual_stack } => {
                let answer = self.listen(slot, Listen { local, backlog, dual_stack }, core);
                self.answer(request, answer, core);
            }
            Operation::Connect { remote } => {
                let answer = self.connect(slot, remote, core);
                self.answer(request, answer, core);
            }
            Operation::Datagram { local, dual_stack } => {
                let answer = self.open_datagrams(slot, local, dual_stack, core);
                self.answer(request, answer, core);
            }
            Operation::ConnectDatagram { remote } => {
                let answer = self.connect_datagrams(slot, remote, core);
                self.answer(request, answer, core);
            }
            Operation::Route { remote, interface } => {
                let answer = Region::route(remote, interface, core);
                self.channel.answer(request, answer);
            }
            Operation::Owns { local } => {
                let owned = core.stack.owns(local.ip());
                self.channel.answer(request, if owned { ControlAnswer::Done } else { ControlAnswer::NotOurs });
            }
            Operation::JoinMulticast(which) => {
                let answer = self.join_multicast(slot, which, core);
                self.channel.answer(request, answer);
            }
            Operation::LeaveMulticast(which) => {
                let answer = self.leave_multicast(slot, which, core);
                self.channel.answer(request, answer);
            }
            Operation::Memberships => self.tell_memberships(request, core),
            Operation::Shutdown => {
                let answer = self.shutdown(slot, core);
                self.channel.answer(request, answer);
            }
            Operation::SetOption { option, value } => {
                let answer = self.set_option(slot, option, value, core);
                self.channel.answer(request, answer);
            }
            Operation::Option { option } => self.option(request, option, core),
            Operation::FastOpenKey { key, backup } => self.set_fast_open_key(slot, key, backup, core),
            Operation::Info => self.info(request, core),
            Operation::Urgent { position } => self.send_urgent(slot, position, core),
            Operation::Close { linger_s: Some(0) } | Operation::Abort => self.close(slot, Closing::Reset, core),
            Operation::Close { .. } => self.close(slot, Closing::Orderly, core),
            Operation::Reclaim | Operation::Forked { .. } => {}
        }
    }

    /// Answers a request for a socket of the stack.
    fn answer(&mut self, request: &Request, answer: ControlAnswer, core: &mut Core) {
        self.note_answer(&request.operation, &answer, core);
        self.channel.answer(request, answer);
    }

    fn listen(&mut self, slot: SlotIndex, request: Listen, core: &mut Core) -> ControlAnswer {
        let Listen { local, backlog, dual_stack } = request;
        let socket = self.sockets.get(slot).expect("the caller made it");
        let backlog = backlog.clamp(1, BACKLOG_MAX);
        if let (Kind::Listener, Some(listening)) = (socket.kind, &mut socket.listening) {
            // listen(2) again only changes the backlog.
            listening.backlog = backlog;
            self.accept(slot, core);
            return ControlAnswer::Done;
        }
        if socket.kind != Kind::Fresh || local.port() == 0 {
            return ControlAnswer::Failed(Failure::Invalid);
        }
        let mut addresses = vec![local.ip()];
        if dual_stack && local.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
            addresses.push(Ipv4Addr::UNSPECIFIED.into());
        }
        let wanted = PortUse { purpose: Purpose::Listen, addresses: &addresses, port: local.port() };
        let Ok(claim) = self.right(slot, wanted, core) else {
            return ControlAnswer::NotOurs;
        };
        let mut listening = Listening { port: local.port(), local: addresses, backlog, ..Listening::default() };
        let terms = match listening.judge(Transport::Tcp, core).within(self.verdict).granted() {
            Ok(terms) => terms,
            Err(failure) => return ControlAnswer::Failed(failure),
        };
        if listening.local.iter().all(|ip| self.guard.contains(Guard::listens(ip.is_ipv4()))) {
            return ControlAnswer::Failed(Failure::CgroupProgram);
        }
        self.agree(slot, terms, core);
        let (id, second) = match self.listen_in_stack(slot, &listening, core) {
            Ok(ids) => ids,
            Err(answer) => return answer,
        };
        let accepts_v4 = listening.local.iter().any(IpAddr::is_ipv4);
        self.note_room(core);
        for id in [Some(id), second].into_iter().flatten() {
            core.stack.set_room(id, self.room);
            core.stack.set_owner(id, self.owner.uid);
        }
        self.listeners.push(slot);
        let socket = self.sockets.get(slot).expect("the caller made it");
        socket.kind = Kind::Listener;
        socket.claim = claim;
        socket.id = Some(id);
        let keys = socket.fast_open_keys.clone();
        listening.second = second;
        socket.listening = Some(Box::new(listening));
        socket.record = core.metrics.claim_record();
        if let Some(keys) = keys {
            self.use_fast_open_keys(slot, *keys, core);
        }
        if let Err(error) = self.own_addresses(slot, core) {
            self.close(slot, Closing::Reset, core);
            return ControlAnswer::Failed(failure_of(error));
        }
        // An earlier listener of the port, of which connections are left here, may have gone to the kernel.
        self.follow_rule(slot, core);
        // A listener for both families has the IPv4 wildcard as its peer; tools recognize it by that.
        let peers: IpAddr = if accepts_v4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        self.channel.set_addresses(slot, local, SocketAddr::new(peers, 0));
        self.channel.set_state(slot, State::Listening);
        ControlAnswer::Done
    }

    /// The socket is served on these terms and the group's.
    fn agree(&mut self, slot: SlotIndex, terms: Terms, core: &Core) {
        let terms = self.owner.allowance.terms.and(terms);
        if let Some(socket) = self.sockets.get(slot) {
            socket.accept_terms(terms, core.socket_defaults.congestion_control);
        }
    }

    /// Opens one listener of the stack for each address, of which there are one or two; none if one of them fails.
    fn listen_in_stack(
        &mut self,
        slot: SlotIndex,
        listening: &Listening,
        core: &mut Core,
    ) -> Result<(SocketId, Option<SocketId>), ControlAnswer> {
        let user_token = self.user_token(slot);
        let options = self.sockets.get(slot).expect("the caller made it").options;
        let mut ids = Vec::new();
        for &ip in &listening.local {
            let address = SocketAddress { ip, port: listening.port };
            let error = match core.stack.listen(address, listening.backlog, options, user_token) {
                Ok(id) => {
                    ids.push(id);
                    continue;
                }
                Err(error) => error,
            };
            ids.into_iter().for_each(|id| core.stack.close(core.now, id));
            return Err(match error {
                ListenError::NotLocal => ControlAnswer::NotOurs,
                ListenError::InUse => ControlAnswer::Failed(Failure::InUse),
                ListenError::Full => ControlAnswer::Failed(Failure::NoResources),
            });
        }
        Ok((ids[0], ids.get(1).copied()))
    }

    /// Steers the listener's packets to us: those of one address, or of all.
    pub(super) fn own_addresses(&mut self, slot: SlotIndex, core: &mut Core) -> Result<(), PortError> {
        let (guard, verdict) = (self.guard, self.verdict);
        let Some(socket) = self.sockets.get(slot) else { return Ok(()) };
        let (datagrams, every_worker) = (socket.kind == Kind::Datagram, socket.every_worker);
        // One that has been handed over serves no address that comes later.
        let Some(listening) = socket.listening.as_mut().filter(|listening| listening.left.is_none()) else { return Ok(()) };
        let wanted: Vec<IpAddr> = core.stack.local_addresses().filter(|ip| listening.serves(*ip)).collect();
        for ip in wanted {
            let transport = if datagrams { Transport::Udp } else { Transport::Tcp };
            let seen = if datagrams { Guard::datagrams(ip.is_ipv4()) } else { Guard::listens(ip.is_ipv4()) };
            if guard.contains(seen)
                || listening.owned.contains(&ip)
                || !core.ports.judge_port(transport, ip, listening.port).within(verdict).serves()
            {
                continue;
            }
            let added = match (datagrams, every_worker) {
                (true, _) => core.ports.add_datagrams(ip, listening.port),
                (false, true) => core.ports.add_share(ip, listening.port),
                (false, false) => core.ports.add(ip, listening.port),
            };
            match added {
                Err(PortError::Waits) => continue,
                added => added?,
            }
            if !datagrams {
                core.ports.note_served(ip, listening.port);
            }
            listening.owned.push(ip);
        }
        Ok(())
    }

    /// Updates the listeners after a change of the addresses.
    pub(super) fn addresses_changed(&mut self, core: &mut Core) {
        for slot in self.sockets.slots() {
            let Some(socket) = self.sockets.get(slot) else { continue };
            let datagrams = socket.kind == Kind::Datagram;
            if datagrams && !socket.datagrams.joined.is_empty() {
                self.give_datagrams_back(slot, core);
            }
            let Some(socket) = self.sockets.get(slot) else { continue };
            let Some(listening) = socket.listening.as_mut() else { continue };
            let port = listening.port;
            for ip in listening.owned.extract_if(.., |ip| !core.stack.owns(*ip)) {
                if datagrams {
                    core.ports.remove_datagrams(ip, port);
                } else {
                    core.ports.remove(ip, port);
                }
            }
            self.touch(slot);
            if self.own_addresses(slot, core).is_err() {
                core.metrics.add(Work::RefusedSockets, 1);
            }
        }
    }

    fn connect(&mut self, slot: SlotIndex, remote: SocketAddr, core: &mut Core) -> ControlAnswer {
        let bound = self.channel.slot(slot).local();
        let user_token = self.user_token(slot);
        let socket = self.sockets.get(slot).expect("the caller made it");
        if socket.kind != Kind::Fresh || remote.port() == 0 {
            return ControlAnswer::Failed(Failure::Invalid);
        }
        let peer = SocketAddress { ip: remote.ip(), port: remote.port() };
        let source = core.stack.source_for(remote.ip()).filter(|_| core.stack.reaches(peer));
        let ip = if bound.ip().is_unspecified() { source } else { source.map(|_| bound.ip()) };
        let Some(ip) = ip.filter(|&ip| core.stack.owns(ip)) else { return ControlAnswer::NotOurs };
        if self.guard.contains(Guard::connects(ip.is_ipv4())) {
            return ControlAnswer::Failed(Failure::CgroupProgram);
        }
        if let Err(failure) = self.verdict.granted() {
            return ControlAnswer::Failed(failure);
        }
        let claim = match bound.port() {
            0 => None,
            port => match self.right(slot, PortUse { purpose: Purpose::Connect, addresses: &[ip], port }, core) {
                Ok(claim) => claim,
                Err(_) => return ControlAnswer::NotOurs,
            },
        };
        let socket = self.sockets.get(slot).expect("the caller made it");
        let default = core.socket_defaults.congestion_control;
        let (terms, uid) = (self.owner.allowance.terms, self.owner.uid);
        let opening = Opening { ip, peer, options: socket.options, default, terms, user_token, uid };
        let opened = match bound.port() {
            0 => opening.begin_from_any_port(core),
            port => opening.begin_from_port(port, claim, core),
        };
        let Opened { id, port, terms } = match opened {
            Ok(opened) => opened,
            Err(answer) => return answer,
        };
        socket.accept_terms(terms, default);
        socket.id = Some(id);
        socket.kind = Kind::Connection;
        socket.port = Some((ip, port));
        socket.record = core.metrics.claim_record();
        self.channel.set_addresses(slot, SocketAddr::new(ip, port), remote);
        self.open_limits(slot);
        self.channel.set_state(slot, State::Connecting);
        if let Some(room) = core.stack.fast_open_room(id) {
            // RFC 7413: the SYN waits for the application's data.
            self.connected(slot, id, core);
            self.limit_first_send(slot, room as u32);
        }
        ControlAnswer::Done
    }

    fn info(&mut self, request: &Request, core: &mut Core) {
        let socket = self.sockets.get(request.slot.index);
        let (kind, id) = socket.map_or((Kind::Fresh, None), |socket| (socket.kind, socket.id));
        if let (Kind::Datagram, Some(id)) = (kind, id) {
            let path_mtu = core.stack.udp_info(id).and_then(|info| info.path_mtu).unwrap_or(0);
            let info = InfoRecord { path_mtu: path_mtu.into(), ..InfoRecord::default() };
            if !self.channel.answer_with_bytes(request, &info.to_bytes()) {
                core.metrics.add(Work::RefusedSockets, 1);
            }
            return;
        }
        let mut info = id.and_then(|id| record::info_record(id, core)).unwrap_or_default();
        // The program has sent what waits in the channel.
        info.unsent_bytes += self.channel.tx_available(request.slot.index) as u64;
        if !self.channel.answer_with_bytes(request, &info.to_bytes()) {
            core.metrics.add(Work::RefusedSockets, 1);
        }
    }
}

/// Parameters of a connection to be opened.
struct Opening {
    ip: IpAddr,
    peer: SocketAddress,
    options: TcpOptions,
    /// Congestion control of a socket whose program has asked for none.
    default: CongestionControl,
    /// The group's.
    terms: Terms,
    user_token: u64,
    /// The group's user.
    uid: u32,
}

/// A connection that is opened.
struct Opened {
    id: SocketId,
    port: u16,
    /// On which it is.
    terms: Terms,
}

impl Opening {
    /// Opens from a port that the program has chosen.
    fn begin_from_port(&self, port: u16, claim: Option<Claim>, core: &mut Core) -> Result<Opened, ControlAnswer> {
        match core.ports.add_alone(self.ip, port, claim) {
            Ok(()) => self.start(port, core),
            Err(PortError::InUse) => Err(ControlAnswer::Failed(Failure::NotAvailable)),
            Err(error) => Err(ControlAnswer::Failed(failure_of(error))),
        }
    }

    /// Opens from a fresh port or, if no more may be taken, from one that a connection to another peer has.
    fn begin_from_any_port(&self, core: &mut Core) -> Result<Opened, ControlAnswer> {
        let refusal = match core.ports.reserve(self.ip, self.uid) {
            Ok(port) => return self.start(port, core),
            Err(NotReserved::UserHasAll) => {
                core.metrics.hit(Quota::PortsOfUser, self.uid);
                Failure::NotAvailable
            }
            Err(NotReserved::Refused(error)) => {
                core.metrics.hit(Quota::Ports, 0);
                if error == PortError::InUse { Failure::NotAvailable } else { failure_of(error) }
            }
        };
        for _ in 0..LENDINGS {
            let Some(port) = core.ports.lend(self.ip) else { break };
            match self.start(port, core) {
                Err(ControlAnswer::Failed(Failure::NotAvailable)) => {}
                opened => {
                    core.metrics.add(Work::PortsLent, 1);
                    return opened;
                }
            }
        }
        Err(ControlAnswer::Failed(refusal))
    }

    /// Opens from a port to which a user was added; removes the user on failure.
    fn start(&self, port: u16, core: &mut Core) -> Result<Opened, ControlAnswer> {
        let judged = core.ports.judge_connection(SocketAddr::new(self.ip, port), SocketAddr::new(self.peer.ip, self.peer.port));
        let terms = judged.granted().map_err(|failure| {
            core.ports.remove(self.ip, port);
            ControlAnswer::Failed(failure)
        })?;
        let terms = self.terms.and(terms);
        let mut options = self.options;
        terms.bind(&mut options, self.default, self.options.pacing_rate_max);
        let local = SocketAddress { ip: self.ip, port };
        let open = ActiveOpen { local: Some(local), remote: self.peer, options, user_token: self.user_token };
        let opened = core.stack.connect(core.now, open);
        opened.map(|id| Opened { id, port, terms }).map_err(|error| {
            core.ports.remove(self.ip, port);
            match error {
                ConnectError::NoRoute => ControlAnswer::NotOurs,
                ConnectError::InUse | ConnectError::NoPort => ControlAnswer::Failed(Failure::NotAvailable),
                ConnectError::Full => ControlAnswer::Failed(Failure::NoResources),
            }
        })
    }
}

pub(super) fn failure_of(error: PortError) -> Failure {
    match error {
        PortError::InUse => Failure::InUse,
        PortError::NotLocal => Failure::NotAvailable,
        PortError::NoSteering | PortError::Waits => Failure::NoResources,
    }
}
