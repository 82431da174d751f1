//! Requests with an answer.

use std::os::fd::RawFd;

use super::super::attach::{self, AttachError, Purpose};
use super::super::request::{ControlAnswer, Operation, Request, completion};
use super::super::slot::SlotRef;
use super::Client;
use ringway_shm::sync::Ordering;

/// A control request on its way. While it exists no other can be made for the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    slot: SlotRef,
    sequence: u8,
}

impl Ticket {
    /// The slot.
    pub fn slot(&self) -> SlotRef {
        self.slot
    }
}

/// How a control request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlResult {
    /// The worker's answer.
    Answer(ControlAnswer),
    /// `Info`: so many bytes were copied to the caller's buffer.
    Bytes(usize),
}

impl Client {
    /// Shows the service the kernel socket `socket` (a number that the caller keeps open), which holds the port that `slot`
    /// will serve. To be done before the request that names the port.
    ///
    /// # Errors
    /// The service's refusal, or what stands in the way of asking.
    ///
    /// # Blocking
    /// Until the service has looked at the socket.
    pub fn show(&self, slot: SlotRef, purpose: Purpose, socket: RawFd) -> Result<(), AttachError> {
        self.exchange(|control| crate::sys::with_fd(socket, |socket| attach::show_socket(control, slot, purpose, socket)))
    }

    /// Has the kernel go on with the socket of `slot`, in the kernel socket `socket` (a number that the caller keeps open). Afterwards
    /// the slot's flags say [`MOVED`](super::super::Flags::MOVED). The caller must hold no lock of the slot.
    ///
    /// # Errors
    /// The service's refusal (the socket stays as it was), or what stands in the way of asking.
    ///
    /// # Blocking
    /// Until the kernel socket goes on: some 100 us.
    pub fn hand_over(&self, slot: SlotRef, socket: RawFd) -> Result<(), AttachError> {
        self.exchange(|control| crate::sys::with_fd(socket, |socket| attach::hand_over(control, slot, socket)))
    }

    /// Has the stack go on with the connections of kernel sockets (numbers that the caller keeps open), each in a slot that was opened for it.
    /// Returns for which it does: such a kernel socket is closed, without a packet. `None`: the service wants no connections. Nothing else may use the
    /// sockets meanwhile. `way`: which service has handed them over.
    ///
    /// # Blocking
    /// Until the service has answered for all of them: some ten milliseconds, however many.
    pub fn adopt(&self, way: attach::Way, offers: &[(SlotRef, RawFd)]) -> Option<Vec<bool>> {
        let mut answers = Vec::new();
        // Where the service is gone.
        let without_answer = false;
        let wants = self.exchange(|control| attach::adopt(control, (way, offers), &mut answers)).unwrap_or(true);
        answers.resize(offers.len(), without_answer);
        // A service that has just been told to want none may have taken some before.
        (wants || answers.contains(&true)).then_some(answers)
    }

    /// Waits until the ports of sockets that this program has closed are the kernel's again.
    ///
    /// # Errors
    /// The service is gone.
    ///
    /// # Blocking
    /// Until the service has closed them.
    pub fn settle(&self) -> Result<(), AttachError> {
        self.exchange(attach::settle)
    }

    /// Sends a control request. `None`: another one is under way for this slot (try again soon), the
    /// reference is stale, or the service is gone. Wait until [`completed`](Self::completed) answers;
    /// the slot is signalled then.
    pub fn control(&self, slot: SlotRef, operation: Operation) -> Option<Ticket> {
        if !self.is_current(slot) {
            return None;
        }
        let shared = self.slot(slot.index);
        let owner = self.owner();
        shared.control_lock.compare_exchange(0, owner, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        let sequence = shared.control_sequence.fetch_add(1, Ordering::AcqRel) % 255 + 1;
        let sequence = u8::try_from(sequence).expect("1 to 255: 0 is for requests that nobody waits for");
        if !self.submit(Request { slot, sequence, operation }) {
            self.end_control(slot, owner);
            return None;
        }
        Some(Ticket { slot, sequence })
    }

    /// The answer, when it is there. `buffer` takes the bytes of an `Info` answer. Must be called by
    /// the thread that made the request.
    pub fn completed(&self, ticket: Ticket, buffer: &mut [u8]) -> Option<ControlResult> {
        let shared = self.slot(ticket.slot.index);
        let (sequence, kind, len, value) = completion::unpack(shared.completion.load(Ordering::Acquire));
        if sequence != ticket.sequence || kind == 0 {
            return None;
        }
        let result = if kind == completion::BYTES {
            ControlResult::Bytes(self.fetch_answer(value, len as usize, buffer))
        } else {
            ControlResult::Answer(completion::read(kind, value)?)
        };
        self.end_control(ticket.slot, self.owner());
        Some(result)
    }

    /// Gives up waiting (the service is gone, or the slot is).
    pub fn abandon(&self, ticket: Ticket) {
        self.end_control(ticket.slot, self.owner());
    }

    fn end_control(&self, slot: SlotRef, owner: u32) {
        // Not ours any more when the slot was freed meanwhile; then there is nothing to release.
        self.slot(slot.index).control_lock.compare_exchange(owner, 0, Ordering::AcqRel, Ordering::Relaxed).ok();
    }

    fn fetch_answer(&self, chunk: u32, len: usize, buffer: &mut [u8]) -> usize {
        if chunk >= self.map.shape().rx_chunks() {
            return 0;
        }
        let count = len.min(buffer.len()).min(self.map.rx_capacity(chunk));
        self.map.read_rx(chunk, 0, &mut buffer[..count]);
        self.give_back(chunk, chunk);
        count
    }
}
