//! Without a copy: received chunks are lent to the application, send chunks are filled in place.
//!
//! Promises: a lent chunk has no other user until it is given back, and the window opens only then; what was committed
//! cannot be changed any more by safe code. An application that keeps its loans closes its own window and, in the end,
//! uses up its own region's chunks. Urgent data is not stepped over: such bytes come in line. Does not do: readiness; a
//! slot whose bytes are all lent still counts them as unread.

use std::ops::{Deref, DerefMut};
use std::slice;

use super::super::layout::{BULK_CHUNK, BULK_LIMIT, LARGE_CHUNK};
use super::super::request::Operation;
use super::super::slot::{SlotRef, SlotShared};
use super::Client;
use super::receive::ReceiveError;
use super::send::SendError;
use super::send::{Lack, Smaller};
use ringway_shm::list;
use ringway_shm::payload::PayloadMut;
use ringway_shm::sync::Ordering;

/// Received bytes, lent. Dropping it gives them back.
pub struct Lent<'a> {
    client: &'a Client,
    loan: Option<Loan>,
}

/// Room in a send chunk. [`commit`](Reserved::commit) sends what was written; dropping it sends nothing.
pub struct Reserved<'a> {
    client: &'a Client,
    reservation: Option<Reservation>,
}

/// Received bytes that are lent without a borrow, for callers that keep their own accounts. Give it back with
/// [`Client::end_loan`]; dropped instead, its chunk is lost to the region.
#[derive(Debug)]
pub struct Loan {
    region: usize,
    slot: SlotRef,
    chunk: u32,
    offset: u32,
    len: u32,
}

/// Room to send that is held without a borrow: [`Client::commit`] or [`Client::cancel`] it; dropped instead, its chunk is
/// lost to the region while the process lives.
#[derive(Debug)]
pub struct Reservation {
    region: usize,
    slot: SlotRef,
    chunk: u32,
    len: u32,
}

