//! `ringway config`: shows, checks, compares and changes the configuration.
//!
//! Promises: nothing is written that `check` would refuse. Does not do: talking to a service but by its files in the run directory
//! and SIGHUP: the rights are those of the files and of kill(2).

mod diff;
mod set;
mod show;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use ringway_service::Config;
use ringway_service::config::profiles::PROFILES;

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
    Show(show::Arguments),
    /// Check a configuration: report errors, or the keys that differ from their defaults
    #[command(after_help = "Exit status: 0: no mistake; 1: mistakes, one per line.")]
    Check {
        /// Configuration file
        #[arg(value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Compare a running service with its configuration file, or two files
    Diff(diff::Arguments),
    /// Change a running service, until it ends or, with --persist, for good
    Set(set::SetArguments),
    /// Take back what `set` has changed
    Unset(set::UnsetArguments),
    /// List the profiles with what they set, and why
    Profiles,
}

/// Carries out the action; returns its exit status.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    match &arguments.action {
        Action::Show(arguments) => show::run(arguments),
        Action::Check { config } => check(config.as_deref()),
        Action::Diff(arguments) => diff::run(arguments),
        Action::Set(arguments) => set::set(arguments),
        Action::Unset(arguments) => set::unset(arguments),
        Action::Profiles => print(&profiles()),
    }
}

fn check(path: Option<&std::path::Path>) -> ExitCode {
    match Config::load(path, std::env::vars_os().collect()) {
        Ok(config) => {
            let keys = config.changed().into_iter().map(|(key, value)| format!("{key} = {value}\n"));
            let rules = config.rules().iter().map(|rule| format!("rule: {rule}\n"));
            print(&keys.chain(rules).collect::<String>())
        }
        Err(error) => fail(&error),
    }
}

fn profiles() -> String {
    let mut text = String::new();
    for profile in PROFILES {
        text += &format!("{}: {}\n", profile.name, profile.about);
        for setting in profile.settings {
            text += &format!("  {} = {}: {}\n", setting.key, setting.value, setting.why);
        }
    }
    text
}

/// Says what went wrong, a line each.
fn fail(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("{error}");
    ExitCode::FAILURE
}

fn print(text: &str) -> ExitCode {
    crate::output::print("config", text)
}
