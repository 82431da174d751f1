//! Checks of the machine: kernel, capabilities, limits, files.

use std::fs::OpenOptions;
use std::path::Path;

use ringway_service::{Config, RunDirectory, executables, kernel};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use super::report::{Repair, Report};
use crate::enable::programs::Programs;

const TUN: &str = "/dev/net/tun";

/// Checks kernel, capabilities, limits and `/dev/net/tun`.
pub(super) fn machine(report: &mut Report) {
    let release = kernel::release();
    match kernel::has_tcx() {
        true => report.ok("kernel", format!("{release} (6.6 or later: interfaces are shared through TCX)")),
        false => report.ok("kernel", format!("{release} (before 6.6: interfaces are shared through tc filters)")),
    }
    let missing = ringway_service::missing_rights();
    if missing.is_empty() {
        report.ok("capabilities", "CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF".to_owned());
    }
    for right in missing {
        report.fail("capabilities", right, "sudo ringway ...");
    }
    memlock(report);
    match OpenOptions::new().read(true).write(true).open(TUN) {
        Ok(_) => report.ok("tun", format!("{TUN} opens: device \"tap\" works")),
        Err(error) => {
            report.warn("tun", format!("{TUN}: {error}; device \"tap\" does not work"), "modprobe tun");
            report.may_repair(Repair::LoadTun);
        }
    }
}

fn memlock(report: &mut Report) {
    match getrlimit(Resource::Memlock).current {
        None => report.ok("memlock", "unlimited".to_owned()),
        Some(bytes) if may_lock_all() => {
            report.ok("memlock", format!("{} KiB, not enforced with CAP_IPC_LOCK", bytes >> 10));
        }
        Some(bytes) => {
            let text = format!("{} KiB: AF_XDP must lock its packet memory", bytes >> 10);
            report.warn("memlock", text, "ulimit -l unlimited");
        }
    }
}

/// Returns true when CAP_IPC_LOCK is effective; root may lack it, others may have it.
fn may_lock_all() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK))
}

/// Checks whether rules can be followed.
pub(super) fn rules(config: &Config, report: &mut Report) {
    if !config.rules().names_files() {
        return;
    }
    match executables::obstacle() {
        None => report.ok("rules", "the kernel says which file a process runs, as rules with a path need it".to_owned()),
        Some(obstacle) => report.warn("rules", obstacle, "sudo ringway doctor"),
    }
}

/// Checks the preload library, running services and files of dead ones.
pub(super) fn files(report: &mut Report) {
    match crate::run::find_library() {
        Ok(library) => report.ok("library", library.display().to_string()),
        Err(text) => report.fail("library", text, "install libringway_preload.so beside the ringway program"),
    }
    let directory = RunDirectory::of_this_machine();
    match directory.living() {
        Ok(names) if names.is_empty() => report.ok("services", "none running; `ringway run` starts a private one".to_owned()),
        Ok(names) => report.ok("services", format!("running: {}", names.join(", "))),
        Err(error) => report.warn("services", format!("{}: {error}", directory.path().display()), ""),
    }
    match directory.dead() {
        Ok(names) if names.is_empty() => {}
        Ok(names) => {
            report.warn("leftovers", format!("files of dead services: {}", names.join(", ")), "ringway doctor --fix");
            report.may_repair(Repair::RemoveLeftovers);
        }
        Err(error) => report.warn("leftovers", format!("{}: {error}", directory.path().display()), ""),
    }
    for line in directory.offloads_off() {
        report.warn("leftovers", format!("a service was killed: {line}"), "ringway doctor --fix, or start a service");
        report.may_repair(Repair::RemoveLeftovers);
    }
    preloaded(report);
}

/// Checks what the loader puts into all programs.
fn preloaded(report: &mut Report) {
    const REMEDY: &str = "grep -o '^/[^ ]*' /etc/ringway/programs | xargs -n 1 ringway disable --program";
    let others = "/etc/ld.so.preload exists: its libraries intercept calls before or after Ringway's";
    let is_there = Path::new("/etc/ld.so.preload").exists();
    match Programs::read(Path::new("/")) {
        Err(error) => report.warn("preload", error, "ask as root"),
        Ok(programs) => match (programs.library(), programs.listed()) {
            (None, _) if is_there => report.warn("preload", others.to_owned(), ""),
            (None, _) => {}
            (Some(library), _) if !Path::new(library).is_file() => {
                report.fail("preload", format!("/etc/ld.so.preload names {library}, which is not there"), REMEDY);
            }
            (Some(_), listed) => report.ok("preload", format!("programs on Ringway whatever starts them: {}", listed.join(", "))),
        },
    }
}
