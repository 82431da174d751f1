//! Creating and closing sockets: socket, bind, listen, accept, connect, shutdown, close, pipe.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use ringway_shm::Duration;
use ringway_stack::{AcceptError, ActiveOpen, ConnectError, ListenError, State};

use super::{Answer, Descriptor, Machine, Phase, PipeEnd, Socket, plain_address, stack_address};

impl Machine {
    /// socket(2)
    pub fn socket(&mut self, domain: i32, kind: i32, protocol: i32) -> Answer {
        let base = kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
        if !matches!(domain, libc::AF_INET | libc::AF_INET6) {
            return Answer::error(libc::EAFNOSUPPORT);
        }
        if base != libc::SOCK_STREAM || !matches!(protocol, 0 | libc::IPPROTO_TCP) {
            return Answer::error(libc::EPROTONOSUPPORT);
        }
        let socket = self.fresh(domain == libc::AF_INET6, kind & libc::SOCK_NONBLOCK != 0);
        Answer::value(i64::from(self.install_socket(socket)))
    }

    fn fresh(&self, inet6: bool, nonblocking: bool) -> Socket {
        Socket {
            phase: Phase::Fresh,
            id: None,
            bound: None,
            remote: None,
            inet6,
            nonblocking,
            error: 0,
            read_shut: false,
            write_shut: false,
            opened: false,
            reported: false,
            options: self.defaults,
            linger_s: None,
            receive_timeout: Duration::ZERO,
            send_timeout: Duration::ZERO,
            remembered: BTreeMap::new(),
            stash: VecDeque::new(),
            end_of_stream: false,
            read: 0,
            urgent_fetched: None,
            held_until: None,
            blocked: false,
            peer_closed: false,
            info: None,
        }
    }

    fn install_socket(&mut self, socket: Socket) -> i32 {
        let user_token = self.next_token;
        self.next_token += 1;
        self.sockets.insert(user_token, socket);
        self.install(Descriptor::Socket(user_token))
    }

    /// bind(2)
    pub fn bind(&mut self, fd: i32, address: SocketAddr) -> Answer {
        let local = address.ip().is_unspecified() || self.addresses.contains(&address.ip());
        let taken = self.sockets.values().any(|other| {
            let reuse = other.remembered.contains_key(&(libc::SOL_SOCKET, libc::SO_REUSEADDR)) && other.phase != Phase::Listening;
            !reuse && other.bound.is_some_and(|bound| bound.port() == address.port() && address.port() != 0)
        });
        let port = if address.port() == 0 { self.free_port() } else { address.port() };
        if !local {
            // A script names the address by option; the first bound address becomes the machine's.
            self.add_address(address.ip());
        }
        let bind = |socket: &mut Socket| match socket.bound {
            Some(_) => Err(libc::EINVAL),
            None if taken => Err(libc::EADDRINUSE),
            None => {
                socket.bound = Some(SocketAddr::new(address.ip(), port));
                Ok(0)
            }
        };
        self.socket_of(fd).and_then(bind).into()
    }

    fn free_port(&self) -> u16 {
        let used = |port: &u16| self.sockets.values().any(|socket| socket.bound.is_some_and(|bound| bound.port() == *port));
        (40_000..u16::MAX).find(|port| !used(port)).unwrap_or(0)
    }

    /// listen(2)
    pub fn listen(&mut self, fd: i32, backlog: i32) -> Answer {
        self.do_listen(fd, backlog).into()
    }

    fn do_listen(&mut self, fd: i32, backlog: i32) -> Result<i64, i32> {
        let user_token = self.user_token(fd)?;
        let port = self.free_port();
        let socket = self.sockets.get_mut(&user_token).ok_or(libc::EBADF)?;
        match socket.phase {
            Phase::Listening => return Ok(0),
            Phase::Fresh => {}
            _ => return Err(libc::EINVAL),
        }
        let any = if socket.inet6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let local = *socket.bound.get_or_insert(SocketAddr::new(any, port));
        // Linux queues one connection more than the backlog.
        let backlog = u32::try_from(backlog).unwrap_or(4_096).min(4_096).saturating_add(1);
        let id = self.stack.listen(stack_address(local), backlog, socket.options, user_token).map_err(|error| match error {
            ListenError::InUse => libc::EADDRINUSE,
            ListenError::Full => libc::ENOBUFS,
            ListenError::NotLocal => libc::EADDRNOTAVAIL,
        })?;
        socket.id = Some(id);
        socket.phase = Phase::Listening;
        self.apply_fast_open_key(fd);
        Ok(0)
    }

