//! Stacks of micro threads, and the switch from one to another.
//!
//! A stack is a mapping with a guard at its lower end: running over it ends the process with SIGSEGV, and writes into no other stack. Since
//! Linux 6.13 a guard takes no mapping of its own (MADV_GUARD_INSTALL), so that the kernel's limit of 65,530 mappings is none on micro threads.

use std::ptr;

use libc::{c_int, c_void, ucontext_t};
use ringway_cabi::{Answer, Errno, checked};

const PAGE: usize = 4096;
/// include/uapi/asm-generic/mman-common.h
const MADV_GUARD_INSTALL: c_int = 102;
/// Below this nothing can run: a call of libc may need a few pages.
const SMALLEST: usize = 4 * PAGE;
const LARGEST: usize = 1 << 30;

/// The memory of a stack. It is given back with [`unmap`](Stack::unmap) only, since a thread may still stand on it.
pub(super) struct Stack {
    base: *mut c_void,
    /// With the guard.
    bytes: usize,
}

/// The size of a stack that a program asks for.
pub(super) fn rounded(bytes: usize) -> usize {
    bytes.clamp(SMALLEST, LARGEST).next_multiple_of(PAGE)
}

impl Stack {
    /// A stack with so many bytes above its guard.
    ///
    /// # Errors
    /// As mmap(2); EAGAIN where the process may have no more mappings.
    pub(super) fn map(bytes: usize) -> Answer<Stack> {
        let bytes = bytes + PAGE;
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let base = unsafe { libc::mmap(ptr::null_mut(), bytes, access, kind | libc::MAP_STACK, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        let stack = Stack { base, bytes };
        // SAFETY: the lowest page of the mapping, which nothing uses yet.
        let guarded = unsafe {
            match libc::madvise(base, PAGE, MADV_GUARD_INSTALL) {
                0 => Ok(0),
                _ => checked(libc::mprotect(base, PAGE, libc::PROT_NONE)),
            }
        };
        if guarded.is_err() {
            // SAFETY: nothing has used it.
            unsafe { stack.unmap() };
            return Err(Errno(libc::EAGAIN));
        }
        Ok(stack)
    }

    /// Has it so many bytes above its guard?
    pub(super) fn has(&self, bytes: usize) -> bool {
        self.bytes - PAGE == bytes
    }

    /// The lowest byte that may be used, and the highest of the guard.
    #[cfg(test)]
    pub(super) fn bounds(&self) -> [*const u8; 2] {
        let lowest = self.base.wrapping_byte_add(PAGE).cast::<u8>().cast_const();
        [lowest, lowest.wrapping_sub(1)]
    }

    /// # Safety
    /// Nothing stands on the stack.
    pub(super) unsafe fn unmap(self) {
        // SAFETY: the mapping is this value's own; as the function says.
        unsafe { libc::munmap(self.base, self.bytes) };
    }
}

/// The registers of a micro thread that does not run. It has an address of its own: the structure points into itself.
pub(super) struct Context(Box<ucontext_t>);

impl Context {
    /// Of a thread that runs: it is filled when that thread is switched away from.
    pub(super) fn of_running() -> Context {
        // SAFETY: a structure of integers and pointers.
        Context(Box::new(unsafe { std::mem::zeroed() }))
    }

    /// Begins with `entry` on a stack. `entry` never returns.
    ///
    /// # Errors
    /// As getcontext(3).
    pub(super) fn on(stack: &Stack, entry: extern "C" fn()) -> Answer<Context> {
        let mut context = Context::of_running();
        // SAFETY: the structure lives as long as the context; the stack's memory above its guard is unused.
        unsafe {
            checked(libc::getcontext(&raw mut *context.0))?;
            context.0.uc_stack.ss_sp = stack.base.byte_add(PAGE);
            context.0.uc_stack.ss_size = stack.bytes - PAGE;
            context.0.uc_link = ptr::null_mut();
            libc::makecontext(&raw mut *context.0, entry, 0);
        }
        Ok(context)
    }

    pub(super) fn place(&mut self) -> *mut ucontext_t {
        &raw mut *self.0
    }
}

/// Stops the running micro thread and goes on with another. Returns when the first goes on.
///
/// # Safety
/// Both contexts live until then; the first is that of the running micro thread, the second of one of the same thread of the process that
/// does not run.
pub(super) unsafe fn switch(from: *mut ucontext_t, to: *const ucontext_t) {
    // SAFETY: as the function says.
    unsafe { libc::swapcontext(from, to) };
}
