//! Conversion between the channel's types and this crate's.

use crate::channel::{ControlAnswer, Failure, SocketOption, State, TransferError};
use ringway_shm::channel as shm;

pub(super) fn state_of(state: shm::State) -> State {
    match state {
        shm::State::Free => State::Opening,
        shm::State::Listening => State::Listening,
        shm::State::Connecting => State::Connecting,
        shm::State::Connected => State::Connected,
        shm::State::Closed => State::Closed,
    }
}

pub(super) fn failure_of(failure: shm::Failure) -> Failure {
    match failure {
        shm::Failure::Refused => Failure::Refused,
        shm::Failure::Reset => Failure::Reset,
        shm::Failure::Broken => Failure::Broken,
        shm::Failure::TimedOut => Failure::TimedOut,
        shm::Failure::HostUnreachable => Failure::HostUnreachable,
        shm::Failure::NetworkUnreachable => Failure::NetworkUnreachable,
        shm::Failure::ProtocolUnreachable => Failure::ProtocolUnreachable,
        shm::Failure::Prohibited => Failure::Prohibited,
        shm::Failure::Aborted => Failure::Aborted,
        shm::Failure::ServiceGone => Failure::ServiceGone,
        shm::Failure::Guarded => Failure::Guarded,
        shm::Failure::CgroupProgram => Failure::CgroupProgram,
        shm::Failure::MessageTooLong => Failure::MessageTooLong,
        shm::Failure::NotConnected => Failure::NoDestination,
        _ => Failure::Other,
    }
}

pub(super) fn answer_of(answer: shm::ControlAnswer) -> ControlAnswer {
    match answer {
        shm::ControlAnswer::Done => ControlAnswer::Done,
        shm::ControlAnswer::NotOurs => ControlAnswer::NotOurs,
        shm::ControlAnswer::Failed(failure) => match failure {
            shm::Failure::InUse => ControlAnswer::InUse,
            shm::Failure::NotAvailable => ControlAnswer::AddressNotAvailable,
            shm::Failure::NetworkUnreachable | shm::Failure::HostUnreachable => ControlAnswer::NoRoute,
            shm::Failure::NoResources => ControlAnswer::NoResources,
            shm::Failure::Guarded => ControlAnswer::Guarded,
            shm::Failure::CgroupProgram => ControlAnswer::CgroupProgram,
            _ => ControlAnswer::Invalid,
        },
    }
}

pub(super) fn send_error(error: shm::SendError) -> TransferError {
    match error {
        shm::SendError::WouldBlock => TransferError::WouldBlock,
        shm::SendError::Closed => TransferError::Closed,
        shm::SendError::Failed(failure) => TransferError::Failed(failure_of(failure)),
        shm::SendError::NotConnected | shm::SendError::Stale => TransferError::NotConnected,
    }
}

pub(super) fn receive_error(error: shm::ReceiveError) -> TransferError {
    match error {
        shm::ReceiveError::WouldBlock => TransferError::WouldBlock,
        shm::ReceiveError::Failed(failure) => TransferError::Failed(failure_of(failure)),
        shm::ReceiveError::NotConnected | shm::ReceiveError::Stale => TransferError::NotConnected,
    }
}

pub(super) fn option_of(option: SocketOption) -> shm::SocketOption {
    match option {
        SocketOption::NoDelay => shm::SocketOption::NoDelay,
        SocketOption::Cork => shm::SocketOption::Cork,
        SocketOption::QuickAck => shm::SocketOption::QuickAck,
        SocketOption::KeepAlive => shm::SocketOption::KeepAlive,
        SocketOption::KeepAliveIdle => shm::SocketOption::KeepIdle,
        SocketOption::KeepAliveInterval => shm::SocketOption::KeepInterval,
        SocketOption::KeepAliveCount => shm::SocketOption::KeepCount,
        SocketOption::UserTimeout => shm::SocketOption::UserTimeout,
        SocketOption::SendBuffer => shm::SocketOption::SendBuffer,
        SocketOption::ReceiveBuffer => shm::SocketOption::ReceiveBuffer,
        SocketOption::MaxSegment => shm::SocketOption::MaxSegment,
        SocketOption::TypeOfService => shm::SocketOption::TypeOfService,
        SocketOption::TimeToLive => shm::SocketOption::TimeToLive,
        SocketOption::Congestion => shm::SocketOption::Congestion,
        SocketOption::NotSentLowWater => shm::SocketOption::NotSentLowWater,
        SocketOption::DeferAccept => shm::SocketOption::DeferAccept,
        SocketOption::SynCount => shm::SocketOption::SynCount,
        SocketOption::WindowClamp => shm::SocketOption::WindowClamp,
        SocketOption::FinTimeout => shm::SocketOption::FinTimeout,
        SocketOption::FastOpenQueue => shm::SocketOption::FastOpenQueue,
        SocketOption::FastOpenConnect => shm::SocketOption::FastOpenConnect,
        SocketOption::FastOpenNoCookie => shm::SocketOption::FastOpenNoCookie,
        SocketOption::PacingRate => shm::SocketOption::PacingRate,
        SocketOption::ReuseAddress => shm::SocketOption::ReuseAddress,
        SocketOption::ReusePort => shm::SocketOption::ReusePort,
        SocketOption::Broadcast => shm::SocketOption::Broadcast,
        SocketOption::NoChecksum => shm::SocketOption::NoChecksum,
        SocketOption::PathMtuDiscovery => shm::SocketOption::PathMtuDiscovery,
        SocketOption::SegmentSize => shm::SocketOption::SegmentSize,
        SocketOption::Coalesce => shm::SocketOption::Coalesce,
        SocketOption::ReadShut => shm::SocketOption::ReadShut,
        SocketOption::More => shm::SocketOption::More,
    }
}
