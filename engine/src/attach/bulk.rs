//! Connections that go to the kernel because they carry bulk data (`policy.bulk`).
//!
//! Data of an unmodified program is copied twice: between its memory and the channel, and at the device's system call; the kernel copies it once.
//! Small messages cost less here all the same; a stream of large segments may cost more. Promises: a connection is asked for once, when it has carried so many bytes in
//! one direction and then, from one look to the next, more than [`RATE`]; one that carries less stays, whatever it has carried in all. Does
//! not do: the way to the kernel (`handover.rs`); a program that has no kernel socket for it stays as it is.

use std::net::SocketAddr;

use ringway_channel::{KernelReason, SlotIndex};
use ringway_shm::stats::InfoRecord;
use ringway_shm::{Duration, Instant};
use ringway_stack::State;

use super::refusal::any;
use super::region::Region;
use super::socket::Kind;
use crate::core::Core;
use crate::metrics::Work;

/// Bytes in a second: a full link of 1 Gbit/s, which costs neither stack a whole processor.
const RATE: u64 = 125_000_000;
/// Shortest time over which a rate is taken.
const SPAN: Duration = Duration::from_millis(80);

/// Which connections carry bulk data that the kernel is to carry on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkPolicy {
    /// Bytes in one direction from which on a connection may count.
    pub after: u64,
    /// What programs receive counts too; `false`: only what they send.
    pub received: bool,
}

/// What a connection had carried at the last look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carried {
    at: Instant,
    received: u64,
    /// Acknowledged by the peer.
    sent: u64,
    /// Its program was asked for the kernel socket.
    asked: bool,
}

impl Region {
    /// Looks at a connection, of which `info` is up to date.
    pub(super) fn watch_bulk(&mut self, slot: SlotIndex, info: &InfoRecord, core: &Core) {
        let Some(BulkPolicy { after, received }) = core.bulk else { return };
        let Some(socket) = self.sockets.get(slot) else { return };
        // A rate that it shares is no kernel socket's.
        if socket.kind != Kind::Connection || info.state != u64::from(State::Established.linux()) || socket.terms.shares() {
            return;
        }
        let now = Carried { at: core.now, received: info.received_bytes, sent: info.acked_bytes, asked: false };
        let Some(before) = socket.carried.as_deref_mut() else {
            socket.carried = Some(Box::new(now));
            return;
        };
        let span = now.at.since(before.at);
        if before.asked || span < SPAN {
            return;
        }
        let is_bulk = |now: u64, before: u64| {
            let rate = now.saturating_sub(before).saturating_mul(1_000_000) / span.as_micros().max(1);
            now >= after && rate >= RATE
        };
        let asks = is_bulk(now.sent, before.sent) || received && is_bulk(now.received, before.received);
        *before = Carried { asked: asks, ..now };
        if asks {
            self.want_slot(slot);
        }
    }

    /// Notes why a connection has gone, if bulk data was the reason.
    pub(super) fn note_bulk_gone(&mut self, slot: SlotIndex, core: &mut Core) {
        if !self.sockets.get(slot).is_some_and(|socket| socket.carried.as_deref().is_some_and(|carried| carried.asked)) {
            return;
        }
        core.metrics.add(Work::BulkHandedOver, 1);
        let shared = self.channel.slot(slot);
        let (local, remote): (SocketAddr, SocketAddr) = (shared.local(), shared.remote());
        // A server's clients have a row together, and so have a client's connections to a server.
        let accepted = self.listeners.iter().any(|&listener| {
            let listening = self.sockets.get(listener).and_then(|socket| socket.listening.as_ref());
            listening.is_some_and(|listening| listening.port == local.port())
        });
        let (local, remote) = if accepted { (local, any(remote)) } else { (any(local), remote) };
        self.note_handed_over(local, remote, KernelReason::Bulk, core);
    }
}
