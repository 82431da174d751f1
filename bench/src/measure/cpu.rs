//! CPU time of both ends, from /proc.
//!
//! A side's CPU time is that of all threads of its processes (schedstat, nanoseconds, including softirqs that interrupted
//! them), of the core's ksoftirqd, and of softirqs on the idle core. The last are known only by ticks: the busy time of the
//! core beyond its processes, at most its softirq ticks.

use std::fs;
use std::io;

use serde::{Deserialize, Serialize};

/// Times of one core since the start of the machine, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Core {
    /// Busy time, without stolen time.
    pub busy_ns: u64,
    /// Time in programs.
    pub user_ns: u64,
    /// Time in interrupts and softirqs.
    pub softirq_ns: u64,
    /// Time stolen by the hypervisor.
    pub steal_ns: u64,
}

/// CPU time of one side and its core so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Used {
    /// CPU time of its processes and the core's ksoftirqd.
    pub processes_ns: u64,
    /// Times of its core.
    pub core: Core,
}

impl Used {
    /// Reads the CPU time of the process and its descendants, and of the core that they are bound to.
    ///
    /// # Errors
    /// /proc cannot be read.
    pub fn by(pid: u32, core: usize) -> io::Result<Used> {
        let mut processes_ns = tree_ns(pid);
        processes_ns += ksoftirqd(core).map_or(0, process_ns);
        let text = fs::read_to_string("/proc/stat")?;
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        Ok(Used { processes_ns, core: core_of(&text, core, tick_ns).unwrap_or_default() })
    }

    /// The times since `before`.
    pub fn since(&self, before: &Used) -> Used {
        let minus = |after: u64, before: u64| after.saturating_sub(before);
        Used {
            processes_ns: minus(self.processes_ns, before.processes_ns),
            core: Core {
                busy_ns: minus(self.core.busy_ns, before.core.busy_ns),
                user_ns: minus(self.core.user_ns, before.core.user_ns),
                softirq_ns: minus(self.core.softirq_ns, before.core.softirq_ns),
                steal_ns: minus(self.core.steal_ns, before.core.steal_ns),
            },
        }
    }

    /// The side's CPU time; see the module's documentation.
    pub fn cpu_ns(&self) -> u64 {
        let beyond = self.core.busy_ns.saturating_sub(self.processes_ns);
        self.processes_ns + beyond.min(self.core.softirq_ns)
    }

    /// CPU time of other processes on the side's core, to the precision of ticks.
    pub fn others_ns(&self) -> u64 {
        self.core.busy_ns.saturating_sub(self.cpu_ns())
    }
}

/// CPU time of the process and its descendants so far, nanoseconds.
pub fn tree_ns(pid: u32) -> u64 {
    tree(pid).into_iter().map(process_ns).sum()
}

/// The process and its descendants.
pub fn tree(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut next = 0;
    while next < found.len() {
        let tasks = fs::read_dir(format!("/proc/{}/task", found[next])).into_iter().flatten().flatten();
        let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
        let pids: Vec<u32> = children.flat_map(|text| numbers(&text)).collect();
        found.extend(pids);
        next += 1;
    }
    found
}

fn numbers(text: &str) -> Vec<u32> {
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// CPU time of all threads of a process; zero when it has ended.
pub(super) fn process_ns(pid: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let texts = tasks.filter_map(|task| fs::read_to_string(task.path().join("schedstat")).ok());
    texts.filter_map(|text| text.split_whitespace().next()?.parse::<u64>().ok()).sum()
}

/// Process id of a core's ksoftirqd, a child of process 2.
fn ksoftirqd(core: usize) -> Option<u32> {
    let children = fs::read_to_string("/proc/2/task/2/children").ok()?;
    let wanted = format!("ksoftirqd/{core}");
    let is_it = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == wanted);
    numbers(&children).into_iter().find(is_it)
}

/// Parses a core's line of /proc/stat: user nice system idle iowait irq softirq steal.
fn core_of(text: &str, core: usize, tick_ns: u64) -> Option<Core> {
    let label = format!("cpu{core}");
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(&label))?;
    let ticks: Vec<u64> = line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, steal] = *ticks.first_chunk()?;
    let busy_ns = (user + nice + system + irq + softirq) * tick_ns;
    let (user_ns, softirq_ns) = ((user + nice) * tick_ns, (irq + softirq) * tick_ns);
    Some(Core { busy_ns, user_ns, softirq_ns, steal_ns: steal * tick_ns })
}

#[cfg(test)]
mod tests;
