//! Bytes: send, receive, splice, and the ioctls that count them.

use ringway_shm::Duration;
use ringway_stack::{ReceiveError, SendError, TcpOptions};

use super::{Answer, Descriptor, Machine, Phase, PipeEnd, append};

impl Machine {
    pub(super) fn try_receive(&mut self, fd: i32, count: usize, flags: i32) -> Option<Answer> {
        if let Some(Descriptor::Pipe(index, end)) = self.descriptors.get(&fd) {
            return if *end == PipeEnd::Write {
                Some(Answer::error(libc::EBADF))
            } else {
                Some(self.take_from_pipe(*index, count))
            };
        }
        let user_token = match self.user_token(fd) {
            Ok(user_token) => user_token,
            Err(errno) => return Some(Answer::error(errno)),
        };
        if flags & libc::MSG_ERRQUEUE != 0 {
            // Nothing is ever queued on such a socket.
            return Some(Answer::error(libc::EAGAIN));
        }
        if flags & libc::MSG_OOB != 0 {
            return Some(self.receive_urgent(user_token, count, flags));
        }
        self.fill_stash(user_token, count);
        let socket = self.sockets.get_mut(&user_token).expect("a descriptor's socket lives");
        if matches!(socket.phase, Phase::Fresh | Phase::Listening) {
            return Some(Answer::error(libc::ENOTCONN));
        }
        let wanted = if flags & libc::MSG_WAITALL != 0 && !socket.end_of_stream { count } else { count.min(1) };
        let (hole, limit) = self.approach_mark(user_token, count);
        if hole > 0 && flags & libc::MSG_PEEK == 0 {
            self.step_over(user_token);
        }
        let socket = self.sockets.get_mut(&user_token).expect("a descriptor's socket lives");
        let count = count.min(limit);
        let wanted = wanted.min(limit);
        if socket.stash.len() >= wanted.max(1) || (count == 0 && !socket.stash.is_empty()) {
            return Some(self.take(user_token, count, flags));
        }
        if socket.error != 0 && !socket.end_of_stream {
            return Some(Answer::error(std::mem::take(&mut socket.error)));
        }
        let over = socket.end_of_stream || socket.read_shut || socket.phase == Phase::Closed;
        if over {
            return Some(self.take(user_token, count, flags));
        }
        let dont_wait = socket.nonblocking || flags & libc::MSG_DONTWAIT != 0;
        dont_wait.then(|| Answer::error(libc::EAGAIN))
    }

    /// Takes frames from the stack until `count` bytes are in the stash.
    fn fill_stash(&mut self, user_token: u64, count: usize) {
        let socket = self.sockets.get_mut(&user_token).expect("the caller has found it");
        let Some(id) = socket.id.filter(|_| socket.phase != Phase::Listening) else { return };
        while socket.stash.len() < count.max(1) {
            match self.stack.take_frame(id) {
                Ok(frame) => append(&mut socket.stash, &frame),
                Err(ReceiveError::EndOfStream) => {
                    socket.end_of_stream = true;
                    return;
                }
                Err(ReceiveError::WouldBlock | ReceiveError::NotConnected | ReceiveError::Failed(_)) => return,
            }
        }
    }

    fn take(&mut self, user_token: u64, count: usize, flags: i32) -> Answer {
        let socket = self.sockets.get_mut(&user_token).expect("the caller has found it");
        let count = count.min(socket.stash.len());
        let bytes: Vec<u8> = if flags & libc::MSG_PEEK != 0 {
            socket.stash.iter().take(count).copied().collect()
        } else {
            socket.stash.drain(..count).collect()
        };
        if flags & libc::MSG_PEEK == 0 {
            socket.read = socket.read.wrapping_add(count as u32);
        }
        if let Some(id) = socket.id.filter(|_| flags & libc::MSG_PEEK == 0 && count > 0) {
            self.stack.consumed(id, count);
        }
        Answer { value: count as i64, bytes, ..Answer::default() }
    }

    fn take_from_pipe(&mut self, index: usize, count: usize) -> Answer {
        let has_writer = self.has_writer(index);
        let pipe = &mut self.pipes[index];
        if pipe.is_empty() && has_writer {
            return Answer::error(libc::EAGAIN);
        }
        let bytes: Vec<u8> = pipe.drain(..count.min(pipe.len())).collect();
        Answer { value: bytes.len() as i64, bytes, ..Answer::default() }
    }

