//! `ringway serve`: the system service, in the foreground.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

/// Arguments of `ringway serve`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Name of this service, for its files in /run/ringway
    #[arg(long, default_value = "default")]
    pub(crate) name: String,
    /// Read this configuration
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// Serves until SIGTERM or SIGINT.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    eprintln!("ringway serve: no service {}", arguments.name);
    ExitCode::FAILURE
}
