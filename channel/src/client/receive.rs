//! Reading: the slot's chain of received chunks is taken, put in order, copied out.

use std::io::IoSliceMut;

use super::super::layout::{LARGE_CHUNK, Map};
use super::super::lock::LockError;
use super::super::request::Operation;
use super::super::slot::{Failure, Flags, SlotRef, SlotShared, State};
use super::Client;
use ringway_shm::list::{self, EMPTY, word};
use ringway_shm::sync::{Ordering, fence};

/// Why nothing was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveError {
    /// Nothing has arrived; wait for [`Readiness::readable`](super::super::Readiness::readable). Or the kernel goes on with the
    /// connection ([`Flags::MOVED`]).
    WouldBlock,
    /// The connection failed; told once, and after all bytes that came before.
    Failed(Failure),
    /// It never was connected.
    NotConnected,
    /// The reference is no longer good.
    Stale,
}

impl From<LockError> for ReceiveError {
    fn from(error: LockError) -> ReceiveError {
        match error {
            LockError::Reentered => ReceiveError::WouldBlock,
            LockError::ServiceGone => ReceiveError::Failed(Failure::ServiceGone),
        }
    }
}

/// Copies `count` bytes of a chunk from an offset on to wherever the caller wants them.
pub(super) type Copy<'a> = &'a mut dyn FnMut(&Map, u32, usize, usize);

/// What becomes of bytes that are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taking {
    /// They leave the queue.
    Take,
    /// They stay.
    Peek,
}

