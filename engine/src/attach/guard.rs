//! What is the kernel's though its program is served: ports and connections by rules (of packet filters and of the
//! configuration), and sockets of groups on which BPF programs of cgroups could act.
//!
//! Packet filters are about packets, rules of the configuration about sockets. Promises: an open connection or datagram socket that filters
//! forbid sends and receives nothing from the moment that the worker learns of it; a connection that a rule of the configuration leaves to the
//! kernel goes on, here until its holder hands it over. Does not do: judging rules; the implementation of [`Ports`](crate::Ports) does. Half-open
//! connections repeat their SYN-ACK until they end.

use std::net::{IpAddr, SocketAddr};

use ringway_channel::{Flags, KernelPath, KernelReason, SlotIndex};
use ringway_stack::{Protocol, State};

use super::region::Region;
use super::socket::{Kind, Listening};
use crate::core::Core;
use crate::guard::Guard;
use crate::metrics::Work;
use crate::ports::Transport;
use crate::verdict::{Ruling, Verdict};

impl Region {
    /// Follows a change of the rules: listeners serve what they may, datagram sockets that may not be served are the kernel's, and the holders
    /// of connections that a rule leaves to the kernel are asked for their kernel sockets.
    pub(super) fn rules_changed(&mut self, core: &mut Core) {
        let has_rules = self.verdict != Verdict::default() || core.ports.has_rules();
        let looks = std::mem::replace(&mut self.has_rules, has_rules) || has_rules;
        let mut wishes = false;
        for slot in self.sockets.slots() {
            let Some(socket) = self.sockets.get(slot) else { continue };
            match socket.kind {
                Kind::Datagram => {
                    self.give_datagrams_back(slot, core);
                    let listening = self.sockets.get(slot).and_then(|socket| socket.listening.as_ref());
                    let verdict = listening.map(|listening| listening.judge(Transport::Udp, core));
                    self.follow_datagram_terms(slot, verdict.unwrap_or_default().within(self.verdict));
                }
                Kind::Listener => {
                    self.touch(slot);
                    self.follow_rule(slot, core);
                    self.follow_listener_terms(slot, core);
                    if self.own_addresses(slot, core).is_err() {
                        core.metrics.add(Work::RefusedSockets, 1);
                    }
                }
                Kind::Connection if looks && socket.id.is_some() => match self.judge_connection(slot, core) {
                    verdict if verdict.leaves() => {
                        self.channel.set_flags(slot, Flags::WANTED);
                        wishes = true;
                    }
                    verdict => self.follow_terms(slot, verdict, core),
                },
                Kind::Connection | Kind::Fresh => {}
            }
        }
        if wishes {
            self.wish();
        }
    }

    /// Follows a change of the rules about the whole group.
    pub(super) fn obey(&mut self, ruling: Ruling, core: &mut Core) {
        self.verdict = ruling.verdict;
        self.allow(ruling.allowance);
        // Every socket is looked at.
        self.has_rules = true;
        self.note_room(core);
        self.rules_changed(core);
    }

    /// New connections of a listener are the kernel's where programs of cgroups see them or a rule of the configuration wants it, and else the
    /// stack's.
    pub(super) fn follow_rule(&mut self, slot: SlotIndex, core: &mut Core) {
        let (guard, verdict) = (self.guard, self.verdict);
        let listening = self.sockets.get(slot).and_then(|socket| socket.listening.as_ref());
        // One that has been handed over stays the kernel's.
        let Some(listening) = listening.filter(|listening| listening.left.is_none()) else { return };
        let port = listening.port;
        for &ip in &listening.owned {
            let leaves = guard.contains(Guard::listens(ip.is_ipv4()))
                || core.ports.judge_port(Transport::Tcp, ip, port).within(verdict).leaves();
            match (core.ports.follows_rule((ip, port), leaves), leaves) {
                (true, _) => {}
                (false, true) => core.let_port_go(ip, port),
                (false, false) => core.take_port_back(ip, port),
            }
        }
    }

