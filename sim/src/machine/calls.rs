//! Calls of the program: libc's functions as `preload` carries them out, around `posix` and the machine's kernel.

use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;

use ringway_posix::fallback::{Fd, Kernel};
use ringway_posix::fd_table::{Descriptor, SocketRef};
use ringway_posix::{Control, Errno, Posix, Receive, Send};
use ringway_shm::Duration;

use super::call::{Answer, Call, Progress, Waiting};
use super::kernel::SimKernel;
use super::program::Job;
use super::{Machine, names};

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
    /// Sets the source of new descriptors' numbers. `None` of the source: EMFILE.
    pub fn number_by(&mut self, next_number: fn() -> Option<i32>) {
        self.next_number = Some(next_number);
    }

    /// Begins a call.
    pub fn begin(&mut self, call: Call) -> Progress {
        let makes_descriptor = matches!(call, Call::Accept { .. });
        let job = self.job(call);
        let thread = self.program.begin(job);
        self.go_on(Waiting { thread, makes_descriptor })
    }

    /// Lets a call that waits go on.
    pub fn go_on(&mut self, waiting: Waiting) -> Progress {
        match self.run(waiting.thread) {
            Some(answer) if waiting.makes_descriptor => Progress::Done(self.name(answer)),
            Some(answer) => Progress::Done(answer),
            None => Progress::Waits(waiting),
        }
    }

    /// Returns the descriptor that the caller names by `fd`; one that is not open if there is none.
    fn fd(&self, fd: i32) -> Fd {
        self.numbers.get(&fd).copied().unwrap_or(CLOSED)
    }

    /// Gives the caller's number to a new descriptor.
    fn name(&mut self, answer: Answer) -> Answer {
        if answer.errno != 0 {
            return answer;
        }
        let fd = answer.value as i32;
        // The caller may have given this number to another descriptor (`renumber`).
        let free = || (fd..).find(|number| !self.numbers.contains_key(number));
        match self.next_number.map_or_else(free, |next_number| next_number()) {
            Some(number) => {
                self.numbers.insert(number, fd);
                Answer { value: number.into(), ..answer }
            }
            None => {
                self.call(move |posix, kernel| close(posix, kernel, fd));
                Answer::error(libc::EMFILE)
            }
        }
    }

    /// Makes a call that returns at once.
    fn call(&mut self, job: impl FnOnce(&Posix, &SimKernel) -> Answer + std::marker::Send + 'static) -> Answer {
        let kernel = self.kernel.clone();
        let thread = self.program.begin(Box::new(move |posix| job(posix, &kernel)));
        self.run(thread).unwrap_or_else(|| Answer::error(libc::EDEADLK))
    }

    /// Returns what a thread of the program does for a call that may wait.
    fn job(&mut self, call: Call) -> Job {
        let kernel = self.kernel.clone();
        match call {
            Call::Accept { fd, flags } => {
                let fd = self.fd(fd);
                Box::new(move |posix| accept(posix, &kernel, fd, flags))
            }
            Call::Connect { fd, to } => {
                let fd = self.fd(fd);
                Box::new(move |posix| connect(posix, &kernel, fd, Some(to)))
            }
            Call::Receive { fd, count, flags } => {
                let fd = self.fd(fd);
                Box::new(move |posix| receive(posix, &kernel, fd, count, flags))
            }
            Call::Send { fd, bytes, flags } => {
                let fd = self.fd(fd);
                Box::new(move |posix| send(posix, &kernel, fd, &bytes, flags))
            }
            Call::SendFast { fd, to, bytes, flags } => {
                let fd = self.fd(fd);
                Box::new(move |posix| send_fast(posix, fd, &name_of(&kernel, fd, to), &bytes, flags))
            }
            Call::Poll { set, timeout } => {
                let set = set.iter().map(|(fd, events)| (if *fd < 0 { -1 } else { self.fd(*fd) }, *events)).collect();
                Box::new(move |posix| poll(posix, &kernel, set, timeout))
            }
            Call::Splice { from, to, count, flags } => {
                let ends = (self.fd(from), self.fd(to));
                Box::new(move |posix| splice(posix, &kernel, ends, count, flags))
            }
            Call::Close { fd } => {
                let fd = self.numbers.remove(&fd).unwrap_or(CLOSED);
                Box::new(move |posix| close(posix, &kernel, fd))
            }
            Call::EpollWait { fd, count, timeout } => {
                let fd = self.fd(fd);
                Box::new(move |posix| epoll_wait(posix, &kernel, fd, count, timeout))
            }
        }
    }

    /// Renumbers the descriptor `from` to `to`. `false`: `from` does not exist, or `to` does.
    pub fn renumber(&mut self, from: i32, to: i32) -> bool {
        if self.numbers.contains_key(&to) {
            return from == to;
        }
        let Some(fd) = self.numbers.remove(&from) else { return false };
        self.numbers.insert(to, fd);
        true
    }

    /// socket(2)
    pub fn socket(&mut self, domain: i32, kind: i32, protocol: i32) -> Answer {
        let answer = self.call(move |_, kernel| number(kernel.socket(domain, kind, protocol)));
        let answer = self.name(answer);
        if answer.errno == 0 && self.not_sent_low_water > 0 {
            let low_water = self.not_sent_low_water.to_ne_bytes();
            self.set_option(answer.value as i32, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &low_water);
        }
        answer
    }

    /// bind(2)
    pub fn bind(&mut self, fd: i32, address: SocketAddr) -> Answer {
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

    /// Returns true for a socket of AF_INET6.
    pub fn is_inet6(&self, fd: i32) -> bool {
        is_inet6(&self.kernel, self.fd(fd))
    }

    /// listen(2)
    pub fn listen(&mut self, fd: i32, backlog: i32) -> Answer {
        let fd = self.fd(fd);
        self.call(move |posix, kernel| status(posix.listen(fd, backlog).unwrap_or_else(|| kernel.listen(fd, backlog))))
    }

    /// connect(2) to AF_UNSPEC.
    pub fn disconnect(&mut self, fd: i32) -> Answer {
        let fd = self.fd(fd);
        self.call(move |posix, kernel| connect(posix, kernel, fd, None))
    }

    /// shutdown(2)
    pub fn shutdown(&mut self, fd: i32, how: i32) -> Answer {
        let fd = self.fd(fd);
        self.call(move |posix, kernel| {
            status(match posix.table().socket(fd) {
                Some(socket) => posix.shutdown(fd, socket, how),
                None => kernel.shutdown(fd, how),
            })
        })
    }

    /// setsockopt(2)
    pub fn set_option(&mut self, fd: i32, level: i32, name: i32, value: &[u8]) -> Answer {
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

    /// getsockopt(2): returns the value's bytes.
    ///
    /// # Errors
    /// errno.
    pub fn option(&mut self, fd: i32, level: i32, name: i32) -> Result<Vec<u8>, i32> {
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

    /// Returns O_NONBLOCK of the descriptor.
    ///
    /// # Errors
    /// errno.
    pub fn nonblocking(&mut self, fd: i32) -> Result<bool, i32> {
        let fd = self.fd(fd);
        let answer = self.call(move |posix, kernel| {
            let known = posix.table().socket(fd).and_then(|socket| posix.fcntl(fd, socket, libc::F_GETFL, 0));
            number(known.unwrap_or_else(|| kernel.status_flags(fd)))
        });
        if answer.errno == 0 { Ok(answer.value as i32 & libc::O_NONBLOCK != 0) } else { Err(answer.errno) }
    }

    /// Sets O_NONBLOCK.
    pub fn set_nonblocking(&mut self, fd: i32, on: bool) -> Answer {
        let (fd, flags) = (self.fd(fd), if on { libc::O_NONBLOCK } else { 0 });
        self.call(move |posix, kernel| {
            let known = posix.table().socket(fd).and_then(|socket| posix.fcntl(fd, socket, libc::F_SETFL, flags.into()));
            number(known.unwrap_or_else(|| kernel.set_status_flags(fd, flags).map(|()| 0)))
        })
    }

    /// ioctl(2) of a request that returns a number.
    pub fn control(&mut self, fd: i32, request: u64) -> Answer {
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

    /// pipe(2): returns the reading and the writing end.
    ///
    /// # Errors
    /// errno.
    pub fn pipe(&mut self) -> Result<(i32, i32), i32> {
        let (reader, writer) = self.kernel.pipe().map_err(|error| error.0)?;
        let ends = [reader, writer].map(|fd| self.name(Answer::value(fd.into())));
        if let Some(failed) = ends.iter().find(|end| end.errno != 0) {
            // The other end has its own number.
            let left = ends.iter().filter(|end| end.errno == 0).map(|end| end.value as i32);
            left.for_each(|fd| drop(self.begin(Call::Close { fd })));
            return Err(failed.errno);
        }
        Ok((ends[0].value as i32, ends[1].value as i32))
    }

    /// epoll_create(2)
    pub fn epoll_create(&mut self) -> Answer {
        let answer = self.call(move |posix, kernel| {
            let answer = kernel.epoll_create(libc::EPOLL_CLOEXEC);
            answer.iter().for_each(|fd| posix.epoll_created(*fd));
            number(answer)
        });
        self.name(answer)
    }

    /// epoll_ctl(2)
    pub fn epoll_control(&mut self, epoll: i32, operation: i32, fd: i32, event: libc::epoll_event) -> Answer {
        let (epoll, fd) = (self.fd(epoll), self.fd(fd));
        self.call(move |posix, kernel| {
            let answer = posix.epoll_control(epoll, operation, fd, Some(event));
            status(answer.unwrap_or_else(|| kernel.epoll_control(epoll, operation, fd, Some(event))))
        })
    }

    /// Returns the bytes of TCP_INFO; none for a descriptor that is not a socket.
    pub fn info(&mut self, fd: i32) -> Vec<u8> {
        self.option(fd, libc::IPPROTO_TCP, libc::TCP_INFO).unwrap_or_default()
    }
}

fn close(posix: &Posix, kernel: &SimKernel, fd: Fd) -> Answer {
    status(posix.close(fd).unwrap_or_else(|| kernel.close(fd)))
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
        None if flags & libc::MSG_OOB != 0 && kernel.is_socket(fd) => Err(Errno::INVAL),
        None => kernel.read(fd, &mut [IoSliceMut::new(&mut bytes)]),
    };
    bytes.truncate(*answer.as_ref().unwrap_or(&0));
    let inq = posix.table().socket(fd).filter(|_| answer.is_ok()).and_then(|socket| inq(posix, socket));
    Answer { bytes, inq, ..size(answer) }
}

/// Returns TCP_CM_INQ of a socket with TCP_INQ.
fn inq(posix: &Posix, socket: SocketRef) -> Option<i32> {
    // One item: header, number, padding.
    posix.describe_stream(socket, CONTROL_BYTES).0.get(16..)?.first_chunk().map(|left| i32::from_ne_bytes(*left))
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
        _ if kernel.is_socket(from) => Err(Errno::NOTCONN),
        _ if kernel.is_socket(to) => Err(Errno::PIPE),
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

/// No descriptor has this number; it is not negative, because poll(2) leaves negative ones out.
const CLOSED: Fd = Fd::MAX;
/// Bytes that a program has for control data.
const CONTROL_BYTES: usize = 64;
/// Bytes of the longest option.
const OPTION_MAX: usize = 512;
