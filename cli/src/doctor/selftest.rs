//! The state of AF_XDP on the cards here: found by running services, or now.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use ringway_service::netlink::Snapshot;
use ringway_service::plan::{Backend, Machine, plan};
use ringway_service::selftest::{Outcome, try_all};
use ringway_service::{Config, RunDirectory};

use super::report::{Report, Status};

/// Of a file, what is read.
const BYTES_MAX: u64 = 64 << 10;
const REMEDY: &str = "interface.device = \"packet\", or another interface.xdp_mode";

/// Reports the findings of each running service.
pub(super) fn of_services(directory: &RunDirectory, report: &mut Report) {
    for name in directory.living().unwrap_or_default() {
        for line in lines(&directory.selftest_path(&name)) {
            let mut columns = line.splitn(3, '\t');
            let (Some(interface), Some(attach_mode), Some(outcome)) = (columns.next(), columns.next(), columns.next()) else {
                continue;
            };
            let (status, fix) = match outcome {
                outcome if outcome.starts_with("PASS") => (Status::Ok, ""),
                outcome if outcome.starts_with("FAIL") => (Status::Warn, REMEDY),
                _ => (Status::Note, ""),
            };
            report.add(status, "self-test", format!("service {name}: af_xdp on {interface}, {attach_mode}: {outcome}"), fix);
        }
    }
}

/// Without what a terminal would obey.
fn lines(path: &Path) -> Vec<String> {
    let mut text = Vec::new();
    // `Err`: that service has no such device.
    if let Ok(file) = File::open(path) {
        file.take(BYTES_MAX).read_to_end(&mut text).ok();
    }
    let clean = |line: &str| line.chars().filter(|letter| *letter == '\t' || !letter.is_control()).collect();
    String::from_utf8_lossy(&text).lines().map(clean).collect()
}

/// Attaches to each interface that would be shared, in every way.
pub(super) fn now(config: &Config, kernel: &Snapshot, report: &mut Report) {
    let plan = plan(config, kernel, &Machine::now(config, kernel));
    for planned in plan.served.iter().filter(|planned| planned.backend != Backend::Tap) {
        for found in try_all(planned) {
            let (status, fix) = match found.outcome {
                Outcome::Passed => (Status::Ok, ""),
                Outcome::Failed(_) => (Status::Warn, REMEDY),
                Outcome::Unavailable(_) | Outcome::NotTried(_) => (Status::Note, ""),
            };
            report.add(status, &planned.name, format!("af_xdp, {}: {}", found.attach_mode, found.outcome), fix);
        }
    }
}