    pub(super) fn try_accept(&mut self, fd: i32, flags: i32) -> Option<Answer> {
        let user_token = match self.user_token(fd) {
            Ok(user_token) => user_token,
            Err(errno) => return Some(Answer::error(errno)),
        };
        let listener = self.sockets.get(&user_token).expect("a descriptor's socket lives");
        let (Phase::Listening, Some(id)) = (listener.phase, listener.id) else { return Some(Answer::error(libc::EINVAL)) };
        let (inet6, nonblocking, options) = (listener.inet6, listener.nonblocking, listener.options);
        let remembered = listener.remembered.clone();
        match self.stack.accept(id, self.next_token) {
            Ok(accepted) => {
                let mut socket = self.fresh(inet6, flags & libc::SOCK_NONBLOCK != 0);
                socket.phase = Phase::Connected;
                socket.opened = true;
                socket.id = Some(accepted);
                socket.reported = true;
                socket.options = options;
                socket.remembered = remembered;
                socket.peer_closed = self.stack.info(accepted).is_some_and(|info| info.state == State::CloseWait);
                let names = self.stack.addresses(accepted);
                socket.bound = names.map(|(local, _)| plain_address(local));
                socket.remote = names.map(|(_, remote)| plain_address(remote));
                let peer = socket.remote;
                let new = self.install_socket(socket);
                Some(Answer { value: i64::from(new), peer, ..Answer::default() })
            }
            Err(AcceptError::WouldBlock) if nonblocking => Some(Answer::error(libc::EAGAIN)),
            Err(AcceptError::WouldBlock) => None,
            Err(AcceptError::NotListening) => Some(Answer::error(libc::EINVAL)),
        }
    }

    pub(super) fn try_connect(&mut self, fd: i32, to: SocketAddr, begun: &mut bool) -> Option<Answer> {
        let user_token = match self.user_token(fd) {
            Ok(user_token) => user_token,
            Err(errno) => return Some(Answer::error(errno)),
        };
        let socket = self.sockets.get_mut(&user_token).expect("a descriptor's socket lives");
        match socket.phase {
            Phase::Fresh => {
                let answer = self.begin_connect(user_token, to, begun);
                if self.is_connect_deferred(user_token) { Some(Answer::value(0)) } else { answer }
            }
            Phase::Connecting if socket.nonblocking => Some(Answer::error(libc::EALREADY)),
            Phase::Connecting => None,
            Phase::Connected if socket.reported => Some(Answer::error(libc::EISCONN)),
            Phase::Connected => {
                socket.reported = true;
                Some(Answer::value(0))
            }
            Phase::Closed if socket.error != 0 => Some(Answer::error(std::mem::take(&mut socket.error))),
            Phase::Closed if !socket.reported => {
                socket.phase = Phase::Fresh;
                self.begin_connect(user_token, to, begun)
            }
            Phase::Listening | Phase::Closed => Some(Answer::error(libc::EISCONN)),
        }
    }

    pub(super) fn begin_connect(&mut self, user_token: u64, to: SocketAddr, begun: &mut bool) -> Option<Answer> {
        let socket = self.sockets.get_mut(&user_token).expect("the caller has found it");
        let local = socket.bound.map(stack_address);
        let open = ActiveOpen { local, remote: stack_address(to), options: socket.options, user_token };
        match self.stack.connect(self.now, open) {
            Ok(id) => {
                *begun = true;
                socket.id = Some(id);
                socket.phase = Phase::Connecting;
                socket.remote = Some(to);
                socket.bound = self.stack.addresses(id).map(|(local, _)| plain_address(local)).or(socket.bound);
                socket.nonblocking.then(|| Answer::error(libc::EINPROGRESS))
            }
            Err(error) => Some(Answer::error(match error {
                ConnectError::InUse | ConnectError::NoPort => libc::EADDRNOTAVAIL,
                ConnectError::NoRoute => libc::ENETUNREACH,
                ConnectError::Full => libc::ENOBUFS,
            })),
        }
    }

