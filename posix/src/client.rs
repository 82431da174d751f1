//! The real channel: `ringway_shm::channel::Client` behind this room's trait.

use crate::channel::{
    Attach, Channel, Context, ControlAnswer, Envelope, Failure, Received, Request, SocketOption, State, Taking, Ticket,
};
use crate::channel::{TransferError, Urgent, UrgentError, View};
use crate::fallback::Fd;
use crate::fd_table::SocketRef;
use crate::tcp_info;
use ringway_shm::channel as shm;
use ringway_shm::stats::InfoRecord;
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// What `ringway run` says: where the service is, and which group this process belongs to.
struct Invitation {
    socket: PathBuf,
    token: [u8; 16],
}

/// How to attach, from the values of RINGWAY_SOCKET and RINGWAY_GROUP (32 hexadecimal digits).
pub fn from_environment(socket: PathBuf, group: &str) -> Box<dyn Attach> {
    Box::new(Invitation { socket, token: token_of(group) })
}

/// A token that is not one stands for the group of all those that have none.
fn token_of(group: &str) -> [u8; 16] {
    let mut token = [0; 16];
    match u128::from_str_radix(group, 16) {
        Ok(number) => token.copy_from_slice(&number.to_be_bytes()),
        Err(_) => token[..group.len().min(16)].copy_from_slice(&group.as_bytes()[..group.len().min(16)]),
    }
    token
}

impl Attach for Invitation {
    fn attach(&self, floor: Fd) -> Result<Box<dyn Channel>, String> {
        let client = shm::Client::attach(&self.socket, self.token, floor).map_err(|error| error.to_string())?;
        Ok(Box::new(Attached { client, must_reattach: AtomicBool::new(false) }))
    }
}

/// One attachment.
pub(crate) struct Attached {
    client: shm::Client,
    /// This is a forked child that has no control connection of its own yet.
    must_reattach: AtomicBool,
}

impl Attached {
    #[cfg(test)]
    pub(crate) fn new(client: shm::Client) -> Attached {
        Attached { client, must_reattach: AtomicBool::new(false) }
    }

    fn current(&self, socket: SocketRef) -> Option<&shm::slot::SlotShared> {
        self.client.is_current(slot_of(socket)).then(|| self.client.slot(socket.index))
    }

    fn operation(&self, socket: SocketRef, operation: shm::Operation) {
        // Sequence 0: nobody waits for the answer. A dead service is noticed by whoever waits next.
        self.client.submit(shm::Request { slot: slot_of(socket), sequence: 0, operation });
    }
}

impl Channel for Attached {
    fn alive(&self) -> bool {
        !self.client.known_dead()
    }

    fn confirm_death(&self) {
        self.client.service_alive();
    }

    fn control_descriptor(&self) -> Fd {
        self.client.control_fd()
    }

    fn descriptors(&self) -> Vec<Fd> {
        self.client.internal_fds().to_vec()
    }

    fn open(&self) -> Option<SocketRef> {
        self.client.open_slot().map(socket_of)
    }

    fn view(&self, socket: SocketRef) -> Option<View> {
        let slot = self.current(socket)?;
        // Before what they stand for: then a change meanwhile is one more edge, not one less.
        let (receive_sequence, send_sequence) = (slot.arrivals(), slot.releases());
        let (state, flags) = (state_of(slot.state()), slot.flags());
        // `readiness` also asks the worker to tell when there is room, if there is none.
        let writable = state == State::Connected && self.client.readiness(slot_of(socket)).writable;
        let readable = if state == State::Listening { slot.unaccepted() } else { slot.unread() };
        Some(View {
            state,
            readable: readable as usize,
            writable: if writable { slot.send_space().max(1) as usize } else { 0 },
            peer_closed: flags.has(shm::Flags::PEER_CLOSED),
            write_closed: flags.has(shm::Flags::WRITE_CLOSED),
            hung_up: flags.has(shm::Flags::HUNG_UP),
            urgent: slot.urgent().filter(|_| state != State::Listening).map(|urgent| Urgent {
                distance: urgent.distance as usize,
                fetchable: urgent.fetchable,
                in_line: slot.is_urgent_in_line(),
            }),
            failure: slot.error().map(failure_of),
            receive_sequence,
            send_sequence,
        })
    }