impl Client {
    /// Moves received bytes into `parts` and says how many; 0 is the end of the stream (or no room
    /// in `parts`).
    ///
    /// # Errors
    /// See [`ReceiveError`].
    pub fn receive(&self, slot: SlotRef, parts: &mut [IoSliceMut<'_>]) -> Result<usize, ReceiveError> {
        let room: usize = parts.iter().map(|part| part.len()).sum();
        let mut sink = Sink { parts, part: 0, offset: 0 };
        self.take_bytes(slot, room, Taking::Take, &mut |map, chunk, offset, count| sink.store(map, chunk, offset, count))
    }

    /// As [`receive`](Self::receive), but the bytes stay (MSG_PEEK).
    ///
    /// # Errors
    /// See [`ReceiveError`].
    pub fn peek(&self, slot: SlotRef, parts: &mut [IoSliceMut<'_>]) -> Result<usize, ReceiveError> {
        let room: usize = parts.iter().map(|part| part.len()).sum();
        let mut sink = Sink { parts, part: 0, offset: 0 };
        self.take_bytes(slot, room, Taking::Peek, &mut |map, chunk, offset, count| sink.store(map, chunk, offset, count))
    }

    /// Drops up to `count` received bytes (MSG_TRUNC on a stream).
    ///
    /// # Errors
    /// See [`ReceiveError`].
    pub fn discard(&self, slot: SlotRef, count: usize) -> Result<usize, ReceiveError> {
        self.take_bytes(slot, count, Taking::Take, &mut |_, _, _, _| ())
    }

    /// Gives up to `count` received bytes to `store`, piece by piece.
    ///
    /// # Errors
    /// See [`ReceiveError`].
    pub fn receive_with(&self, slot: SlotRef, count: usize, mut store: impl FnMut(&[u8])) -> Result<usize, ReceiveError> {
        self.take_bytes(slot, count, Taking::Take, &mut |map, chunk, offset, count| {
            let mut piece = [0u8; LARGE_CHUNK];
            for at in (0..count).step_by(LARGE_CHUNK) {
                let part = LARGE_CHUNK.min(count - at);
                map.read_rx(chunk, offset + at, &mut piece[..part]);
                store(&piece[..part]);
            }
        })
    }

    fn take_bytes(&self, slot: SlotRef, count: usize, taking: Taking, copy: Copy<'_>) -> Result<usize, ReceiveError> {
        let consume = taking == Taking::Take;
        let shared = self.slot(slot.index);
        let lock = self.lock(&shared.rx_lock)?;
        if !self.is_current(slot) || shared.app_closed.load(Ordering::Relaxed) != 0 {
            return Err(ReceiveError::Stale);
        }
        // Read before the bytes: a flag that is seen now was set after all bytes before it.
        let (state, flags, failed) = (shared.state(), shared.flags(), shared.error().is_some());
        let (hole, count) = approach_mark(shared, count);
        let mut hidden = hole;
        let copy: Copy<'_> = &mut |map, chunk, offset, part| {
            let skipped = part.min(hidden);
            hidden -= skipped;
            copy(map, chunk, offset + skipped, part - skipped);
        };
        let moved = if consume { self.consume(shared, hole + count, copy) } else { self.look(shared, hole + count, copy) };
        let done = moved.saturating_sub(hole);
        let notify = moved > 0 && consume && self.must_notify(shared);
        drop(lock);
        if notify {
            self.announce(slot, Operation::Consumed);
        }
        if done > 0 || count == 0 {
            return Ok(done);
        }
        self.nothing_received(shared, state, flags, failed)
    }

    pub(super) fn nothing_received(
        &self,
        shared: &SlotShared,
        state: State,
        flags: Flags,
        failed: bool,
    ) -> Result<usize, ReceiveError> {
        // Read again: the end of the stream may be the kernel's by now.
        if shared.flags().has(Flags::MOVED) {
            return Err(ReceiveError::WouldBlock);
        }
        // net/ipv4/tcp.c, tcp_recvmsg: behind the peer's end nothing else is read; a write, or SO_ERROR, reports it.
        if failed
            && !flags.has(Flags::PEER_CLOSED)
            && let Some(failure) = shared.take_error()
        {
            return Err(ReceiveError::Failed(failure));
        }
        if flags.has(Flags::PEER_CLOSED) || flags.has(Flags::HUNG_UP) {
            return Ok(0);
        }
        if self.known_dead() {
            return Err(ReceiveError::Failed(Failure::ServiceGone));
        }
        match state {
            State::Connected | State::Connecting => Err(ReceiveError::WouldBlock),
            State::Closed => Ok(0),
            State::Free | State::Listening => Err(ReceiveError::NotConnected),
        }
    }

    /// The first chunk in order: from the private list, else by taking the stack and reversing it.
    pub(super) fn first_chunk(&self, shared: &SlotShared) -> Option<u32> {
        let limit = self.map.shape().rx_chunks();
        if let Some(chunk) = list::node(shared.rx_head.load(Ordering::Relaxed), limit) {
            return Some(chunk);
        }
        let first = self.reverse(list::take_all(&shared.rx_stack));
        shared.rx_head.store(first, Ordering::Relaxed);
        shared.rx_offset.store(0, Ordering::Relaxed);
        list::node(first, limit)
    }

    /// Turns a chain round; the word of what was last.
    fn reverse(&self, mut at: u32) -> u32 {
        let limit = self.map.shape().rx_chunks();
        let mut before = EMPTY;
        for _ in 0..limit {
            let Some(chunk) = list::node(at, limit) else { break };
            let link = &self.map.rx_record(chunk).next;
            at = link.load(Ordering::Relaxed);
            link.store(before, Ordering::Relaxed);
            before = word(chunk);
        }
        before
    }

    pub(super) fn consume(&self, shared: &SlotShared, count: usize, copy: Copy<'_>) -> usize {
        let (mut done, mut returned, mut last) = (0, EMPTY, None);
        while done < count {
            let Some(chunk) = self.first_chunk(shared) else { break };
            let record = self.map.rx_record(chunk);
            let len = (record.len.load(Ordering::Relaxed) as usize).min(self.map.rx_capacity(chunk));
            let offset = (shared.rx_offset.load(Ordering::Relaxed) as usize).min(len);
            let part = (len - offset).min(count - done);
            copy(&self.map, chunk, offset, part);
            done += part;
            if offset + part < len {
                shared.rx_offset.store((offset + part) as u32, Ordering::Relaxed);
                break;
            }
            shared.rx_head.store(record.next.load(Ordering::Relaxed), Ordering::Relaxed);
            shared.rx_offset.store(0, Ordering::Relaxed);
            record.next.store(returned, Ordering::Relaxed);
            returned = word(chunk);
            last.get_or_insert(chunk);
        }
        shared.rx_consumed.fetch_add(done as u32, Ordering::AcqRel);
        if let (Some(first), Some(last)) = (list::node(returned, self.map.shape().rx_chunks()), last) {
            self.give_back(first, last);
        }
        done
    }

    /// Copies up to `count` bytes without taking them. What lies on the stack is joined to the
    /// private list first, so that all of it can be seen.
    pub(super) fn look(&self, shared: &SlotShared, count: usize, copy: Copy<'_>) -> usize {
        let limit = self.map.shape().rx_chunks();
        let Some(first) = self.first_chunk(shared) else { return 0 };
        let (mut chunk, mut done) = (first, 0);
        let mut offset = shared.rx_offset.load(Ordering::Relaxed) as usize;
        for _ in 0..limit {
            let record = self.map.rx_record(chunk);
            let len = (record.len.load(Ordering::Relaxed) as usize).min(self.map.rx_capacity(chunk));
            let part = len.saturating_sub(offset).min(count - done);
            copy(&self.map, chunk, offset.min(len), part);
            done += part;
            offset = 0;
            if done == count {
                break;
            }
            if record.next.load(Ordering::Relaxed) == EMPTY {
                let more = self.reverse(list::take_all(&shared.rx_stack));
                record.next.store(more, Ordering::Relaxed);
            }
            let Some(next) = list::node(record.next.load(Ordering::Relaxed), limit) else { break };
            chunk = next;
        }
        done
    }

    /// Returns a chain of receive chunks to the worker, and tells it if it lacked some.
    pub(super) fn give_back(&self, first: u32, last: u32) {
        let header = self.map.header();
        list::push_chain(&header.returned_rx.0, first, &self.map.rx_record(last).next, u32::MAX);
        fence(Ordering::SeqCst);
        if header.rx_starved.0.load(Ordering::Relaxed) != 0 && header.rx_starved.0.swap(0, Ordering::AcqRel) != 0 {
            self.announce(SlotRef { index: 0, generation: 0 }, Operation::Reclaim);
        }
    }

    /// Whether enough was read since the worker was told.
    pub(super) fn must_notify(&self, shared: &SlotShared) -> bool {
        let consumed = shared.rx_consumed.load(Ordering::Relaxed);
        let since = consumed.wrapping_sub(shared.rx_noted.load(Ordering::Relaxed));
        fence(Ordering::SeqCst);
        if since < shared.notify_bytes.load(Ordering::SeqCst).max(1) {
            return false;
        }
        shared.rx_noted.store(consumed, Ordering::Relaxed);
        true
    }

    /// Returns everything that was received and not read; the caller holds the receive lock.
    pub(super) fn drop_received(&self, shared: &SlotShared) {
        while let Some(chunk) = self.first_chunk(shared) {
            let record = self.map.rx_record(chunk);
            shared.rx_head.store(record.next.load(Ordering::Relaxed), Ordering::Relaxed);
            self.give_back(chunk, chunk);
        }
    }
}

/// Where urgent data stops a reader: bytes that are stepped over, and how many of `count` may be read then.
fn approach_mark(shared: &SlotShared, count: usize) -> (usize, usize) {
    match shared.mark_ahead() {
        None => (0, count),
        Some((_, 0)) if count == 0 || shared.is_urgent_in_line() => (0, count),
        Some((_, 0)) => (1, count.min(usize::MAX - 1)),
        Some((_, distance)) => (0, count.min(distance as usize)),
    }
}

/// Writes to the parts one after the other.
pub(super) struct Sink<'a, 'b> {
    pub(super) parts: &'a mut [IoSliceMut<'b>],
    pub(super) part: usize,
    pub(super) offset: usize,
}

impl Sink<'_, '_> {
    /// Stores `count` bytes of a chunk; the caller never gives more than there is room.
    pub(super) fn store(&mut self, map: &Map, chunk: u32, mut offset: usize, count: usize) {
        let end = offset + count;
        while offset < end && self.part < self.parts.len() {
            let room = &mut self.parts[self.part][self.offset..];
            let piece = room.len().min(end - offset);
            map.read_rx(chunk, offset, &mut room[..piece]);
            offset += piece;
            self.offset += piece;
            if self.offset == self.parts[self.part].len() {
                self.part += 1;
                self.offset = 0;
            }
        }
    }
}
