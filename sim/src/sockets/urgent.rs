//! Urgent data in Linux's socket calls: MSG_OOB, SO_OOBINLINE, the mark at which a reader stops.

use super::{Answer, Machine, Phase, Socket};

impl Machine {
    /// recv(2) with MSG_OOB (net/ipv4/tcp.c, tcp_recv_urg): never waits.
    pub(super) fn receive_urgent(&mut self, user_token: u64, count: usize, flags: i32) -> Answer {
        let mark = self.mark(user_token);
        let socket = self.sockets.get_mut(&user_token).expect("a descriptor's socket lives");
        if socket.phase == Phase::Listening {
            return Answer::error(libc::ENOTCONN);
        }
        let Some((distance, byte)) = mark.filter(|_| !is_in_line(socket)) else { return Answer::error(libc::EINVAL) };
        let at = socket.read.wrapping_add(distance);
        match byte {
            _ if socket.urgent_fetched == Some(at) => Answer::error(libc::EINVAL),
            None if socket.end_of_stream || socket.peer_closed => Answer::value(0),
            None => Answer::error(libc::EAGAIN),
            Some(byte) => {
                if flags & libc::MSG_PEEK == 0 {
                    socket.urgent_fetched = Some(at);
                }
                let bytes = if count > 0 { vec![byte] } else { Vec::new() };
                Answer { value: bytes.len() as i64, bytes, ..Answer::default() }
            }
        }
    }

    /// Returns the number of bytes in front of the urgent one, and that byte.
    fn mark(&self, user_token: u64) -> Option<(u32, Option<u8>)> {
        let socket = self.sockets.get(&user_token)?;
        let urgent = self.stack.urgent(socket.id?)?;
        let distance = urgent.at.wrapping_sub(socket.read);
        (distance.cast_signed() >= 0).then_some((distance, urgent.byte))
    }

    /// Returns the number of bytes that the reader skips, and how many of `count` it may then read.
    pub(super) fn approach_mark(&mut self, user_token: u64, count: usize) -> (usize, usize) {
        let mark = self.mark(user_token);
        let socket = self.sockets.get(&user_token).expect("a descriptor's socket lives");
        match mark {
            None => (0, count),
            Some((0, _)) if count == 0 || is_in_line(socket) => (0, count),
            Some((0, byte)) => (usize::from(byte.is_some()), count),
            Some((distance, _)) => (0, count.min(distance as usize)),
        }
    }

    /// Skips the urgent byte, which is next and not for this reader.
    pub(super) fn step_over(&mut self, user_token: u64) {
        let socket = self.sockets.get_mut(&user_token).expect("a descriptor's socket lives");
        if socket.stash.pop_front().is_some() {
            socket.read = socket.read.wrapping_add(1);
            if let Some(id) = socket.id {
                self.stack.consumed(id, 1);
            }
        }
    }

    /// Returns how many of `there` bytes SIOCINQ counts (net/ipv4/tcp.h, tcp_inq).
    pub(super) fn before_mark(&mut self, fd: i32, there: usize) -> usize {
        let Ok(user_token) = self.user_token(fd) else { return there };
        let in_line = self.sockets.get(&user_token).is_some_and(is_in_line);
        self.mark(user_token).filter(|_| !in_line).map_or(there, |(distance, _)| there.min(distance as usize))
    }

    /// SIOCATMARK
    pub fn is_at_mark(&mut self, fd: i32) -> Answer {
        self.user_token(fd).map(|user_token| i64::from(self.mark(user_token).is_some_and(|(distance, _)| distance == 0))).into()
    }

    /// POLLPRI
    pub(super) fn is_urgent_fetchable(&mut self, fd: i32) -> bool {
        let Ok(user_token) = self.user_token(fd) else { return false };
        let fetched = self.sockets.get(&user_token).and_then(|socket| Some(socket.urgent_fetched?.wrapping_sub(socket.read)));
        self.mark(user_token).is_some_and(|(distance, byte)| byte.is_some() && fetched != Some(distance))
    }
}

fn is_in_line(socket: &Socket) -> bool {
    let value = socket.remembered.get(&(libc::SOL_SOCKET, libc::SO_OOBINLINE));
    value.is_some_and(|value| value.iter().any(|byte| *byte != 0))
}
