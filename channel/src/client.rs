//! The application's end of a region: shared by all threads of a process.
//!
//! Nothing here blocks for longer than it takes another thread to copy one call's bytes; waiting for
//! readiness is the caller's business: [`watch`](Client::watch), [`arm`](Client::arm), look again,
//! one kernel wait on the context's event descriptor and on [`control_fd`](Client::control_fd).
//! No call allocates memory or takes a lock of the process, so all may be used after fork.
//!
//! Fork: [`before_fork`](Client::before_fork) in the parent, then one of
//! [`after_fork_in_parent`](Client::after_fork_in_parent) and
//! [`after_fork_in_child`](Client::after_fork_in_child). The child may send, receive, accept and
//! close at once; it needs [`reattach`](Client::reattach) before it can open a context.

mod accept;
mod context;
mod control;
mod datagram;
mod loan;
mod pass;
mod process;
mod receive;
mod send;
mod urgent;

use std::os::fd::{BorrowedFd, IntoRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32};

use super::attach::{self, Applicant, AttachError, Membership, ProgramFile};
use super::layout::{Map, RINGS};
use super::lock::{self, LockError};
use super::request::{Operation, Request};
use super::slot::{SlotRef, SlotShared};
use crate::sys;
use ringway_shm::sync::{AtomicU32, Ordering, relax};
use ringway_shm::{doorbell, list, ring};

pub use context::{Usage, Watch};
pub use control::{ControlResult, Ticket};
pub use datagram::Received;
pub use loan::{Lent, Loan, Reservation, Reserved};
pub(super) use pass::{hand_on, sends};
pub use receive::ReceiveError;
pub use send::SendError;
pub use urgent::UrgentError;

/// A process's end of the channel.
pub struct Client {
    map: Map,
    process: AtomicU32,
    /// The number that this process has where the service is; 0: none.
    known_as: AtomicU32,
    /// The service is in another PID namespace: numbers of this one mean nothing there.
    is_foreign: bool,
    /// The inode of this process's PID namespace.
    namespace: u32,
    /// Index + 1 of the number that was reserved for a child that is being forked.
    reserved: AtomicU32,
    /// The doorbell; -1: given up.
    wake_fd: AtomicI32,
    /// -1: given up.
    control: AtomicI32,
    /// The region's memory file, by its inode.
    region: u64,
    membership: Membership,
    /// Serializes exchanges on the control socket: an owner word.
    control_lock: AtomicU32,
    path: std::path::PathBuf,
    token: [u8; 16],
    /// The network namespace in which it attached, by its cookie.
    network: Option<u64>,
    fd_floor: RawFd,
    gone: AtomicBool,
    /// The control connection is the parent's: its end says nothing about the service.
    inherited: AtomicBool,
}

static NEXT_THREAD: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static THREAD: u32 = NEXT_THREAD.fetch_add(1, Ordering::Relaxed);
}

impl Client {
    /// Attaches to the service at `path` as a member of the group `token` and maps the group's
    /// region. Descriptors are placed at or above `fd_floor` (0: anywhere), closed on exec.
    ///
    /// # Errors
    /// See [`AttachError`]; nothing is left open then.
    pub fn attach(path: &std::path::Path, token: [u8; 16], fd_floor: RawFd) -> Result<Client, AttachError> {
        Client::attach_as(path, Applicant { token, ..Applicant::default() }, fd_floor)
    }

    /// The same for a process that is going to start a program of this file, and is judged as that.
    ///
    /// # Errors
    /// See [`AttachError`]; nothing is left open then.
    pub fn attach_for(
        path: &std::path::Path,
        token: [u8; 16],
        program: Option<ProgramFile>,
        fd_floor: RawFd,
    ) -> Result<Client, AttachError> {
        Client::attach_as(path, Applicant { token, program, ..Applicant::default() }, fd_floor)
    }

