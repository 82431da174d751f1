//! The machine: kernel, rights, limits, files.

use std::fs::OpenOptions;
use std::path::Path;

use ringway_service::{RunDirectory, kernel};
use rustix::process::{Resource, getrlimit};

use super::report::Report;

const TUN: &str = "/dev/net/tun";

/// Kernel, rights and limits.
pub(super) fn machine(report: &mut Report) {
    let release = kernel::release();
    match kernel::has_tcx() {
        true => report.ok("kernel", format!("{release} (6.6 or later shares interfaces by TCX)")),
        false => report.ok("kernel", format!("{release} (before 6.6: interfaces are shared by filters of the traffic control)")),
    }
    let missing = ringway_service::missing_rights();
    if missing.is_empty() {
        report.ok("rights", "CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF".to_owned());
    }
    for right in missing {
        report.fail("rights", right, "sudo ringway ...");
    }
    memlock(report);
    match OpenOptions::new().read(true).write(true).open(TUN) {
        Ok(_) => report.ok("tun", format!("{TUN} opens: device \"tap\" works")),
        Err(error) => report.warn("tun", format!("{TUN}: {error}; device \"tap\" does not work"), "modprobe tun"),
    }
}

fn memlock(report: &mut Report) {
    match getrlimit(Resource::Memlock).current {
        None => report.ok("memlock", "unlimited".to_owned()),
        Some(_) if rustix::process::geteuid().is_root() => report.ok("memlock", "limited, but not for root".to_owned()),
        Some(bytes) => {
            let text = format!("{} KiB: AF_XDP needs its packet memory locked", bytes >> 10);
            report.warn("memlock", text, "ulimit -l unlimited");
        }
    }
}

/// The library, running services, and what dead ones have left.
pub(super) fn files(report: &mut Report) {
    match crate::run::find_library() {
        Ok(library) => report.ok("library", library.display().to_string()),
        Err(text) => report.fail("library", text, "install libringway_preload.so beside the ringway program"),
    }
    let directory = RunDirectory::of_this_machine();
    match directory.living() {
        Ok(names) if names.is_empty() => report.ok("services", "none is running; `ringway run` starts private ones".to_owned()),
        Ok(names) => report.ok("services", format!("running: {}", names.join(", "))),
        Err(error) => report.warn("services", format!("{}: {error}", directory.path().display()), ""),
    }
    match directory.dead() {
        Ok(names) if names.is_empty() => {}
        Ok(names) => report.warn("leftovers", format!("files of dead services: {}", names.join(", ")), "ringway doctor --undo"),
        Err(error) => report.warn("leftovers", format!("{}: {error}", directory.path().display()), ""),
    }
    if Path::new("/etc/ld.so.preload").exists() {
        report.warn("preload", "/etc/ld.so.preload exists: its libraries see calls before or after ours".to_owned(), "");
    }
}
