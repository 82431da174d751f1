//! Values that are made at first use, in a process that may fork at any instant.
//!
//! A thread that makes such a value holds no lock: threads that meet there make one each, the first one stays, and the
//! others are dropped. So the child of a fork finds either nothing and makes its own, or all of it. (With
//! `std::sync::OnceLock` the child waits for ever for a thread that only its parent has; clippy refuses that type here.)

pub(crate) use once_cell::race::OnceBox as FirstUse;

/// An array on the heap that was never on the stack, which may be a signal handler's.
pub(crate) fn boxed<T, const N: usize>(make: impl Fn() -> T) -> Box<[T; N]> {
    let entries: Box<[T]> = (0..N).map(|_| make()).collect();
    entries.try_into().unwrap_or_else(|_| unreachable!("N entries were made"))
}