impl Client {
    /// Lends the next received bytes: what one chunk holds, at most 64 KiB. `None` is the end of the stream.
    ///
    /// # Errors
    /// See [`ReceiveError`].
    pub fn lend(&self, slot: SlotRef) -> Result<Option<Lent<'_>>, ReceiveError> {
        let shared = self.slot(slot.index);
        let lock = self.lock(&shared.rx_lock)?;
        if !self.is_current(slot) || shared.app_closed.load(Ordering::Relaxed) != 0 {
            return Err(ReceiveError::Stale);
        }
        // Read before the bytes: a flag that is seen now was set after all bytes before it.
        let (state, flags, failed) = (shared.state(), shared.flags(), shared.error().is_some());
        while let Some((chunk, offset, len)) = self.detach_first(shared) {
            if offset < len {
                let (region, offset, len) = (self.region_number(), offset as u32, (len - offset) as u32);
                return Ok(Some(Lent { client: self, loan: Some(Loan { region, slot, chunk, offset, len }) }));
            }
            self.give_back(chunk, chunk);
        }
        drop(lock);
        self.nothing_received(shared, state, flags, failed).map(|_| None)
    }

    /// Takes the first chunk off the list: its number, where its unread bytes begin, and where they end.
    fn detach_first(&self, shared: &SlotShared) -> Option<(u32, usize, usize)> {
        let chunk = self.first_chunk(shared)?;
        let record = self.map.rx_record(chunk);
        let len = (record.len.load(Ordering::Relaxed) as usize).min(self.map.rx_capacity(chunk));
        let offset = (shared.rx_offset.load(Ordering::Relaxed) as usize).min(len);
        shared.rx_head.store(record.next.load(Ordering::Relaxed), Ordering::Relaxed);
        shared.rx_offset.store(0, Ordering::Relaxed);
        Some((chunk, offset, len))
    }

    /// The bytes of a loan.
    ///
    /// # Panics
    /// When another client has made the loan.
    pub fn lent_bytes<'a>(&'a self, loan: &'a Loan) -> &'a [u8] {
        assert_eq!(loan.region, self.region_number(), "a loan of another client");
        let place = self.map.rx_place(loan.chunk, loan.offset as usize, loan.len as usize);
        // SAFETY: inside the mapping, which lives as long as `self`. The chunk was taken off its list and is not given back
        // before `loan` is, so this process does not write to it; the worker, which an application trusts with all its
        // bytes, writes only to chunks that were given back. Other processes of the group could write here, as they could to
        // every socket that they share: a group trusts its own processes (docs/isolation.md), which keep to this rule too.
        unsafe { slice::from_raw_parts(place.as_ptr(), loan.len as usize) }
    }

    /// Gives a loan back: the bytes count as read now. After the socket was closed there is nothing to give back.
    ///
    /// # Panics
    /// When another client has made the loan.
    pub fn end_loan(&self, loan: Loan) {
        assert_eq!(loan.region, self.region_number(), "a loan of another client");
        if !self.is_current(loan.slot) {
            return;
        }
        let shared = self.slot(loan.slot.index);
        shared.rx_consumed.fetch_add(loan.len, Ordering::AcqRel);
        self.give_back(loan.chunk, loan.chunk);
        if self.must_notify(shared) {
            self.announce(loan.slot, Operation::Consumed);
        }
    }

    /// What tells this client's region from those of others in the process.
    fn region_number(&self) -> usize {
        self.map.rx_place(0, 0, 0).as_ptr() as usize
    }

    /// Room for up to `len` bytes: at most 32 KiB; less when only smaller chunks are left.
    ///
    /// # Errors
    /// See [`SendError`]; `WouldBlock` also when no chunk is free.
    pub fn reserve(&self, slot: SlotRef, len: usize) -> Result<Reserved<'_>, SendError> {
        let shared = self.slot(slot.index);
        self.check_send(slot, shared)?;
        if shared.send_space() == 0 && !self.has_room_after_asking(slot.index, Lack::Space) {
            return Err(SendError::WouldBlock);
        }
        let most = if shared.send_limit() < BULK_LIMIT { LARGE_CHUNK } else { BULK_CHUNK };
        let wanted = len.clamp(1, most);
        loop {
            if let Some(chunk) = self.take_tx(wanted, Smaller::of_stream(shared)) {
                let len = wanted.min(self.map.tx_capacity(chunk)) as u32;
                let reservation = Reservation { region: self.region_number(), slot, chunk, len };
                return Ok(Reserved { client: self, reservation: Some(reservation) });
            }
            if !self.has_room_after_asking(slot.index, Lack::Chunks) {
                return Err(SendError::WouldBlock);
            }
        }
    }

    /// Sends up to `count` bytes that `fill` writes to where they will leave from, a chunk at a time, while there is room that is
    /// worth waking for. It says how many it has written; fewer than there is room for are the last. Chunks of other threads may
    /// come between. It is for the kernel, which writes through the pointer: nothing here borrows the bytes.
    ///
    /// # Errors
    /// See [`SendError`]; nothing was sent then. `fill` may have been called in vain.
    pub fn send_in_place(
        &self,
        slot: SlotRef,
        count: usize,
        mut fill: impl FnMut(PayloadMut<'_>) -> usize,
    ) -> Result<usize, SendError> {
        let shared = self.slot(slot.index);
        let (mut done, mut is_over) = (0, count == 0);
        while !is_over && self.is_writable(slot.index) {
            let wanted = (count - done).min(shared.send_space() as usize);
            let sent = self.reserve(slot, wanted).and_then(|mut room| {
                let place = room.payload_mut();
                let len = place.len();
                let filled = fill(place).min(len);
                is_over = filled < len;
                room.commit(filled).map(|()| filled)
            });
            match sent {
                Ok(filled) => done += filled,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
            is_over |= done == count;
        }
        if done == 0 && !is_over {
            self.check_send(slot, shared)?;
            return Err(SendError::WouldBlock);
        }
        Ok(done)
    }

    /// The bytes to fill.
    ///
    /// # Panics
    /// When another client has made the reservation.
    pub fn reserved_bytes<'a>(&'a self, reservation: &'a mut Reservation) -> &'a mut [u8] {
        assert_eq!(reservation.region, self.region_number(), "a reservation of another client");
        let place = self.map.tx_place(reservation.chunk, 0, reservation.len as usize);
        // SAFETY: inside the mapping, which lives as long as `self`; the chunk is the reservation's alone until it is
        // committed or cancelled, and the reservation is borrowed mutably. The worker reads only chunks that were committed, and
        // the group's other processes keep to the rules, as in `lent_bytes`.
        unsafe { slice::from_raw_parts_mut(place.as_ptr(), reservation.len as usize) }
    }

    /// Queues the first `count` bytes of a reservation for sending, behind everything that was sent before.
    ///
    /// # Errors
    /// See [`SendError`]; nothing was sent then, and the room is given back.
    ///
    /// # Panics
    /// When `count` is more than was reserved, or another client has made the reservation.
    pub fn commit(&self, reservation: Reservation, count: usize) -> Result<(), SendError> {
        assert_eq!(reservation.region, self.region_number(), "a reservation of another client");
        assert!(count <= reservation.len as usize, "{count} bytes committed of {} that were reserved", reservation.len);
        let pushed = if count == 0 { Ok(false) } else { self.push_reserved(&reservation, count) };
        match pushed {
            Ok(true) => Ok(()),
            other => {
                self.cancel(reservation);
                other.map(|_| ())
            }
        }
    }

    /// Gives the room back.
    pub fn cancel(&self, reservation: Reservation) {
        assert_eq!(reservation.region, self.region_number(), "a reservation of another client");
        self.give_tx(reservation.chunk);
    }

    fn push_reserved(&self, reservation: &Reservation, count: usize) -> Result<bool, SendError> {
        let slot = reservation.slot;
        let shared = self.slot(slot.index);
        let lock = self.lock(&shared.tx_lock)?;
        self.check_send(slot, shared)?;
        let record = self.map.tx_record(reservation.chunk);
        record.len.store(count as u32, Ordering::Relaxed);
        record.owner.store(0, Ordering::Relaxed);
        shared.tx_queued.fetch_add(count as u32, Ordering::AcqRel);
        let announce = list::push_chain(&shared.tx_stack, reservation.chunk, &record.next, u32::MAX) == Some(true);
        drop(lock);
        if announce {
            self.announce(slot, Operation::Transmit);
        }
        Ok(true)
    }
}

impl Lent<'_> {
    /// Lets go of the borrow; the caller owes [`Client::end_loan`].
    pub fn into_loan(mut self) -> Loan {
        self.loan.take().expect("only this and drop take it")
    }

    fn loan(&self) -> &Loan {
        self.loan.as_ref().expect("only into_loan and drop take it")
    }
}

