//! What `--fix` does about findings: only what changes no setting of the machine's owner.

use std::process::Command;

use ringway_service::RunDirectory;

use super::report::{Repair, Report};

/// Makes the repairs of a report, and says in another what became of each.
pub(super) fn all(found: &Report, done: &mut Report) {
    for repair in found.repairs() {
        match repair {
            Repair::LoadTun => load_tun(done),
            Repair::RemoveLeftovers => leftovers(done),
        }
    }
}

fn load_tun(done: &mut Report) {
    match Command::new("modprobe").arg("tun").output() {
        Ok(ended) if ended.status.success() => done.ok("fixed", "module tun is loaded".to_owned()),
        Ok(ended) => {
            let said = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
            done.warn("not fixed", format!("modprobe tun: {said}"), "");
        }
        Err(error) => done.warn("not fixed", format!("modprobe tun: {error}"), "apt install kmod"),
    }
}

/// Removes the files of dead services. Their changes in the kernel ended with their processes, but for offloads of cards, which are
/// switched on again.
pub(super) fn leftovers(done: &mut Report) {
    let directory = RunDirectory::of_this_machine();
    for line in directory.restore_offloads() {
        done.ok("offloads", line);
    }
    for line in directory.offloads_off() {
        done.fail("offloads", line, "run as root");
    }
    match directory.remove_dead() {
        Ok(names) if names.is_empty() => done.ok("leftovers", "nothing to remove".to_owned()),
        Ok(names) => done.ok("leftovers", format!("removed the files of {}", names.join(", "))),
        Err(error) => done.fail("leftovers", error.to_string(), "run as root"),
    }
}
