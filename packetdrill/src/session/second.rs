//! The tool's second thread, as the system sees it.
//!
//! The tool hands a blocking call to its second thread and goes on when that thread says that it is about to make the call. No
//! function of the library runs in between, so only the system knows whether the call is still to come: a thread that has made
//! it sleeps. Promises: a wait that ends. Does not do: more than two threads, of which none could be told to be the second.

use std::fs::{self, File};
use std::io::{Read, Seek};
use std::path::Path;
use std::thread;
use std::time::Duration;

pub(super) struct Second {
    /// /proc/self/task/N/stat
    stat: File,
}

impl Second {
    /// Returns the only other thread of this process, if there is exactly one.
    pub(super) fn find() -> Option<Second> {
        let me = fs::read_link("/proc/thread-self").ok()?;
        let tasks = fs::read_dir("/proc/self/task").ok()?.filter_map(|entry| Some(entry.ok()?.path()));
        let mut others = tasks.filter(|task| task.file_name() != me.file_name());
        let (first, more) = (others.next()?, others.next());
        if more.is_none() { Second::of(&first) } else { None }
    }

    fn of(task: &Path) -> Option<Second> {
        File::open(task.join("stat")).ok().map(|stat| Second { stat })
    }

    /// Waits until the thread sleeps or has ended, for a second at most.
    pub(super) fn let_sleep(&self) {
        for _ in 0..LOOKS_MAX {
            if !self.is_awake() {
                return;
            }
            thread::sleep(PAUSE);
        }
    }

    /// Returns true while the thread runs or could run.
    fn is_awake(&self) -> bool {
        let mut text = String::new();
        let mut stat = &self.stat;
        let read = stat.rewind().and_then(|()| stat.read_to_string(&mut text));
        // proc_pid_stat(5): the state follows the name, which is in parentheses and may have some itself.
        read.is_ok() && text.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['R', 'D']))
    }
}

const PAUSE: Duration = Duration::from_micros(100);
const LOOKS_MAX: u32 = 10_000;

#[cfg(test)]
mod tests;
