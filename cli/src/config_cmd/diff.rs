//! `ringway config diff`: what a reload or a restart would change in a running service, or how two files differ.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use ringway_service::config::SET;
use ringway_service::config::rules::SECTION;
use ringway_service::{Config, DEFAULT_NAME, RunDirectory, is_live, published};

/// Exit status when the configurations differ, as diff(1).
const DIFFERENT: u8 = 1;
/// Exit status when they cannot be compared.
const TROUBLE: u8 = 2;

/// Arguments of `ringway config diff`.
#[derive(Args, Debug)]
#[command(after_help = "Exit status: 0: no difference; 1: differences; 2: they cannot be compared.")]
pub(crate) struct Arguments {
    /// Two files; or one, for the running service; or none: the file that the service reads
    #[arg(value_name = "FILE", num_args = 0..=2)]
    files: Vec<PathBuf>,
    /// The service of this name
    #[arg(long, value_name = "NAME", default_value = DEFAULT_NAME)]
    name: String,
}

/// Prints the keys that differ.
pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let lines = match &arguments.files[..] {
        [one, other] => files(one, other),
        files => service(&arguments.name, files.first().map(PathBuf::as_path)),
    };
    match lines {
        Ok(lines) if lines.is_empty() => ExitCode::SUCCESS,
        Ok(lines) => {
            super::print(&lines.concat());
            ExitCode::from(DIFFERENT)
        }
        Err(text) => {
            eprintln!("{text}");
            ExitCode::from(TROUBLE)
        }
    }
}

/// That a service of this name runs in this network namespace.
pub(super) fn living(name: &str) -> Result<(), String> {
    let runs = RunDirectory::of_this_machine().serves_here(name);
    if runs { Ok(()) } else { Err(format!("no service {name} runs in this network namespace")) }
}

fn files(one: &Path, other: &Path) -> Result<Vec<String>, String> {
    let load = |path| Config::load(Some(path), Vec::new()).map_err(|error| error.to_string());
    Ok(lines(&load(one)?, &load(other)?, |_| String::new()))
}

fn service(name: &str, file: Option<&Path>) -> Result<Vec<String>, String> {
    living(name)?;
    let found = published::read(&RunDirectory::of_this_machine().config_path(name))
        .map_err(|error| format!("service {name}: {error}"))?;
    let path = file.or(found.file.as_deref()).filter(|path| file.is_some() || path.exists());
    let new = match path {
        Some(path) => Config::load(Some(path), Vec::new()).map_err(|error| error.to_string())?,
        None => Config::parse("defaults", "", Vec::new()).map_err(|error| error.to_string())?,
    };
    let mut lines = lines(&found.config, &new, |key| match found.origin(key) {
        _ if found.hidden.iter().any(|hidden| hidden == key) => " (the running value is not shown)".to_owned(),
        Some(origin) if origin.starts_with("RINGWAY_") || origin == SET => {
            format!(" (now from {origin}, which goes before the file)")
        }
        _ if is_live(key) => " (at a reload)".to_owned(),
        _ => " (needs a restart)".to_owned(),
    });
    lines.extend(found.refused.map(|text| format!("the last reload was refused: {text}\n")));
    Ok(lines)
}

fn lines(old: &Config, new: &Config, note: impl Fn(&str) -> String) -> Vec<String> {
    let changed = old.differences(new);
    let pairs = old.entries().zip(new.entries()).filter(|((key, ..), _)| changed.contains(&key.path));
    let keys = pairs.map(|((key, old, _), (_, new, _))| format!("{}: {old} -> {new}{}\n", key.path, note(key.path)));
    let list = |config: &Config| config.rules().iter().map(|rule| format!("\n  {rule}")).collect::<String>();
    let rules = changed.contains(&SECTION).then(|| format!("{SECTION}{}:{}\n ->{}\n", note(SECTION), list(old), list(new)));
    keys.chain(rules).collect()
}
