//! `ringway config set` and `unset`: change a running service.
//!
//! What is set stands in NAME.set of the run directory, where the service reads it at SIGHUP, before file and environment, and is gone
//! with the service. With --persist it stands in the configuration file instead, whose comments and order stay.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use ringway_service::config::DEFAULT_PATH;
use ringway_service::config::keys::{KEYS, Key};
use ringway_service::published::{self, Published};
use ringway_service::rundir::write_whole;
use ringway_service::{Config, DEFAULT_NAME, RunDirectory, is_live};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use toml_edit::{DocumentMut, Item, Table, Value};

/// For a service to read its configuration.
const PATIENCE: Duration = Duration::from_secs(5);
/// Looks so often whether it has.
const LOOK: Duration = Duration::from_millis(10);

/// Arguments of `ringway config set`.
#[derive(Args, Debug)]
#[command(after_help = "Example: ringway config set tcp.congestion_control=bbr service.drain_s=10
`ringway config show` lists the keys. Those that need a restart can only be set with --persist.
Exit status: 0: it holds, or is in the file; 1: nothing has changed.")]
pub(crate) struct SetArguments {
    /// What to set
    #[arg(value_name = "KEY=VALUE", required = true)]
    settings: Vec<String>,
    #[command(flatten)]
    place: Place,
}

/// Arguments of `ringway config unset`.
#[derive(Args, Debug)]
#[command(after_help = "Exit status: 0: the file, the environment and the defaults decide again; 1: nothing has changed.")]
pub(crate) struct UnsetArguments {
    /// What to take back
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<String>,
    #[command(flatten)]
    place: Place,
}

/// Where it is changed.
#[derive(Args, Debug)]
struct Place {
    /// The running service of this name
    #[arg(long, value_name = "NAME", default_value = DEFAULT_NAME)]
    name: String,
    /// Change the configuration file too, so that it holds after a restart
    #[arg(long)]
    persist: bool,
    /// The file for --persist; else the one that the service reads, or /etc/ringway/ringway.toml
    #[arg(long, value_name = "FILE", requires = "persist")]
    config: Option<PathBuf>,
}

/// A key, and its new value as TOML writes it; `None`: what it is without us.
type Change = (&'static Key, Option<String>);

/// Sets keys.
pub(super) fn set(arguments: &SetArguments) -> ExitCode {
    let change = |text: &String| {
        let (name, value) = text.split_once('=').ok_or_else(|| format!("{text}: KEY=VALUE is wanted"))?;
        let key = find(name.trim())?;
        let value = key.read(value.trim()).map_err(|error| format!("{}: {error}", key.path))?;
        Ok((key, Some(value.to_string())))
    };
    finish(arguments.settings.iter().map(change).collect::<Result<Vec<Change>, String>>(), &arguments.place)
}

/// Takes back what was set.
pub(super) fn unset(arguments: &UnsetArguments) -> ExitCode {
    let changes = arguments.keys.iter().map(|name| Ok((find(name)?, None)));
    finish(changes.collect::<Result<Vec<Change>, String>>(), &arguments.place)
}

fn finish(changes: Result<Vec<Change>, String>, place: &Place) -> ExitCode {
    match changes.and_then(|changes| carry_out(&changes, place)) {
        Ok(text) => super::print(&text),
        Err(text) => {
            eprintln!("ringway config: {text}");
            ExitCode::FAILURE
        }
    }
}

/// The key of this name; the configuration's own reader says what is meant where there is none.
fn find(name: &str) -> Result<&'static Key, String> {
    if let Some(key) = KEYS.iter().find(|key| key.path == name) {
        return Ok(key);
    }
    let unknown = name.split_once('.').map(|(section, name)| format!("[\"{section}\"]\n\"{name}\" = 0\n"));
    let problem =
        unknown.and_then(|text| Config::parse("", &text, Vec::new()).err()).and_then(|error| error.0.into_iter().next());
    Err(problem.map_or_else(|| format!("{name}: a key is SECTION.NAME"), |problem| problem.text))
}

