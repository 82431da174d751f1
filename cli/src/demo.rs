//! `ringway demo`.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;

/// Arguments of `ringway demo`.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    /// Passed on as they are
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

/// Says that the command has not been built into this version.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    eprintln!("ringway demo: not in this version ({} arguments)", arguments.arguments.len());
    ExitCode::FAILURE
}
