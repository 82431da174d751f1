//! Calls of the program: libc's functions as `preload` carries them out, around `posix` and the machine's kernel.

use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;

use ringway_posix::fallback::{Fd, Kernel};
use ringway_posix::fd_table::{Descriptor, SocketRef};
use ringway_posix::{Control, Errno, Posix, Receive, Send};
use ringway_shm::{Duration, Instant};

use super::kernel::SimKernel;
use super::{Machine, names};
use crate::script::System;
use crate::sockets::{Answer, Call, Sent, Sysctl};

type Reply<T> = ringway_posix::Answer<T>;

fn status(answer: Reply<()>) -> Answer {
    size(answer.map(|()| 0))
}

fn size(answer: Reply<usize>) -> Answer {
    answer.map_or_else(|error| Answer::error(error.0), |value| Answer::value(value as i64))
}

fn number(answer: Reply<i32>) -> Answer {
    answer.map_or_else(|error| Answer::error(error.0), |value| Answer::value(value.into()))
}

impl Machine {
    /// Returns the descriptor that the caller names by `fd`; one that is not open if there is none.
    fn fd(&self, fd: i32) -> Fd {
        self.numbers.get(&fd).copied().unwrap_or(CLOSED)
    }

    /// Gives the caller a new descriptor under its own number.
    fn name(&mut self, answer: Option<Answer>) -> Option<Answer> {
        if let Some(fd) = answer.as_ref().filter(|answer| answer.errno == 0).map(|answer| answer.value as i32) {
            self.numbers.insert(fd, fd);
        }
        answer
    }

    /// Makes a call that is expected to return at once.
    fn call(&mut self, job: impl FnOnce(&Posix, &SimKernel) -> Answer + std::marker::Send + 'static) -> Answer {
        let kernel = self.kernel.clone();
        let answer = self.begin(Box::new(move |posix| job(posix, &kernel)));
        answer.unwrap_or_else(|| Answer::error(libc::EDEADLK))
    }

    /// Begins a call that may wait.
    fn start(&mut self, call: &Call) -> Option<Answer> {
        let kernel = self.kernel.clone();
        let left = |deadline: Option<Instant>| deadline.map(|deadline| deadline.since(self.now));
        match call.clone() {
            Call::Accept { fd, flags } => {
                let fd = self.fd(fd);
                let answer = self.begin(Box::new(move |posix| accept(posix, &kernel, fd, flags)));
                self.name(answer)
            }
            Call::Connect { fd, to, .. } => {
                let fd = self.fd(fd);
                self.begin(Box::new(move |posix| connect(posix, &kernel, fd, Some(to))))
            }
            Call::Receive { fd, count, flags } => {
                let fd = self.fd(fd);
                self.begin(Box::new(move |posix| receive(posix, &kernel, fd, count, flags)))
            }
            Call::Send { fd, bytes, flags, .. } => {
                let fd = self.fd(fd);
                self.begin(Box::new(move |posix| send(posix, &kernel, fd, &bytes, flags)))
            }
            Call::SendFast { fd, to, bytes, flags, .. } => {
                let fd = self.fd(fd);
                self.begin(Box::new(move |posix| send_fast(posix, fd, &name_of(&kernel, fd, to), &bytes, flags)))
            }
            Call::Poll { set, deadline } => {
                let set = set.iter().map(|(fd, events)| (if *fd < 0 { -1 } else { self.fd(*fd) }, *events)).collect();
                let left = left(deadline);
                self.begin(Box::new(move |posix| poll(posix, &kernel, set, left)))
            }
            Call::Splice { from, to, count, flags } => {
                let (from, to) = (self.fd(from), self.fd(to));
                self.begin(Box::new(move |posix| splice(posix, &kernel, (from, to), count, flags)))
            }
            Call::EpollWait { fd, count, deadline } => {
                let (fd, left) = (self.fd(fd), left(deadline));
                self.begin(Box::new(move |posix| epoll_wait(posix, &kernel, fd, count, left)))
            }
        }
    }
}

impl System for Machine {
    fn now(&self) -> Instant {
        self.now
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
        self.start(call)
    }

