//! `ringway enable` and `ringway disable`: a unit of systemd runs on Ringway from its next start, or does not any more.
//!
//! A drop-in beside the unit gives its processes the library and the service's socket. Promises: what would change is printed first; a
//! file that is not ours stays as it is; after `disable` nothing is left. Does not do: starting the unit again.

mod unit;

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Args;
use ringway_service::rundir::write_whole;
use ringway_service::{DEFAULT_NAME, RunDirectory};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::output;
use crate::run::library;
use unit::{DropIn, FIRST_LINE, Shown};

/// Arguments of `ringway enable` and `ringway disable`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  ringway enable nginx && systemctl restart nginx     nginx runs on the service `default`
  ringway enable --dry-run nginx                      only show the drop-in
  ringway disable nginx && systemctl restart nginx    back to the kernel
Exit status: 0: done, or nothing to do; 1: refused or failed; 2: wrong arguments.")]
pub(crate) struct Arguments {
    /// The unit; `.service` may be left out
    #[arg(value_parser = unit::full_name)]
    unit: String,
    /// The service that it uses
    #[arg(long, value_name = "NAME", default_value = DEFAULT_NAME)]
    name: String,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
    /// Folder that stands for `/`, as of an image that is being built
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

/// Writes the drop-in.
pub(crate) fn enable(arguments: &Arguments) -> ExitCode {
    finish("enable", arguments.set())
}

/// Removes it.
pub(crate) fn disable(arguments: &Arguments) -> ExitCode {
    finish("disable", arguments.unset())
}

fn finish(command: &str, done: Result<String, String>) -> ExitCode {
    match done {
        Ok(text) => output::print(command, &text),
        Err(text) => {
            eprintln!("ringway {command}: {text}");
            ExitCode::FAILURE
        }
    }
}

impl Arguments {
    fn set(&self) -> Result<String, String> {
        let path = self.path();
        let present = self.present(&path)?;
        let shown = self.is_of_this_machine().then(|| Shown::of(&self.unit)).flatten();
        if let Some(objection) = shown.and_then(|shown| shown.objection()) {
            return Err(format!("{}: {objection}", self.unit));
        }
        let text = self.drop_in(&present)?.text();
        if present == text {
            return Ok(format!("{} is enabled already ({})\n", self.unit, path.display()));
        }
        let change = difference(&path, &present, &text);
        if self.dry_run {
            return Ok(change);
        }
        let folder = path.parent().expect("it stands in a folder");
        fs::create_dir_all(folder).and_then(|()| write_whole(&path, &text)).map_err(|error| named(&path, &error))?;
        Ok(change + &self.reload("runs on Ringway"))
    }

    fn unset(&self) -> Result<String, String> {
        let path = self.path();
        let present = self.present(&path)?;
        if present.is_empty() {
            return Ok(format!("{} is not enabled\n", self.unit));
        }
        let change = difference(&path, &present, "");
        if self.dry_run {
            return Ok(change);
        }
        fs::remove_file(&path).map_err(|error| named(&path, &error))?;
        // `Err`: there are other drop-ins.
        path.parent().map(fs::remove_dir).and_then(Result::ok);
        Ok(change + &self.reload("is the kernel's"))
    }

    fn path(&self) -> PathBuf {
        self.root.join(format!("etc/systemd/system/{}.d/ringway.conf", self.unit))
    }

    /// Our drop-in as it is; empty: there is none.
    fn present(&self, path: &Path) -> Result<String, String> {
        match fs::read_to_string(path) {
            Ok(text) if text.starts_with(FIRST_LINE) => Ok(text),
            Ok(_) => Err(format!("{} is not a file of `ringway enable`; it stays as it is", path.display())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(named(path, &error)),
        }
    }

    fn drop_in(&self, present: &str) -> Result<DropIn, String> {
        let config = ringway_service::Config::load(None, std::env::vars_os().collect()).map_err(|error| error.to_string())?;
        let groups = fs::read_to_string(self.root.join("etc/group")).unwrap_or_default();
        let is_here = |group: &String| groups.lines().any(|line| line.split(':').next() == Some(group));
        let group_token = match DropIn::token_in(present) {
            Some(token) => token.to_owned(),
            None => new_token().map_err(|error| error.to_string())?,
        };
        Ok(DropIn {
            library: library::find()?,
            socket: RunDirectory::of_this_machine().socket_path(&self.name),
            service_unit: if self.name == DEFAULT_NAME {
                "ringway.service".to_owned()
            } else {
                format!("ringway@{}.service", self.name)
            },
            group: Some(config.policy.group).filter(is_here),
            group_token,
        })
    }

    fn is_of_this_machine(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Has systemd read its units, and says when the change counts.
    fn reload(&self, what: &str) -> String {
        let runs = self.is_of_this_machine() && Path::new("/run/systemd/system").exists();
        if runs && !Command::new("systemctl").arg("daemon-reload").status().is_ok_and(|status| status.success()) {
            eprintln!("ringway: `systemctl daemon-reload` has failed");
        }
        format!("{} {what} from its next start: systemctl restart {}\n", self.unit, self.unit)
    }
}

/// The lines that go and come, as diff(1) shows them.
fn difference(path: &Path, before: &str, after: &str) -> String {
    let named = |text: &str| if text.is_empty() { "/dev/null".to_owned() } else { path.display().to_string() };
    let mut lines = vec![format!("--- {}", named(before)), format!("+++ {}", named(after))];
    lines.extend(before.lines().filter(|line| !after.lines().any(|other| other == *line)).map(|line| format!("-{line}")));
    lines.extend(after.lines().filter(|line| !before.lines().any(|other| other == *line)).map(|line| format!("+{line}")));
    lines.join("\n") + "\n"
}

fn new_token() -> io::Result<String> {
    let mut token = [0; 16];
    getrandom(&mut token, GetRandomFlags::empty())?;
    Ok(library::hexadecimal(&token))
}

fn named(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests;
