//! TCP (RFC 9293) under the façade. Placeholder signatures; the room is being built.

use ringway_shm::{Burst, Frame, Instant};

use crate::address::SocketAddress;
use crate::config::{StackConfig, TcpOptions};
use crate::error::{AcceptError, ConnectError, ListenError, ReceiveError, SendError};
use crate::event::{Readiness, SocketId};
use crate::ip::{Datagrams, IcmpError};
use crate::stack::Env;

/// The eleven states of RFC 9293 §3.3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Waits for connection requests.
    Listen,
    /// Has sent a connection request.
    SynSent,
    /// Has received and sent a connection request.
    SynReceived,
    /// Open.
    Established,
    /// Has sent FIN.
    FinWait1,
    /// FIN was acknowledged.
    FinWait2,
    /// The peer has sent FIN.
    CloseWait,
    /// Both have sent FIN; ours is not acknowledged.
    Closing,
    /// Both have sent FIN, the peer first; ours is not acknowledged.
    LastAck,
    /// Waits for old segments to die.
    TimeWait,
    /// No connection.
    Closed,
}

/// What `TCP_INFO` tells, in Linux's terms; times in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpInfo {
    /// State.
    pub state: State,
}

/// One line of `ss`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketSummary {
    /// Name.
    pub id: SocketId,
    /// State.
    pub state: State,
    /// Local end.
    pub local: SocketAddress,
    /// Remote end; unspecified for a listener.
    pub remote: SocketAddress,
    /// Received and not taken; for a listener: connections waiting.
    pub receive_queue: u32,
    /// Sent or queued and not acknowledged; for a listener: the backlog.
    pub send_queue: u32,
    /// What the application named it by.
    pub cookie: u64,
}

pub(crate) struct Tcp;

#[allow(unused_variables, reason = "signatures only until the room is built")]
impl Tcp {
    pub(crate) fn new(config: &StackConfig, now: Instant) -> Tcp {
        Tcp
    }

    pub(crate) fn receive(&mut self, now: Instant, env: &mut Env, datagrams: &mut Datagrams) {
        datagrams.clear();
    }

    pub(crate) fn transmit(&mut self, now: Instant, env: &mut Env, out: &mut [Burst]) -> bool {
        false
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant, env: &mut Env) {}

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    pub(crate) fn icmp_error(&mut self, now: Instant, env: &mut Env, error: &IcmpError) {}

    pub(crate) fn listen(
        &mut self,
        env: &mut Env,
        local: SocketAddress,
        backlog: u32,
        options: TcpOptions,
        cookie: u64,
    ) -> Result<SocketId, ListenError> {
        Err(ListenError::Full)
    }

    pub(crate) fn accept(&mut self, env: &mut Env, listener: SocketId, cookie: u64) -> Result<SocketId, AcceptError> {
        Err(AcceptError::NotListening)
    }

    pub(crate) fn connect(
        &mut self,
        now: Instant,
        env: &mut Env,
        local: Option<SocketAddress>,
        remote: SocketAddress,
        options: TcpOptions,
        cookie: u64,
    ) -> Result<SocketId, ConnectError> {
        Err(ConnectError::Full)
    }

    pub(crate) fn send_space(&self, id: SocketId) -> usize {
        0
    }

    pub(crate) fn send_with(
        &mut self,
        env: &mut Env,
        id: SocketId,
        count: usize,
        copy: &mut dyn FnMut(&mut [u8]),
    ) -> Result<usize, SendError> {
        Err(SendError::NotConnected)
    }

    pub(crate) fn send_frame(&mut self, env: &mut Env, id: SocketId, frame: Frame) -> Result<(), (Frame, SendError)> {
        Err((frame, SendError::NotConnected))
    }

    pub(crate) fn take_frame(&mut self, env: &mut Env, id: SocketId) -> Result<Frame, ReceiveError> {
        Err(ReceiveError::NotConnected)
    }

    pub(crate) fn consumed(&mut self, env: &mut Env, id: SocketId, bytes: usize) {}

    pub(crate) fn unread(&self, id: SocketId) -> usize {
        0
    }

    pub(crate) fn readiness(&self, id: SocketId) -> Readiness {
        Readiness { readable: true, writable: true, peer_closed: true, hung_up: true }
    }

    pub(crate) fn addresses(&self, id: SocketId) -> Option<(SocketAddress, SocketAddress)> {
        None
    }

    pub(crate) fn set_options(&mut self, now: Instant, env: &mut Env, id: SocketId, options: TcpOptions) {}

    pub(crate) fn shutdown_write(&mut self, now: Instant, env: &mut Env, id: SocketId) {}

    pub(crate) fn close(&mut self, now: Instant, env: &mut Env, id: SocketId) {}

    pub(crate) fn abort(&mut self, now: Instant, env: &mut Env, id: SocketId) {}

    pub(crate) fn info(&self, id: SocketId) -> Option<TcpInfo> {
        None
    }

    pub(crate) fn for_each_socket(&self, visit: &mut dyn FnMut(&SocketSummary)) {}
}