    fn follow_listener_terms(&mut self, slot: SlotIndex, core: &mut Core) {
        let Some(listening) = self.sockets.get(slot).and_then(|socket| socket.listening.as_ref()) else { return };
        let verdict = listening.judge(Transport::Tcp, core).within(self.verdict);
        self.follow_terms(slot, verdict, core);
    }

    /// A socket of TCP on which the rules have this `verdict` has their terms, if it is served.
    fn follow_terms(&mut self, slot: SlotIndex, verdict: Verdict, core: &mut Core) {
        let Verdict::Serve(terms) = verdict else { return };
        let terms = self.owner.allowance.terms.and(terms);
        let Some(socket) = self.sockets.get(slot).filter(|socket| socket.terms != terms) else { return };
        socket.accept_terms(terms, core.socket_defaults.congestion_control);
        let options = socket.options;
        if let Some(listening) = &mut socket.listening {
            listening.has_other_terms = true;
        }
        let second = socket.listening.as_ref().and_then(|listening| listening.second);
        for id in [socket.id, second].into_iter().flatten() {
            core.stack.set_options(core.now, id, options);
        }
    }

    /// What the rules say of a connection.
    fn judge_connection(&mut self, slot: SlotIndex, core: &mut Core) -> Verdict {
        let shared = self.channel.slot(slot);
        let (local, remote) = (shared.local(), shared.remote());
        let verdict = match core.ports.is_served(local.ip(), local.port()) {
            true => core.ports.judge_port(Transport::Tcp, local.ip(), local.port()),
            false => core.ports.judge_connection(local, remote),
        };
        verdict.within(self.verdict)
    }

    /// Adds to the group's sockets that are the kernel's those that `guard` names.
    pub(super) fn confine(&mut self, guard: Guard, core: &mut Core) {
        self.guard = self.guard | guard;
        for slot in self.sockets.slots() {
            let Some(socket) = self.sockets.get(slot) else { continue };
            match (socket.kind, socket.id) {
                (Kind::Datagram, _) => self.give_datagrams_back(slot, core),
                (Kind::Listener, _) => {
                    self.touch(slot);
                    self.follow_rule(slot, core);
                    self.leave_listener(slot, core);
                }
                (Kind::Connection, Some(id)) if self.guard.contains(Guard::PACKETS) => core.stack.give_up(core.now, id),
                _ => {}
            }
        }
    }

    /// The listener no longer has the addresses that the group may not serve and that it could not leave to the kernel: where packets are seen,
    /// none may come for connections either; where another worker keeps the port, it follows when the last connection has ended.
    pub(super) fn leave_listener(&mut self, slot: SlotIndex, core: &mut Core) {
        let guard = self.guard;
        let Some(listening) = self.sockets.get(slot).and_then(|socket| socket.listening.as_mut()) else { return };
        let port = listening.port;
        let sees_packets = guard.contains(Guard::PACKETS);
        let has_lost = |ip: &mut IpAddr| {
            guard.contains(Guard::listens(ip.is_ipv4())) && (sees_packets || !core.ports.takes_nothing(*ip, port))
        };
        let lost: Vec<IpAddr> = listening.owned.extract_if(.., has_lost).collect();
        lost.into_iter().for_each(|ip| core.ports.remove(ip, port));
        if sees_packets {
            let served: Vec<IpAddr> = core.stack.local_addresses().filter(|ip| listening.serves(*ip)).collect();
            served.into_iter().for_each(|ip| core.ports.leave(ip, port));
        }
    }