    fn retry(&mut self, call: &mut Call) -> Option<Answer> {
        let answer = self.go_on();
        if matches!(call, Call::Accept { .. }) { self.name(answer) } else { answer }
    }

    fn renumber(&mut self, from: i32, to: i32) -> bool {
        if self.numbers.contains_key(&to) {
            return from == to;
        }
        let Some(fd) = self.numbers.remove(&from) else { return false };
        self.numbers.insert(to, fd);
        true
    }

    fn socket(&mut self, domain: i32, kind: i32, protocol: i32) -> Answer {
        let answer = self.call(move |_, kernel| number(kernel.socket(domain, kind, protocol)));
        self.name(Some(answer)).unwrap_or_default()
    }

    fn bind(&mut self, fd: i32, address: SocketAddr) -> Answer {
        if !address.ip().is_unspecified() && !self.addresses.contains(&address.ip()) {
            // A script names the address by option; the first bound address becomes the machine's.
            self.add_address(address.ip());
        }
        let fd = self.fd(fd);
        self.call(move |posix, kernel| {
            if posix.table().socket(fd).is_some() {
                return Answer::error(libc::EINVAL);
            }
            let name = names::raw(address, is_inet6(kernel, fd));
            let bound = match kernel.bind(fd, name.as_slice()) {
                Err(Errno::ADDRINUSE) if posix.settle_ports() => kernel.bind(fd, name.as_slice()),
                answer => answer,
            };
            status(bound.and_then(|()| posix.bound(fd, name.as_slice())))
        })
    }

    fn listen(&mut self, fd: i32, backlog: i32) -> Answer {
        let fd = self.fd(fd);
        self.call(move |posix, kernel| status(posix.listen(fd, backlog).unwrap_or_else(|| kernel.listen(fd, backlog))))
    }

    fn disconnect(&mut self, fd: i32) -> Answer {
        let fd = self.fd(fd);
        self.call(move |posix, kernel| connect(posix, kernel, fd, None))
    }

    fn shutdown(&mut self, fd: i32, how: i32) -> Answer {
        let fd = self.fd(fd);
        self.call(move |posix, kernel| {
            status(match posix.table().socket(fd) {
                Some(socket) => posix.shutdown(fd, socket, how),
                None => kernel.shutdown(fd, how),
            })
        })
    }

    fn close(&mut self, fd: i32) -> Answer {
        let Some(fd) = self.numbers.remove(&fd) else { return Answer::error(libc::EBADF) };
        self.call(move |posix, kernel| status(posix.close(fd).unwrap_or_else(|| kernel.close(fd))))
    }

    fn set_option(&mut self, fd: i32, level: i32, name: i32, value: &[u8]) -> Answer {
        let (fd, value) = (self.fd(fd), value.to_vec());
        self.call(move |posix, kernel| {
            if let Some(socket) = posix.table().socket(fd) {
                return status(posix.set_option(Descriptor { fd, socket }, level, name, &value));
            }
            let answer = kernel.set_option(fd, level, name, &value);
            if answer.is_ok() {
                posix.note_option(fd, level, name, &value);
            }
            status(answer)
        })
    }

    fn option(&mut self, fd: i32, level: i32, name: i32) -> Result<Vec<u8>, i32> {
        let fd = self.fd(fd);
        let answer = self.call(move |posix, kernel| {
            let mut bytes = vec![0; OPTION_MAX];
            let answer = match posix.table().socket(fd) {
                Some(socket) => posix.option(Descriptor { fd, socket }, level, name, &mut bytes),
                None => kernel.option(fd, level, name, &mut bytes),
            };
            bytes.truncate(*answer.as_ref().unwrap_or(&0));
            Answer { bytes, ..size(answer) }
        });
        if answer.errno == 0 { Ok(answer.bytes) } else { Err(answer.errno) }
    }

    fn nonblocking(&mut self, fd: i32) -> Result<bool, i32> {
        let fd = self.fd(fd);
        let answer = self.call(move |posix, kernel| {
            let known = posix.table().socket(fd).and_then(|socket| posix.fcntl(fd, socket, libc::F_GETFL, 0));
            number(known.unwrap_or_else(|| kernel.status_flags(fd)))
        });
        if answer.errno == 0 { Ok(answer.value as i32 & libc::O_NONBLOCK != 0) } else { Err(answer.errno) }
    }

