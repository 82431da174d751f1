//! The command line of `ringway`. Arguments of each command are declared beside its code.

use clap::{Parser, Subcommand};

/// A user-space TCP/IP stack for unmodified programs.
#[derive(Debug, Parser)]
#[command(name = "ringway", version, about, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program on Ringway, unmodified
    Run(crate::run::Arguments),
    /// Serve all programs of this machine, in the foreground
    Serve(crate::serve::Arguments),
    /// Show or check the configuration
    Config(crate::config_cmd::Arguments),
    /// Say what this machine offers and what would be chosen
    Doctor(crate::doctor::Arguments),
    /// Compare Ringway with the kernel over a wire of its own
    Demo(crate::demo::Arguments),
    /// Show sockets, like ss(8)
    Ss(crate::ss::Arguments),
    /// Show counters, like nstat(8)
    Nstat(crate::nstat::Arguments),
    /// Capture packets with tcpdump(8)'s own arguments
    Tcpdump(crate::tcpdump::Arguments),
    /// Hold a capture file against the rules of TCP, IP and UDP
    CheckTrace(crate::check_trace::Arguments),
    /// Measure Ringway beside the kernel
    Bench(crate::bench::Arguments),
}

const EXAMPLES: &str = "Examples:
  ringway doctor                            what would work here
  ringway run -- nginx -g 'daemon off;'     nginx on Ringway; same address, ssh and ping untouched
  ringway run --dry-run -- ./server         what would be accelerated, and why not
  ringway ss -tlnp                          its sockets";

#[cfg(test)]
mod tests;
