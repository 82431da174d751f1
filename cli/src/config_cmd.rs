//! `ringway config`: shows and checks the configuration.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Arguments of `ringway config`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// What to do with it.
    #[command(subcommand)]
    pub(crate) action: Action,
}

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Print every key with its value and reason, as a file that can be read back
    Show {
        /// Read this configuration
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Check a configuration and say what is wrong with it
    Check {
        /// Read this configuration
        #[arg(value_name = "FILE")]
        config: Option<PathBuf>,
    },
}

/// Shows or checks.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    eprintln!("ringway config: {:?}", arguments.action);
    ExitCode::FAILURE
}