    pub(super) fn try_send(&mut self, fd: i32, bytes: &[u8], done: &mut usize, flags: i32) -> Option<Answer> {
        if let Some(Descriptor::Pipe(index, end)) = self.descriptors.get(&fd) {
            if *end == PipeEnd::Write {
                self.pipes[*index].extend_from_slice(bytes);
                return Some(Answer::value(bytes.len() as i64));
            }
            return Some(Answer::error(libc::EBADF));
        }
        let user_token = match self.user_token(fd) {
            Ok(user_token) => user_token,
            Err(errno) => return Some(Answer::error(errno)),
        };
        match self.sendable(user_token, *done) {
            Ok(false) => {}
            Ok(true) => return self.would_block(user_token, *done, flags),
            Err(answer) => return Some(*answer),
        }
        if let Some(room) = self.waiting_syn(user_token) {
            return self.send_with_syn(user_token, &bytes[..room.min(bytes.len())], done, flags);
        }
        self.push(user_token, bytes, done, flags)
    }

    /// Returns false when a send must wait for the handshake; an error when it is impossible.
    fn sendable(&mut self, user_token: u64, done: usize) -> Result<bool, Box<Answer>> {
        let socket = self.sockets.get_mut(&user_token).expect("a descriptor's socket lives");
        // Data that a SYN carried does not count when no connection was established.
        if done > 0 && socket.opened && (socket.error != 0 || socket.phase == Phase::Closed) {
            return Err(Answer::value(done as i64).into());
        }
        if socket.error != 0 {
            return Err(Answer::error(std::mem::take(&mut socket.error)).into());
        }
        match socket.phase {
            _ if socket.write_shut => Err(Answer::error(libc::EPIPE).into()),
            Phase::Fresh | Phase::Listening | Phase::Closed => Err(Answer::error(libc::EPIPE).into()),
            Phase::Connecting => Ok(true),
            Phase::Connected => Ok(false),
        }
    }

    fn would_block(&mut self, user_token: u64, done: usize, flags: i32) -> Option<Answer> {
        let socket = self.sockets.get_mut(&user_token).expect("the caller has found it");
        if !(socket.nonblocking || flags & libc::MSG_DONTWAIT != 0) {
            socket.blocked = true;
            return None;
        }
        Some(if done > 0 { Answer::value(done as i64) } else { Answer::error(libc::EAGAIN) })
    }

    pub(super) fn push(&mut self, user_token: u64, bytes: &[u8], done: &mut usize, flags: i32) -> Option<Answer> {
        let socket = self.sockets.get(&user_token).expect("the caller has found it");
        let Some(id) = socket.id else { return Some(Answer::error(libc::EPIPE)) };
        // A waiting sender is woken when a third of the buffer is free.
        if socket.blocked && !self.stack.readiness(id).writable {
            return self.would_block(user_token, *done, flags);
        }
        self.hold(user_token, flags & libc::MSG_MORE != 0 && !bytes.is_empty());
        if flags & libc::MSG_OOB != 0 {
            let room = (bytes.len() - *done).min(self.stack.send_space(id));
            self.stack.mark_urgent(id, i32::try_from(room).unwrap_or(i32::MAX));
        }
        while *done < bytes.len() {
            let mut at = *done;
            let mut copy = |piece: &mut [u8]| {
                piece.copy_from_slice(&bytes[at..at + piece.len()]);
                at += piece.len();
            };
            match self.stack.send_with(id, bytes.len() - *done, &mut copy) {
                Ok(count) => *done += count,
                Err(SendError::WouldBlock) => return self.would_block(user_token, *done, flags),
                Err(SendError::Closed | SendError::NotConnected) => return Some(Answer::error(libc::EPIPE)),
            }
        }
        self.sockets.get_mut(&user_token).expect("the caller has found it").blocked = false;
        Some(Answer::value(bytes.len() as i64))
    }

    /// MSG_MORE corks until the next send without it, the next packet that arrives, or a retransmission timeout.
    fn hold(&mut self, user_token: u64, more: bool) {
        let now = self.now;
        let socket = self.sockets.get_mut(&user_token).expect("the caller has found it");
        let Some(id) = socket.id else { return };
        if more {
            let timeout_us = self.stack.info(id).map_or(200_000, |info| info.rto_us);
            socket.held_until.get_or_insert(now + Duration::from_micros(timeout_us.into()));
            self.stack.set_options(now, id, TcpOptions { cork: true, ..socket.options });
        } else if socket.held_until.take().is_some() {
            self.stack.set_options(now, id, socket.options);
        }
    }

