//! `ringway completions` and `ringway manual`: what an installation has beside the programs, made from the tables of arguments and of
//! configuration keys.
//!
//! Does not do: the pages that are no table (`packaging/ringway.7`, `packaging/ringway-preload.8`, `packaging/ringway.3`).

mod toml_page;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Arguments of `ringway completions`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  ringway completions bash > /etc/bash_completion.d/ringway
  ringway completions zsh > /usr/local/share/zsh/site-functions/_ringway
  ringway completions fish > ~/.config/fish/completions/ringway.fish")]
pub(crate) struct CompletionArguments {
    /// The shell
    shell: Shell,
}

/// Arguments of `ringway manual`.
#[derive(Args, Debug)]
pub(crate) struct ManualArguments {
    /// Folder for the pages
    directory: PathBuf,
}

/// Prints the script of a shell.
pub(crate) fn completions(arguments: &CompletionArguments) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut crate::args::Arguments::command(), "ringway", &mut script);
    crate::output::print("completions", &String::from_utf8_lossy(&script))
}

/// Writes the pages of all commands and of the configuration file.
pub(crate) fn manual(arguments: &ManualArguments) -> ExitCode {
    match write_pages(&arguments.directory) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ringway manual: {}: {error}", arguments.directory.display());
            ExitCode::FAILURE
        }
    }
}

fn write_pages(directory: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    // It would have a page for each of the others.
    let without_help = true;
    let command = crate::args::Arguments::command().disable_help_subcommand(without_help);
    clap_mangen::generate_to(command, directory)?;
    std::fs::write(directory.join("ringway.toml.5"), toml_page::page())
}

#[cfg(test)]
mod tests;
