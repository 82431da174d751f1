//! Subcommands of `ringway bench` without a list of points: third-party programs, profiles, handovers, the report.

use std::process::ExitCode;

use clap::Subcommand;

use crate::scenario::apps;
use crate::{all, cycles, handover, report};

/// A subcommand with its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run every scenario in a short form and write the report
    All(all::Arguments),
    /// Unmodified programs under `ringway run` and on the kernel
    Apps(apps::Arguments),
    /// Break CPU time down into eight classes, with perf
    Cycles(cycles::Arguments),
    /// Hand connections over to the kernel: time, and what peers notice
    Handover(handover::Arguments),
    /// Write rows of measurements as one page with figures
    Report(report::Arguments),
    /// A closed loop in the protocol of a third-party server
    #[command(hide = true)]
    Ask(apps::ask::Arguments),
}

impl Command {
    /// Runs the subcommand.
    pub(crate) fn run(&self) -> ExitCode {
        match self {
            Command::All(arguments) => all::run(arguments),
            Command::Apps(arguments) => apps::run(arguments),
            Command::Cycles(arguments) => cycles::run(arguments),
            Command::Handover(arguments) => handover::run(arguments),
            Command::Report(arguments) => report::run(arguments),
            Command::Ask(arguments) => apps::ask::run(arguments),
        }
    }
}