    /// connect(2) to AF_UNSPEC: aborts the connection; the socket can be used again.
    pub fn disconnect(&mut self, fd: i32) -> Answer {
        let answer = self.do_disconnect(fd).into();
        self.settle();
        answer
    }

    fn do_disconnect(&mut self, fd: i32) -> Result<i64, i32> {
        let Socket { inet6, nonblocking, .. } = *self.socket_of(fd)?;
        let anew = self.fresh(inet6, nonblocking);
        let socket = self.socket_of(fd)?;
        let (id, listening) = (socket.id.take(), socket.phase == Phase::Listening);
        let (bound, remembered) = (socket.bound.filter(|_| listening), std::mem::take(&mut socket.remembered));
        let Socket { inet6, nonblocking, options, linger_s, receive_timeout, send_timeout, .. } = *socket;
        *socket = Socket { inet6, nonblocking, options, linger_s, receive_timeout, send_timeout, bound, remembered, ..anew };
        match id {
            Some(id) if listening => self.stack.close(self.now, id),
            Some(id) => self.stack.abort(self.now, id),
            None => {}
        }
        Ok(0)
    }

    /// shutdown(2)
    pub fn shutdown(&mut self, fd: i32, how: i32) -> Answer {
        let answer = self.do_shutdown(fd, how).into();
        self.settle();
        answer
    }

    fn do_shutdown(&mut self, fd: i32, how: i32) -> Result<i64, i32> {
        let now = self.now;
        let user_token = self.user_token(fd)?;
        let socket = self.sockets.get_mut(&user_token).ok_or(libc::EBADF)?;
        if !matches!(how, libc::SHUT_RD | libc::SHUT_WR | libc::SHUT_RDWR) {
            return Err(libc::EINVAL);
        }
        let (Phase::Connected | Phase::Connecting | Phase::Listening, Some(id)) = (socket.phase, socket.id) else {
            return Err(libc::ENOTCONN);
        };
        if socket.phase == Phase::Listening {
            if how != libc::SHUT_WR {
                socket.phase = Phase::Fresh;
                socket.id = None;
                self.stack.close(now, id);
            }
            return Ok(0);
        }
        if how != libc::SHUT_WR && !std::mem::replace(&mut socket.read_shut, true) {
            self.stack.shutdown_read(now, id);
        }
        if how != libc::SHUT_RD && !std::mem::replace(&mut socket.write_shut, true) {
            self.stack.shutdown_write(now, id);
        }
        Ok(0)
    }

    /// close(2)
    pub fn close(&mut self, fd: i32) -> Answer {
        let Some(descriptor) = self.descriptors.remove(&fd) else { return Answer::error(libc::EBADF) };
        if let Descriptor::Socket(user_token) = descriptor {
            let socket = self.sockets.remove(&user_token).expect("a descriptor's socket lives");
            if let Some(id) = socket.id {
                // Bytes taken from the stack that no program has read count as unread.
                let unread = !socket.stash.is_empty();
                if unread || socket.linger_s == Some(0) && socket.phase != Phase::Listening {
                    self.stack.abort(self.now, id);
                } else {
                    self.stack.close(self.now, id);
                }
            }
        }
        self.settle();
        Answer::value(0)
    }

    /// pipe(2): returns the reading and the writing end.
    pub fn pipe(&mut self) -> (i32, i32) {
        self.pipes.push(Vec::new());
        let index = self.pipes.len() - 1;
        let reader = self.install(Descriptor::Pipe(index, PipeEnd::Read));
        (reader, self.install(Descriptor::Pipe(index, PipeEnd::Write)))
    }

    /// Returns the local and the remote address, if set.
    pub fn names(&mut self, fd: i32) -> Result<(Option<SocketAddr>, Option<SocketAddr>), i32> {
        self.socket_of(fd).map(|socket| (socket.bound, socket.remote))
    }

    /// Returns true when the socket is AF_INET6.
    pub fn is_inet6(&mut self, fd: i32) -> bool {
        self.socket_of(fd).is_ok_and(|socket| socket.inet6)
    }
}
