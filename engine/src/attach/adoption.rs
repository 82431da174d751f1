//! A connection of the kernel's goes on in the stack: the worker's side. Read docs/handover.md first.
//!
//! ```text
//!   expect:   the stack is silent for the flow, whose packets may come here from now on
//!   adopt:    the connection goes on in a slot that its program has opened for it; the silence ends
//!   give_up:  the kernel goes on after all; the silence ends when the devices' rings are empty
//! ```
//! Promises: a connection is adopted only beside a listener of its group that serves its port, and by the worker to which its packets come. Does not do: the
//! kernel socket and steering; the caller does both between the calls.

use std::net::{IpAddr, SocketAddr};

use ringway_channel::{Flags, SlotIndex, SlotRef, State};
use ringway_shm::Flow;
use ringway_stack::SocketAddress;
use ringway_stack::handover::{ConnectionImage, Quiet};

use super::Attachments;
use super::region::Region;
use super::socket::{Kind, Socket};
use crate::command::{RegionId, Reply};
use crate::core::Core;
use crate::handover::NotAdopted;
use crate::metrics::Work;

/// What the service asks of a worker for an adoption.
pub(crate) enum AdoptionCommand {
    Expect([SocketAddress; 2], Reply<Result<(), NotAdopted>>),
    Adopt(RegionId, SlotRef, Quiet, Reply<Result<(), NotAdopted>>),
    GiveUp([SocketAddress; 2]),
}

impl Attachments {
    /// Obeys a command.
    pub(crate) fn obey_adoption(&mut self, command: AdoptionCommand, core: &mut Core) {
        match command {
            // A service that ends waits for those that are under way, and begins none.
            AdoptionCommand::Expect(_, reply) if self.is_leaving() => reply.answer(Err(NotAdopted::NotServed)),
            AdoptionCommand::Expect(ends, reply) => {
                let expected = expect(ends, core);
                self.count_expected(i32::from(expected.is_ok()));
                reply.answer(expected);
            }
            AdoptionCommand::Adopt(id, slot, quiet, reply) => {
                let adopted = self.region(id.0).map_or(Err(NotAdopted::Unknown), |region| region.adopt(slot, &quiet, core));
                self.count_expected(-i32::from(adopted.is_ok()));
                reply.answer(adopted);
            }
            AdoptionCommand::GiveUp(ends) => {
                self.count_expected(-1);
                self.silence_ends(ends, core);
            }
        }
    }
}

/// The flow's packets may come here.
fn expect([local, remote]: [SocketAddress; 2], core: &mut Core) -> Result<(), NotAdopted> {
    let flow = Flow { local: (local.ip, local.port), remote: (remote.ip, remote.port) };
    let (ip, port) = flow.local;
    if !core.ports.is_served(ip, port) || core.ports.is_kernels(ip, port) {
        return Err(NotAdopted::NotServed);
    }
    if core.ports.is_shared((ip, port)) && core.ports.division().is_some_and(|division| !division.groups().contains(flow.group()))
    {
        return Err(NotAdopted::Elsewhere);
    }
    if core.stack.hold(local, remote) { Ok(()) } else { Err(NotAdopted::Known) }
}

impl Region {
    /// The group's listener that serves this port.
    fn listener_at(&mut self, ip: IpAddr, port: u16) -> Option<SlotIndex> {
        let listeners = self.listeners.clone();
        listeners.into_iter().find(|&slot| {
            let listening = self.sockets.get(slot).and_then(|socket| socket.listening.as_ref());
            listening.is_some_and(|listening| listening.port == port && !listening.is_gone && listening.owned.contains(&ip))
        })
    }

    fn adopt(&mut self, slot: SlotRef, quiet: &Quiet, core: &mut Core) -> Result<(), NotAdopted> {
        // The options that its program has passed on.
        self.finish_requests(core);
        let index = slot.index;
        if self.detached || self.leaving || !self.channel.is_current(slot) {
            return Err(NotAdopted::Unknown);
        }
        let (local, remote) = (quiet.local, quiet.remote);
        let listener = self.listener_at(local.ip, local.port).ok_or(NotAdopted::NotServed)?;
        if !core.ports.may_go_on(address(local), address(remote)) {
            return Err(NotAdopted::NotServed);
        }
        if self.sockets.get(index).is_none_or(|socket| socket.slot != slot) {
            self.sockets.insert(Socket::new(slot, core.socket_defaults));
        }
        let (terms, rate_asked) =
            self.sockets.get(listener).map(|socket| (socket.terms, socket.rate_asked)).expect("it was found");
        let token = self.user_token(index);
        let socket = self.sockets.get(index).expect("it has just been made");
        if socket.kind != Kind::Fresh {
            return Err(NotAdopted::Unknown);
        }
        let image = ConnectionImage::of_quiet(quiet, &core.tcp);
        let id = core.stack.import(core.now, &image, token).map_err(NotAdopted::Refused)?;
        (socket.kind, socket.id, socket.rate_asked) = (Kind::Connection, Some(id), rate_asked);
        socket.accept_terms(terms, core.tcp.congestion_control);
        core.stack.set_options(core.now, id, socket.options);
        if core.ports.join(local.ip, local.port) {
            socket.port = Some((local.ip, local.port));
        }
        socket.record = core.metrics.claim_record();
        core.metrics.add(Work::SocketsAdopted, 1);
        self.channel.set_addresses(index, address(local), address(remote));
        self.open_limits(index);
        self.channel.set_state(index, State::Connected);
        self.channel.clear_flags(index, Flags::OPENING);
        self.touch(index);
        self.ready(index, core);
        if self.wants_all {
            self.want_slot(index);
        }
        Ok(())
    }
}

fn address(end: SocketAddress) -> SocketAddr {
    SocketAddr::new(end.ip, end.port)
}
