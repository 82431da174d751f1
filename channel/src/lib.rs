//! The channel: the only way in which an application talks to a worker.
//!
//! One *region* (a sealed memory file) belongs to one application group: all processes that descend
//! from one `ringway run`. [`Client`] is the application's end, [`Attachment`] the worker's,
//! [`attach`] hands the region over, [`ProcessTable`] lets the service give out process numbers.
//! [`layout`] is the contract.
//!
//! Promises: bytes of a socket stay in order whichever thread writes them; no lost wake-up; the
//! worker never trusts a word of the region: an application that scribbles over all of it harms
//! only itself. Memory is taken when it is first touched; an idle connection holds no chunk.
//!
//! ```text
//!   send():    tx chunk <- free list, copy, push on slot.tx_stack, was empty -> request Transmit
//!   worker:    tx_available, copy_tx .. push_rx, signal(slot) .. flush_wakes
//!   receive(): take slot.rx_stack, reverse, copy, return the chunk, rx_consumed += n
//!   wait:      watch(slot, context), readiness? no: arm(context), readiness? no: poll(eventfd)
//! ```

pub mod attach;
pub mod client;
pub mod datagram;
mod holders;
pub mod layout;
mod lock;
pub mod mark;
mod numbers;
pub mod options;
pub mod process_table;
mod reason;
pub mod request;
mod shape;
pub mod slot;
pub mod sys;
pub mod worker;

pub use client::{
    Client, ControlResult, Lent, Loan, ReceiveError, Received, Reservation, Reserved, SendError, Ticket, UrgentError, Usage,
    Watch,
};
pub use datagram::Envelope;
pub use layout::{CONTEXTS, PROCESSES, REQUESTS_MAX, Shape};
pub use mark::Urgent;
pub use options::SocketOption;
pub use process_table::ProcessTable;
pub use request::{ControlAnswer, Membership, Multicast, Operation, Request};
pub use ringway_shm::reason::{KernelPath, KernelReason};
pub use slot::{CONFINED, Failure, Flags, ProcessDescriptor, Readiness, SlotRef, State};
pub use worker::{Attachment, Gone, NotWhole};

/// The number of a slot in its region.
pub type SlotIndex = u32;
/// The number of a wait context in its region.
pub type ContextIndex = u32;
/// Whether events of a context are noted only once its wake descriptor is [registered](Attachment::register_context): until then its
/// owner must not be told that it has one.
pub fn is_distant(context: ContextIndex) -> bool {
    context >= layout::NEAR
}

/// The number of a process in its region.
pub type ProcessIndex = u32;

#[cfg(test)]
mod tests;