    /// The same for a process that an earlier service of this name has admitted with this [`membership`](Client::membership).
    ///
    /// # Errors
    /// See [`AttachError`]; nothing is left open then.
    pub fn attach_again(
        path: &std::path::Path,
        token: [u8; 16],
        membership: Membership,
        fd_floor: RawFd,
    ) -> Result<Client, AttachError> {
        Client::attach_as(path, Applicant { token, membership, ..Applicant::default() }, fd_floor)
    }

    fn attach_as(path: &std::path::Path, applicant: Applicant, fd_floor: RawFd) -> Result<Client, AttachError> {
        let (welcome, token) = (attach::request_attach(path, applicant, fd_floor)?, applicant.token);
        Ok(Client {
            map: welcome.map,
            process: AtomicU32::new(welcome.process),
            known_as: AtomicU32::new(welcome.known_as),
            is_foreign: welcome.is_foreign,
            namespace: welcome.namespace,
            reserved: AtomicU32::new(0),
            wake_fd: AtomicI32::new(welcome.wake_fd.into_raw_fd()),
            region: welcome.region,
            membership: welcome.membership,
            control: AtomicI32::new(welcome.control.into_raw_fd()),
            control_lock: AtomicU32::new(0),
            path: path.to_path_buf(),
            token,
            network: sys::network_here().ok(),
            fd_floor,
            gone: AtomicBool::new(false),
            inherited: AtomicBool::new(false),
        })
    }

    /// The shared words of a slot.
    ///
    /// # Panics
    /// When there is no such slot.
    pub fn slot(&self, index: u32) -> &SlotShared {
        self.map.slot(index)
    }

    /// How many slots there are.
    pub fn slots(&self) -> u32 {
        self.map.shape().slots
    }

    /// Whether the reference is still good.
    pub fn is_current(&self, slot: SlotRef) -> bool {
        slot.index < self.slots() && self.slot(slot.index).generation() == slot.generation
    }

    /// The control connection, for the caller's waits: it hangs up when the service dies.
    pub fn control_fd(&self) -> RawFd {
        self.control.load(Ordering::Acquire)
    }

    /// The network namespace in which it attached, by its cookie; `None`: this kernel does not tell.
    pub fn network(&self) -> Option<u64> {
        self.network
    }

    /// The region's memory file, by its inode: another service has another one.
    pub fn region(&self) -> u64 {
        self.region
    }

    /// What the service has said of this process, for a later one.
    pub fn membership(&self) -> Membership {
        self.membership
    }

