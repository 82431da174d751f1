//! Readiness: poll and epoll.

use std::collections::BTreeMap;

use ringway_shm::Instant;

use super::{Answer, Descriptor, Machine, Phase, PipeEnd};

/// An epoll instance with its watched descriptors.
#[derive(Debug, Default)]
pub(super) struct Instance {
    watched: BTreeMap<i32, Watched>,
}

#[derive(Clone, Copy, Debug)]
struct Watched {
    events: u32,
    data: u64,
    /// Last reported events, for EPOLLET.
    reported: u32,
    /// True once EPOLLONESHOT has fired.
    spent: bool,
}

impl Machine {
    /// Returns all poll(2) events of a descriptor, requested or not.
    fn ready(&mut self, fd: i32) -> i16 {
        match self.descriptors.get(&fd) {
            None => return libc::POLLNVAL,
            Some(Descriptor::Pipe(_, PipeEnd::Write)) => return libc::POLLOUT,
            Some(Descriptor::Pipe(index, PipeEnd::Read)) => return if self.pipes[*index].is_empty() { 0 } else { libc::POLLIN },
            Some(Descriptor::Epoll(_)) => return 0,
            Some(Descriptor::Socket(_)) => {}
        }
        let socket = self.socket_of(fd).expect("it is a socket");
        let (phase, id, stash) = (socket.phase, socket.id, !socket.stash.is_empty());
        let (failed, read_shut, write_shut) = (socket.error != 0, socket.read_shut, socket.write_shut);
        let state = id.map(|id| self.stack.readiness(id)).unwrap_or_default();
        let peer_closed = state.peer_closed || read_shut || phase == Phase::Closed;
        let hung_up = phase == Phase::Fresh || phase == Phase::Closed || (peer_closed && write_shut);
        let mut bits = 0;
        if phase == Phase::Connecting {
            return 0;
        }
        if self.is_urgent_fetchable(fd) {
            bits |= libc::POLLPRI;
        }
        if phase != Phase::Fresh && (state.readable || stash || peer_closed || failed) {
            bits |= libc::POLLIN | libc::POLLRDNORM;
        }
        let writable = phase != Phase::Listening && (state.writable || hung_up || write_shut || failed);
        if writable {
            bits |= libc::POLLOUT | libc::POLLWRNORM;
        }
        if peer_closed && phase != Phase::Fresh {
            bits |= libc::POLLRDHUP;
        }
        if hung_up {
            bits |= libc::POLLHUP;
        }
        if failed {
            bits |= libc::POLLERR;
        }
        bits
    }

    pub(super) fn try_poll(&mut self, set: &[(i32, i16)], deadline: Option<Instant>) -> Option<Answer> {
        let always = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
        let mut report = |(fd, events): &(i32, i16)| if *fd < 0 { 0 } else { self.ready(*fd) & (*events | always) };
        let reported: Vec<i16> = set.iter().map(&mut report).collect();
        let count = reported.iter().filter(|bits| **bits != 0).count();
        let over = deadline.is_some_and(|deadline| deadline <= self.now);
        (count > 0 || over).then(|| Answer { value: count as i64, reported, ..Answer::default() })
    }

    /// epoll_create(2)
    pub fn epoll_create(&mut self) -> Answer {
        Answer::value(i64::from(self.install(Descriptor::Epoll(Instance::default()))))
    }

    /// epoll_ctl(2)
    pub fn epoll_control(&mut self, epoll: i32, operation: i32, fd: i32, event: libc::epoll_event) -> Answer {
        if !self.descriptors.contains_key(&fd) {
            return Answer::error(libc::EBADF);
        }
        let Some(Descriptor::Epoll(instance)) = self.descriptors.get_mut(&epoll) else { return Answer::error(libc::EINVAL) };
        let watched = Watched { events: event.events, data: event.u64, reported: 0, spent: false };
        let known = instance.watched.contains_key(&fd);
        match operation {
            libc::EPOLL_CTL_ADD if known => return Answer::error(libc::EEXIST),
            libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL if !known => return Answer::error(libc::ENOENT),
            libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD => drop(instance.watched.insert(fd, watched)),
            libc::EPOLL_CTL_DEL => drop(instance.watched.remove(&fd)),
            _ => return Answer::error(libc::EINVAL),
        }
        Answer::value(0)
    }

    pub(super) fn try_epoll_wait(&mut self, epoll: i32, count: usize, deadline: Option<Instant>) -> Option<Answer> {
        let Some(Descriptor::Epoll(instance)) = self.descriptors.get(&epoll) else {
            return Some(Answer::error(libc::EINVAL));
        };
        let mut watched = instance.watched.clone();
        watched.retain(|fd, _| self.descriptors.contains_key(fd));
        let mut events = Vec::new();
        for (fd, watch) in &mut watched {
            let bits = u32::from(self.ready(*fd).cast_unsigned());
            let bits = bits & (watch.events | (libc::EPOLLERR | libc::EPOLLHUP).cast_unsigned());
            let edge = watch.events & libc::EPOLLET.cast_unsigned() != 0;
            let news = if edge { bits & !watch.reported } else { bits };
            watch.reported = bits;
            if news != 0 && !watch.spent && events.len() < count {
                events.push((bits, watch.data));
                watch.spent = watch.events & libc::EPOLLONESHOT.cast_unsigned() != 0;
            }
        }
        if let Some(Descriptor::Epoll(instance)) = self.descriptors.get_mut(&epoll) {
            instance.watched = watched;
        }
        let over = deadline.is_some_and(|deadline| deadline <= self.now);
        (!events.is_empty() || over).then(|| Answer { value: events.len() as i64, events, ..Answer::default() })
    }
}
