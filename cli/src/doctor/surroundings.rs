//! Checks of what is around a service: run directory, tools, namespaces, processors, memory.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use ringway_service::RunDirectory;

use super::report::{Report, Status};

/// Where the kernel says how transparent huge pages are used.
const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const PROCESSORS: &str = "/sys/devices/system/cpu";
/// Number of the machine's first PID namespace (include/linux/proc_ns.h, PROC_PID_INIT_INO).
const FIRST_PID_NAMESPACE: u64 = 0xefff_fffc;
/// Programs that Ringway's own use, and for what.
const TOOLS: [(&str, &str); 2] =
    [("tcpdump", "`ringway tcpdump` prints and filters packets with it"), ("perf", "it shows where a worker's time goes")];

/// Runs all of them.
pub(super) fn examine(report: &mut Report) {
    run_directory(RunDirectory::of_this_machine().path(), report);
    let path = std::env::var_os("PATH").unwrap_or_default();
    for (tool, purpose) in TOOLS {
        match std::env::split_paths(&path).map(|folder| folder.join(tool)).find(is_program) {
            Some(file) => report.ok(tool, file.display().to_string()),
            None => report.add(Status::Note, tool, format!("is not installed: {purpose}"), &install(tool)),
        }
    }
    namespaces(report);
    processors(report);
    huge_pages(&fs::read_to_string(HUGE_PAGES).unwrap_or_default(), report);
}

fn install(tool: &str) -> String {
    let package = if tool == "perf" { "linux-perf" } else { tool };
    format!("apt install {package}")
}

fn is_program(file: &PathBuf) -> bool {
    fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// A directory that other users can write lets one take a service's place.
pub(super) fn run_directory(path: &Path, report: &mut Report) {
    const NAME: &str = "run directory";
    let shown = path.display();
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            report.note(NAME, format!("{shown} is not there: the first service makes it"));
        }
        Err(error) => report.warn(NAME, format!("{shown}: {error}"), ""),
        Ok(found) if !found.is_dir() => report.fail(NAME, format!("{shown} is no directory"), &format!("rm {shown}")),
        Ok(found) if found.mode() & 0o002 != 0 && found.mode() & 0o1000 == 0 => {
            let text = format!("{shown} can be written by every user: one could take a service's place");
            report.fail(NAME, text, &format!("chmod o-w {shown}"));
        }
        Ok(found) => report.ok(NAME, format!("{shown}, of user {}, mode {:03o}", found.uid(), found.mode() & 0o7777)),
    }
}

fn namespaces(report: &mut Report) {
    let number = |path: &str| fs::metadata(path).map(|found| found.ino());
    let processes = match number("/proc/self/ns/pid") {
        Ok(FIRST_PID_NAMESPACE) => "the processes of the machine",
        Ok(_) => "processes in a PID namespace of their own: programs outside it need a kernel of 6.9 or later",
        Err(_) => "processes unknown",
    };
    let network = match (number("/proc/self/ns/net"), number("/proc/1/ns/net")) {
        (Ok(here), Ok(first)) if here == first => "the network of process 1",
        (Ok(_), Ok(_)) => "a network namespace of its own: only its services are shown",
        _ => "network unknown (root sees it)",
    };
    report.note("namespaces", format!("{processes}; {network}"));
}

fn processors(report: &mut Report) {
    let read = |name: &str| fs::read_to_string(Path::new(PROCESSORS).join(name)).unwrap_or_default().trim().to_owned();
    let usable = std::thread::available_parallelism().map_or(1, usize::from);
    let isolated = read("isolated");
    let text = format!("{usable} usable of {} online", read("online"));
    match isolated.as_str() {
        "" => report.note("processors", format!("{text}, none isolated: a worker shares them with programs")),
        isolated => report.add(
            Status::Note,
            "processors",
            format!("{text}, isolated: {isolated}: the scheduler puts no worker there by itself"),
            &format!("taskset -c {isolated} ringway serve"),
        ),
    }
}

/// The words of the kernel's file: the one in brackets holds.
pub(super) fn huge_pages(words: &str, report: &mut Report) {
    const NAME: &str = "huge pages";
    let chosen = words.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word);
    match chosen {
        Some(word @ ("always" | "madvise")) => report.ok(NAME, format!("transparent, {word}: the frames of workers get them")),
        Some(word) => {
            let text =
                format!("transparent, {word}: the frames of workers take small pages, which costs time at many connections");
            report.add(Status::Note, NAME, text, &format!("echo madvise > {HUGE_PAGES}"));
        }
        None => report.note(NAME, "this kernel does not say".to_owned()),
    }
}

#[cfg(test)]
mod tests;
