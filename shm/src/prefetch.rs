//! Asking for memory before it is needed.
//!
//! Work on a burst goes in phases (look at all, then work on each), so that the cache misses of one phase overlap. A
//! prefetch changes nothing and waits for nothing; where the processor has none it does nothing.

/// Asks for the cache line in which `place` begins.
#[inline]
pub fn prefetch<T>(place: &T) {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction is part of SSE, which the target has; it reads nothing that a program can observe.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(place).cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", target_feature = "sse", not(miri))))]
    core::hint::black_box(place);
}