fn carry_out(changes: &[Change], place: &Place) -> Result<String, String> {
    let service = Running::find(&place.name)?;
    let of_service = service.as_ref().and_then(|service| service.published.file.clone());
    let file = place.config.clone().or(of_service).unwrap_or_else(|| DEFAULT_PATH.into());
    if !place.persist {
        let service = service
            .ok_or_else(|| format!("no service {} runs in this network namespace; --persist changes the file", place.name))?;
        if let Some((key, _)) = changes.iter().find(|(key, _)| !is_live(key.path)) {
            return Err(format!("{} needs a restart of the service; --persist changes the file", key.path));
        }
        return service.apply(changes, changes);
    }
    let before = fs::read_to_string(&file)
        .or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(String::new()) } else { Err(error) });
    let before = before.map_err(|error| format!("{}: {error}", file.display()))?;
    write(&file, &edited(&file, &before, changes)?)?;
    let mut text = format!("{} is changed\n", file.display());
    if let Some(service) = service.filter(|service| service.published.file.as_deref() == Some(&*file)) {
        // What was set before in the running service would hide the file.
        let taken_back: Vec<Change> = changes.iter().map(|(key, _)| (*key, None)).collect();
        text += &service.apply(&taken_back, changes)?;
    }
    Ok(text)
}

/// `text`, the content of `file`, with the changes, and without mistakes.
fn edited(file: &Path, text: &str, changes: &[Change]) -> Result<String, String> {
    let name = file.display().to_string();
    let mut document: DocumentMut = text.parse().map_err(|error| format!("{name}: {error}"))?;
    for (key, value) in changes {
        let section = document.entry(key.section()).or_insert_with(|| Item::Table(Table::new()));
        let table = section.as_table_like_mut().ok_or_else(|| format!("{name}: {} is no section", key.section()))?;
        match value {
            Some(value) => {
                let mut value: Value = value.parse().expect("a value is written as TOML");
                // A comment behind the value stays.
                if let Some(decor) = table.get(key.name()).and_then(Item::as_value).map(|old| old.decor().clone()) {
                    *value.decor_mut() = decor;
                }
                table.insert(key.name(), Item::Value(value));
            }
            None => _ = table.remove(key.name()),
        }
    }
    let text = document.to_string();
    Config::parse(&name, &text, Vec::new()).map_err(|error| error.to_string())?;
    Ok(text)
}

/// Puts `text` in place of the file, which keeps its mode.
fn write(file: &Path, text: &str) -> Result<(), String> {
    let told = |error: io::Error| format!("{}: {error}", file.display());
    // A link stays a link.
    let target = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    if let Some(folder) = target.parent().filter(|folder| !folder.exists()) {
        fs::create_dir_all(folder).map_err(told)?;
    }
    let mode = fs::metadata(&target).map(|metadata| metadata.permissions());
    let beside = target.with_extension("toml-new");
    let done = fs::write(&beside, text).and_then(|()| mode.map_or(Ok(()), |mode| fs::set_permissions(&beside, mode)));
    done.and_then(|()| fs::rename(&beside, &target)).map_err(|error| {
        fs::remove_file(&beside).ok();
        told(error)
    })
}

/// A service that runs.
struct Running {
    name: String,
    pidfd: OwnedFd,
    published: Published,
}

