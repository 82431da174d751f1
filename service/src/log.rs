//! The log: what a service tells its operator, on standard error and in a record that `ringway log` reads.
//!
//! ```text
//!   event --> log.filter, log.format -->\
//!         --> the record, JSON -------->  a line in the queue --> the thread of the log --> write(2), or an entry of the journal
//! ```
//! Promises: a thread that logs never waits, whatever standard error and the run directory are (a full disk, an unread pipe, closed). Each
//! place in the code may log fifty lines at once and five a second; what is left out is counted and said. No line has a control character,
//! whatever a program calls itself. Does not do: events of programs; the preload library logs nothing here.

mod journal;
mod limit;
mod queue;
mod record;

use std::fmt::Debug;
use std::path::Path;
use std::str::FromStr;
use std::sync::OnceLock;

use rustix::fs::fstat;
use tracing::Subscriber;
use tracing::field::Field;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Registry, fmt, reload};

use queue::{Door, Form, Queue, Sink};

pub use record::before as record_before;

/// The parts of the log, by which `log.filter` and `ringway log` choose.
pub const TARGETS: [&str; 9] = [
    "ringway::service",
    "ringway::attach",
    "ringway::quota",
    "ringway::interface",
    "ringway::steering",
    "ringway::firewall",
    "ringway::config",
    "ringway::handover",
    "ringway::log",
];

/// What systemd sets where its journal reads standard error (systemd.exec(5)): `DEVICE:INODE`.
const JOURNAL_VARIABLE: &str = "JOURNAL_STREAM";

/// The value of what a line goes without.
const LEFT_OUT: bool = false;

/// What standard error gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogChoice {
    /// Levels by parts of the log, as `info,ringway::attach=debug`.
    pub filter: String,
    /// How a line looks.
    pub format: LogFormat,
    /// What the filter lets through beyond this stays unsaid.
    most: LevelFilter,
}

/// How a line looks on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// As for the journal where that reads, else plain.
    Auto,
    /// `ringway: ` and what has happened.
    Plain,
    /// Time, level, part of the log, what has happened, and its values.
    Text,
    /// An object a line.
    Json,
    /// An entry with a field for each value where the journal reads, else the level in front as sd-daemon(3) has it.
    Journald,
}

impl LogChoice {
    pub(crate) fn new(filter: &str, format: &str) -> LogChoice {
        let format = match format {
            "plain" => LogFormat::Plain,
            "text" => LogFormat::Text,
            "json" => LogFormat::Json,
            "journald" => LogFormat::Journald,
            _ => LogFormat::Auto,
        };
        LogChoice { filter: filter.to_owned(), format, most: LevelFilter::TRACE }
    }

    /// The same without what is no warning.
    pub fn quiet(&self) -> LogChoice {
        LogChoice { most: LevelFilter::WARN, ..self.clone() }
    }

    fn targets(&self) -> Targets {
        // What is no filter was refused when the configuration was read.
        let chosen = Targets::from_str(&self.filter).unwrap_or_default();
        let others = chosen.default_level().unwrap_or(LevelFilter::OFF).min(self.most);
        let parts: Vec<(String, LevelFilter)> =
            chosen.iter().map(|(part, level)| (part.to_owned(), level.min(self.most))).collect();
        Targets::new().with_default(others).with_targets(parts)
    }
}

/// Checks a value of `log.filter`.
///
/// # Errors
/// What is wrong, and what may stand there.
pub(crate) fn check(filter: &str) -> Result<(), String> {
    for part in filter.split(',') {
        let (target, level) = part.trim().split_once('=').unwrap_or((TARGETS[0], part.trim()));
        if !TARGETS.contains(&target) {
            return Err(format!("{target} is no part of the log; there are {}", TARGETS.join(", ")));
        }
        if level.is_empty() || LevelFilter::from_str(level).is_err() {
            return Err(format!("{level:?} is no level; there are off, error, warn, info, debug and trace"));
        }
    }
    Ok(())
}

struct Log {
    filter: reload::Handle<Targets, Registry>,
    queue: Queue,
}

static LOG: OnceLock<Log> = OnceLock::new();

/// Begins to log for this process; the first call counts. Lines wait until [`Service::start`](crate::Service::start) has given up its
/// rights, or [`flush`] is called.
pub fn start(choice: &LogChoice) {
    let queue = Queue::new();
    let (subscriber, filter) = subscriber(choice, &queue);
    if LOG.set(Log { filter, queue }).is_ok() {
        // `Err`: the program has one of its own, which gets the events.
        tracing::subscriber::set_global_default(subscriber).ok();
    }
}

/// Follows `log.filter`.
pub fn follow(choice: &LogChoice) {
    if let Some(log) = LOG.get() {
        // `Err`: the program has a subscriber of its own.
        log.filter.modify(|filter| *filter = choice.targets()).ok();
    }
}

/// Waits for what has been logged to be written, a second at most.
pub fn flush() {
    if let Some(log) = LOG.get() {
        log.queue.flush();
    }
}

/// Writes from now on, with the rights of the calling thread, and keeps the record at `path`.
pub(crate) fn open(path: &Path) {
    if let Some(log) = LOG.get() {
        log.queue.open(path);
    }
}

fn subscriber(choice: &LogChoice, queue: &Queue) -> (impl Subscriber + Send + Sync + use<>, reload::Handle<Targets, Registry>) {
    let (filter, handle) = reload::Layer::new(choice.targets());
    let errors = on_stderr(choice.format, queue).with_filter(filter);
    let record = json(Door::new(queue, Sink::Record, Form::Whole));
    let ours = Targets::new().with_target("ringway", LevelFilter::DEBUG);
    (Registry::default().with(errors).with(record.with_filter(ours)), handle)
}

fn on_stderr(format: LogFormat, queue: &Queue) -> Box<dyn Layer<Registry> + Send + Sync> {
    let door = |form| Door::new(queue, Sink::Errors, form);
    let bare = |form| {
        let layer = fmt::layer().without_time().with_level(LEFT_OUT).with_target(LEFT_OUT);
        layer.fmt_fields(debug_fn(write_message)).with_writer(door(form)).boxed()
    };
    match format {
        LogFormat::Auto | LogFormat::Journald if journal_reads() => {
            let entries = Door::new(queue, Sink::Journal, Form::Entry);
            fmt::layer().event_format(journal::Entry).with_writer(entries).boxed()
        }
        LogFormat::Journald => bare(Form::Journald),
        LogFormat::Auto | LogFormat::Plain => bare(Form::Plain),
        LogFormat::Text => fmt::layer().with_writer(door(Form::Whole)).boxed(),
        LogFormat::Json => json(door(Form::Whole)),
    }
}

/// An event's values stand beside its message.
fn json<S: Subscriber + for<'a> LookupSpan<'a>>(door: Door) -> Box<dyn Layer<S> + Send + Sync> {
    let flat = true;
    fmt::layer().json().flatten_event(flat).with_current_span(LEFT_OUT).with_span_list(LEFT_OUT).with_writer(door).boxed()
}

/// The sentence has all values that a reader wants.
fn write_message(writer: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> std::fmt::Result {
    if field.name() == "message" { write!(writer, "{value:?}") } else { Ok(()) }
}

fn journal_reads() -> bool {
    let file = fstat(std::io::stderr()).map(|file| format!("{}:{}", file.st_dev, file.st_ino));
    file.is_ok_and(|file| std::env::var(JOURNAL_VARIABLE).is_ok_and(|stream| stream == file))
}

#[cfg(test)]
mod tests;
