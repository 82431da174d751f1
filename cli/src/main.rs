//! The `ringway` command: one module per subcommand.
//!
//! Exit status: 0 success, 1 the command failed, 2 wrong arguments (or `doctor` found a
//! failure); `ringway run` ends as its program ends.
#![forbid(unsafe_code)]

mod args;
mod bench;
mod capture;
mod check_trace;
mod config_cmd;
mod demo;
mod doctor;
mod enable;
mod handover;
mod log;
mod manual;
mod metrics;
mod nstat;
mod output;
mod run;
mod serve;
mod services;
mod ss;
mod tcpdump;
mod top;
mod trace;
mod why;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Arguments, Command};

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Config(arguments) => config_cmd::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Ss(arguments) => ss::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Why(arguments) => why::run(&arguments),
        Command::Metrics(arguments) => metrics::run(&arguments),
        Command::Nstat(arguments) => nstat::run(&arguments),
        Command::Handover(arguments) => handover::run(&arguments),
        Command::Log(arguments) => log::run(&arguments),
        Command::Tcpdump(arguments) => tcpdump::run(&arguments),
        Command::Trace(arguments) => trace::run(&arguments),
        Command::CheckTrace(arguments) => check_trace::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Report(arguments) => ringway_bench::report::run(&arguments),
        Command::Enable(arguments) => enable::enable(&arguments),
        Command::Disable(arguments) => enable::disable(&arguments),
        Command::Completions(arguments) => manual::completions(&arguments),
        Command::Manual(arguments) => manual::manual(&arguments),
    }
}