    /// Tells the application that the socket is the kernel's; the kernel socket has been bound all the time.
    pub(super) fn give_datagrams_back(&mut self, slot: SlotIndex, core: &mut Core) {
        let (guard, verdict) = (self.guard, self.verdict);
        let to_multicast = self.objection_to_multicast(slot, core);
        let Some(socket) = self.sockets.get(slot) else { return };
        let Some(listening) = socket.listening.as_mut() else { return };
        let port = listening.port;
        let objection = |ip: &IpAddr| match core.ports.judge_port(Transport::Udp, *ip, port).within(verdict) {
            _ if guard.contains(Guard::datagrams(ip.is_ipv4())) => Some(KernelReason::CgroupProgram),
            Verdict::Kernel(reason) => Some(reason),
            _ if !core.ports.passes_port(Transport::Udp, *ip, port) => Some(KernelReason::Firewall),
            Verdict::Serve(_) | Verdict::Deny => None,
        };
        let Some(reason) = listening.owned.iter().find_map(objection).or(to_multicast) else { return };
        for ip in listening.owned.drain(..) {
            core.ports.remove_datagrams(ip, port);
        }
        // It no longer serves anything.
        listening.local.clear();
        listening.given_back = Some(reason);
        let record = socket.record.take();
        record.into_iter().for_each(|record| core.metrics.release_record(record));
        self.leave_all_multicast(slot, core);
        let shared = self.channel.slot(slot);
        let (local, remote) = (shared.local(), shared.remote());
        self.note_given_back(local, remote, reason, core);
        self.say_given_back(slot, reason);
    }

    /// Why a datagram socket has been given back; `None`: it has not been.
    pub(super) fn given_back(&mut self, slot: SlotIndex) -> Option<KernelReason> {
        self.sockets.get(slot)?.listening.as_ref()?.given_back
    }

    /// Tells the application of a datagram socket that it is the kernel's.
    pub(super) fn say_given_back(&mut self, slot: SlotIndex, reason: KernelReason) {
        self.channel.note_error(slot, reason.into());
        self.channel.signal(slot);
    }
}

impl Listening {
    /// What the rules say of the socket. The kernel's listener has connections to those addresses that may not be served; a
    /// datagram socket is the kernel's if some of its addresses may not be.
    pub(super) fn judge(&self, transport: Transport, core: &mut Core) -> Verdict {
        let verdicts = self.served(core).into_iter().map(|ip| core.ports.judge_port(transport, ip, self.port));
        match transport {
            Transport::Tcp => Verdict::of_any(verdicts),
            Transport::Udp => Verdict::of_all(verdicts),
        }
    }

    /// Why the kernel's listener gets all connections; `None`: some of them are the stack's.
    pub(super) fn kernel_path(&self, guard: Guard, verdict: Verdict, core: &mut Core) -> Option<KernelPath> {
        if self.owned.iter().any(|ip| !core.ports.is_kernels(*ip, self.port)) {
            return None;
        }
        let reason = if self.local.iter().all(|ip| guard.contains(Guard::listens(ip.is_ipv4()))) {
            KernelReason::CgroupProgram
        } else if self.served(core).is_empty() {
            KernelReason::NotOurs
        } else {
            match self.judge(Transport::Tcp, core).within(verdict) {
                Verdict::Kernel(reason) => reason,
                Verdict::Serve(_) => KernelReason::PortWaits,
                Verdict::Deny => KernelReason::Rule,
            }
        };
        Some(KernelPath { reason, count: 1 })
    }

    /// The stack's addresses that it is for.
    fn served(&self, core: &Core) -> Vec<IpAddr> {
        core.stack.local_addresses().filter(|ip| self.serves(*ip)).collect()
    }
}

impl Core {
    /// Ends forbidden connections after a change of the filters, without a packet, as if they had timed out.
    pub(crate) fn give_up_guarded(&mut self) {
        let mut forbidden = Vec::new();
        let ports = &mut self.ports;
        self.stack.for_each_socket(&mut |socket| {
            let lives = socket.protocol == Protocol::Tcp && !matches!(socket.state, State::Listen | State::TimeWait);
            let local = SocketAddr::new(socket.local.ip, socket.local.port);
            if lives && !ports.may_go_on(local, SocketAddr::new(socket.remote.ip, socket.remote.port)) {
                forbidden.push((socket.id, local));
            }
        });
        for (id, local) in forbidden {
            self.ports.guard(local.ip(), local.port());
            // A half-open connection has no id; packets of its peer go to the kernel.
            self.stack.give_up(self.now, id);
        }
    }
}
