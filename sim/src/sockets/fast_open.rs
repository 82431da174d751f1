//! Fast Open (RFC 7413) in Linux's socket calls: TCP_FASTOPEN and related options, MSG_FASTOPEN.

use std::net::SocketAddr;

use ringway_stack::FastOpenKeys;

use super::{Answer, Machine, Phase};

/// Linux: net.core.somaxconn.
const QUEUE_MAX: i32 = 4_096;

/// Reads keys from an option's bytes, or a setting's.
pub(super) fn keys(bytes: &[u8]) -> Option<FastOpenKeys> {
    match bytes.len() {
        16 => Some(FastOpenKeys { primary: *bytes.first_chunk()?, backup: None }),
        32 => Some(FastOpenKeys { primary: *bytes.first_chunk()?, backup: bytes.last_chunk().copied() }),
        _ => None,
    }
}

impl Machine {
    /// setsockopt(2) of a Fast Open option; `None`: it is another option.
    pub(super) fn set_fast_open(&mut self, fd: i32, level: i32, name: i32, value: &[u8]) -> Option<Result<i64, i32>> {
        let known = [libc::TCP_FASTOPEN, libc::TCP_FASTOPEN_CONNECT, libc::TCP_FASTOPEN_KEY, libc::TCP_FASTOPEN_NO_COOKIE];
        (level == libc::IPPROTO_TCP && known.contains(&name)).then(|| self.do_set_fast_open(fd, name, value))
    }

    fn do_set_fast_open(&mut self, fd: i32, name: i32, value: &[u8]) -> Result<i64, i32> {
        let (now, client) = (self.now, self.config.fast_open.client);
        let socket = self.socket_of(fd)?;
        let idle = matches!(socket.phase, Phase::Fresh | Phase::Listening);
        if name == libc::TCP_FASTOPEN_KEY {
            let keys = keys(value).ok_or(libc::EINVAL)?;
            socket.remembered.insert((libc::IPPROTO_TCP, name), value.to_vec());
            if let Some(id) = socket.id.filter(|_| socket.phase == Phase::Listening) {
                self.stack.set_fast_open_keys(Some(id), keys);
            }
            return Ok(0);
        }
        let number = i32::from_ne_bytes(*value.first_chunk::<4>().ok_or(libc::EINVAL)?);
        match name {
            libc::TCP_FASTOPEN if number < 0 || !idle => return Err(libc::EINVAL),
            libc::TCP_FASTOPEN => socket.options.fast_open_queue = number.min(QUEUE_MAX).cast_unsigned(),
            _ if !(0..=1).contains(&number) => return Err(libc::EINVAL),
            libc::TCP_FASTOPEN_NO_COOKIE if !idle => return Err(libc::EINVAL),
            libc::TCP_FASTOPEN_NO_COOKIE => socket.options.fast_open_without_cookie = number == 1,
            _ if !client => return Err(libc::EOPNOTSUPP),
            _ if socket.phase != Phase::Fresh => return Err(libc::EINVAL),
            _ => socket.options.fast_open = number == 1,
        }
        socket.remembered.insert((libc::IPPROTO_TCP, name), value.to_vec());
        let (id, options) = (socket.id.filter(|_| socket.phase == Phase::Listening), socket.options);
        if let Some(id) = id {
            self.stack.set_options(now, id, options);
        }
        Ok(0)
    }

    /// Returns TCP_FASTOPEN_KEY of a socket, its own or the machine's.
    pub(super) fn fast_open_key(&mut self, fd: i32) -> Result<Vec<u8>, i32> {
        let socket = self.socket_of(fd)?;
        if let Some(own) = socket.remembered.get(&(libc::IPPROTO_TCP, libc::TCP_FASTOPEN_KEY)) {
            return Ok(own.clone());
        }
        let keys = self.stack.fast_open_keys(None);
        Ok([Some(keys.primary), keys.backup].into_iter().flatten().flatten().collect())
    }

    /// Applies keys that were set before listen(2).
    pub(super) fn apply_fast_open_key(&mut self, fd: i32) {
        let Ok(socket) = self.socket_of(fd) else { return };
        let own = socket.remembered.get(&(libc::IPPROTO_TCP, libc::TCP_FASTOPEN_KEY)).and_then(|bytes| keys(bytes));
        if let (Some(id), Some(keys)) = (socket.id, own) {
            self.stack.set_fast_open_keys(Some(id), keys);
        }
    }

