//! `ringway config`: shows and checks the configuration.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use ringway_service::Config;

/// Arguments of `ringway config`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The action.
    #[command(subcommand)]
    pub(crate) action: Action,
}

/// The actions of `ringway config`.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Print every key with its value and reason, in the form of a configuration file
    Show {
        /// Configuration file
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Print values only, without reasons
        #[arg(long)]
        effective: bool,
    },
    /// Check a configuration: report errors, or the keys that differ from their defaults
    Check {
        /// Configuration file
        #[arg(value_name = "FILE")]
        config: Option<PathBuf>,
    },
}

/// Shows or checks the configuration; returns 1 on an error.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let path = match &arguments.action {
        Action::Show { config, .. } | Action::Check { config } => config,
    };
    match Config::load(path.as_deref(), std::env::vars_os().collect()) {
        Ok(config) => match arguments.action {
            Action::Show { effective: false, .. } => print(&config.show()),
            Action::Show { effective: true, .. } => print(&config.effective()),
            Action::Check { .. } => print(&changes(&config)),
        },
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Keys that differ from their defaults, one per line.
fn changes(config: &Config) -> String {
    config.changed().iter().map(|(key, value)| format!("{key} = {value}\n")).collect()
}

/// Writes to standard output; a closed pipe is not an error.
fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ringway config: {error}");
            ExitCode::FAILURE
        }
    }
}
