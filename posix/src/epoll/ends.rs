//! The descriptors in a kernel epoll instance that end a wait there for sockets of the stack, and that wait.
//!
//! They are in the program's own kernel instance, so that one wait covers both worlds. An instance that fork shares is
//! different: the kernel reports an edge to one of all waiters, so another process could take the edge that was to wake
//! this one. From the fork on, each process waits in a kernel instance of its own, the *own set*, which holds its ends and
//! watches the program's instance.
//!
//! The list of watched sockets is one for all processes that have the instance (`interest/common.rs`): it moves to shared
//! memory before the first fork, together with an eventfd, the *news*, which all own sets watch and which rings when one of
//! the processes has added or modified a watch. Each process lets the service wake it for every socket of the list.

use libc::epoll_event;

use super::{EpollRef, Instance, with_held};
use crate::Posix;
use crate::channel::{Channel, Context, Sleepers};
use crate::errno::{Answer, Errno};
use crate::fallback::{Fd, SignalMask};
use ringway_shm::Duration;

/// Descriptors that end a wait in the kernel, besides the program's own.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    /// The service rings it.
    wake_fd: Fd,
    /// An eventfd of this process, since only the service can ring the wake descriptor.
    pub(super) nudge: Fd,
    /// The own set of a shared instance.
    own_set: Option<Fd>,
}

impl Posix {
    /// The instance's wait context; claimed, and put into the kernel instance with the control connection, at the first
    /// use in this process. `None`: the service is dead, so every socket is ready and no wake descriptor is needed.
    pub(super) fn epoll_context(&self, instance: &mut Instance, epoll: Fd, channel: &dyn Channel) -> Answer<Option<Context>> {
        if let Some((context, _)) = instance.wake_fd {
            return Ok(Some(context));
        }
        let Some((context, wake_fd)) = self.new_context(channel, Sleepers::One) else {
            channel.confirm_death();
            return if self.service_is_dead() { Ok(None) } else { Err(Errno::NOSPC) };
        };
        match self.place_ends(instance, epoll, wake_fd, channel) {
            Ok(ends) => instance.wake_fd = Some((context, ends)),
            Err(error) => {
                channel.release_context(context);
                self.discard_internal(wake_fd);
                return Err(error);
            }
        }
        // Threads that already wait in the kernel do not know the wake descriptor: this ends their wait.
        self.wake_sleepers(instance);
        for socket in instance.list.sockets() {
            channel.watch(socket, context);
        }
        Ok(Some(context))
    }

    /// Puts a wake descriptor, a nudge of its own and the control connection where this process waits.
    fn place_ends(&self, instance: &Instance, epoll: Fd, wake_fd: Fd, channel: &dyn Channel) -> Answer<Ends> {
        let nudge = self.park(self.kernel.event_counter()?);
        let mut ends = Ends { wake_fd, nudge, own_set: None };
        let placed = match instance.is_shared {
            true => self.make_own_set(&mut ends, epoll, instance.news, channel),
            false => self.add_ends(epoll, ends).and_then(|()| self.watch_control(epoll, channel)),
        };
        // Threads that wait already do so in the program's instance, and so does an outer instance.
        let placed = placed.and_then(|()| match instance.is_shared && (instance.sleepers > 0 || instance.nested) {
            true => self.add_ends(epoll, ends),
            false => Ok(()),
        });
        if placed.is_err() {
            self.discard_internal(nudge);
            ends.own_set.into_iter().for_each(|set| self.discard_internal(set));
        }
        placed.map(|()| ends)
    }

    fn add_ends(&self, set: Fd, ends: Ends) -> Answer<()> {
        let ring = epoll_event { events: EDGE_IN, u64: BELL };
        let add = |fd| self.kernel.epoll_control(set, libc::EPOLL_CTL_ADD, fd, Some(ring));
        add(ends.wake_fd).and_then(|()| add(ends.nudge))
    }

    fn watch_control(&self, set: Fd, channel: &dyn Channel) -> Answer<()> {
        let hang_up = epoll_event { events: EDGE_HANG_UP, u64: CONTROL };
        match self.kernel.epoll_control(set, libc::EPOLL_CTL_ADD, channel.control_descriptor(), Some(hang_up)) {
            Err(Errno::EXIST) => Ok(()),
            answer => answer,
        }
    }

    fn make_own_set(&self, ends: &mut Ends, epoll: Fd, news: Option<Fd>, channel: &dyn Channel) -> Answer<()> {
        let set = self.park(self.kernel.epoll_create(libc::EPOLL_CLOEXEC)?);
        ends.own_set = Some(set);
        if let Some(news) = news {
            self.kernel.epoll_control(set, libc::EPOLL_CTL_ADD, news, Some(epoll_event { events: EDGE_IN, u64: BELL }))?;
        }
        let program = epoll_event { events: libc::EPOLLIN as u32, u64: PROGRAM };
        self.kernel.epoll_control(set, libc::EPOLL_CTL_ADD, epoll, Some(program))?;
        self.add_ends(set, *ends)?;
        self.watch_control(set, channel)
    }

