//! `ringway enable` and `ringway disable`: a unit of systemd, or a program, runs on Ringway from its next start, or does not any more.
//!
//! A drop-in beside the unit gives its processes the library and the service's name, which is looked for in their network namespace. Promises: what would change is printed first; a
//! file that is not ours stays as it is; after `disable` nothing is left. Does not do: starting the unit again.

pub(crate) mod programs;
mod unit;

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Args;
use ringway_channel::attach::DEFAULT_DIRECTORY;
use ringway_service::rundir::{check_name, write_whole};
use ringway_service::{DEFAULT_NAME, RunDirectory};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::output;
use crate::run::library;
use programs::Programs;
use unit::{DropIn, FIRST_LINE, SERVICE_UNIT, Shown};

/// Arguments of `ringway enable` and `ringway disable`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  ringway enable nginx && systemctl restart nginx     nginx runs on the service `default`
  ringway enable --dry-run nginx                      only show the drop-in
  ringway enable --program /usr/bin/redis-server      a program, whatever starts it: by /etc/ld.so.preload
  ringway disable nginx && systemctl restart nginx    back to the kernel
Exit status: 0: done, or nothing to do; 1: refused or failed; 2: wrong arguments.")]
pub(crate) struct Arguments {
    /// The unit; `.service` may be left out
    #[arg(value_parser = unit::full_name, required_unless_present = "program")]
    unit: Option<String>,
    /// A program in place of a unit, by its whole path: on Ringway whatever starts it. The library is loaded into all programs of the machine
    /// (/etc/ld.so.preload) and works in those that /etc/ringway/programs lists
    #[arg(long, value_name = "PATH", conflicts_with = "unit")]
    program: Option<PathBuf>,
    /// The service that it uses
    #[arg(long, value_name = "NAME", default_value = DEFAULT_NAME, value_parser = check_name)]
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
    finish("enable", arguments.program.as_ref().map_or_else(|| arguments.set(), |path| arguments.set_program(path)))
}

/// Removes it.
pub(crate) fn disable(arguments: &Arguments) -> ExitCode {
    finish("disable", arguments.program.as_ref().map_or_else(|| arguments.unset(), |path| arguments.unset_program(path)))
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
    fn unit(&self) -> &str {
        self.unit.as_deref().unwrap_or_default()
    }

    fn set(&self) -> Result<String, String> {
        let path = self.path();
        let present = self.present(&path)?;
        let shown = self.is_of_this_machine().then(|| Shown::of(self.unit())).flatten();
        if let Some(objection) = shown.as_ref().and_then(Shown::objection) {
            return Err(format!("{}: {objection}", self.unit()));
        }
        let service_unit = shown.map_or_else(|| Some(SERVICE_UNIT.to_owned()), |shown| shown.service_unit());
        let text = self.drop_in(&present, service_unit)?.text();
        if present == text {
            return Ok(format!("{} is enabled already ({})\n", self.unit(), path.display()));
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
            return Ok(format!("{} is not enabled\n", self.unit()));
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

    fn set_program(&self, path: &Path) -> Result<String, String> {
        let now = Programs::read(&self.root)?;
        let then = now.with(path, &self.name)?;
        self.change(&now, &then, path, ["is enabled already", "runs on Ringway"])
    }

    fn unset_program(&self, path: &Path) -> Result<String, String> {
        let now = Programs::read(&self.root)?;
        let then = now.without(path);
        self.change(&now, &then, path, ["is not enabled", "is the kernel's"])
    }

    fn change(&self, now: &Programs, then: &Programs, path: &Path, [no_change, done]: [&str; 2]) -> Result<String, String> {
        let (change, path) = (then.changes(now), path.display());
        if change.is_empty() {
            return Ok(format!("{path} {no_change}\n"));
        }
        if !self.dry_run {
            then.write(now)?;
            return Ok(format!("{change}{path} {done} from its next start\n"));
        }
        Ok(change)
    }

    fn path(&self) -> PathBuf {
        self.root.join(format!("etc/systemd/system/{}.d/ringway.conf", self.unit()))
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

    fn drop_in(&self, present: &str, service_unit: Option<String>) -> Result<DropIn, String> {
        let config = ringway_service::Config::load(None, std::env::vars_os().collect()).map_err(|error| error.to_string())?;
        let groups = fs::read_to_string(self.root.join("etc/group")).unwrap_or_default();
        let is_here = |group: &String| groups.lines().any(|line| line.split(':').next() == Some(group));
        let group_token = match DropIn::token_in(present) {
            Some(token) => token.to_owned(),
            None => new_token().map_err(|error| error.to_string())?,
        };
        Ok(DropIn {
            library: library::find()?,
            service: self.name.clone(),
            directory: Some(RunDirectory::of_this_machine().path().to_owned())
                .filter(|path| path != Path::new(DEFAULT_DIRECTORY)),
            // What starts a service of another name is known to its administrator.
            service_unit: service_unit.filter(|_| self.name == DEFAULT_NAME),
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
        format!("{} {what} from its next start: systemctl restart {}\n", self.unit(), self.unit())
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
