//! Subcommands of `ringway bench` without a list of points: third-party programs, profiles, handovers.

use std::process::ExitCode;

use clap::Subcommand;

use crate::scenario::apps;
use crate::{agent, all, compare, cycles, handover, pack};

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
    /// Compare the rows of two runs, with confidence intervals
    Compare(compare::Arguments),
    /// Put rows, their report and what the machine was into one file
    Pack(pack::Arguments),
    /// Start the servers of measurements whose client is on another machine (`--peer`)
    Agent(agent::Arguments),
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
            Command::Compare(arguments) => compare::run(arguments),
            Command::Pack(arguments) => pack::run(arguments),
            Command::Agent(arguments) => agent::run(arguments),
            Command::Ask(arguments) => apps::ask::run(arguments),
        }
    }
}
