//! `ringway doctor`: reports what this machine supports, what Ringway would use, and what to fix.
//!
//! Promises: disturbs nothing without `--self-test`; each line is OK, NOTE, WARN or FAIL with, where there is one, the command that fixes
//! it. Exit status: 0 no problem, 1 warnings, 2 a failure that must be fixed first.
//! `--measure` writes down what it finds (`ringway_service::measured`). Does not do: fix anything, except `--undo`, which removes the files of dead services and switches offloads on that they left off.

mod bulk;
mod checks;
mod interfaces;
mod report;
mod selftest;

use std::process::ExitCode;

use clap::Args;
use ringway_service::netlink::Snapshot;
use ringway_service::{Config, RunDirectory};

use report::{Report, Status};

/// Arguments of `ringway doctor`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Also measure each device's speed on a private veth pair or tap, and whether the stack or the kernel carries bulk data of programs faster: services with
    /// `policy.bulk = "auto"` follow it from their next start on
    #[arg(long)]
    pub(crate) measure: bool,
    /// Attach AF_XDP to each interface for a moment, and test whether packets pass; a card may lose its link meanwhile
    #[arg(long)]
    pub(crate) self_test: bool,
    /// Only remove the files that dead services left, and switch offloads on that they left off
    #[arg(long)]
    pub(crate) undo: bool,
}

/// Runs the checks; returns 0 without a problem, 1 on warnings, 2 on a failure that must be fixed first.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let mut report = Report::default();
    if arguments.undo {
        undo(&mut report);
    } else {
        examine(arguments, &mut report);
    }
    let text = if arguments.json { report.json() } else { report.text() };
    if let Err(error) = crate::output::write(&text) {
        eprintln!("ringway doctor: {error}");
        return ExitCode::from(2);
    }
    ExitCode::from(match report.worst() {
        Status::Note | Status::Ok => 0,
        Status::Warn => 1,
        Status::Fail => 2,
    })
}

fn examine(arguments: &Arguments, report: &mut Report) {
    checks::machine(report);
    checks::files(report);
    let config = match Config::load(None, std::env::vars_os().collect()) {
        Ok(config) => config,
        Err(error) => return report.fail("configuration", error.to_string(), "ringway config check"),
    };
    report.ok("configuration", format!("valid; keys changed from their defaults: {}", config.changed().len()));
    match Snapshot::read() {
        Ok(kernel) => {
            interfaces::examine(&config, &kernel, report);
            if arguments.self_test {
                selftest::now(&config, &kernel, report);
            }
        }
        Err(error) => report.fail("interfaces", format!("cannot read the kernel's addresses: {error}"), ""),
    }
    selftest::of_services(&RunDirectory::of_this_machine(), report);
    if arguments.measure {
        interfaces::measure(report);
        bulk::measure(report);
    }
}

/// Removes the files of dead services. Their changes in the kernel ended with their processes, but for offloads of cards, which are
/// switched on again.
fn undo(report: &mut Report) {
    let directory = RunDirectory::of_this_machine();
    for line in directory.restore_offloads() {
        report.ok("offloads", line);
    }
    for line in directory.offloads_off() {
        report.fail("offloads", line, "run as root");
    }
    match directory.remove_dead() {
        Ok(names) if names.is_empty() => report.ok("leftovers", "nothing to remove".to_owned()),
        Ok(names) => report.ok("leftovers", format!("removed the files of {}", names.join(", "))),
        Err(error) => report.fail("leftovers", error.to_string(), "run as root"),
    }
}
