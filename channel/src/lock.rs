//! A lock word in shared memory that names its holder, so that it can be taken back when the holder
//! is killed.
//!
//! Holders keep it for a few microseconds (a copy of some kilobytes at most). A waiter spins, then
//! yields, then sleeps in small steps; when a holder dies, the worker clears the word. A thread that
//! meets its own word (a signal handler that interrupted the holder) is refused instead of waiting
//! for ever.

use crate::sys;
use ringway_shm::sync::{AtomicU32, Ordering, relax};

/// So many processes have a name in the word: 12 bits.
pub(crate) const PROCESSES_MAX: u32 = (1 << 12) - 1;

/// The holder: process index + 1 in the upper bits, a number of the thread in the lower.
pub(crate) fn owner_word(process: u32, thread: u32) -> u32 {
    (process + 1) << 20 | (thread & 0xF_FFFF)
}

/// The process that holds `word`.
pub(crate) fn owner_process(word: u32) -> Option<u32> {
    (word >> 20).checked_sub(1)
}

/// Why a lock was not got.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LockError {
    /// This very thread holds it.
    Reentered,
    /// The service is gone, and with it the only party that could free the lock of a dead holder.
    ServiceGone,
}

/// Releases the lock when dropped.
pub(crate) struct Held<'a> {
    word: &'a AtomicU32,
    owner: u32,
}

const SPINS: u32 = 200;
const YIELDS: u32 = 50;
const NAP_US: u32 = 50;
/// After so many naps they last twice as long, and so on, as often as [`NAP_DOUBLINGS`] says.
const NAPS_BEFORE_LONGER: u32 = 16;
const NAP_DOUBLINGS: u32 = 7;
const NAPS_PER_CHECK: u32 = 64;

/// Takes the lock at once, or not.
pub(crate) fn try_acquire(word: &AtomicU32, owner: u32) -> Option<Held<'_>> {
    word.compare_exchange(0, owner, Ordering::Acquire, Ordering::Relaxed).ok()?;
    Some(Held { word, owner })
}

/// Takes the lock, waiting as long as the service lives.
pub(crate) fn acquire(word: &AtomicU32, owner: u32, alive: impl Fn() -> bool) -> Result<Held<'_>, LockError> {
    let mut round = 0u32;
    loop {
        if let Some(held) = try_acquire(word, owner) {
            return Ok(held);
        }
        if word.load(Ordering::Relaxed) == owner {
            return Err(LockError::Reentered);
        }
        round = round.wrapping_add(1);
        if round < SPINS {
            relax();
        } else if round < SPINS + YIELDS {
            sys::pause(0);
        } else {
            // Longer and longer: hundreds of threads that looked so often would leave its holder no processor.
            sys::pause(NAP_US << ((round - SPINS - YIELDS) / NAPS_BEFORE_LONGER).min(NAP_DOUBLINGS));
            if round.is_multiple_of(NAPS_PER_CHECK) && !alive() {
                return Err(LockError::ServiceGone);
            }
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Only if it is still ours: the worker may have taken it from a process that it thought dead,
        // and then there is nothing left to release.
        self.word.compare_exchange(self.owner, 0, Ordering::Release, Ordering::Relaxed).ok();
    }
}
