//! The façade's calls for UDP sockets. `readiness`, `addresses`, `close`, `abort`, `shutdown_write` and `for_each_socket`
//! also accept them.

use core::net::IpAddr;

use ringway_shm::{Burst, Frame, Instant};

use super::{Env, Stack};
use crate::address::SocketAddress;
use crate::config::UdpOptions;
use crate::error::{BindError, ConnectError, GroupError, UdpSendError};
use crate::event::SocketId;
use crate::udp::{UdpError, UdpErrorReport, UdpInfo, UdpMessage, UdpSend};

impl Stack {
    /// Makes a UDP socket bound to a port; the unspecified address means all addresses of the stack (that of IPv6: of both
    /// families, unless `only_ipv6`), port 0 one that the stack chooses. Events return `user_token`: `Ready` when something can
    /// be received, when there is space after a refused send, and when there is an error.
    ///
    /// # Errors
    /// [`BindError`]
    pub fn udp_bind(&mut self, local: SocketAddress, options: UdpOptions, user_token: u64) -> Result<SocketId, BindError> {
        let (udp, env) = env!(self, udp);
        udp.bind(env, local, options, user_token)
    }

    /// Sets the remote end of a UDP socket, and thereby its local address: only datagrams of that flow are received from now
    /// on (those queued stay). `None` clears both.
    ///
    /// # Errors
    /// [`ConnectError::NoRoute`]: no route, another family, or a stale name.
    pub fn udp_connect(&mut self, id: SocketId, remote: Option<SocketAddress>) -> Result<(), ConnectError> {
        let (udp, env) = env!(self, udp);
        udp.connect(env, id, remote)
    }

    /// Queues one datagram, or a batch of datagrams of `segment_size` bytes, whole or not at all. `copy` is called for each
    /// piece of the payload, in order, and must fill the whole piece; it is not called when the call fails. Returns
    /// `send.len`.
    ///
    /// # Errors
    /// [`UdpSendError`]
    pub fn udp_send(
        &mut self,
        now: Instant,
        id: SocketId,
        send: &UdpSend,
        copy: &mut dyn FnMut(&mut [u8]),
    ) -> Result<usize, UdpSendError> {
        let (udp, env) = env!(self, udp);
        udp.set_now(now);
        udp.send(env, id, send, copy)
    }

    /// Queues one datagram with the payload in `frame`, without copying it. The frame must have
    /// [`UDP_HEADROOM`](crate::UDP_HEADROOM) bytes in front of the payload and be the only one of its slot. `send.len` and
    /// `send.segment_size` are ignored.
    ///
    /// # Errors
    /// Returns the frame with the reason.
    pub fn udp_send_frame(
        &mut self,
        now: Instant,
        id: SocketId,
        send: &UdpSend,
        frame: Frame,
    ) -> Result<(), (Frame, UdpSendError)> {
        let (udp, env) = env!(self, udp);
        udp.set_now(now);
        udp.send_frame(env, id, send, frame)
    }

    /// Returns the next received message, without taking it. `None`: nothing has arrived, or the name is stale.
    pub fn udp_peek(&self, id: SocketId) -> Option<UdpMessage> {
        self.udp.peek(id)
    }

    /// Takes the next received message; its payload is appended to `frames` as one packet. A message without payload adds no
    /// frames.
    pub fn udp_receive(&mut self, id: SocketId, frames: &mut Burst) -> Option<UdpMessage> {
        let (udp, env) = env!(self, udp);
        udp.take(env, id, frames)
    }

    /// Joins `group` on an interface; `None`: the one of the routes.
    ///
    /// # Errors
    /// [`GroupError`]
    pub fn udp_join_group(&mut self, id: SocketId, interface: Option<u32>, group: IpAddr) -> Result<(), GroupError> {
        let (udp, env) = env!(self, udp);
        udp.join(env, id, interface, group)
    }

    /// Leaves the group. Closing leaves all groups.
    ///
    /// # Errors
    /// [`GroupError`]
    pub fn udp_leave_group(&mut self, id: SocketId, interface: Option<u32>, group: IpAddr) -> Result<(), GroupError> {
        let (udp, env) = env!(self, udp);
        udp.leave(env, id, interface, group)
    }

    /// Returns the interface of datagrams to a multicast or broadcast address, if nothing names another one.
    pub fn interface_to_many(&self, remote: IpAddr) -> Option<u32> {
        self.ip.interface_to_many(remote)
    }

    /// Returns the interface that has this address.
    pub fn interface_with(&self, ip: IpAddr) -> Option<u32> {
        self.ip.interface_with(ip)
    }

    /// Takes the pending error of a UDP socket (SO_ERROR): an ICMP error of a connected one.
    pub fn udp_error(&mut self, id: SocketId) -> Option<UdpError> {
        self.udp.take_error(id)
    }

    /// Takes the oldest report of the error queue (IP_RECVERR, MSG_ERRQUEUE).
    pub fn udp_error_report(&mut self, id: SocketId) -> Option<UdpErrorReport> {
        self.udp.take_report(id)
    }

    /// Replaces the options of a UDP socket.
    pub fn udp_set_options(&mut self, id: SocketId, options: UdpOptions) {
        self.udp.set_options(id, options);
    }

    /// Ends receiving: queued messages can still be taken, then the socket stays readable.
    pub fn udp_shutdown_read(&mut self, id: SocketId) {
        let (udp, env) = env!(self, udp);
        udp.shutdown_read(env, id);
    }

    /// Returns information on a UDP socket. `None`: the name is stale.
    pub fn udp_info(&mut self, id: SocketId) -> Option<UdpInfo> {
        let (udp, env) = env!(self, udp);
        udp.info(env, id)
    }
}
