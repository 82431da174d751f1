//! `ringway doctor`: what this machine offers, and what would be chosen.

use std::process::ExitCode;

use clap::Args;

/// Arguments of `ringway doctor`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Measure the candidates instead of only probing them
    #[arg(long)]
    pub(crate) measure: bool,
    /// Remove what dead services have left
    #[arg(long)]
    pub(crate) undo: bool,
}

/// Probes; 0 all well, 1 warnings, 2 something that must be repaired first.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    eprintln!("ringway doctor: {arguments:?}");
    ExitCode::FAILURE
}
