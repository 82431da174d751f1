//! `ringway bench`: the command line of all measurements.
//!
//! Exit status: 0 all rows were measured, 1 a failure, 2 wrong arguments.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};

use crate::against_wrk;
use crate::cycles;
use crate::options::Options;
use crate::role::{self, RoleArguments};
use crate::row::Row;
use crate::runner::Runner;
use crate::scenario::host::Experiment;
use crate::scenario::{self, Kind, Scenario};
use crate::still;
use crate::table;
use crate::target::{Target, WireKind};
use crate::wire::veth::remove_on_signal;

/// Arguments of `ringway bench`.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// List all scenarios, wires and targets
    List,
    #[command(flatten)]
    Other(crate::other::Command),
    /// Small requests over 1 to thousands of connections
    Conns(Options),
    /// Many connections, by number of server cores
    Cores(Options),
    /// One request at a time, by size of the reply
    Latency(Options),
    /// Large replies, large requests and endless streams
    Bulk(Options),
    /// Short connections: connect, one request and reply, close
    Crr(Options),
    /// 1 to 128 messages per connection
    Mpc(Options),
    /// Connections accepted per second
    Accept(Options),
    /// Time to first byte of a new connection
    Setup(Options),
    /// Requests at fixed rates, whether or not replies arrive (open loop)
    Cpuload(Options),
    /// One stream beside small requests
    Mixed(Options),
    /// Fairness between bulk connections
    Fair(Options),
    /// Whole transactions, thousands at a time
    Resp(Options),
    /// Echo of 64 B to 8 KiB
    Zc(Options),
    /// Requests and replies of 4 to 64 KB
    Rpc(Options),
    /// A stream in buffers of 1 to 64 KiB
    Ttcp(Options),
    /// Wakeups and CPU time with many idle connections
    Idle(Options),
    /// Bytes per idle connection
    Memory(Options),
    /// Compare this client's results with wrk's
    Wrk(Options),
    /// Replay simultaneous copies of a request log
    Replay(Options),
    /// One stream each way over a lossy path
    Loss(Options),
    /// Run an experiment of the host-overheads paper
    #[command(subcommand)]
    Host(Experiment),
    /// Play a role of a measurement
    #[command(hide = true)]
    Role(RoleArguments),
}

const WRONG: u8 = 2;

/// Runs a measurement or a role.
pub fn run(arguments: &Arguments) -> ExitCode {
    let (name, options) = match &arguments.command {
        Command::List => return list(),
        Command::Other(command) => return command.run(),
        Command::Role(arguments) => return role::run(arguments),
        Command::Conns(options) => ("conns", options),
        Command::Cores(options) => ("cores", options),
        Command::Latency(options) => ("latency", options),
        Command::Bulk(options) => ("bulk", options),
        Command::Crr(options) => ("crr", options),
        Command::Mpc(options) => ("mpc", options),
        Command::Accept(options) => ("accept", options),
        Command::Setup(options) => ("setup", options),
        Command::Cpuload(options) => ("cpuload", options),
        Command::Mixed(options) => ("mixed", options),
        Command::Fair(options) => ("fair", options),
        Command::Resp(options) => ("resp", options),
        Command::Zc(options) => ("zc", options),
        Command::Rpc(options) => ("rpc", options),
        Command::Ttcp(options) => ("ttcp", options),
        Command::Idle(options) => ("idle", options),
        Command::Memory(options) => ("memory", options),
        Command::Wrk(options) => ("wrk", options),
        Command::Replay(options) => ("replay", options),
        Command::Loss(options) => ("loss", options),
        Command::Host(experiment) => return host(experiment),
    };
    measure(scenario::find(name).expect("every command has its scenario"), options)
}

/// Runs an experiment of the paper; for a single flow, also breaks its CPU time down.
fn host(experiment: &Experiment) -> ExitCode {
    let (name, options) = experiment.scenario();
    let scenario = scenario::find(name).expect("every experiment has its scenario");
    let measured = measure(scenario, options);
    match options.targets_of(scenario) {
        Ok(targets) if measured == ExitCode::SUCCESS && experiment.is_broken_down() => cycles::of_bulk(&targets, options),
        _ => measured,
    }
}

