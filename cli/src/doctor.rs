//! `ringway doctor`: reports what this machine supports, what Ringway would use, and what to fix.
//!
//! Promises: disturbs nothing without `--self-test`; each line is OK, NOTE, WARN or FAIL with, where there is one, the command that fixes
//! it. Exit status: 0 no problem, 1 warnings, 2 a failure that must be fixed first.
//! `--measure` writes down what it finds (`ringway_service::measured`). `--fix` does what changes no setting of the machine's owner (`repair`); `--undo`
//! is the part of it that removes what dead services left. Does not do: fix the rest, which the lines name.

mod bulk;
mod checks;
mod interfaces;
mod repair;
mod report;
mod selftest;
mod surroundings;

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
    /// Do what can be done about the findings without changing a setting: load the module of tap, remove what dead services left; then report
    #[arg(long, conflicts_with = "undo")]
    pub(crate) fix: bool,
    /// Only remove the files that dead services left, and switch offloads on that they left off
    #[arg(long)]
    pub(crate) undo: bool,
}

/// Runs the checks; returns 0 without a problem, 1 on warnings, 2 on a failure that must be fixed first.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let mut report = Report::default();
    if arguments.undo {
        repair::leftovers(&mut report);
    } else {
        if arguments.fix {
            let mut found = Report::default();
            checks::machine(&mut found);
            checks::files(&mut found);
            repair::all(&found, &mut report);
        }
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
    surroundings::examine(report);
    let config = match Config::load(None, std::env::vars_os().collect()) {
        Ok(config) => config,
        Err(error) => return report.fail("configuration", error.to_string(), "ringway config check"),
    };
    report.ok("configuration", format!("valid; keys changed from their defaults: {}", config.changed().len()));
    checks::rules(&config, report);
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
