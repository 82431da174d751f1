//! First in, first out, without a ring: items lie in one piece and the queue starts over whenever it has been emptied.
//!
//! For queues that are filled and emptied within a turn: frames of a burst, connections with work, events. Adding one is a
//! comparison and a store, taking one out hardly more. Promises: a queue that is never empty does not grow for that, since
//! the places of what was taken out are used again before more memory is asked for.
//!
//! ```text
//!   items: | taken out | first .. last | room |
//!          0         taken            len   capacity
//! ```

use alloc::vec::Vec;
use core::mem::ManuallyDrop;

/// See the module's text.
pub struct Fifo<T> {
    /// The first `taken` of them are not ours any more.
    items: Vec<ManuallyDrop<T>>,
    /// Less than there are items, or 0.
    taken: usize,
}

impl<T> Fifo<T> {
    /// An empty queue.
    pub const fn new() -> Fifo<T> {
        Fifo { items: Vec::new(), taken: 0 }
    }

    /// An empty queue with room for `count` items.
    pub fn with_capacity(count: usize) -> Fifo<T> {
        Fifo { items: Vec::with_capacity(count), taken: 0 }
    }

    /// Items in the queue.
    #[inline]
    pub fn len(&self) -> usize {
        self.items.len() - self.taken
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        // Taking the last one out starts over.
        self.items.is_empty()
    }

    /// Adds an item at the end. It is made where it stays: nothing that makes room is told of it.
    #[inline(always)]
    pub fn push_back(&mut self, item: T) {
        if self.items.len() == self.items.capacity() {
            self.make_room();
        }
        let len = self.items.len();
        // SAFETY: the memory has room for more than `len` items, all before this one are there, and now this one is too.
        unsafe {
            self.items.as_mut_ptr().add(len).write(ManuallyDrop::new(item));
            self.items.set_len(len + 1);
        }
    }

    /// The memory is used up: by items that were taken out, or there has to be more.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self) {
        if self.taken > self.items.len() / 2 {
            self.items.drain(..self.taken);
            self.taken = 0;
        } else {
            self.items.reserve(1);
        }
    }

    /// The item behind so many others.
    #[inline]
    pub fn get(&self, place: usize) -> Option<&T> {
        self.items.get(self.taken + place).map(|item| &**item)
    }

    /// Adds an item that is to be the next one: for what is rare, since all others may have to move.
    pub fn push_front(&mut self, item: T) {
        self.items.drain(..self.taken);
        self.taken = 0;
        self.items.insert(0, ManuallyDrop::new(item));
    }

    /// Takes the first item out.
    #[inline]
    pub fn pop_front(&mut self) -> Option<T> {
        let item = self.items.get_mut(self.taken)?;
        // SAFETY: this one was not taken out, and from here on `taken` says that it was, or there is none.
        let item = unsafe { ManuallyDrop::take(item) };
        self.taken += 1;
        if self.taken == self.items.len() {
            // SAFETY: none of them is ours.
            unsafe { self.items.set_len(0) };
            self.taken = 0;
        }
        Some(item)
    }

    /// The first item.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        self.items.get(self.taken).map(|item| &**item)
    }

    /// The last item.
    #[inline]
    pub fn back(&self) -> Option<&T> {
        self.items.last().map(|item| &**item)
    }

    /// All items in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.items[self.taken..].iter().map(|item| &**item)
    }

    /// Moves all items of `other` to the end of this queue.
    pub fn append(&mut self, other: &mut Fifo<T>) {
        let skipped = core::mem::take(&mut other.taken);
        self.items.extend(other.items.drain(..).skip(skipped));
    }

    /// Drops all items.
    pub fn clear(&mut self) {
        while self.pop_front().is_some() {}
    }
}

impl<T> Default for Fifo<T> {
    fn default() -> Fifo<T> {
        Fifo::new()
    }
}

impl<T> Drop for Fifo<T> {
    fn drop(&mut self) {
        self.clear();
    }
}

impl<T: core::fmt::Debug> core::fmt::Debug for Fifo<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests;
