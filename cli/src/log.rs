//! `ringway log`: what a service has logged, from the record in the run directory.
//!
//! Promises: reads the record of a service that was killed, too; `-f` goes on when the service starts again. Only root and the service's user
//! can read a record. Does not do: what was logged before the last MiB or two; the journal has it, as far as `log.filter` lets it.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use ringway_service::log::{TARGETS, record_before};
use ringway_service::{RunDirectory, printable};
use rustix::fs::inotify;
use serde_json::Value;

use crate::output;
use crate::services::Choice;

/// Room for what the kernel says of changed files.
const CHANGES: usize = 4_096;

/// Arguments of `ringway log`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  ringway log -n 20
  ringway log -f -l info
  ringway log -t attach -t quota -j
Exit status: 0: the record was read; 1: there is none, or it may not be read; 2: wrong arguments.")]
pub(crate) struct Arguments {
    /// The service of this name, also one that has been killed; else all of this network namespace
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Go on with what is logged from now on
    #[arg(short, long)]
    follow: bool,
    /// Only the last lines
    #[arg(short = 'n', long, value_name = "NUMBER")]
    lines: Option<usize>,
    /// This level and those above it
    #[arg(short, long, value_enum, default_value = "debug")]
    level: Level,
    /// Only this part of the log; may be given several times
    #[arg(short, long, value_name = "PART", value_parser = parts())]
    target: Vec<String>,
    /// Print the lines as they are recorded, a JSON object each
    #[arg(short, long)]
    json: bool,
}

/// The weight of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Level {
    /// Something does not work
    Error,
    /// An operator should know
    Warn,
    /// What has changed
    Info,
    /// All of it
    Debug,
}

fn parts() -> Vec<&'static str> {
    TARGETS.iter().map(|target| target.trim_start_matches("ringway::")).collect()
}

/// Prints the record.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    output::end("log", print(arguments))
}

fn print(arguments: &Arguments) -> io::Result<()> {
    let names = names(arguments)?;
    let directory = RunDirectory::of_this_machine();
    // Before the first look, so that no change is missed.
    let changes = if arguments.follow { Some(watch(directory.path())?) } else { None };
    let mut tails: Vec<Tail> = names.iter().map(|name| Tail::new(directory.log_path(name))).collect();
    let mut lines = Vec::new();
    for (name, tail) in names.iter().zip(&mut tails) {
        let found = tail.start().and_then(|()| tail.read());
        let found = found.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", tail.path.display())))?;
        lines.extend(found.into_iter().map(|line| Line::read(name, line)));
    }
    lines.retain(|line| line.is_wanted(arguments));
    // Of several services; those of one are in order.
    lines.sort_by(|one, other| one.time().cmp(other.time()));
    let first = arguments.lines.map_or(0, |most| lines.len().saturating_sub(most));
    let show = |lines: &[Line]| lines.iter().map(|line| line.show(arguments, names.len() > 1)).collect::<String>();
    output::stream(&show(&lines[first..]))?;
    let Some(changes) = changes else { return Ok(()) };
    loop {
        rustix::io::read(&changes, &mut [0; CHANGES])?;
        for (name, tail) in names.iter().zip(&mut tails) {
            let mut lines: Vec<Line> = tail.read()?.into_iter().map(|line| Line::read(name, line)).collect();
            lines.retain(|line| line.is_wanted(arguments));
            output::stream(&show(&lines))?;
        }
    }
}

fn names(arguments: &Arguments) -> io::Result<Vec<String>> {
    if let Some(name) = &arguments.name {
        return Ok(vec![name.clone()]);
    }
    let mut names: Vec<String> = Choice::here(None).find()?.into_iter().map(|service| service.name).collect();
    names.dedup();
    if names.is_empty() {
        return Err(io::Error::other(
            "no service is running in this network namespace; --name reads the record of one that was killed",
        ));
    }
    Ok(names)
}

/// Readable when a file of the directory has changed, come or gone.
fn watch(directory: &Path) -> io::Result<rustix::fd::OwnedFd> {
    let changes = inotify::init(inotify::CreateFlags::CLOEXEC)?;
    let kinds = inotify::WatchFlags::MODIFY | inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVE;
    inotify::add_watch(&changes, directory, kinds)
        .map_err(|error| io::Error::other(format!("{}: {error}", directory.display())))?;
    Ok(changes)
}

/// The end of a record that grows, and that another file takes the place of.
struct Tail {
    path: PathBuf,
    file: Option<File>,
    /// A line whose end is not there yet.
    begun: Vec<u8>,
}

impl Tail {
    fn new(path: PathBuf) -> Tail {
        Tail { path, file: None, begun: Vec::new() }
    }

    /// Begins with the record before this one, if there is one.
    fn start(&mut self) -> io::Result<()> {
        self.file = Some(match File::open(record_before(&self.path)) {
            Err(error) if error.kind() == ErrorKind::NotFound => File::open(&self.path)?,
            opened => opened?,
        });
        Ok(())
    }

    /// Whole lines since the last call.
    fn read(&mut self) -> io::Result<Vec<String>> {
        let mut lines = Vec::new();
        loop {
            if let Some(file) = &mut self.file {
                file.read_to_end(&mut self.begun)?;
            }
            while let Some(end) = self.begun.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.begun.drain(..=end).collect();
                lines.push(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            match File::open(&self.path) {
                Ok(now) if self.is_another(&now)? => {
                    // A service that was killed may have left half a line.
                    self.begun.clear();
                    self.file = Some(now);
                }
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => return Ok(lines),
            }
        }
    }

    fn is_another(&self, now: &File) -> io::Result<bool> {
        let inode = |file: &File| file.metadata().map(|metadata| metadata.ino());
        Ok(self.file.as_ref().map(inode).transpose()? != Some(inode(now)?))
    }
}

/// A line of a record.
struct Line {
    service: String,
    text: String,
    /// `None`: it is no record's.
    fields: Option<Value>,
}

impl Line {
    fn read(service: &str, text: String) -> Line {
        Line { service: service.to_owned(), fields: serde_json::from_str(&text).ok().filter(Value::is_object), text }
    }

    fn field(&self, name: &str) -> &str {
        self.fields.as_ref().and_then(|fields| fields[name].as_str()).unwrap_or_default()
    }

    fn time(&self) -> &str {
        self.field("timestamp")
    }

    fn part(&self) -> &str {
        self.field("target").trim_start_matches("ringway::")
    }

    fn is_wanted(&self, arguments: &Arguments) -> bool {
        let ignores_case = true;
        let level = Level::from_str(self.field("level"), ignores_case).unwrap_or(Level::Error);
        level <= arguments.level && (arguments.target.is_empty() || arguments.target.iter().any(|part| part == self.part()))
    }

    /// `of_several`: the service's name stands in front.
    fn show(&self, arguments: &Arguments, of_several: bool) -> String {
        let text = printable(&self.text);
        match (&self.fields, arguments.json) {
            (None, _) | (_, true) => text + "\n",
            (Some(_), false) => {
                let name = if of_several { format!("{} ", self.service) } else { String::new() };
                let (time, level) = (self.time(), self.field("level"));
                printable(&format!("{time} {name}{level:5} {}: {}", self.part(), self.field("message"))) + "\n"
            }
        }
    }
}

#[cfg(test)]
mod tests;
