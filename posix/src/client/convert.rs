//! Conversion between the channel's types and this crate's.

use crate::channel::{AnswerForm, ControlAnswer, Request, TransferError};
use crate::datagram::multicast::MEMBERSHIPS_MAX;
use crate::tcp_info;
use ringway_channel as shm;
use ringway_shm::stats::InfoRecord;

pub(super) fn answer_of(answer: shm::ControlAnswer) -> ControlAnswer {
    match answer {
        shm::ControlAnswer::Done => ControlAnswer::Done,
        shm::ControlAnswer::NotOurs => ControlAnswer::NotOurs,
        shm::ControlAnswer::Failed(failure) => match failure {
            shm::Failure::InUse => ControlAnswer::InUse,
            shm::Failure::NotAvailable => ControlAnswer::AddressNotAvailable,
            shm::Failure::NetworkUnreachable | shm::Failure::HostUnreachable => ControlAnswer::NoRoute,
            shm::Failure::NoResources => ControlAnswer::NoResources,
            shm::Failure::Denied => ControlAnswer::Denied,
            failure => failure.kernel_reason().map_or(ControlAnswer::Invalid, ControlAnswer::Kernel),
        },
    }
}

pub(super) fn send_error(error: shm::SendError) -> TransferError {
    match error {
        shm::SendError::WouldBlock => TransferError::WouldBlock,
        shm::SendError::Closed => TransferError::Closed,
        shm::SendError::Failed(failure) => TransferError::Failed(failure),
        shm::SendError::NotConnected | shm::SendError::Stale => TransferError::NotConnected,
    }
}

pub(super) fn receive_error(error: shm::ReceiveError) -> TransferError {
    match error {
        shm::ReceiveError::WouldBlock => TransferError::WouldBlock,
        shm::ReceiveError::Failed(failure) => TransferError::Failed(failure),
        shm::ReceiveError::NotConnected | shm::ReceiveError::Stale => TransferError::NotConnected,
    }
}

/// The channel's operation for a request; what a connection is bound to stands in its slot.
pub(super) fn operation_of(request: Request) -> shm::Operation {
    match request {
        Request::Listen { local, backlog, dual_stack, .. } => shm::Operation::Listen { local, backlog, dual_stack },
        Request::Connect { remote, .. } => shm::Operation::Connect { remote },
        Request::Datagrams { local, dual_stack } => shm::Operation::Datagram { local, dual_stack },
        Request::ConnectDatagrams { remote } => shm::Operation::ConnectDatagram { remote },
        Request::Route { remote, interface } => shm::Operation::Route { remote, interface },
        Request::JoinMulticast(which) => shm::Operation::JoinMulticast(which),
        Request::LeaveMulticast(which) => shm::Operation::LeaveMulticast(which),
        Request::Memberships => shm::Operation::Memberships,
        Request::Owns { local } => shm::Operation::Owns { local },
        // An option that already has this value.
        Request::Settle => shm::Operation::SetOption { option: shm::SocketOption::EveryWorker, value: 1 },
        Request::Info => shm::Operation::Info,
        Request::Option { option } => shm::Operation::Option { option },
    }
}

const MEMBERSHIPS_BYTES: usize = MEMBERSHIPS_MAX * shm::Membership::BYTES;
/// Bytes of an answer at most.
pub(super) const ANSWER_BYTES: usize = if InfoRecord::BYTES > MEMBERSHIPS_BYTES { InfoRecord::BYTES } else { MEMBERSHIPS_BYTES };

impl AnswerForm {
    /// What the answer of an operation is, if it has bytes.
    pub(super) fn of(operation: &shm::Operation) -> AnswerForm {
        match operation {
            shm::Operation::Option { .. } => AnswerForm::Value,
            shm::Operation::Memberships => AnswerForm::Memberships,
            _ => AnswerForm::Info,
        }
    }

    /// Writes the answer for the caller; returns its length.
    pub(super) fn convert(self, answer: &[u8], bytes: &mut [u8]) -> usize {
        let part = match self {
            AnswerForm::Info => return tcp_info::write(&InfoRecord::from_bytes(answer), bytes),
            AnswerForm::Value => answer.get(4..8).unwrap_or_default(),
            AnswerForm::Memberships => answer,
        };
        let len = part.len().min(bytes.len());
        bytes[..len].copy_from_slice(&part[..len]);
        len
    }
}
