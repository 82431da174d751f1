//! `ringway run`: runs a program on Ringway, unmodified.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};

/// Arguments of `ringway run`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Read this configuration
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// What happens to sockets that Ringway cannot serve
    #[arg(short, long, value_enum, default_value_t = Enforce::Fallback)]
    pub(crate) enforce: Enforce,
    /// Say what would be accelerated and what not, and do not run
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// No banner
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Use the running service of this name, never a private one
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

/// What happens to what Ringway cannot serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Enforce {
    /// It goes to the kernel
    Fallback,
    /// It is an error
    Strict,
}

/// Runs the program; returns its exit status.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    eprintln!("ringway run: no service for {}", arguments.program[0].display());
    ExitCode::FAILURE
}
