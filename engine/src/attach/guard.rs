//! What is the kernel's though its program is served: ports and connections by rules (of packet filters and of the
//! configuration), and sockets of groups on which BPF programs of cgroups could act.
//!
//! Promises: a forbidden open connection or datagram socket sends and receives nothing from the moment that the worker
//! learns of the rule. Does not do: judging rules; the implementation of [`Ports`](crate::Ports) does. Half-open
//! connections repeat their SYN-ACK until they end.

use std::net::{IpAddr, SocketAddr};

use ringway_shm::channel::{KernelPath, KernelReason, SlotIndex};
use ringway_stack::{Protocol, State};

use super::region::Region;
use super::socket::{Kind, Listening};
use crate::core::Core;
use crate::guard::Guard;
use crate::metrics::Work;
use crate::ports::Transport;
use crate::verdict::Verdict;

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
        let objection = |ip: &IpAddr| match core.ports.judge_port(Transport::Udp, *ip, port) {
            _ if guard.contains(Guard::datagrams(ip.is_ipv4())) => Some(KernelReason::CgroupProgram),
            Verdict::Serve(_) => None,
            Verdict::Kernel(reason) => Some(reason),
            Verdict::Deny => Some(KernelReason::Rule),
        };
        let Some(reason) = listening.owned.iter().find_map(objection) else { return };
        for ip in listening.owned.drain(..) {
            core.ports.remove_datagrams(ip, port);
        }
        // It no longer serves anything.
        listening.local.clear();
        listening.given_back = Some(reason);
        let record = socket.record.take();
        record.into_iter().for_each(|record| core.metrics.release_record(record));
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
        self.channel.note_error(slot, reason.failure());
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
    pub(super) fn kernel_path(&self, guard: Guard, core: &mut Core) -> Option<KernelPath> {
        if self.owned.iter().any(|ip| !core.ports.is_guarded(*ip, self.port)) {
            return None;
        }
        let reason = if self.local.iter().all(|ip| guard.contains(Guard::listens(ip.is_ipv4()))) {
            KernelReason::CgroupProgram
        } else if self.served(core).is_empty() {
            KernelReason::NotOurs
        } else {
            match self.judge(Transport::Tcp, core) {
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
