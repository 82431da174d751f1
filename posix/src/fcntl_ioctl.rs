//! fcntl(2) and ioctl(2) on sockets of ours. Status flags (such as O_NONBLOCK) are in the slot, which all processes
//! share, because they belong to the open file description.

use crate::Posix;
use crate::channel::{Channel, State, View};
use crate::datagram::control;
use crate::errno::{Answer, Errno};
use crate::fallback::{Fd, OnExec};
use crate::fd_table::SocketRef;
use crate::reasons::Fallback;
use ringway_shm::Instant;
use std::sync::atomic::Ordering;

/// Output of an ioctl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Nothing is written back.
    Done,
    /// This number goes to the `int` that the argument points at.
    Number(i32),
    /// These bytes go there: two 64-bit words.
    Pair([u8; 16]),
}

impl Posix {
    /// fcntl(2). `None`: the kernel's result for the descriptor is right.
    pub fn fcntl(&self, fd: Fd, socket: SocketRef, command: i32, argument: i64) -> Option<Answer<i32>> {
        let channel = self.attached()?;
        match command {
            libc::F_GETFL => Some(Ok(libc::O_RDWR | channel.status_flags(socket))),
            // fs/fcntl.c, setfl: a socket has no direct I/O.
            libc::F_SETFL if argument as i32 & libc::O_DIRECT != 0 => Some(Err(Errno::INVAL)),
            libc::F_SETFL => {
                channel.set_status_flags(socket, argument as i32);
                // The kernel socket of a datagram socket may have to go on alone.
                (!self.is_datagram(socket)).then_some(Ok(0))
            }
            libc::F_SETOWN => Some(i32::try_from(argument).map_err(|_| Errno::INVAL).and_then(|pid| {
                set_owner(channel, socket, pid)?;
                Ok(0)
            })),
            libc::F_GETOWN => Some(Ok(channel.owner(socket).cast_signed())),
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
                let minimum = Fd::try_from(argument).map_err(|_| Errno::INVAL);
                Some(
                    minimum.and_then(|minimum| self.duplicate(fd, socket, minimum, OnExec::of(command == libc::F_DUPFD_CLOEXEC))),
                )
            }
            libc::F_GETFD | libc::F_SETFD => None,
            _ => {
                // State that the kernel's socket keeps, such as a signal (F_SETSIG).
                self.note_seen(self.descriptions.of(socket));
                None
            }
        }
    }

    /// Copies the status flags of the program's kernel socket, which becomes `socket`, to it.
    pub(crate) fn take_status(&self, channel: &dyn Channel, fd: Fd, socket: SocketRef) {
        if let Ok(flags) = self.kernel.status_flags(fd) {
            channel.set_status_flags(socket, flags);
        }
    }

    /// Copies the status flags back to the program's kernel socket, which goes on without the stack's.
    pub(crate) fn give_back_status(&self, channel: &dyn Channel, fd: Fd, socket: SocketRef) {
        if self.kernel.set_status_flags(fd, channel.status_flags(socket)).is_err() {
            self.fall_back("fcntl", &fd, Fallback::NoResources);
        }
    }

    /// ioctl(2); `value` is the `int` behind the argument for requests that read one. `None`: the kernel's call.
    pub fn ioctl(&self, socket: SocketRef, request: u64, value: i32) -> Option<Answer<Control>> {
        let channel = self.attached()?;
        let view = channel.view(socket);
        let listening = view.is_some_and(|view| view.state == State::Listening);
        match request {
            libc::FIONBIO => {
                channel.set_nonblocking(socket, value != 0);
                (!self.is_datagram(socket)).then_some(Ok(Control::Done))
            }
            FIOASYNC => {
                let others = channel.status_flags(socket) & !libc::O_ASYNC;
                channel.set_status_flags(socket, if value != 0 { others | libc::O_ASYNC } else { others });
                (!self.is_datagram(socket)).then_some(Ok(Control::Done))
            }
            libc::FIONREAD | libc::TIOCOUTQ | SIOCOUTQNSD if listening => Some(Err(Errno::INVAL)),
            libc::FIONREAD if self.is_datagram(socket) => {
                channel.next_datagram(socket).map(|bytes| Ok(Control::Number(number(bytes))))
            }
            libc::FIONREAD => Some(Ok(Control::Number(number(view.map_or(0, |view| inquire(&view)))))),
            libc::TIOCOUTQ | SIOCOUTQNSD if self.is_datagram(socket) => {
                Some(Ok(Control::Number(number(channel.unacknowledged(socket)))))
            }
            libc::TIOCOUTQ => Some(Ok(Control::Number(number(self.send_queue(channel, socket).unacknowledged)))),
            SIOCOUTQNSD => Some(Ok(Control::Number(number(self.send_queue(channel, socket).not_sent)))),
            SIOCATMARK => {
                let at_mark = view.and_then(|view| view.urgent).is_some_and(|urgent| urgent.distance == 0);
                Some(Ok(Control::Number(at_mark.into())))
            }
            SIOCGSTAMP | SIOCGSTAMP_NEW | SIOCGSTAMPNS | SIOCGSTAMPNS_NEW if self.is_datagram(socket) => {
                let stamp = self.descriptions.of(socket).stamp.load(Ordering::Relaxed);
                // net/core/sock.c, sock_recv_timestamp: a program with time stamps in control data has none here.
                let known = stamp != 0 && self.ancillary(socket) & control::ANY_STAMP == 0;
                let nanos = matches!(request, SIOCGSTAMPNS | SIOCGSTAMPNS_NEW);
                let came = || control::stamp(self.on_wall_clock(Instant::from_nanos(stamp)), nanos);
                known.then(|| Ok(Control::Pair(came())))
            }
            SIOCSPGRP | FIOSETOWN => Some(set_owner(channel, socket, value).map(|()| Control::Done)),
            SIOCGPGRP | FIOGETOWN => Some(Ok(Control::Number(channel.owner(socket).cast_signed()))),
            _ => None,
        }
    }
}

/// net/ipv4/tcp.h, tcp_inq: bytes before urgent data that is not in line.
fn inquire(view: &View) -> usize {
    match view.urgent {
        Some(urgent) if !urgent.in_line && urgent.distance < view.readable => urgent.distance,
        _ => view.readable,
    }
}

/// Sets the owner; process groups (negative numbers) get no signal.
fn set_owner(channel: &dyn Channel, socket: SocketRef, pid: i32) -> Answer<()> {
    channel.set_owner(socket, u32::try_from(pid).map_err(|_| Errno::INVAL)?);
    Ok(())
}

fn number(bytes: usize) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}

/// asm-generic/ioctls.h
const FIOASYNC: u64 = 0x5452;
/// linux/sockios.h
const FIOSETOWN: u64 = 0x8901;
const SIOCSPGRP: u64 = 0x8902;
const FIOGETOWN: u64 = 0x8903;
const SIOCGPGRP: u64 = 0x8904;
const SIOCATMARK: u64 = 0x8905;
const SIOCGSTAMP: u64 = 0x8906;
const SIOCGSTAMPNS: u64 = 0x8907;
const SIOCGSTAMP_NEW: u64 = 0x8010_8906;
const SIOCGSTAMPNS_NEW: u64 = 0x8010_8907;
const SIOCOUTQNSD: u64 = 0x894b;

#[cfg(test)]
mod tests;
