//! The command line of `ringway`. Each command's module declares its arguments.

use clap::{Parser, Subcommand};

/// A user-space TCP/IP stack for unmodified programs.
#[derive(Debug, Parser)]
#[command(name = "ringway", version, long_version = LONG_VERSION, about, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The command to run.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run an unmodified program on Ringway
    Run(crate::run::Arguments),
    /// Run the service for all programs of this machine, in the foreground
    Serve(crate::serve::Arguments),
    /// Show or check the configuration
    Config(crate::config_cmd::Arguments),
    /// Report what this machine supports and what Ringway would use
    Doctor(crate::doctor::Arguments),
    /// Compare Ringway with the kernel on private veth pairs
    Demo(crate::demo::Arguments),
    /// Show sockets, like ss(8)
    Ss(crate::ss::Arguments),
    /// Watch rates of workers, interfaces, programs and connections
    Top(crate::top::Arguments),
    /// Tell whether the stack or the kernel serves a process or port, and why
    Why(crate::why::Arguments),
    /// Show counters, like nstat(8)
    Nstat(crate::nstat::Arguments),
    /// Print or serve counters and sockets for Prometheus
    Metrics(crate::metrics::Arguments),
    /// Print what services have logged
    Log(crate::log::Arguments),
    /// Let the kernel go on with connections of a running service, or have them back
    Handover(crate::handover::Arguments),
    /// Capture packets with tcpdump(8)'s own arguments
    Tcpdump(crate::tcpdump::Arguments),
    /// Follow a connection: its segments, and what the stack decides
    Trace(crate::trace::Arguments),
    /// Check a capture file against the rules of TCP, IP and UDP
    CheckTrace(crate::check_trace::Arguments),
    /// Benchmark Ringway against the kernel
    Bench(Box<crate::bench::Arguments>),
    /// Write rows of measurements as one page with figures
    Report(ringway_bench::report::Arguments),
    /// Have a unit of systemd run on Ringway
    Enable(crate::enable::Arguments),
    /// Have such a unit run on the kernel again
    Disable(crate::enable::Arguments),
    /// Print a script that completes command lines in a shell
    Completions(crate::manual::CompletionArguments),
    /// Write the manual pages of all commands
    #[command(hide = true)]
    Manual(crate::manual::ManualArguments),
}

const LONG_VERSION: &str =
    concat!(env!("CARGO_PKG_VERSION"), "\ncommit ", env!("RINGWAY_COMMIT"), "\ntarget ", env!("RINGWAY_TARGET"));

const EXAMPLES: &str = "Examples:
  ringway doctor                            report what works on this machine
  ringway run -- nginx -g 'daemon off;'     run nginx on Ringway; same address, ssh and ping unaffected
  ringway run --dry-run -- ./server         report what would be accelerated, or why not
  ringway ss -tlnp                          list listening sockets";

#[cfg(test)]
mod documents;
#[cfg(test)]
mod tests;
