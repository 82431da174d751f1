//! The atomic types that shared algorithms use: the machine's, or loom's in a model check.
//!
//! `list`, `ring` and `doorbell` take every atomic from here so that `--cfg loom` runs exactly the
//! code that ships.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Lets another thread go on: a hint to the processor, a scheduling point in a model check.
#[inline]
pub fn relax() {
    #[cfg(not(loom))]
    core::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}