    fn nonblocking(&self, socket: SocketRef) -> bool {
        self.current(socket).is_some_and(|slot| slot.app_flags() & NONBLOCKING != 0)
    }

    fn set_nonblocking(&self, socket: SocketRef, on: bool) {
        if let Some(slot) = self.current(socket) {
            if on { slot.change_app_flags(NONBLOCKING, 0) } else { slot.change_app_flags(0, NONBLOCKING) }
        }
    }

    fn take_failure(&self, socket: SocketRef) -> Option<Failure> {
        self.current(socket)?.take_error().map(failure_of)
    }

    fn addresses(&self, socket: SocketRef) -> Option<(SocketAddr, SocketAddr)> {
        let slot = self.current(socket)?;
        Some((slot.local(), slot.remote()))
    }

    fn unacknowledged(&self, socket: SocketRef) -> usize {
        self.current(socket).map_or(0, |slot| slot.unsent() as usize)
    }

    fn send(&self, socket: SocketRef, pieces: &[IoSlice<'_>]) -> Result<usize, TransferError> {
        self.client.send(slot_of(socket), pieces).map_err(send_error)
    }

    fn send_urgent(&self, socket: SocketRef, pieces: &[IoSlice<'_>]) -> Result<usize, TransferError> {
        self.client.send_urgent(slot_of(socket), pieces).map_err(send_error)
    }

    fn receive_urgent(&self, socket: SocketRef, taking: Taking) -> Result<Option<u8>, UrgentError> {
        match self.client.receive_urgent(slot_of(socket), taking == Taking::Peek) {
            Ok(byte) => Ok(Some(byte)),
            Err(shm::UrgentError::Over) => Ok(None),
            Err(shm::UrgentError::Nothing) => Err(UrgentError::Nothing),
            Err(shm::UrgentError::WouldBlock) => Err(UrgentError::WouldBlock),
            Err(shm::UrgentError::Stale) => Err(UrgentError::NotConnected),
        }
    }

    fn set_urgent_in_line(&self, socket: SocketRef, on: bool) {
        if let Some(slot) = self.current(socket) {
            slot.set_urgent_in_line(on);
        }
    }

    fn set_owner(&self, socket: SocketRef, pid: u32) {
        if let Some(slot) = self.current(socket) {
            slot.set_owner(pid);
        }
    }

    fn owner(&self, socket: SocketRef) -> u32 {
        self.current(socket).map_or(0, |slot| slot.owner())
    }

    fn receive(&self, socket: SocketRef, pieces: &mut [IoSliceMut<'_>], taking: Taking) -> Result<usize, TransferError> {
        let received = match taking {
            Taking::Take => self.client.receive(slot_of(socket), pieces),
            Taking::Peek => self.client.peek(slot_of(socket), pieces),
        };
        received.map_err(receive_error)
    }

    fn discard(&self, socket: SocketRef, count: usize) -> Result<usize, TransferError> {
        self.client.discard(slot_of(socket), count).map_err(receive_error)
    }

    fn send_datagram(&self, socket: SocketRef, envelope: &Envelope, pieces: &[IoSlice<'_>]) -> Result<(), TransferError> {
        self.client.send_datagram(slot_of(socket), envelope, pieces).map_err(send_error)
    }

    fn receive_datagram(
        &self,
        socket: SocketRef,
        pieces: &mut [IoSliceMut<'_>],
        taking: Taking,
    ) -> Result<Received, TransferError> {
        self.client.receive_datagram(slot_of(socket), pieces, taking == Taking::Peek).map_err(receive_error)
    }

    fn next_datagram(&self, socket: SocketRef) -> Option<usize> {
        self.client.next_datagram_len(slot_of(socket))
    }

    fn accept(&self, listener: SocketRef) -> Option<SocketRef> {
        let accepted = self.client.accept(slot_of(listener)).map(socket_of)?;
        if self.client.slot(listener.index).is_urgent_in_line() {
            self.client.slot(accepted.index).set_urgent_in_line(true);
        }
        Some(accepted)
    }

    fn request(&self, socket: SocketRef, request: Request) -> Option<Ticket> {
        let operation = match request {
            Request::Listen { local, backlog, dual_stack } => shm::Operation::Listen { local, backlog, dual_stack },
            Request::Connect { local, remote } => {
                if let Some(local) = local {
                    self.client.set_bound(slot_of(socket), local);
                }
                shm::Operation::Connect { remote }
            }
            Request::Datagrams { local, dual_stack } => shm::Operation::Datagram { local, dual_stack },
            Request::ConnectDatagrams { remote } => shm::Operation::ConnectDatagram { remote },
            Request::Route { remote } => shm::Operation::Route { remote },
            Request::Info => shm::Operation::Info,
        };
        self.client.control(slot_of(socket), operation)
    }

    fn answer(&self, ticket: Ticket, bytes: &mut [u8]) -> Option<ControlAnswer> {
        let mut record = [0; InfoRecord::BYTES];
        Some(match self.client.completed(ticket, &mut record)? {
            shm::ControlResult::Answer(answer) => answer_of(answer),
            shm::ControlResult::Bytes(count) => {
                let record = InfoRecord::from_bytes(&record[..count.min(InfoRecord::BYTES)]);
                ControlAnswer::Bytes(tcp_info::write(&record, bytes))
            }
        })
    }

    fn abandon(&self, ticket: Ticket) {
        self.client.abandon(ticket);
    }

    fn shutdown_write(&self, socket: SocketRef) {
        self.operation(socket, shm::Operation::Shutdown);
    }

    fn close(&self, socket: SocketRef, linger_s: Option<u16>) {
        self.client.close(slot_of(socket), linger_s);
    }

    fn set_option(&self, socket: SocketRef, option: SocketOption, value: u32) {
        self.operation(socket, shm::Operation::SetOption { option: option_of(option), value });
    }

    fn hold(&self, socket: SocketRef) {
        self.client.hold(socket.index);
    }

    fn release(&self, socket: SocketRef) -> bool {
        self.client.is_current(slot_of(socket)) && self.client.release(socket.index)
    }

    fn is_held_elsewhere(&self, socket: SocketRef) -> bool {
        self.client.is_held_elsewhere(socket.index)
    }

    fn held(&self) -> Vec<SocketRef> {
        self.client.held_slots().map(socket_of).collect()
    }

    fn set_inode(&self, socket: SocketRef, inode: u64) {
        if let Some(slot) = self.current(socket) {
            slot.set_inode(inode);
        }
    }

    fn find_inode(&self, inode: u64) -> Option<SocketRef> {
        self.client.find_inode(inode).map(socket_of)
    }

    fn claim_context(&self, bell: Fd) -> Option<Context> {
        if self.must_reattach.swap(false, Ordering::AcqRel) && self.client.reattach().is_err() {
            self.must_reattach.store(true, Ordering::Release);
            return None;
        }
        self.client.open_context_for(bell).ok().map(|context| Context(context as u16))
    }

    fn release_context(&self, context: Context) {
        self.client.close_context(context.0.into());
    }

    fn watch(&self, socket: SocketRef, context: Context) {
        // A stale socket is ready for everything: whoever looks at it next is told so.
        self.client.watch(slot_of(socket), context.0.into());
    }

    fn unwatch(&self, socket: SocketRef, context: Context) {
        self.client.unwatch(slot_of(socket), context.0.into());
    }

    fn arm(&self, context: Context) {
        self.client.arm(context.0.into());
    }

    fn disarm(&self, context: Context) {
        self.client.disarm(context.0.into());
    }

    fn has_event(&self, context: Context) -> bool {
        self.client.has_event(context.0.into())
    }

    fn next_event(&self, context: Context) -> Option<SocketRef> {
        let index = self.client.next_event(context.0.into())?;
        Some(SocketRef { index, generation: self.client.slot(index).generation() })
    }

    fn before_fork(&self) {
        self.client.before_fork();
    }

    fn after_fork_in_parent(&self, child: Option<u32>) {
        self.client.after_fork_in_parent(child);
    }

    fn after_fork_in_child(&self) {
        self.client.after_fork_in_child();
        self.must_reattach.store(true, Ordering::Release);
    }
}

fn slot_of(socket: SocketRef) -> shm::SlotRef {
    shm::SlotRef { index: socket.index, generation: socket.generation }
}

fn socket_of(slot: shm::SlotRef) -> SocketRef {
    SocketRef { index: slot.index, generation: slot.generation }
}

fn state_of(state: shm::State) -> State {
    match state {
        shm::State::Free => State::Opening,
        shm::State::Listening => State::Listening,
        shm::State::Connecting => State::Connecting,
        shm::State::Connected => State::Connected,
        shm::State::Closed => State::Closed,
    }
}

fn failure_of(failure: shm::Failure) -> Failure {
    match failure {
        shm::Failure::Refused => Failure::Refused,
        shm::Failure::Reset => Failure::Reset,
        shm::Failure::TimedOut => Failure::TimedOut,
        shm::Failure::HostUnreachable => Failure::HostUnreachable,
        shm::Failure::NetworkUnreachable => Failure::NetworkUnreachable,
        shm::Failure::ProtocolUnreachable => Failure::ProtocolUnreachable,
        shm::Failure::Prohibited => Failure::Prohibited,
        shm::Failure::Aborted => Failure::Aborted,
        shm::Failure::ServiceGone => Failure::ServiceGone,
        shm::Failure::MessageTooLong => Failure::MessageTooLong,
        shm::Failure::NotConnected => Failure::NoDestination,
        _ => Failure::Other,
    }
}

fn answer_of(answer: shm::ControlAnswer) -> ControlAnswer {
    match answer {
        shm::ControlAnswer::Done => ControlAnswer::Done,
        shm::ControlAnswer::NotOurs => ControlAnswer::NotOurs,
        shm::ControlAnswer::Failed(failure) => match failure {
            shm::Failure::InUse => ControlAnswer::InUse,
            shm::Failure::NotAvailable => ControlAnswer::AddressNotAvailable,
            shm::Failure::NetworkUnreachable | shm::Failure::HostUnreachable => ControlAnswer::NoRoute,
            shm::Failure::NoResources => ControlAnswer::NoResources,
            _ => ControlAnswer::Invalid,
        },
    }
}

fn send_error(error: shm::SendError) -> TransferError {
    match error {
        shm::SendError::WouldBlock => TransferError::WouldBlock,
        shm::SendError::Closed => TransferError::Closed,
        shm::SendError::Failed(failure) => TransferError::Failed(failure_of(failure)),
        shm::SendError::NotConnected | shm::SendError::Stale => TransferError::NotConnected,
    }
}

fn receive_error(error: shm::ReceiveError) -> TransferError {
    match error {
        shm::ReceiveError::WouldBlock => TransferError::WouldBlock,
        shm::ReceiveError::Failed(failure) => TransferError::Failed(failure_of(failure)),
        shm::ReceiveError::NotConnected | shm::ReceiveError::Stale => TransferError::NotConnected,
    }
}

fn option_of(option: SocketOption) -> shm::SocketOption {
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
    }
}

/// The bit of the slot's application flags that is O_NONBLOCK.
const NONBLOCKING: u32 = 1;
