//! Events as entries of systemd's journal, a field for each value, and the way there.
//!
//! Read <https://systemd.io/JOURNAL_NATIVE_PROTOCOL/> first: an entry is a datagram of `NAME=value` lines. Promises: a value is one field,
//! whatever it holds, since control characters are replaced; sending never waits. Does not do: values with several lines.

use std::fmt::{self, Debug, Write};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::printable;

/// The journal's socket.
pub(super) const SOCKET: &str = "/run/systemd/journal/socket";
/// The field that an entry begins with.
const MESSAGE: &str = "MESSAGE=";

/// The format of an entry.
pub(super) struct Entry;

impl<S, N> FormatEvent<S, N> for Entry
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let (level, target) = (*event.metadata().level(), event.metadata().target());
        writeln!(writer, "{MESSAGE}{}", printable(&fields.message))?;
        writeln!(writer, "PRIORITY={}", severity(level))?;
        writeln!(writer, "SYSLOG_IDENTIFIER=ringway")?;
        writeln!(writer, "RINGWAY_PART={}", target.strip_prefix("ringway::").unwrap_or(target))?;
        writer.write_str(&fields.others)
    }
}

/// syslog(3).
pub(super) fn severity(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

/// The message of an entry, for a reader of lines.
pub(super) fn message_of(entry: &str) -> &str {
    entry.lines().next().and_then(|line| line.strip_prefix(MESSAGE)).unwrap_or_default()
}

#[derive(Default)]
struct Fields {
    message: String,
    others: String,
}

impl Fields {
    fn take(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message = value.to_owned(),
            // A string takes all that is written.
            name => writeln!(self.others, "RINGWAY_{}={}", name_of(name), printable(value)).unwrap_or_default(),
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.take(field, &format!("{value:?}"));
    }
}

/// Capitals, digits and underscores are what the journal takes (systemd.journal-fields(7)).
fn name_of(field: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' };
    field.chars().map(letter).collect()
}

/// The way to the journal: opened for the first entry, and again after a failure.
pub(super) struct Journal {
    path: PathBuf,
    socket: Option<UnixDatagram>,
}

impl Journal {
    pub(super) fn at(path: impl AsRef<Path>) -> Journal {
        Journal { path: path.as_ref().to_owned(), socket: None }
    }

    /// Sends an entry. Returns false if the journal does not take it now: it is not there, or its queue is full.
    pub(super) fn send(&mut self, entry: &str) -> bool {
        let was_open = self.socket.is_some();
        // A journal that began again has another socket.
        self.try_to_send(entry) || was_open && self.try_to_send(entry)
    }

    fn try_to_send(&mut self, entry: &str) -> bool {
        let socket = self.socket.take().or_else(|| open(&self.path).ok());
        self.socket = socket.filter(|socket| socket.send(entry.as_bytes()).is_ok());
        self.socket.is_some()
    }
}

fn open(path: &Path) -> std::io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    let without_waiting = true;
    socket.set_nonblocking(without_waiting)?;
    socket.connect(path)?;
    Ok(socket)
}

#[cfg(test)]
mod tests;
