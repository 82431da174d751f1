//! Values that are made at first use, in a process that may fork at any instant.
//!
//! A thread that makes such a value holds no lock: threads that meet there make one each, the first one stays, and the
//! others are dropped. So the child of a fork finds either nothing and makes its own, or all of it. (With
//! `std::sync::OnceLock` the child waits for ever for a thread that only its parent has; clippy refuses that type here.)

pub use once_cell::race::OnceBox as FirstUse;

/// `N` places for values that are made at first use. The places are made with the first value: a program without sockets has none.
pub(crate) struct FirstUses<T, const N: usize>(FirstUse<[FirstUse<T>; N]>);

impl<T, const N: usize> FirstUses<T, N> {
    pub(crate) const fn new() -> FirstUses<T, N> {
        FirstUses(FirstUse::new())
    }

    /// The value at `place`, if it has been made.
    #[inline]
    pub(crate) fn get(&self, place: usize) -> Option<&T> {
        self.0.get()?[place].get()
    }

    pub(crate) fn get_or_init(&self, place: usize, make: impl FnOnce() -> Box<T>) -> &T {
        self.0.get_or_init(|| boxed(FirstUse::new))[place].get_or_init(make)
    }

    /// The values that have been made, with their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        let places = self.0.get().into_iter().flatten();
        places.enumerate().filter_map(|(place, value)| Some((place, value.get()?)))
    }
}

/// An array on the heap that was never on the stack, which may be a signal handler's.
pub(crate) fn boxed<T, const N: usize>(make: impl Fn() -> T) -> Box<[T; N]> {
    let entries: Box<[T]> = (0..N).map(|_| make()).collect();
    entries.try_into().unwrap_or_else(|_| unreachable!("N entries were made"))
}
