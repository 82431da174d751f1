//! Ports and connections that the host's packet filters forbid, and sockets of groups that BPF programs of cgroups could act on:
//! they are the kernel's, which runs the filters and the programs.
//!
//! Promises: a forbidden open connection or datagram socket sends and receives nothing from the moment that the worker
//! learns of the rule. Does not do: judging rules; the implementation of [`Ports`](crate::Ports) does. Half-open
//! connections repeat their SYN-ACK until they end.

use std::net::{IpAddr, SocketAddr};

use ringway_shm::channel::{Failure, KernelPath, KernelReason, SlotIndex};
use ringway_stack::{Protocol, State};

use super::region::Region;
use super::socket::{Kind, Listening};
use crate::core::Core;
use crate::guard::Guard;
use crate::metrics::Work;
use crate::ports::Transport;

impl Region {
    /// Follows a change of the filters: listeners serve what they may, forbidden datagram sockets are the kernel's.
    pub(super) fn rules_changed(&mut self, core: &mut Core) {
        for slot in self.sockets.slots() {
            let Some(socket) = self.sockets.get(slot) else { continue };
            match socket.kind {
                Kind::Datagram => self.give_datagrams_back(slot, core),
                Kind::Listener => {
                    self.touch(slot);
                    if self.own_addresses(slot, core).is_err() {
                        core.metrics.add(Work::RefusedSockets, 1);
                    }
                }
                Kind::Connection | Kind::Fresh => {}
            }
        }
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
                    self.leave_listener(slot, core);
                }
                (Kind::Connection, Some(id)) if self.guard.contains(Guard::PACKETS) => core.stack.give_up(core.now, id),
                _ => {}
            }
        }
    }

    /// New connections to the addresses that the group may not serve are the kernel's listener's.
    fn leave_listener(&mut self, slot: SlotIndex, core: &mut Core) {
        let guard = self.guard;
        let Some(listening) = self.sockets.get(slot).and_then(|socket| socket.listening.as_mut()) else { return };
        let port = listening.port;
        for ip in listening.owned.extract_if(.., |ip| guard.contains(Guard::listens(ip.is_ipv4()))) {
            core.ports.remove(ip, port);
        }
        // Otherwise connections go on and need their packets: the port follows when the last one has ended.
        if guard.contains(Guard::PACKETS) {
            let served: Vec<IpAddr> = core.stack.local_addresses().filter(|ip| listening.serves(*ip)).collect();
            served.into_iter().for_each(|ip| core.ports.leave(ip, port));
        }
    }

    /// Tells the application that the socket is the kernel's; the kernel socket has been bound all the time.
    fn give_datagrams_back(&mut self, slot: SlotIndex, core: &mut Core) {
        let guard = self.guard;
        let Some(socket) = self.sockets.get(slot) else { return };
        let Some(listening) = socket.listening.as_mut() else { return };
        let port = listening.port;
        let may_stay =
            |ip: &IpAddr| !guard.contains(Guard::datagrams(ip.is_ipv4())) && core.ports.may_serve(Transport::Udp, *ip, port);
        if listening.owned.iter().all(may_stay) {
            return;
        }
        for ip in listening.owned.drain(..) {
            core.ports.remove_datagrams(ip, port);
        }
        // It no longer serves anything.
        listening.local.clear();
        let record = socket.record.take();
        record.into_iter().for_each(|record| core.metrics.release_record(record));
        let shared = self.channel.slot(slot);
        let (local, remote) = (shared.local(), shared.remote());
        let reason = if self.is_confined() { KernelReason::CgroupProgram } else { KernelReason::Firewall };
        self.note_given_back(local, remote, reason, core);
        self.say_guarded(slot);
    }

    /// Returns true if a datagram socket has been given back.
    pub(super) fn is_given_back(&mut self, slot: SlotIndex) -> bool {
        let listening = self.sockets.get(slot).and_then(|socket| socket.listening.as_ref());
        listening.is_some_and(|listening| listening.local.is_empty())
    }

    /// Tells the application of a datagram socket that it is the kernel's.
    pub(super) fn say_guarded(&mut self, slot: SlotIndex) {
        self.channel.note_error(slot, if self.is_confined() { Failure::CgroupProgram } else { Failure::Guarded });
        self.channel.signal(slot);
    }

    /// Returns true if programs of cgroups see datagram sockets of the group.
    fn is_confined(&self) -> bool {
        self.guard.contains(Guard::DATAGRAM_IPV4) || self.guard.contains(Guard::DATAGRAM_IPV6)
    }
}

impl Listening {
    /// Returns true if none of the listener's addresses may be served.
    pub(super) fn is_guarded(&self, core: &mut Core) -> bool {
        let guarded = self.guarded(Transport::Tcp, core);
        guarded.1 > 0 && guarded.0 == guarded.1
    }

    /// Returns true if some of them may not be served.
    pub(super) fn is_guarded_somewhere(&self, core: &mut Core) -> bool {
        self.guarded(Transport::Udp, core).0 > 0
    }

    /// Why the kernel's listener gets all connections; `None`: some of them are the stack's.
    pub(super) fn kernel_path(&self, guard: Guard, core: &Core) -> Option<KernelPath> {
        if self.owned.iter().any(|ip| !core.ports.is_guarded(*ip, self.port)) {
            return None;
        }
        let reason = if self.local.iter().all(|ip| guard.contains(Guard::listens(ip.is_ipv4()))) {
            KernelReason::CgroupProgram
        } else if core.stack.local_addresses().any(|ip| self.serves(ip)) {
            KernelReason::Firewall
        } else {
            KernelReason::NotOurs
        };
        Some(KernelPath { reason, count: 1 })
    }

    /// Number of addresses that may not be served, and number of all.
    fn guarded(&self, transport: Transport, core: &mut Core) -> (usize, usize) {
        let served: Vec<IpAddr> = core.stack.local_addresses().filter(|ip| self.serves(*ip)).collect();
        let guarded = served.iter().filter(|ip| !core.ports.may_serve(transport, **ip, self.port)).count();
        (guarded, served.len())
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
