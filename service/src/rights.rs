//! What this process may do, and how much of it.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Capabilities that a service with shared interfaces needs: bit, name, what for.
const NEEDED: [(u32, &str, &str); 3] = [
    (12, "CAP_NET_ADMIN", "steers packets and resolves neighbors"),
    (13, "CAP_NET_RAW", "opens packet sockets"),
    (39, "CAP_BPF", "loads the programs that tell our packets from the kernel's"),
];
/// CAP_SYS_ADMIN stands for CAP_BPF, as it did before Linux 5.8.
const CAP_SYS_ADMIN: u32 = 21;
const CAP_BPF: u32 = 39;

/// The rights that are missing, one line each.
pub fn missing_rights() -> Vec<String> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    missing(effective_capabilities(&status))
}

fn effective_capabilities(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn missing(capabilities: u64) -> Vec<String> {
    let has = |bit: u32| capabilities & (1 << bit) != 0;
    let may = |bit: u32| has(bit) || (bit == CAP_BPF && has(CAP_SYS_ADMIN));
    let line = |(_, name, what): &(u32, &str, &str)| {
        format!("{name} is missing, which {what}: run as root, or attach to `ringway serve`")
    };
    NEEDED.iter().filter(|(bit, _, _)| !may(*bit)).map(line).collect()
}

/// Allows this process as many descriptors as it may have at all: every outgoing connection keeps
/// its port with one. Programs started before keep their own limit.
///
/// # Errors
/// The system refuses.
pub fn raise_descriptor_limit() -> io::Result<()> {
    let present = getrlimit(Resource::Nofile);
    let most = std::fs::read_to_string("/proc/sys/fs/nr_open").ok().and_then(|most| most.trim().parse().ok());
    // Above the hard limit only with CAP_SYS_RESOURCE.
    let beyond = Rlimit { current: most, maximum: most };
    if most > present.maximum && present.maximum.is_some() && setrlimit(Resource::Nofile, beyond).is_ok() {
        return Ok(());
    }
    Ok(setrlimit(Resource::Nofile, Rlimit { current: present.maximum, maximum: present.maximum })?)
}

#[cfg(test)]
mod tests;
