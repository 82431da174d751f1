//! Contexts, and the socket ids of each.
//!
//! Programs for mTCP index arrays by the id, whose length is what they have set as max_concurrency. So ids are small and begin at zero in each
//! context; descriptor numbers, which the contexts of a process share, would not do. And they look into an array after they have closed the socket
//! and opened another one (epwget does): an id rests for a while before it is given again.

use std::collections::VecDeque;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::c_int;

use crate::config;
use crate::source::Sources;
use ringway_cabi::{Answer, Errno};

/// One application thread's sockets.
pub struct Context {
    /// By id: the descriptor and one; 0: the id is free, or its socket is being made.
    descriptors: Box<[AtomicI32]>,
    free: Mutex<Free>,
    sources: Mutex<Option<Sources>>,
}

/// Ids that are free.
#[derive(Default)]
struct Free {
    /// Those that were in use, in the order in which they were closed.
    returned: VecDeque<usize>,
    /// From here on none was.
    next: usize,
}

/// So many ids rest before one of them is given again, while there are others.
const RESTING: usize = 128;

impl Free {
    fn take(&mut self, ids: usize) -> Option<usize> {
        if self.returned.len() <= RESTING && self.next < ids {
            self.next += 1;
            return Some(self.next - 1);
        }
        self.returned.pop_front()
    }
}

/// An id whose descriptor is being made; given back unless it is kept.
pub(crate) struct NewId<'a> {
    context: &'a Context,
    id: usize,
}

impl NewId<'_> {
    /// The id stands for the descriptor from here on.
    pub(crate) fn keep(self, fd: c_int) -> c_int {
        self.context.descriptors[self.id].store(fd + 1, Ordering::Release);
        let id = self.id as c_int;
        std::mem::forget(self);
        id
    }
}

impl Drop for NewId<'_> {
    fn drop(&mut self) {
        // It was not in use, and need not rest.
        let mut free = lock(&self.context.free);
        if self.id + 1 == free.next { free.next = self.id } else { free.returned.push_front(self.id) }
    }
}

impl Context {
    fn new(ids: usize) -> Context {
        Context { descriptors: (0..ids).map(|_| AtomicI32::new(0)).collect(), free: Mutex::default(), sources: Mutex::default() }
    }

    /// The context behind a pointer; EACCES for null, as in mTCP.
    ///
    /// # Safety
    /// As the crate says.
    pub(crate) unsafe fn at<'a>(context: *const Context) -> Answer<&'a Context> {
        // SAFETY: as the crate says.
        unsafe { context.as_ref() }.ok_or(Errno(libc::EACCES))
    }

    /// The descriptor of an id.
    ///
    /// # Safety
    /// As the crate says.
    #[inline]
    pub(crate) unsafe fn fd(context: *const Context, id: c_int) -> Answer<c_int> {
        // SAFETY: as the crate says.
        unsafe { Context::at(context) }?.descriptor(id)
    }

    #[inline]
    pub(crate) fn descriptor(&self, id: c_int) -> Answer<c_int> {
        let place = usize::try_from(id).ok().and_then(|id| self.descriptors.get(id));
        match place.map_or(0, |place| place.load(Ordering::Acquire)) {
            0 => Err(Errno(libc::EBADF)),
            kept => Ok(kept - 1),
        }
    }

    /// A free id; EMFILE where max_concurrency are in use.
    pub(crate) fn new_id(&self) -> Answer<NewId<'_>> {
        let taken = lock(&self.free).take(self.descriptors.len());
        taken.map(|id| NewId { context: self, id }).ok_or(Errno(libc::EMFILE))
    }

    /// Takes the descriptor of an id, which is free from then on.
    pub(crate) fn take(&self, id: c_int) -> Answer<c_int> {
        self.descriptor(id)?;
        match self.descriptors[id as usize].swap(0, Ordering::AcqRel) {
            0 => Err(Errno(libc::EBADF)),
            kept => {
                lock(&self.free).returned.push_back(id as usize);
                Ok(kept - 1)
            }
        }
    }

    pub(crate) fn sources(&self) -> MutexGuard<'_, Option<Sources>> {
        lock(&self.sources)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        for place in &self.descriptors {
            let kept = place.load(Ordering::Acquire);
            if kept != 0 {
                // SAFETY: the descriptor is this context's.
                unsafe { libc::close(kept - 1) };
            }
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn mtcp_create_context(cpu: c_int) -> *mut Context {
    let made = config::of_contexts().and_then(|(cores, ids)| {
        let is_core = usize::try_from(cpu).is_ok_and(|cpu| cpu < cores);
        is_core.then(|| Context::new(ids)).ok_or(Errno(libc::EINVAL))
    });
    made.map_or_else(
        |errno| {
            errno.set();
            ptr::null_mut()
        },
        |context| Box::into_raw(Box::new(context)),
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_destroy_context(context: *mut Context) {
    if !context.is_null() {
        // SAFETY: as the crate says; it was made by `mtcp_create_context`.
        drop(unsafe { Box::from_raw(context) });
    }
}

/// Takes a lock even after a panic: the value behind it is whole after every statement.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
