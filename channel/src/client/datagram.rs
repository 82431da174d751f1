//! Datagrams in and out: whole messages over the slot's chunks; see [`datagram`](super::super::datagram).

use std::io::{IoSlice, IoSliceMut};

use super::super::datagram::{ENVELOPE, Envelope};
use super::super::request::Operation;
use super::super::slot::{Failure, SlotRef, SlotShared, State};
use super::Client;
use super::receive::{ReceiveError, Sink};
use super::send::{Chain, SendError, Source};
use super::send::{Lack, Smaller};
use ringway_shm::list;
use ringway_shm::sync::Ordering;

/// A datagram that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its sender, size, and more.
    pub envelope: Envelope,
    /// Bytes that there was room for.
    pub copied: usize,
}

impl Client {
    /// Queues one message: `envelope` (whose `len` is that of `parts`) and the payload. Whole or not at all. A message may
    /// overrun the send limit when there was room at all, as in the kernel.
    ///
    /// # Errors
    /// See [`SendError`]; nothing was sent then.
    pub fn send_datagram(&self, slot: SlotRef, envelope: &Envelope, parts: &[IoSlice<'_>]) -> Result<(), SendError> {
        let shared = self.slot(slot.index);
        let lock = self.lock(&shared.tx_lock)?;
        self.check_send(slot, shared)?;
        let total = ENVELOPE + envelope.len;
        let header = envelope.encode();
        let sent = self.try_send_datagram(shared, &header, parts, total);
        let announce = match sent {
            Some(announce) => announce,
            // Once more after asking to be told: chunks freed before the question are not announced.
            None if self.has_room_after_asking(slot.index, if shared.send_space() > 0 { Lack::Chunks } else { Lack::Space }) => {
                self.try_send_datagram(shared, &header, parts, total).ok_or(SendError::WouldBlock)?
            }
            None => return Err(SendError::WouldBlock),
        };
        drop(lock);
        if announce {
            self.announce(slot, Operation::Transmit);
        }
        Ok(())
    }

    /// `None`: there is no room. Else whether the worker must be told.
    fn try_send_datagram(
        &self,
        shared: &SlotShared,
        header: &[u8; ENVELOPE],
        parts: &[IoSlice<'_>],
        total: usize,
    ) -> Option<bool> {
        if shared.send_space() == 0 {
            return None;
        }
        let mut source = Source { parts, part: 0, offset: 0 };
        let mut first = true;
        let chain = self.fill_chain(total, shared.send_limit(), Smaller::All, &mut |map, chunk, room| {
            let start = if std::mem::take(&mut first) { ENVELOPE } else { 0 };
            map.write_tx(chunk, 0, &header[..start]);
            source.fill_from(map, chunk, start, room);
            room
        });
        let limit = self.map.shape().tx_chunks();
        let (newest, oldest) = (super::chunk(chain.newest, limit)?, super::chunk(chain.oldest, limit)?);
        if (chain.bytes as usize) < total {
            self.give_chain(&chain);
            return None;
        }
        shared.tx_queued.fetch_add(chain.bytes, Ordering::AcqRel);
        let link = &self.map.tx_record(oldest).next;
        Some(list::push_chain(&shared.tx_stack, newest, link, u32::MAX) == Some(true))
    }

    /// Takes back a chain that was not pushed.
    fn give_chain(&self, chain: &Chain) {
        let limit = self.map.shape().tx_chunks();
        let mut at = chain.newest;
        for _ in 0..limit {
            let Some(chunk) = list::node(at, limit) else { break };
            at = self.map.tx_record(chunk).next.load(Ordering::Relaxed);
            self.give_tx(chunk);
        }
    }

    /// Takes the next message: its payload goes to `parts`, what there is no room for is lost. `keep`: it stays (MSG_PEEK).
    ///
    /// # Errors
    /// See [`ReceiveError`]; an error that waits is told before any message.
    pub fn receive_datagram(&self, slot: SlotRef, parts: &mut [IoSliceMut<'_>], keep: bool) -> Result<Received, ReceiveError> {
        let shared = self.slot(slot.index);
        let lock = self.lock(&shared.rx_lock)?;
        if !self.is_current(slot) || shared.app_closed.load(Ordering::Relaxed) != 0 {
            return Err(ReceiveError::Stale);
        }
        if let Some(failure) = shared.take_error() {
            return Err(ReceiveError::Failed(failure));
        }
        let Some(envelope) = self.next_envelope(shared) else {
            return Err(match shared.state() {
                _ if self.known_dead() => ReceiveError::Failed(Failure::ServiceGone),
                State::Connected => ReceiveError::WouldBlock,
                _ => ReceiveError::NotConnected,
            });
        };
        let copied = self.copy_datagram(shared, &envelope, parts, keep);
        let notify = !keep && self.must_notify(shared);
        drop(lock);
        if notify {
            self.announce(slot, Operation::Consumed);
        }
        Ok(Received { envelope, copied })
    }

    /// Bytes of the next message that waits (FIONREAD); `None`: none does.
    pub fn next_datagram_len(&self, slot: SlotRef) -> Option<usize> {
        let shared = self.slot(slot.index);
        let _lock = self.lock(&shared.rx_lock).ok()?;
        self.is_current(slot).then(|| self.next_envelope(shared))?.map(|envelope| envelope.len)
    }

    /// The caller holds the receive lock.
    fn next_envelope(&self, shared: &SlotShared) -> Option<Envelope> {
        let (mut bytes, mut filled) = ([0; ENVELOPE], 0);
        let there = self.look(shared, ENVELOPE, &mut |map, chunk, offset, count| {
            map.read_rx(chunk, offset, &mut bytes[filled..filled + count]);
            filled += count;
        });
        // The worker writes whole messages only.
        (there == ENVELOPE).then(|| Envelope::decode(&bytes)).flatten()
    }

    fn copy_datagram(&self, shared: &SlotShared, envelope: &Envelope, parts: &mut [IoSliceMut<'_>], keep: bool) -> usize {
        let room: usize = parts.iter().map(|part| part.len()).sum();
        let wanted = ENVELOPE + envelope.len.min(room);
        let mut sink = Sink { parts, part: 0, offset: 0 };
        let mut at = 0;
        let copy: super::receive::Copy<'_> = &mut |map, chunk, offset, count| {
            // Of this piece: what lies behind the envelope, and in front of what there is no room for.
            let from = ENVELOPE.saturating_sub(at).min(count);
            let to = wanted.saturating_sub(at).min(count);
            at += count;
            if from < to {
                sink.store(map, chunk, offset + from, to - from);
            }
        };
        if keep {
            self.look(shared, wanted, copy)
        } else {
            self.consume(shared, ENVELOPE + envelope.len, copy)
        };
        wanted - ENVELOPE
    }
}
