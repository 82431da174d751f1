//! The local port of an active open when the caller names none.
//!
//! Read RFC 6056 §3.3.1 first: a random start in the ephemeral range, then upwards until the
//! 4-tuple is free.

/// From the stack's random number, a port between `first` and `last` for which `is_free` says yes; `None` when there is none.
pub(crate) fn choose(random: u64, (first, last): (u16, u16), mut is_free: impl FnMut(u16) -> bool) -> Option<u16> {
    if last < first {
        return None;
    }
    let count = (last - first) as u32 + 1;
    let start = (random % count as u64) as u32;
    (0..count).map(|step| first + ((start + step) % count) as u16).find(|&port| is_free(port))
}
