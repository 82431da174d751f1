//! The system under test of a script: Linux's socket calls in virtual time.

use std::net::SocketAddr;

use ringway_shm::Instant;

use crate::sockets::{Answer, Call, Machine, Sent, Sysctl};

/// The system under test. Calls name descriptors by the numbers that `renumber` gives them.
pub trait System {
    /// Returns the time.
    fn now(&self) -> Instant;
    /// Applies changed system settings and a changed MTU.
    fn reconfigure(&mut self, mtu: u16, sysctl: &Sysctl);
    /// Delivers a packet.
    fn deliver(&mut self, packet: &[u8]);
    /// Returns the next packet sent.
    fn next_sent(&mut self) -> Option<Sent>;
    /// Advances the time to `until`; each timer on the way runs at its time.
    fn advance(&mut self, until: Instant);
    /// Advances the time to the next timer; `false`: there is none before `limit`.
    fn advance_to_timer(&mut self, limit: Instant) -> bool;
    /// Returns the time of the next timer.
    fn next_timer(&mut self) -> Option<Instant>;
    /// Begins a call. `None`: it waits; retry it after an event.
    fn begin(&mut self, call: &mut Call) -> Option<Answer>;
    /// Lets the call that waits go on. `None`: it still waits.
    fn retry(&mut self, call: &mut Call) -> Option<Answer>;
    /// Renumbers the descriptor `from` to `to`. `false`: `from` does not exist, or `to` does.
    fn renumber(&mut self, from: i32, to: i32) -> bool;
    /// socket(2)
    fn socket(&mut self, domain: i32, kind: i32, protocol: i32) -> Answer;
    /// bind(2)
    fn bind(&mut self, fd: i32, address: SocketAddr) -> Answer;
    /// listen(2)
    fn listen(&mut self, fd: i32, backlog: i32) -> Answer;
    /// connect(2) to AF_UNSPEC.
    fn disconnect(&mut self, fd: i32) -> Answer;
    /// shutdown(2)
    fn shutdown(&mut self, fd: i32, how: i32) -> Answer;
    /// close(2)
    fn close(&mut self, fd: i32) -> Answer;
    /// setsockopt(2)
    fn set_option(&mut self, fd: i32, level: i32, name: i32, value: &[u8]) -> Answer;
    /// getsockopt(2): returns the value's bytes, or errno.
    ///
    /// # Errors
    /// errno.
    fn option(&mut self, fd: i32, level: i32, name: i32) -> Result<Vec<u8>, i32>;
    /// Returns O_NONBLOCK of the descriptor.
    ///
    /// # Errors
    /// errno.
    fn nonblocking(&mut self, fd: i32) -> Result<bool, i32>;
    /// Sets O_NONBLOCK.
    fn set_nonblocking(&mut self, fd: i32, on: bool) -> Answer;
    /// ioctl(2) of a request that returns a number.
    fn control(&mut self, fd: i32, request: u64) -> Answer;
    /// pipe(2): returns the reading and the writing end.
    fn pipe(&mut self) -> (i32, i32);
    /// epoll_create(2)
    fn epoll_create(&mut self) -> Answer;
    /// epoll_ctl(2)
    fn epoll_control(&mut self, epoll: i32, operation: i32, fd: i32, event: libc::epoll_event) -> Answer;
    /// Returns TCP_CM_INQ of a socket with TCP_INQ.
    fn inq(&mut self, fd: i32) -> Option<i32>;
    /// Returns the bytes of TCP_INFO; none for a descriptor that is not a socket.
    fn info(&mut self, fd: i32) -> Vec<u8>;
}

impl System for Machine {
    fn now(&self) -> Instant {
        Machine::now(self)
    }
    fn reconfigure(&mut self, mtu: u16, sysctl: &Sysctl) {
        Machine::reconfigure(self, mtu, sysctl);
    }
    fn deliver(&mut self, packet: &[u8]) {
        Machine::deliver(self, packet);
    }
    fn next_sent(&mut self) -> Option<Sent> {
        Machine::next_sent(self)
    }
    fn advance(&mut self, until: Instant) {
        Machine::advance(self, until);
    }
    fn advance_to_timer(&mut self, limit: Instant) -> bool {
        Machine::advance_to_timer(self, limit)
    }
    fn next_timer(&mut self) -> Option<Instant> {
        Machine::next_timer(self)
    }
    fn begin(&mut self, call: &mut Call) -> Option<Answer> {
        self.attempt(call)
    }
    fn retry(&mut self, call: &mut Call) -> Option<Answer> {
        self.attempt(call)
    }
    fn renumber(&mut self, from: i32, to: i32) -> bool {
        Machine::renumber(self, from, to)
    }
    fn socket(&mut self, domain: i32, kind: i32, protocol: i32) -> Answer {
        Machine::socket(self, domain, kind, protocol)
    }
    fn bind(&mut self, fd: i32, address: SocketAddr) -> Answer {
        Machine::bind(self, fd, address)
    }
    fn listen(&mut self, fd: i32, backlog: i32) -> Answer {
        Machine::listen(self, fd, backlog)
    }
    fn disconnect(&mut self, fd: i32) -> Answer {
        Machine::disconnect(self, fd)
    }
    fn shutdown(&mut self, fd: i32, how: i32) -> Answer {
        Machine::shutdown(self, fd, how)
    }
    fn close(&mut self, fd: i32) -> Answer {
        Machine::close(self, fd)
    }
    fn set_option(&mut self, fd: i32, level: i32, name: i32, value: &[u8]) -> Answer {
        Machine::set_option(self, fd, level, name, value)
    }
    fn option(&mut self, fd: i32, level: i32, name: i32) -> Result<Vec<u8>, i32> {
        Machine::option(self, fd, level, name)
    }
    fn nonblocking(&mut self, fd: i32) -> Result<bool, i32> {
        Machine::nonblocking(self, fd)
    }
    fn set_nonblocking(&mut self, fd: i32, on: bool) -> Answer {
        Machine::set_nonblocking(self, fd, on)
    }
    fn control(&mut self, fd: i32, request: u64) -> Answer {
        match request {
            libc::FIONREAD => self.readable_bytes(fd),
            libc::TIOCOUTQ => self.queued_bytes(fd),
            SIOCATMARK => self.is_at_mark(fd),
            _ => Answer::error(libc::EINVAL),
        }
    }
    fn pipe(&mut self) -> (i32, i32) {
        Machine::pipe(self)
    }
    fn epoll_create(&mut self) -> Answer {
        Machine::epoll_create(self)
    }
    fn epoll_control(&mut self, epoll: i32, operation: i32, fd: i32, event: libc::epoll_event) -> Answer {
        Machine::epoll_control(self, epoll, operation, fd, event)
    }
    fn inq(&mut self, fd: i32) -> Option<i32> {
        Machine::inq(self, fd)
    }
    fn info(&mut self, fd: i32) -> Vec<u8> {
        Machine::option(self, fd, libc::IPPROTO_TCP, libc::TCP_INFO).unwrap_or_default()
    }
}

/// linux/sockios.h
const SIOCATMARK: u64 = 0x8905;
