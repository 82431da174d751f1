//! Servers that are not measured at the moment stand still: SIGSTOP and SIGCONT for a process and everything it has started.
//!
//! Promises: a process that is gone is no error. What is stopped and left without its parent is ended by the system (a
//! process group that becomes orphaned gets SIGHUP and SIGCONT). Does not do: processes that are started meanwhile; the roles
//! start theirs before they say that they are ready.

use rustix::process::{Pid, Signal, kill_process};

use crate::measure::cpu;

/// Stops them where they are.
pub(crate) fn pause(pid: u32) {
    signal(pid, Signal::STOP);
}

/// Lets them go on.
pub(crate) fn resume(pid: u32) {
    signal(pid, Signal::CONT);
}

fn signal(pid: u32, signal: Signal) {
    for pid in cpu::tree(pid).into_iter().filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) {
        // One that is already gone is what is wanted.
        kill_process(pid, signal).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests;
