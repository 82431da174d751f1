//! The only caller of the operating system's clock.
//!
//! Promises: time never goes backwards and does not follow changes of the wall clock. Workers of one machine share one
//! start, so their instants are comparable. The wall clock serves only for the age of the kernel's fresh time stamps.
//! Does not do: calendars.

use ringway_shm::{Duration, Instant};
use rustix::time::{ClockId, clock_gettime};

/// The monotonic time now.
#[inline]
pub fn now() -> Instant {
    let time = clock_gettime(ClockId::Monotonic);
    Instant::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The wall-clock time since 1970.
pub(crate) fn wall() -> Duration {
    let time = clock_gettime(ClockId::Realtime);
    Duration::from_secs(time.tv_sec as u64) + Duration::from_nanos(time.tv_nsec as u64)
}

/// CPU time that the calling thread has used, nanoseconds.
pub fn thread_cpu_nanos() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
