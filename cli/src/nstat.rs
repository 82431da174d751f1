//! `ringway nstat`: counters under the kernel's names, in the format of nstat(8).
//!
//! Values are differences from the last call unless `-a` is given, as in nstat(8); the last values are
//! kept in a file per user. Reads shared memory only.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Map, Value, json};

use crate::services::{self, Service};

/// Arguments of `ringway nstat`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Show values since the service started, not since the last call
    #[arg(short = 'a', long)]
    ignore: bool,
    /// Show counters that are zero, too
    #[arg(short, long)]
    zeros: bool,
    /// Do not save these values for the next call
    #[arg(short = 's', long)]
    noupdate: bool,
    /// Ignore the values of the last call
    #[arg(short, long)]
    reset: bool,
    /// Print JSON
    #[arg(short, long)]
    json: bool,
    /// Print indented JSON
    #[arg(short, long)]
    pretty: bool,
    #[command(flatten)]
    services: services::Choice,
    /// Show only the counters of this worker; the first is 0
    #[arg(long, value_name = "N")]
    worker: Option<u32>,
    /// Show only counters with a matching name; `*` matches any text
    #[arg(value_name = "PATTERN")]
    patterns: Vec<String>,
}

/// Prints the counters.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    crate::output::end("nstat", show(arguments))
}

fn show(arguments: &Arguments) -> io::Result<()> {
    let mut services = arguments.services.find()?;
    services.retain(|service| arguments.worker.is_none_or(|worker| service.worker == worker));
    if services.is_empty() {
        return Err(arguments.services.nothing());
    }
    let now = sum(&services);
    let history = History::of(&services);
    let before = if arguments.ignore || arguments.reset { BTreeMap::new() } else { history.read() };
    let wanted = |name: &str| arguments.patterns.is_empty() || arguments.patterns.iter().any(|pattern| matches(pattern, name));
    let rows: Vec<(&str, u64)> = now
        .iter()
        .map(|(name, value)| (name.as_str(), value.saturating_sub(before.get(name).copied().unwrap_or(0))))
        .filter(|(name, value)| (arguments.zeros || *value != 0) && wanted(name))
        .collect();
    print(arguments, &rows)?;
    if arguments.noupdate { Ok(()) } else { history.write(&now) }
}

fn print(arguments: &Arguments, rows: &[(&str, u64)]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if arguments.json || arguments.pretty {
        let counters: Map<String, Value> = rows.iter().map(|(name, value)| (name.to_string(), json!(value))).collect();
        let whole = json!({ "ringway": counters });
        return if arguments.pretty { writeln!(out, "{whole:#}") } else { writeln!(out, "{whole}") };
    }
    writeln!(out, "#ringway")?;
    rows.iter().try_for_each(|(name, value)| writeln!(out, "{name:<31} {value:<16}0.0"))
}

/// Sums of the counters of all these services, in the order of the first.
fn sum(services: &[Service]) -> Vec<(String, u64)> {
    let mut total: Vec<(String, u64)> = Vec::new();
    for (name, value) in services.iter().flat_map(|service| service.stats.counters()) {
        match total.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += value,
            None => total.push((name, value)),
        }
    }
    total
}

/// Returns true when `name` matches a pattern with `*`, ignoring case, as in nstat.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.to_lowercase(), name.to_lowercase());
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(inner) = name.strip_prefix(first).and_then(|inner| inner.strip_suffix(last)) else { return false };
    let mut from = 0;
    middle.split('*').all(|piece| match inner[from..].find(piece) {
        Some(at) => {
            from += at + piece.len();
            true
        }
        None => false,
    })
}

/// The values of the last call, valid only for the same services.
struct History {
    path: PathBuf,
    services: String,
}

impl History {
    fn of(services: &[Service]) -> History {
        let user = rustix::process::getuid().as_raw();
        let path = std::env::var_os("RINGWAY_NSTAT_HISTORY").map(PathBuf::from);
        let path = path.unwrap_or_else(|| std::env::temp_dir().join(format!(".ringway-nstat.u{user}")));
        let names: Vec<String> =
            services.iter().map(|service| format!("{}:{}:{}", service.label, service.worker, service.stats.pid())).collect();
        History { path, services: format!("#{}", names.join(" ")) }
    }

    fn read(&self) -> BTreeMap<String, u64> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        let mut lines = text.lines();
        if lines.next() != Some(self.services.as_str()) {
            return BTreeMap::new();
        }
        lines
            .filter_map(|line| line.split_once(' '))
            .filter_map(|(name, value)| Some((name.to_string(), value.parse().ok()?)))
            .collect()
    }

    fn write(&self, values: &[(String, u64)]) -> io::Result<()> {
        let mut text = format!("{}\n", self.services);
        values.iter().for_each(|(name, value)| text.push_str(&format!("{name} {value}\n")));
        // Write a new file and rename it: readers see the old values or the new ones, and a symbolic link is not followed.
        let beside = self.path.with_extension(format!("{}", std::process::id()));
        fs::File::options().write(true).create_new(true).open(&beside)?.write_all(text.as_bytes())?;
        fs::rename(&beside, &self.path)
    }
}

#[cfg(test)]
mod tests;
