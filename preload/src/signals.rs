//! Remembers how signal handlers were installed: a blocking call of ours that a signal interrupts must know whether it
//! goes on (SA_RESTART) or answers EINTR.
//!
//! The kernel does not say *which* handler interrupted a wait. So the rule is: as long as every handler in the process
//! was installed with SA_RESTART, calls go on; else they answer EINTR, which a program with such a handler must expect.

use crate::real::{self, Handler};
use libc::{c_int, sigaction as sigaction_t};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bit n-1: signal n has a handler without SA_RESTART.
static INTERRUPTING: AtomicU64 = AtomicU64::new(0);

/// Does every handler want calls to be taken up again?
pub(crate) fn all_restart() -> bool {
    INTERRUPTING.load(Ordering::Relaxed) == 0
}

fn note(signal: c_int, interrupts: bool) {
    // A fault is an instruction's, and none faults while it waits. Rust's own runtime handles two of them so, in every program.
    if matches!(signal, libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGFPE | libc::SIGTRAP) {
        return;
    }
    let Some(bit) = u32::try_from(signal - 1).ok().and_then(|shift| 1u64.checked_shl(shift)) else { return };
    if interrupts {
        INTERRUPTING.fetch_or(bit, Ordering::Relaxed);
    } else {
        INTERRUPTING.fetch_and(!bit, Ordering::Relaxed);
    }
}

fn is_handler(handler: Handler) -> bool {
    handler != libc::SIG_DFL && handler != libc::SIG_IGN && handler != libc::SIG_ERR
}

/// sigaction(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(signal: c_int, new: *const sigaction_t, old: *mut sigaction_t) -> c_int {
    // SAFETY: the program's own call.
    let answer = unsafe { real::sigaction(signal, new, old) };
    // SAFETY: null, or the program promises that it is valid.
    if let (0, Some(new)) = (answer, unsafe { new.as_ref() }) {
        note(signal, is_handler(new.sa_sigaction) && new.sa_flags & libc::SA_RESTART == 0);
    }
    answer
}

/// signal(2), which in glibc means SA_RESTART.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn signal(signal: c_int, handler: Handler) -> Handler {
    // SAFETY: the program's own call.
    let before = unsafe { real::signal(signal, handler) };
    if before != libc::SIG_ERR {
        let interrupts = false;
        note(signal, interrupts);
    }
    before
}

/// signal(2) as System V has it: without SA_RESTART.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sysv_signal(signal: c_int, handler: Handler) -> Handler {
    // SAFETY: the program's own call.
    let before = unsafe { real::sysv_signal(signal, handler) };
    if before != libc::SIG_ERR {
        note(signal, is_handler(handler));
    }
    before
}

/// `signal` of programs compiled for strict System V.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __sysv_signal(signal: c_int, handler: Handler) -> Handler {
    // SAFETY: the same contract.
    unsafe { sysv_signal(signal, handler) }
}

/// siginterrupt(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siginterrupt(signal: c_int, interrupt: c_int) -> c_int {
    // SAFETY: the program's own call.
    let answer = unsafe { real::siginterrupt(signal, interrupt) };
    if answer == 0 {
        note(signal, interrupt != 0);
    }
    answer
}