    fn set_nonblocking(&mut self, fd: i32, on: bool) -> Answer {
        let (fd, flags) = (self.fd(fd), if on { libc::O_NONBLOCK } else { 0 });
        self.call(move |posix, kernel| {
            let known = posix.table().socket(fd).and_then(|socket| posix.fcntl(fd, socket, libc::F_SETFL, flags.into()));
            number(known.unwrap_or_else(|| kernel.set_status_flags(fd, flags).map(|()| 0)))
        })
    }

    fn control(&mut self, fd: i32, request: u64) -> Answer {
        let fd = self.fd(fd);
        self.call(move |posix, kernel| match posix.table().socket(fd) {
            None if kernel.is_open(fd) => Answer::value(0),
            None => Answer::error(libc::EBADF),
            Some(socket) => match posix.ioctl(socket, request, 0) {
                Some(Ok(Control::Number(value))) => Answer::value(value.into()),
                Some(Ok(_)) => Answer::value(0),
                Some(Err(error)) => Answer::error(error.0),
                None => Answer::error(libc::EINVAL),
            },
        })
    }

    fn pipe(&mut self) -> (i32, i32) {
        let ends = self.kernel.pipe().unwrap_or((CLOSED, CLOSED));
        self.numbers.extend([(ends.0, ends.0), (ends.1, ends.1)]);
        ends
    }

    fn epoll_create(&mut self) -> Answer {
        let answer = self.call(move |posix, kernel| {
            let answer = kernel.epoll_create(libc::EPOLL_CLOEXEC);
            answer.iter().for_each(|fd| posix.epoll_created(*fd));
            number(answer)
        });
        self.name(Some(answer)).unwrap_or_default()
    }

    fn epoll_control(&mut self, epoll: i32, operation: i32, fd: i32, event: libc::epoll_event) -> Answer {
        let (epoll, fd) = (self.fd(epoll), self.fd(fd));
        self.call(move |posix, kernel| {
            let answer = posix.epoll_control(epoll, operation, fd, Some(event));
            status(answer.unwrap_or_else(|| kernel.epoll_control(epoll, operation, fd, Some(event))))
        })
    }

    fn inq(&mut self, fd: i32) -> Option<i32> {
        let fd = self.fd(fd);
        let answer = self.call(move |posix, _| match posix.table().socket(fd) {
            Some(socket) => Answer { bytes: posix.describe_stream(socket, CONTROL_BYTES).0, ..Answer::default() },
            None => Answer::default(),
        });
        // One item: header, number, padding.
        answer.bytes.get(16..)?.first_chunk().map(|left| i32::from_ne_bytes(*left))
    }

    fn info(&mut self, fd: i32) -> Vec<u8> {
        System::option(self, fd, libc::IPPROTO_TCP, libc::TCP_INFO).unwrap_or_default()
    }
}

fn is_inet6(kernel: &SimKernel, fd: Fd) -> bool {
    kernel.local_address(fd).is_ok_and(|name| name.len > 16)
}

fn accept(posix: &Posix, kernel: &SimKernel, fd: Fd, flags: i32) -> Answer {
    let accepted = match posix.table().socket(fd) {
        Some(socket) => posix.accept(fd, socket, flags),
        None => kernel.accept4(fd, flags),
    };
    match accepted {
        Ok((new, peer)) => Answer { peer: names::parse(peer.as_slice()), ..Answer::value(new.into()) },
        Err(error) => Answer::error(error.0),
    }
}

/// connect(2); `None`: to AF_UNSPEC.
fn connect(posix: &Posix, kernel: &SimKernel, fd: Fd, to: Option<SocketAddr>) -> Answer {
    let name = name_of(kernel, fd, to);
    status(posix.connect(fd, &name).unwrap_or_else(|| match to {
        Some(_) => kernel.connect(fd, &name),
        // net/ipv4/af_inet.c, __inet_stream_connect: a fresh socket has nothing to dissolve.
        None => kernel.local_address(fd).map(drop),
    }))
}

