//! Stops servers while they are not measured: SIGSTOP and SIGCONT for a process and its descendants.
//!
//! Promises: a process that has ended is no error. The system ends stopped processes that lose their parent (an orphaned
//! process group gets SIGHUP and SIGCONT). Does not do: stop processes started meanwhile; roles start theirs before they
//! report ready.

use rustix::process::{Pid, Signal, kill_process};

use crate::measure::cpu;

/// Stops the process and its descendants.
pub(crate) fn pause(pid: u32) {
    signal(pid, Signal::STOP);
}

/// Continues the process and its descendants.
pub(crate) fn resume(pid: u32) {
    signal(pid, Signal::CONT);
}

fn signal(pid: u32, signal: Signal) {
    for pid in cpu::tree(pid).into_iter().filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) {
        // A process that has ended needs no signal.
        kill_process(pid, signal).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests;