fn list() -> ExitCode {
    match io::stdout().write_all(listed().as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Every command with its description, then the targets of each wire.
fn listed() -> String {
    let commands = Command::augment_subcommands(clap::Command::new("ringway bench"));
    let mut lines = String::new();
    for command in commands.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "list") {
        let name = command.get_name();
        let words = command.get_about().map(ToString::to_string).unwrap_or_default();
        let about = scenario::find(name).map_or(words, |scenario| scenario.about.to_string());
        lines.push_str(&format!("{name:<18}{about}\n"));
        let below = format!("{name} ");
        for scenario in scenario::ALL.iter().filter(|scenario| scenario.name.starts_with(&below)) {
            lines.push_str(&format!("{:<18}{}\n", scenario.name, scenario.about));
        }
    }
    for wire in WireKind::value_variants() {
        let targets: Vec<String> = wire.targets().iter().map(|target| target.name()).collect();
        lines.push_str(&format!("--wire {:<7} --target {}\n", wire.name(), targets.join(",")));
    }
    lines
}

fn measure(scenario: &Scenario, options: &Options) -> ExitCode {
    let targets = match options.targets_of(scenario) {
        Ok(targets) => targets,
        Err(text) => return fail(scenario, &text, WRONG),
    };
    if options.peer.is_none() && !rustix::process::geteuid().is_root() {
        return fail(scenario, "making network interfaces needs root", 1);
    }
    let points = scenario::varied((scenario.points)(options), options);
    let is_local =
        matches!(scenario.kind, Kind::Still(_) | Kind::AgainstWrk) || points.iter().any(|point| point.setup.needs_own_wire());
    if options.peer.is_some() && is_local {
        return fail(scenario, "it makes its own wire, and cannot use --peer", WRONG);
    }
    let mut is_first = true;
    let mut give = |row: Row| {
        let heading = if is_first && !options.json { table::heading() } else { String::new() };
        is_first = false;
        let line = if options.json { row.to_json() + "\n" } else { table::line(&row) };
        let mut out = io::stdout().lock();
        out.write_all((heading + &line).as_bytes())?;
        out.flush()
    };
    let seconds = options.seconds.unwrap_or(scenario.seconds);
    let rounds = options.rounds_or(scenario.rounds);
    let measured =
        remove_on_signal().and_then(|()| Runner::new(scenario.name, options, rounds, seconds)).and_then(|mut runner| {
            match scenario.kind {
                Kind::Still(question) => still::measure(question, runner.setting(), options, (&targets, &points), &mut give),
                Kind::AgainstWrk => {
                    against_wrk::measure(runner.setting(), options, (&targets, &points), (rounds, seconds), &mut give)
                }
                Kind::SharesOfPeak if options.rate.is_empty() && options.wire.targets().contains(&Target::Linux) => {
                    let mut points = Vec::new();
                    for peak in scenario::varied(scenario::cpuload::peaks(options), options) {
                        let value = runner.peak_of_kernel(&peak)?;
                        points.extend(scenario::cpuload::shares(&peak, value));
                    }
                    runner.run(&targets, &points, &mut give)
                }
                Kind::Cores => scenario::cores::runs(options).iter().try_for_each(|options| {
                    let mut runner = Runner::new(scenario.name, options, rounds, seconds)?;
                    runner.run(&targets, &scenario::varied((scenario.points)(options), options), &mut give)
                }),
                Kind::Traffic | Kind::SharesOfPeak => runner.run(&targets, &points, &mut give),
            }
        });
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(scenario, &error.to_string(), 1),
    }
}

fn fail(scenario: &Scenario, text: &str, status: u8) -> ExitCode {
    eprintln!("ringway bench {}: {text}", scenario.name);
    ExitCode::from(status)
}

#[cfg(test)]
mod tests;