/// Returns the bytes of a `sockaddr`; `None`: of AF_UNSPEC.
fn name_of(kernel: &SimKernel, fd: Fd, to: Option<SocketAddr>) -> Vec<u8> {
    match to {
        Some(to) => names::raw(to, is_inet6(kernel, fd)).as_slice().to_vec(),
        None => vec![0; 16],
    }
}

fn receive(posix: &Posix, kernel: &SimKernel, fd: Fd, count: usize, flags: i32) -> Answer {
    let mut bytes = vec![0; count];
    let how = Receive::from_flags(flags);
    let answer = match posix.table().socket(fd) {
        Some(socket) if how.discard => posix.discard(socket, count, how),
        Some(socket) => posix.receive(socket, &mut [IoSliceMut::new(&mut bytes)], how),
        None if flags & libc::MSG_ERRQUEUE != 0 && kernel.is_socket(fd) => Err(Errno::AGAIN),
        None => kernel.read(fd, &mut [IoSliceMut::new(&mut bytes)]),
    };
    bytes.truncate(*answer.as_ref().unwrap_or(&0));
    Answer { bytes, ..size(answer) }
}

fn send(posix: &Posix, kernel: &SimKernel, fd: Fd, bytes: &[u8], flags: i32) -> Answer {
    size(match posix.table().socket(fd) {
        Some(socket) => posix.send(socket, &[IoSlice::new(bytes)], Send::from_flags(flags)),
        None => kernel.write(fd, &[IoSlice::new(bytes)]),
    })
}

/// sendto(2) or sendmsg(2) with MSG_FASTOPEN.
fn send_fast(posix: &Posix, fd: Fd, name: &[u8], bytes: &[u8], flags: i32) -> Answer {
    let how = Send::from_flags(flags);
    let pieces = [IoSlice::new(bytes)];
    size(match posix.table().socket(fd) {
        // As in `preload`: a socket of the stack has begun its connection.
        Some(socket) => posix.send(socket, &pieces, how),
        None => posix.send_fast(fd, name, &pieces, how).unwrap_or(Err(Errno(libc::EOPNOTSUPP))),
    })
}

fn poll(posix: &Posix, kernel: &SimKernel, set: Vec<(Fd, i16)>, timeout: Option<Duration>) -> Answer {
    let entry = |(fd, events): &(Fd, i16)| libc::pollfd { fd: *fd, events: *events, revents: 0 };
    let mut set: Vec<libc::pollfd> = set.iter().map(entry).collect();
    let answer = posix.poll(&mut set, timeout, None).unwrap_or_else(|| kernel.poll(&mut set, timeout, None));
    Answer { reported: set.iter().map(|entry| entry.revents).collect(), ..size(answer) }
}

fn splice(posix: &Posix, kernel: &SimKernel, (from, to): (Fd, Fd), count: usize, flags: u32) -> Answer {
    let dont_wait = flags & libc::SPLICE_F_NONBLOCK != 0;
    let of = |fd: Fd| -> Option<SocketRef> { posix.table().socket(fd) };
    size(match (of(from), of(to)) {
        (None, Some(socket)) => posix.splice_out(Descriptor { fd: to, socket }, from, count, dont_wait),
        (Some(socket), None) => posix.splice_in(Descriptor { fd: from, socket }, to, count, dont_wait),
        _ if !kernel.is_open(from) || !kernel.is_open(to) => Err(Errno::BADF),
        _ => Err(Errno::INVAL),
    })
}

fn epoll_wait(posix: &Posix, kernel: &SimKernel, fd: Fd, count: usize, timeout: Option<Duration>) -> Answer {
    let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; count];
    let answer = posix.epoll_wait(fd, &mut events, timeout, None);
    let answer = answer.unwrap_or_else(|| kernel.epoll_wait(fd, &mut events, timeout, None));
    events.truncate(*answer.as_ref().unwrap_or(&0));
    Answer { events: events.iter().map(|event| (event.events, event.u64)).collect(), ..size(answer) }
}

/// No descriptor has this number.
const CLOSED: Fd = -1;
/// Bytes that a program has for control data.
const CONTROL_BYTES: usize = 64;
/// Bytes of the longest option.
const OPTION_MAX: usize = 512;