impl Deref for Lent<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.client.lent_bytes(self.loan())
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(loan) = self.loan.take() {
            self.client.end_loan(loan);
        }
    }
}

impl Reserved<'_> {
    /// See [`Client::commit`].
    ///
    /// # Errors
    /// As [`Client::commit`].
    ///
    /// # Panics
    /// When `count` is more than was reserved.
    pub fn commit(mut self, count: usize) -> Result<(), SendError> {
        let reservation = self.reservation.take().expect("only this, into_reservation and drop take it");
        self.client.commit(reservation, count)
    }

    /// The bytes to fill, for a system call.
    pub fn payload_mut(&mut self) -> PayloadMut<'_> {
        let reservation = self.reservation.as_ref().expect("only what consumes it takes it");
        let len = reservation.len as usize;
        let place = self.client.map.tx_place(reservation.chunk, 0, len);
        // SAFETY: as in `Client::reserved_bytes`.
        unsafe { PayloadMut::new(place, len) }
    }

    /// Lets go of the borrow; the caller owes [`Client::commit`] or [`Client::cancel`].
    pub fn into_reservation(mut self) -> Reservation {
        self.reservation.take().expect("only this, commit and drop take it")
    }
}

impl Deref for Reserved<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let reservation = self.reservation.as_ref().expect("only what consumes it takes it");
        let place = self.client.map.tx_place(reservation.chunk, 0, reservation.len as usize);
        // SAFETY: as in `Client::reserved_bytes`, shared.
        unsafe { slice::from_raw_parts(place.as_ptr(), reservation.len as usize) }
    }
}

impl DerefMut for Reserved<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.client.reserved_bytes(self.reservation.as_mut().expect("only what consumes it takes it"))
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            self.client.cancel(reservation);
        }
    }
}

#[cfg(test)]
mod tests;