    /// splice(2) between a pipe and a socket. Takes no more than fits; waits for an empty source.
    pub(super) fn try_splice(&mut self, (from, to): (i32, i32), count: usize, flags: u32) -> Option<Answer> {
        let dont_wait = if flags & libc::SPLICE_F_NONBLOCK != 0 { libc::MSG_DONTWAIT } else { 0 };
        let source = match self.descriptors.get(&from) {
            Some(Descriptor::Pipe(index, PipeEnd::Read)) => Some(*index),
            _ => None,
        };
        let target = self.descriptors.get(&to).filter(|target| matches!(target, Descriptor::Pipe(_, PipeEnd::Write)));
        if source.is_some() == target.is_some() {
            // Exactly one of the two must be a pipe.
            return Some(Answer::error(libc::EINVAL));
        }
        if count == 0 {
            return Some(Answer::value(0));
        }
        let Some(index) = source else {
            let taken = self.try_receive(from, count, dont_wait)?;
            return if taken.value > 0 { self.try_send(to, &taken.bytes, &mut 0, dont_wait) } else { Some(taken) };
        };
        if self.pipes[index].is_empty() {
            return if !self.has_writer(index) {
                Some(Answer::value(0))
            } else {
                (dont_wait != 0).then(|| Answer::error(libc::EAGAIN))
            };
        }
        let bytes: Vec<u8> = self.pipes[index].iter().take(count).copied().collect();
        let answer = self.try_send(to, &bytes, &mut 0, libc::MSG_DONTWAIT)?;
        if answer.errno == libc::EAGAIN && dont_wait == 0 && !self.nonblocking(to).unwrap_or(true) {
            return None;
        }
        self.pipes[index].drain(..answer.value.max(0) as usize);
        Some(answer)
    }

    /// Returns true when the writing end of a pipe is open.
    fn has_writer(&self, index: usize) -> bool {
        self.descriptors.values().any(|descriptor| matches!(descriptor, Descriptor::Pipe(pipe, PipeEnd::Write) if *pipe == index))
    }

    /// TCP_CM_INQ of a socket with TCP_INQ: number of bytes that can be read; one when only the end can be read.
    pub fn inq(&mut self, fd: i32) -> Option<i32> {
        let socket = self.socket_of(fd).ok()?;
        let asked = socket.remembered.get(&(libc::IPPROTO_TCP, super::options::TCP_INQ))?.iter().any(|byte| *byte != 0);
        let (id, stash) = (socket.id?, socket.stash.len());
        let bytes = stash + self.stack.unread(id);
        let ended = self.stack.readiness(id).peer_closed;
        asked.then(|| if bytes == 0 { i32::from(ended) } else { i32::try_from(bytes).unwrap_or(i32::MAX) })
    }

    /// SIOCINQ (FIONREAD): number of bytes that can be read.
    pub fn readable_bytes(&mut self, fd: i32) -> Answer {
        match self.socket_of(fd).map(|socket| (socket.phase, socket.id, socket.stash.len())) {
            Ok((Phase::Listening, ..)) => Answer::error(libc::EINVAL),
            Ok((_, id, stash)) => {
                let there = stash + id.map_or(0, |id| self.stack.unread(id));
                Answer::value(self.before_mark(fd, there) as i64)
            }
            Err(errno) => Answer::error(errno),
        }
    }

    /// SIOCOUTQ: bytes queued and not acknowledged.
    pub fn queued_bytes(&mut self, fd: i32) -> Answer {
        self.count(fd, &|info| i64::from(info.unsent_bytes) + i64::from(info.unacked_bytes))
    }

    /// SIOCOUTQNSD: bytes not sent.
    pub fn unsent_bytes(&mut self, fd: i32) -> Answer {
        self.count(fd, &|info| i64::from(info.unsent_bytes))
    }

    fn count(&mut self, fd: i32, count: &dyn Fn(ringway_stack::TcpInfo) -> i64) -> Answer {
        match self.socket_of(fd).map(|socket| (socket.phase, socket.id)) {
            Ok((Phase::Listening, _)) => Answer::error(libc::EINVAL),
            Ok((_, id)) => Answer::value(id.and_then(|id| self.stack.info(id)).map_or(0, count)),
            Err(errno) => Answer::error(errno),
        }
    }
}