    /// After the attachment to another service: the instance's ends go over to its channel, and threads that wait are woken for that.
    fn renew_ends(&self, instance: &mut Instance, epoll: Fd, channel: &dyn Channel) -> Answer<()> {
        let Some((_, ends)) = instance.wake_fd.as_mut() else { return Ok(()) };
        let (context, wake_fd) = self.new_context(channel, Sleepers::One).ok_or(Errno::NOSPC)?;
        let before = std::mem::replace(&mut ends.wake_fd, wake_fd);
        let ends = *ends;
        instance.wake_fd = Some((context, ends));
        let ring = epoll_event { events: EDGE_IN, u64: BELL };
        let mut answer = self.watch_control(ends.own_set.unwrap_or(epoll), channel);
        for set in std::iter::once(epoll).chain(ends.own_set) {
            // Where the one before was.
            if self.kernel.epoll_control(set, libc::EPOLL_CTL_DEL, before, None).is_ok() {
                answer = answer.and(self.kernel.epoll_control(set, libc::EPOLL_CTL_ADD, wake_fd, Some(ring)));
            }
        }
        self.discard_internal(before);
        self.kernel.raise_event(ends.nudge);
        answer
    }

    /// Has `succeed` replace the channel while no thread looks into an instance, and moves the instances to the new one. Returns false,
    /// and does nothing, if an instance stays locked or watches a socket of the service before.
    pub(crate) fn epoll_renew<'a>(&'a self, succeed: impl FnOnce() -> &'a dyn Channel) -> bool {
        let mut cells = Vec::new();
        for number in self.epolls.used() {
            let Some(mut cell) = self.epolls.lock_soon(number, || self.kernel.pause(Duration::from_micros(50))) else {
                return false;
            };
            if let Some(instance) = cell.as_mut() {
                self.epoll_follow(instance);
                if !instance.list.is_empty() {
                    return false;
                }
            }
            cells.push((number, cell));
        }
        let channel = succeed();
        for (number, mut cell) in cells {
            let Some(instance) = cell.as_mut() else { continue };
            let epoll = self.number_of_instance(number, instance.fd).unwrap_or(instance.fd);
            if self.renew_ends(instance, epoll, channel).is_err() {
                self.fall_back("epoll_wait", &epoll, crate::Fallback::WatchLost);
            }
        }
        true
    }

    pub(super) fn discard_ends(&self, ends: Ends) {
        self.discard_internal(ends.wake_fd);
        self.discard_internal(ends.nudge);
        ends.own_set.into_iter().for_each(|set| self.discard_internal(set));
    }

    /// Before fork: what is watched moves to memory that the child will share. No thread changes an instance until
    /// [`epoll_fork_is_over`](Self::epoll_fork_is_over).
    pub(crate) fn epoll_before_fork(&self) {
        self.epolls.hold_all(|| self.kernel.pause(Duration::from_micros(50)));
        if self.attached().is_none() {
            return;
        }
        with_held(|held| {
            for instance in held.iter_mut().filter_map(|cell| cell.as_mut()).filter(|instance| !instance.list.is_common()) {
                match self.kernel.event_counter() {
                    Ok(news) if instance.list.share() => instance.news = Some(self.park(news)),
                    // The child goes on with a copy.
                    refused => {
                        refused.into_iter().for_each(|news| self.discard_internal(news));
                        self.fall_back("fork", &"epoll", crate::Fallback::WatchLost);
                    }
                }
            }
        });
    }

    /// After fork, in parent and child.
    pub(crate) fn epoll_fork_is_over(&self) {
        self.epolls.release_all();
    }

    /// Takes what other processes have changed in the list of a shared instance.
    pub(super) fn epoll_follow(&self, instance: &mut Instance) {
        if !instance.list.is_common() {
            return;
        }
        let followed = instance.list.follow(|socket| self.is_open_anywhere(socket));
        let (Some((context, _)), Some(channel)) = (instance.wake_fd, self.attached()) else { return };
        followed.watch.into_iter().for_each(|socket| channel.watch(socket, context));
        followed.unwatch.into_iter().for_each(|socket| channel.unwatch(socket, context));
    }

    /// Wakes the sleepers of an instance whose list the program has changed, in all processes.
    pub(super) fn tell_change(&self, instance: &Instance) {
        instance.news.into_iter().for_each(|news| self.kernel.raise_event(news));
        self.wake_sleepers(instance);
    }

    /// In a forked child: drops the parent's contexts and wake descriptors; the next use makes new ones.
    pub(crate) fn epoll_after_fork_in_child(&self) {
        for number in self.epolls.used() {
            if let Some(instance) = self.epolls.lock(number).as_mut() {
                instance.sleepers = 0;
                instance.is_shared = true;
                instance.list.mark_all();
                if let Some((_, ends)) = instance.wake_fd.take() {
                    self.discard_ends(ends);
                }
            }
        }
    }

    /// After fork in the parent: its ends go where no child takes their edges. Those in the program's instance stay, for
    /// threads that wait there now.
    pub(crate) fn epoll_after_fork_in_parent(&self) {
        for number in self.epolls.used() {
            let mut cell = self.epolls.lock(number);
            let Some(instance) = cell.as_mut().filter(|instance| !instance.is_shared) else { continue };
            instance.is_shared = true;
            let (Some(channel), Some(fd)) = (self.attached(), self.number_of_instance(number, instance.fd)) else { continue };
            if instance.wake_fd.is_none() && instance.sleepers > 0 {
                // They must hear of what a child adds.
                if self.epoll_context(instance, fd, channel).is_err() {
                    self.fall_back("epoll_wait", &fd, crate::Fallback::WatchLost);
                }
            }
            let Some((_, ends)) = instance.wake_fd.as_mut().filter(|(_, ends)| ends.own_set.is_none()) else { continue };
            if self.make_own_set(ends, fd, instance.news, channel).is_err() {
                // The process goes on waiting in the program's instance.
                ends.own_set.take().into_iter().for_each(|set| self.discard_internal(set));
                self.fall_back("epoll_wait", &fd, crate::Fallback::WatchLost);
            }
            self.wake_sleepers(instance);
        }
    }

    /// Notes that another instance, or a wait of the kernel's, watches instance `inner`.
    pub(crate) fn note_watched(&self, inner: u32) {
        if let Some(instance) = self.epolls.lock(inner).as_mut() {
            if let (Some((_, ends)), false) = (instance.wake_fd, instance.nested)
                && ends.own_set.is_some()
                && !matches!(self.add_ends(instance.fd, ends), Ok(()) | Err(Errno::EXIST))
            {
                self.fall_back("epoll_ctl", &instance.fd, crate::Fallback::WatchLost);
            }
            instance.nested = true;
            // The woken thread looks, finds nothing, and arms the wake descriptor for later events.
            self.wake_sleepers(instance);
        }
    }

    /// The descriptor that is readable when a wait in the instance would end; `epoll` is the program's.
    pub(crate) fn epoll_polled(&self, number: u32, epoll: Fd) -> Fd {
        self.own_set(number).unwrap_or(epoll)
    }

    fn own_set(&self, number: u32) -> Option<Fd> {
        self.epolls.lock(number).as_ref().and_then(|instance| instance.wake_fd)?.1.own_set
    }

    /// Waits in the kernel; drops the entries that are our own.
    pub(super) fn epoll_kernel(
        &self,
        EpollRef { number, fd: epoll }: EpollRef,
        events: &mut [epoll_event],
        timeout: Option<Duration>,
        mask: Option<SignalMask>,
    ) -> Answer<usize> {
        let Some(set) = self.own_set(number) else {
            let count = self.kernel.epoll_wait(epoll, events, timeout, mask)?;
            return Ok(self.without_ours(number, &mut events[..count]));
        };
        let mut news = [epoll_event { events: 0, u64: 0 }; OWN_ENTRIES];
        let count = self.kernel.epoll_wait(set, &mut news, timeout, mask)?;
        match self.without_ours(number, &mut news[..count]) {
            0 => Ok(0),
            // Another process may have taken it meanwhile.
            _ => {
                let count = self.kernel.epoll_wait(epoll, events, Some(Duration::ZERO), mask)?;
                Ok(self.without_ours(number, &mut events[..count]))
            }
        }
    }

    /// Handles entries of ours, and moves the others to the front; returns their number.
    fn without_ours(&self, number: u32, events: &mut [epoll_event]) -> usize {
        let mut kept = 0;
        for index in 0..events.len() {
            match events[index].u64 {
                BELL => {}
                CONTROL => self.control_hung_up(number),
                _ => {
                    events[kept] = events[index];
                    kept += 1;
                }
            }
        }
        kept
    }

    /// Handles a hang-up of the control connection: the service is dead, and every socket with it; or this is a forked
    /// child with a new control connection, which this instance must watch.
    fn control_hung_up(&self, number: u32) {
        self.note_service_death();
        let mut cell = self.epolls.lock(number);
        let Some(instance) = cell.as_mut() else { return };
        instance.list.mark_all();
        let set = instance.wake_fd.and_then(|(_, ends)| ends.own_set).unwrap_or(instance.fd);
        if let (false, Some(channel)) = (self.service_is_dead(), self.attached())
            && self.watch_control(set, channel).is_err()
        {
            self.fall_back("epoll_wait", &set, crate::Fallback::WatchLost);
        }
    }
}

/// Data words of our own entries: unlike any pointer of a user program or small number.
const BELL: u64 = 0xf5a1_7269_6e67_0001;
const CONTROL: u64 = 0xf5a1_7269_6e67_0002;
/// The program's instance, in the own set.
const PROGRAM: u64 = 0xf5a1_7269_6e67_0003;
/// Entries of an own set: the program's instance, two ends, the news, and the control connections of this process and of its parent.
const OWN_ENTRIES: usize = 6;
const EDGE_IN: u32 = (libc::EPOLLIN | libc::EPOLLET) as u32;
const EDGE_HANG_UP: u32 = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLET) as u32;
