//! Memory, wakeups and CPU time of idle processes.

use std::fs;

use super::cpu;

/// The state of a process and its descendants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// Resident bytes, including shared memory; memory shared by two processes of the tree counts twice.
    pub resident_bytes: u64,
    /// Context switches of its threads since their start.
    pub switches: u64,
    /// CPU time since its start, nanoseconds.
    pub cpu_ns: u64,
    /// Bytes of the kernel's slabs on the whole machine, which contain sockets.
    pub slab_bytes: u64,
}

impl Rest {
    /// Reads the present state. Processes that have ended count as zero.
    pub fn of(pid: u32) -> Rest {
        let mut rest = Rest { slab_bytes: kibibytes(&read("/proc/meminfo"), "Slab:"), ..Rest::default() };
        for pid in cpu::tree(pid) {
            rest.resident_bytes += kibibytes(&read(&format!("/proc/{pid}/status")), "VmRSS:");
            rest.cpu_ns += cpu::process_ns(pid);
            let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            rest.switches += tasks.map(|task| switches(&read(&task.path().join("status").to_string_lossy()))).sum::<u64>();
        }
        rest
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The bytes after a label of /proc/meminfo or /proc/PID/status.
fn kibibytes(text: &str, label: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(label)?.split_whitespace().next()?.parse::<u64>().ok());
    value.unwrap_or(0) * 1024
}

fn switches(status: &str) -> u64 {
    let counts = status.lines().filter(|line| line.contains("ctxt_switches:"));
    counts.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests;