    /// Lends the control connection for a wait.
    pub fn with_control<T>(&self, f: impl FnOnce(BorrowedFd<'_>) -> T) -> T {
        sys::with_fd(self.control_fd(), f)
    }

    /// Descriptors that the application must not close: the control connection and the doorbell.
    pub fn internal_fds(&self) -> [RawFd; 2] {
        [self.control_fd(), self.wake_fd.load(Ordering::Acquire)]
    }

    /// Whether the service still runs. Asks the kernel; once it is gone it stays gone. In a forked child
    /// whose parent's connection has ended, this attaches anew.
    pub fn service_alive(&self) -> bool {
        if self.gone.load(Ordering::Relaxed) {
            return false;
        }
        let mut hung_up = sys::is_hung_up(self.control_fd());
        if hung_up && self.inherited.load(Ordering::Acquire) {
            hung_up = self.reattach().is_err();
        }
        if hung_up {
            self.gone.store(true, Ordering::Relaxed);
        }
        !hung_up
    }

    /// Gives up what the kernel has for this attachment: the descriptors and the region's memory, which reads as zeros from then
    /// on. For a service that is dead; the client stays, for threads that are in the middle of a call.
    pub fn retire(&self) {
        self.gone.store(true, Ordering::SeqCst);
        self.close_descriptors();
        self.map.forget();
    }

    fn close_descriptors(&self) {
        for number in [&self.control, &self.wake_fd] {
            let fd = number.swap(-1, Ordering::AcqRel);
            if fd >= 0 {
                sys::close(fd);
            }
        }
    }

    /// Returns true if the service was seen dead; no system call.
    pub fn known_dead(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// A fresh slot for a socket of the application, held by this process. `None`: all in use.
    pub fn open_slot(&self) -> Option<SlotRef> {
        if self.known_dead() {
            return None;
        }
        let half = self.slots() / 2;
        let link = |index: u32| &self.map.slot(index).link;
        let (index, _) = self.map.header().free_slots.0.take(1, half, link)?;
        let slot = SlotRef { index, generation: self.slot(index).generation() };
        self.hold(index);
        Some(slot)
    }

    /// Tells where the program has bound the socket, before [`Operation::Connect`].
    pub fn set_bound(&self, slot: SlotRef, local: core::net::SocketAddr) {
        let nowhere = core::net::SocketAddr::new(core::net::IpAddr::V6(core::net::Ipv6Addr::UNSPECIFIED), 0);
        self.slot(slot.index).set_addresses(local, nowhere);
    }

    /// Hands a request to the worker and wakes it if it sleeps. For requests without an answer; for
    /// the others use [`control`](Self::control). `false`: the service is gone.
    pub fn submit(&self, request: Request) -> bool {
        if self.known_dead() {
            return false;
        }
        let owner = self.owner();
        let first = self.process.load(Ordering::Relaxed).wrapping_mul(17).wrapping_add(thread_number()) % RINGS;
        let mut round = 0u32;
        loop {
            for step in 0..RINGS {
                if self.try_submit((first + step) % RINGS, owner, &request) {
                    return true;
                }
            }
            // All rings are full or being written: the worker is behind.
            self.ring_worker();
            round += 1;
            sys::pause(if round < 64 { 0 } else { 50 });
            if round.is_multiple_of(64) && !self.service_alive() {
                return false;
            }
        }
    }

    fn try_submit(&self, number: u32, owner: u32, request: &Request) -> bool {
        use super::layout::RING_ENTRIES;
        let shared = self.map.ring(number);
        let Some(_writing) = lock::try_acquire(&shared.lock.0, owner) else {
            relax();
            return false;
        };
        let tail = shared.tail.0.load(Ordering::Relaxed);
        let Some(place) = ring::vacancy(&shared.head.0, tail, RING_ENTRIES) else { return false };
        for (word, value) in shared.entries[place as usize].iter().zip(request.encode()) {
            word.store(value, Ordering::Relaxed);
        }
        ring::publish(&shared.tail.0, tail);
        ring::mark(&self.map.header().dirty.0[(number / 64) as usize], number % 64);
        self.ring_worker();
        true
    }

    fn ring_worker(&self) {
        if doorbell::must_ring(&self.map.header().worker_need_wake.0) {
            sys::ring(self.wake_fd.load(Ordering::Acquire));
        }
    }

    fn announce(&self, slot: SlotRef, operation: Operation) {
        // A service that is gone is noticed by the next call that waits.
        self.submit(Request { slot, sequence: 0, operation });
    }

    #[cfg(test)]
    pub(super) fn map_for_tests(&self) -> &Map {
        &self.map
    }

    fn owner(&self) -> u32 {
        lock::owner_word(self.process.load(Ordering::Relaxed), thread_number())
    }

    fn lock<'a>(&'a self, word: &'a AtomicU32) -> Result<lock::Held<'a>, LockError> {
        lock::acquire(word, self.owner(), || self.service_alive())
    }
}

fn thread_number() -> u32 {
    THREAD.try_with(|number| *number).unwrap_or(0)
}

impl Drop for Client {
    fn drop(&mut self) {
        self.close_descriptors();
    }
}

/// The chunk that `word` names in a shared list of `limit`; anything else ends the walk.
fn chunk(word: u32, limit: u32) -> Option<u32> {
    list::node(word, limit)
}

#[cfg(test)]
mod tests;
