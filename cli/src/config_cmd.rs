//! `ringway config`: shows and checks the configuration.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use ringway_service::Config;

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
        /// Values only, without reasons
        #[arg(long)]
        effective: bool,
    },
    /// Check a configuration and say what is wrong with it
    Check {
        /// Read this configuration
        #[arg(value_name = "FILE")]
        config: Option<PathBuf>,
    },
}

/// Shows or checks; 1 when something is wrong.
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

/// What is not at its default, one key a line.
fn changes(config: &Config) -> String {
    config.changed().iter().map(|(key, value)| format!("{key} = {value}\n")).collect()
}

/// Writes to standard output; a reader that has gone away is not an error of ours.
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
