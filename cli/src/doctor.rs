//! `ringway doctor`: what this machine offers, what would be chosen, and what to repair.
//!
//! Promises: disturbs nothing unless it is told to (`--self-test`); each line is OK, WARN or FAIL and, where something can be done, the one
//! command that does it. Exit status 0 all well, 1 warnings, 2 something that must be repaired first.
//! Does not do: repair by itself, except `--undo`, which removes what dead services have left.

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
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Measure the candidates on a private wire instead of only probing them
    #[arg(long)]
    pub(crate) measure: bool,
    /// Attach AF_XDP to each interface for a moment, and test whether packets pass; a card may lose its link meanwhile
    #[arg(long)]
    pub(crate) self_test: bool,
    /// Remove what dead services have left
    #[arg(long)]
    pub(crate) undo: bool,
}

/// Probes; 0 all well, 1 warnings, 2 something that must be repaired first.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let mut report = Report::default();
    if arguments.undo {
        undo(&mut report);
    } else {
        examine(arguments, &mut report);
    }
    let text = if arguments.json { report.json() } else { report.text() };
    print!("{text}");
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
    report.ok("configuration", format!("{} keys differ from their defaults", config.changed().len()));
    match Snapshot::read() {
        Ok(kernel) => {
            interfaces::examine(&config, &kernel, report);
            if arguments.self_test {
                selftest::now(&config, &kernel, report);
            }
        }
        Err(error) => report.fail("interfaces", format!("the kernel's addresses cannot be read: {error}"), ""),
    }
    selftest::of_services(&RunDirectory::of_this_machine(), report);
    if arguments.measure {
        interfaces::measure(report);
    }
}

/// What was changed in the kernel vanishes with a service; files may stay.
fn undo(report: &mut Report) {
    match RunDirectory::of_this_machine().remove_dead() {
        Ok(names) if names.is_empty() => report.ok("leftovers", "nothing to remove".to_owned()),
        Ok(names) => report.ok("leftovers", format!("removed the files of {}", names.join(", "))),
        Err(error) => report.fail("leftovers", error.to_string(), "run as root"),
    }
}
