//! ringway_bind_udp and the calls on a datagram socket.

use std::net::{Ipv4Addr, SocketAddr};

use libc::{c_int, c_void, sockaddr, socklen_t, ssize_t};
use ringway::remote::{Session, UdpSocket};

use crate::address;
use crate::answer::{borrow, count, handle, status, take};
use crate::stream::{bytes, bytes_mut};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_bind_udp(session: *const Session, local: *const sockaddr, len: socklen_t) -> *mut UdpSocket {
    // SAFETY: as the crate says.
    let answer = unsafe { borrow(session).and_then(|session| Ok((session, address::read(local, len)?))) };
    handle(answer.and_then(|(session, local)| Ok(session.bind_udp(local)?)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_udp_address(socket: *const UdpSocket, to: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: as the crate says.
    status(unsafe { borrow(socket).and_then(|socket| address::write(socket.local_addr(), to, len)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_udp_set_nonblocking(socket: *const UdpSocket, on: c_int) -> c_int {
    // SAFETY: as the crate says.
    status(unsafe { borrow(socket) }.map(|socket| socket.set_nonblocking(on != 0)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_udp_connect(socket: *const UdpSocket, remote: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: as the crate says.
    let answer = unsafe { borrow(socket).and_then(|socket| Ok((socket, address::read(remote, len)?))) };
    status(answer.and_then(|(socket, remote)| Ok(socket.connect(remote)?)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_send_to(
    socket: *const UdpSocket,
    buffer: *const c_void,
    len: usize,
    peer: *const sockaddr,
    peer_len: socklen_t,
) -> ssize_t {
    // SAFETY: as the crate says.
    let answer = unsafe { borrow(socket).and_then(|socket| Ok((socket, bytes(buffer, len)?))) };
    count(answer.and_then(|(socket, bytes)| {
        if peer.is_null() {
            socket.send(bytes)?;
        } else {
            // SAFETY: as the crate says.
            socket.send_to(bytes, unsafe { address::read(peer, peer_len) }?)?;
        }
        Ok(bytes.len())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_recv_from(
    socket: *const UdpSocket,
    buffer: *mut c_void,
    len: usize,
    peer: *mut sockaddr,
    peer_len: *mut socklen_t,
) -> ssize_t {
    // SAFETY: as the crate says.
    let answer = unsafe { borrow(socket).and_then(|socket| Ok((socket, bytes_mut(buffer, len)?))) };
    count(answer.and_then(|(socket, bytes)| {
        let (copied, from) = socket.recv_from(bytes)?;
        let from = from.unwrap_or(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0));
        // SAFETY: as the crate says.
        unsafe { address::write(from, peer, peer_len) }.map(|()| copied)
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_udp_close(socket: *mut UdpSocket) {
    // SAFETY: as the crate says.
    drop(unsafe { take(socket) });
}