impl Running {
    /// The service of this name in this network namespace; `None`: it does not run.
    fn find(name: &str) -> Result<Option<Running>, String> {
        let directory = RunDirectory::of_this_machine();
        if !directory.serves_here(name) {
            return Ok(None);
        }
        let told = |error: &dyn std::fmt::Display| format!("service {name}: {error}");
        let pid = directory.process_of(name).and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
        let pid = pid.ok_or_else(|| told(&"its process is not known"))?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| told(&error))?;
        // The process that has this number now is the one that we have opened, if the service still lives.
        if !directory.serves_here(name) {
            return Ok(None);
        }
        let published = published::read(&directory.config_path(name)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => told(&"it is one of `ringway run`, whose configuration stays as it is"),
            _ => told(&error),
        })?;
        Ok(Some(Running { name: name.to_owned(), pidfd, published }))
    }

    /// Writes what is set, lets the service read it and says what holds. `wanted` are the values to be seen then.
    fn apply(&self, changes: &[Change], wanted: &[Change]) -> Result<String, String> {
        let directory = RunDirectory::of_this_machine();
        let path = directory.set_path(&self.name);
        let before = published::read_set(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        write_whole(&path, &edited(&path, &before, changes)?).map_err(|error| format!("{}: {error}", path.display()))?;
        let back = |text: String| {
            write_whole(&path, &before).ok();
            text
        };
        pidfd_send_signal(&self.pidfd, Signal::HUP).map_err(|error| back(format!("service {}: {error}", self.name)))?;
        let now = self.next_reading(&directory.config_path(&self.name))?;
        match now.refused {
            Some(text) => Err(back(text)),
            None => Ok(report(&now, wanted)),
        }
    }

    fn next_reading(&self, path: &Path) -> Result<Published, String> {
        let limit = Instant::now() + PATIENCE;
        loop {
            let now = published::read(path).map_err(|error| format!("service {}: {error}", self.name))?;
            if now.reading > self.published.reading {
                return Ok(now);
            }
            if Instant::now() > limit {
                return Err(format!("service {} has not read its configuration within {} s", self.name, PATIENCE.as_secs()));
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// What holds now, a line each.
fn report(now: &Published, wanted: &[Change]) -> String {
    let mut text = String::new();
    for (key, value, _) in now.config.entries() {
        let Some((_, want)) = wanted.iter().find(|(wanted, _)| wanted.path == key.path) else { continue };
        let holds = want.as_ref().is_none_or(|want| *want == value.to_string());
        text += &match (holds, now.origin(key.path)) {
            _ if now.hidden.iter().any(|hidden| hidden == key.path) => format!("{} is set\n", key.path),
            (true, _) => format!("{} = {value}\n", key.path),
            (false, Some(origin)) if is_live(key.path) => format!("{} = {value}: {origin} goes before the file\n", key.path),
            (false, _) => format!("{} = {value} until the service is restarted\n", key.path),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(path: &str) -> &'static Key {
        find(path).expect("it is a key")
    }

    #[test]
    fn a_file_keeps_its_comments_and_its_order() {
        let before = "# ours\n[tcp]\nretries = 8 # few\n\n[limits]\nsyn_queue = 100\n";
        let changes = [
            (key("tcp.retries"), Some("5".to_owned())),
            (key("service.drain_s"), Some("10".to_owned())),
            (key("limits.syn_queue"), None),
        ];
        let after = edited(Path::new("x.toml"), before, &changes).expect("it is right");
        assert_eq!(after, "# ours\n[tcp]\nretries = 5 # few\n\n[limits]\n\n[service]\ndrain_s = 10\n");
    }

    #[test]
    fn nothing_is_written_that_is_wrong() {
        assert_eq!(find("tcp.retrys").expect_err("no key"), "unknown key tcp.retrys; did you mean tcp.retries?");
        assert_eq!(find("tcp").expect_err("no key"), "tcp: a key is SECTION.NAME");
        let contradiction = [(key("tcp.rto_min_ms"), Some("50000".to_owned()))];
        assert!(edited(Path::new("x.toml"), "", &contradiction).is_err(), "the initial timeout is below it");
        assert!(edited(Path::new("x.toml"), "tcp = 5\n", &contradiction).expect_err("no section").contains("tcp is no section"));
        assert!(edited(Path::new("x.toml"), "[tcp\n", &contradiction).is_err());
    }
}