    /// connect(2) with TCP_FASTOPEN_CONNECT: returns true when the SYN waits for data and the call is done at once.
    pub(super) fn is_connect_deferred(&mut self, user_token: u64) -> bool {
        let Some(socket) = self.sockets.get_mut(&user_token) else { return false };
        let waits = socket.id.is_some_and(|id| self.stack.fast_open_room(id).is_some());
        if waits {
            socket.phase = Phase::Connected;
            socket.reported = true;
        }
        waits
    }

    /// Returns the number of bytes that a SYN takes, while it waits for them.
    pub(super) fn waiting_syn(&mut self, user_token: u64) -> Option<usize> {
        let id = self.sockets.get(&user_token).and_then(|socket| socket.id)?;
        self.stack.fast_open_room(id)
    }

    /// Sends the SYN with `first`; further data of the call waits for the end of the handshake.
    pub(super) fn send_with_syn(&mut self, user_token: u64, first: &[u8], done: &mut usize, flags: i32) -> Option<Answer> {
        let socket = self.sockets.get_mut(&user_token).expect("a descriptor's socket lives");
        let dont_wait = socket.nonblocking || flags & libc::MSG_DONTWAIT != 0;
        socket.phase = Phase::Connecting;
        let sent = self.push(user_token, first, done, flags);
        if first.is_empty() {
            // Without data it is an ordinary connect.
            if let Some(id) = self.sockets.get(&user_token).and_then(|socket| socket.id)
                && self.stack.send_with(id, 0, &mut |_| {}).is_err()
            {
                return Some(Answer::error(libc::EPIPE));
            }
            return dont_wait.then(|| Answer::error(libc::EINPROGRESS));
        }
        if dont_wait {
            return sent;
        }
        self.sockets.get_mut(&user_token).expect("a descriptor's socket lives").blocked = true;
        None
    }

    /// sendto(2) or sendmsg(2) with MSG_FASTOPEN: connects and sends.
    pub(super) fn try_send_fast(
        &mut self,
        fd: i32,
        (to, bytes): (Option<SocketAddr>, &[u8]),
        progress: (&mut usize, &mut bool),
        flags: i32,
    ) -> Option<Answer> {
        let (done, begun) = progress;
        let user_token = match self.user_token(fd) {
            Ok(user_token) => user_token,
            Err(errno) => return Some(Answer::error(errno)),
        };
        let flags = flags & !libc::MSG_FASTOPEN;
        if *begun {
            return self.try_send(fd, bytes, done, flags);
        }
        let socket = self.sockets.get_mut(&user_token).expect("a descriptor's socket lives");
        let Some(to) = to.filter(|_| self.config.fast_open.client) else { return Some(Answer::error(libc::EOPNOTSUPP)) };
        let waits = socket.id.is_some_and(|id| self.stack.fast_open_room(id).is_some());
        match socket.phase {
            Phase::Connected if waits => {
                *begun = true;
                return self.try_send(fd, bytes, done, flags);
            }
            Phase::Connecting => return Some(Answer::error(libc::EALREADY)),
            Phase::Connected => return Some(Answer::error(libc::EISCONN)),
            Phase::Listening => return Some(Answer::error(libc::EISCONN)),
            Phase::Fresh | Phase::Closed => {}
        }
        let dont_wait = socket.nonblocking || flags & libc::MSG_DONTWAIT != 0;
        let before = socket.options.fast_open;
        socket.options.fast_open = true;
        let refused = self.begin_connect(user_token, to, begun);
        let socket = self.sockets.get_mut(&user_token).expect("a descriptor's socket lives");
        socket.options.fast_open = before;
        let Some(id) = socket.id.filter(|_| *begun) else { return refused };
        let Some(room) = self.stack.fast_open_room(id) else {
            socket.blocked = !dont_wait;
            return dont_wait.then(|| Answer::error(libc::EINPROGRESS));
        };
        self.send_with_syn(user_token, &bytes[..room.min(bytes.len())], done, flags)
    }
}
