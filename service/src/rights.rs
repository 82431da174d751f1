//! The rights of this process, and its limits.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::DeviceChoice;
use crate::plan::{Backend, Planned};

/// Capabilities that a service with shared interfaces needs: bit, name, what for.
const NEEDED: [(u32, &str, &str); 3] = [
    (12, "CAP_NET_ADMIN", "steers packets and resolves neighbors"),
    (13, "CAP_NET_RAW", "opens packet sockets"),
    (39, "CAP_BPF", "loads the programs that tell our packets from the kernel's"),
];
/// Of the program's file, where it is to serve shared interfaces for an ordinary user.
const FILE_CAPABILITIES: &str = "cap_net_admin,cap_net_raw,cap_bpf+ep";
/// The additional right for AF_XDP.
const NEEDED_BY_XDP: (u32, &str, &str) = (38, "CAP_PERFMON", "lets the program of AF_XDP find ports behind IP options");
/// CAP_SYS_ADMIN stands for those of BPF, as it did before Linux 5.8.
const CAP_SYS_ADMIN: u32 = 21;
const OF_BPF: [u32; 2] = [38, 39];

/// The rights that are missing, one line each.
pub fn missing_rights() -> Vec<String> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    missing(effective_capabilities(&status), &NEEDED)
}

/// The same, of what serving these devices takes, or finding out whether any can be served.
pub(crate) fn missing_for(device: DeviceChoice, served: &[Planned]) -> Vec<String> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let has = |backend| served.iter().any(|planned| planned.backend == backend);
    let shared = if device == DeviceChoice::Tap { &[] } else { &NEEDED[..] };
    let xdp = has(Backend::Xdp).then_some(NEEDED_BY_XDP);
    missing(effective_capabilities(&status), &shared.iter().copied().chain(xdp).collect::<Vec<_>>())
}

fn effective_capabilities(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn missing(capabilities: u64, needed: &[(u32, &str, &str)]) -> Vec<String> {
    let has = |bit: u32| capabilities & (1 << bit) != 0;
    let may = |bit: u32| has(bit) || (OF_BPF.contains(&bit) && has(CAP_SYS_ADMIN));
    let line = |(_, name, what): &(u32, &str, &str)| {
        format!(
            "{name} is missing, which {what}: run as root, attach to `ringway serve`, or `setcap {FILE_CAPABILITIES} ringway`"
        )
    };
    needed.iter().filter(|(bit, _, _)| !may(*bit)).map(line).collect()
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
