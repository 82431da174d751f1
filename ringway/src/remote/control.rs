//! Requests that the worker answers at once.

use std::io;

use ringway_channel::{ControlAnswer, ControlResult, Operation, SlotRef, SocketOption};
use ringway_shm::stats::InfoRecord;
use rustix::io::Errno;

use super::session::{Session, error_of, gone};
use super::wait::lock;

impl Session {
    /// Makes a request and waits for the answer.
    pub(super) fn ask(&self, slot: SlotRef, operation: Operation) -> io::Result<ControlAnswer> {
        match self.request(slot, operation, &mut [])? {
            ControlResult::Answer(ControlAnswer::Failed(failure)) => Err(error_of(failure)),
            ControlResult::Answer(answer) => Ok(answer),
            ControlResult::Bytes(_) => Err(Errno::PROTO.into()),
        }
    }

    /// Like [`ask`](Self::ask), for requests with `Done` as the only good answer.
    pub(super) fn command(&self, slot: SlotRef, operation: Operation, not_ours: Errno) -> io::Result<()> {
        match self.ask(slot, operation)? {
            ControlAnswer::Done => Ok(()),
            _ => Err(not_ours.into()),
        }
    }

    /// Changes an option.
    pub(super) fn set_option(&self, slot: SlotRef, option: SocketOption, value: u32) -> io::Result<()> {
        self.command(slot, Operation::SetOption { option, value }, Errno::NOPROTOOPT)
    }

    /// Reads an option.
    pub(super) fn option(&self, slot: SlotRef, option: SocketOption) -> io::Result<u32> {
        let mut bytes = [0; 8];
        match self.request(slot, Operation::Option { option }, &mut bytes)? {
            ControlResult::Bytes(8) => Ok(u64::from_le_bytes(bytes) as u32),
            ControlResult::Bytes(_) => Err(Errno::PROTO.into()),
            ControlResult::Answer(ControlAnswer::Failed(failure)) => Err(error_of(failure)),
            ControlResult::Answer(_) => Err(Errno::NOPROTOOPT.into()),
        }
    }

    /// The worker's information on a connection.
    pub(super) fn info(&self, slot: SlotRef) -> io::Result<InfoRecord> {
        let mut bytes = [0; InfoRecord::BYTES];
        match self.request(slot, Operation::Info, &mut bytes)? {
            ControlResult::Bytes(count) => Ok(InfoRecord::from_bytes(&bytes[..count.min(InfoRecord::BYTES)])),
            ControlResult::Answer(ControlAnswer::Failed(failure)) => Err(error_of(failure)),
            ControlResult::Answer(_) => Err(Errno::NOTCONN.into()),
        }
    }

    fn request(&self, slot: SlotRef, operation: Operation, buffer: &mut [u8]) -> io::Result<ControlResult> {
        let client = self.client();
        // One request after the other: a slot takes one at a time, and threads that wait for their turn get no wake-up.
        let _turn = lock(&self.0.control);
        let ticket = client.control(slot, operation).ok_or_else(gone)?;
        let answer = self.block_on(slot, None, None, || match client.completed(ticket, buffer) {
            Some(result) => Ok(result),
            None if client.is_current(slot) && !client.known_dead() => Err(Errno::AGAIN.into()),
            None => Err(gone()),
        });
        if answer.is_err() {
            client.abandon(ticket);
        }
        answer
    }
}
