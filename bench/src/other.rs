//! Subcommands of `ringway bench` that are no list of points: programs of others, profiles, the report.

use std::process::ExitCode;

use clap::Subcommand;

use crate::scenario::apps;
use crate::{all, cycles, report};

/// One of them, with its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Everything in a short form, and the report
    All(all::Arguments),
    /// Unmodified programs under `ringway run` and on the kernel
    Apps(apps::Arguments),
    /// Where the CPU goes, in eight classes
    Cycles(cycles::Arguments),
    /// Rows of measurements as one page with figures
    Report(report::Arguments),
    /// A closed loop against a server of another kind
    #[command(hide = true)]
    Ask(apps::ask::Arguments),
}

impl Command {
    /// Does it.
    pub(crate) fn run(&self) -> ExitCode {
        match self {
            Command::All(arguments) => all::run(arguments),
            Command::Apps(arguments) => apps::run(arguments),
            Command::Cycles(arguments) => cycles::run(arguments),
            Command::Report(arguments) => report::run(arguments),
            Command::Ask(arguments) => apps::ask::run(arguments),
        }
    }
}
