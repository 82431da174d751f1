//! Lines on their way from the threads that log to the one that writes.
//!
//! Promises: [`Queue::push`] returns at once; what finds no room is counted, and told when there is room again. Standard error that
//! is not read costs the record nothing. Does not do: filters.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

use super::journal::{self, Journal};
use super::limit::Limits;
use super::record::Record;
use crate::printable;

/// Capacity, lines.
const CAPACITY: usize = 512;
/// How long a line waits for room in standard error, the first time.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
const NO_PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
const FLUSH_MAX: Duration = Duration::from_secs(1);
/// The part of the log that is about the log.
const OWN_TARGET: &str = "ringway::log";

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sink {
    /// Standard error.
    Errors,
    /// The journal that reads standard error, with the values of an event.
    Journal,
    Record,
}

/// What stands in front of a line.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// `ringway: `.
    Plain,
    /// `<6>`, the level as syslog(3) has it.
    Journald,
    /// Nothing: the line has all of it.
    Whole,
    /// Nothing: it is no line, but an entry of the journal.
    Entry,
}

pub(super) struct Line {
    sink: Sink,
    text: String,
    level: Level,
    target: String,
    /// Lines of the same place before this one.
    left_out: u64,
}

pub(super) enum Message {
    Line(Line),
    Flush(SyncSender<()>),
}

#[derive(Clone)]
pub(super) struct Queue {
    sender: SyncSender<Message>,
    /// Until there is a thread.
    waiting: Arc<Mutex<Option<Receiver<Message>>>>,
    lost: Arc<AtomicU64>,
}

impl Queue {
    pub(super) fn new() -> Queue {
        let (sender, receiver) = sync_channel(CAPACITY);
        Queue { sender, waiting: Arc::new(Mutex::new(Some(receiver))), lost: Arc::default() }
    }

    fn push(&self, line: Line) {
        let is_lost = self.sender.try_send(Message::Line(line)).is_err();
        self.lost.fetch_add(u64::from(is_lost), Ordering::Relaxed);
    }

    /// Starts the thread; a second call changes nothing.
    pub(super) fn open(&self, record: &Path) {
        let Some(lines) = lock(&self.waiting).take() else { return };
        let record = Record::open(record);
        if let Err(error) = &record {
            tracing::warn!(target: OWN_TARGET, "there is no record of the log: {error}");
        }
        let mut writer = Writer::new(record.ok(), self.lost.clone());
        let thread = std::thread::Builder::new().name("ringway-log".to_owned());
        // Without a thread lines are lost, and counted.
        thread.spawn(move || writer.run(&lines, &mut io::stderr())).ok();
    }

    /// Waits until everything before is written. Without a thread this one writes.
    pub(super) fn flush(&self) {
        if let Some(lines) = &*lock(&self.waiting) {
            let mut writer = Writer::new(None, self.lost.clone());
            return writer.drain(lines, &mut io::stderr());
        }
        let (done, flushed) = sync_channel(1);
        if self.sender.try_send(Message::Flush(done)).is_ok() {
            // Standard error may be stuck.
            flushed.recv_timeout(FLUSH_MAX).ok();
        }
    }
}

/// One of the ways out, with its limits.
pub(super) struct Door {
    queue: Queue,
    sink: Sink,
    form: Form,
    limits: Mutex<Limits>,
}

impl Door {
    pub(super) fn new(queue: &Queue, sink: Sink, form: Form) -> Door {
        Door { queue: queue.clone(), sink, form, limits: Mutex::default() }
    }
}

/// The way of one event.
pub(super) struct Passing<'a> {
    door: &'a Door,
    level: Level,
    target: String,
    left_out: Option<u64>,
}

impl<'a> MakeWriter<'a> for Door {
    type Writer = Passing<'a>;

    fn make_writer(&'a self) -> Passing<'a> {
        Passing { door: self, level: Level::INFO, target: String::new(), left_out: Some(0) }
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> Passing<'a> {
        let left_out = lock(&self.limits).pass(event.name(), ringway_engine::clock::now());
        Passing { door: self, level: *event.level(), target: event.target().to_owned(), left_out }
    }
}

impl Write for Passing<'_> {
    /// A whole line.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(left_out) = self.left_out {
            let text = String::from_utf8_lossy(bytes);
            let line = || printable(text.trim_end_matches('\n'));
            let text = match self.door.form {
                Form::Plain => format!("ringway: {}\n", line()),
                Form::Journald => leveled(self.level, &line()),
                Form::Whole => format!("{}\n", line()),
                Form::Entry => text.into_owned(),
            };
            let target = std::mem::take(&mut self.target);
            self.door.queue.push(Line { sink: self.door.sink, text, level: self.level, target, left_out });
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A line with the level in front, as sd-daemon(3) has it.
fn leveled(level: Level, text: &str) -> String {
    format!("<{}>{text}\n", journal::severity(level))
}

struct Writer {
    /// Lines for which standard error has had no room, since it had some.
    unread: u64,
    journal: Journal,
    record: Option<Record>,
    lost: Arc<AtomicU64>,
}

impl Writer {
    fn new(record: Option<Record>, lost: Arc<AtomicU64>) -> Writer {
        Writer { unread: 0, journal: Journal::at(journal::SOCKET), record, lost }
    }

    /// Writes lines until the last sender is dropped.
    fn run(&mut self, messages: &Receiver<Message>, errors: &mut (impl Write + AsFd)) {
        while let Ok(message) = messages.recv() {
            self.take(message, errors);
            self.drain(messages, errors);
        }
    }

    /// Writes what is there, and then, with room in the queue again, says what had none.
    fn drain(&mut self, messages: &Receiver<Message>, errors: &mut (impl Write + AsFd)) {
        loop {
            while let Ok(message) = messages.try_recv() {
                self.take(message, errors);
            }
            match self.lost.swap(0, Ordering::Relaxed) {
                0 => return,
                lost => tracing::warn!(target: OWN_TARGET, lost, "{lost} lines of the log were lost"),
            }
        }
    }

    fn take(&mut self, message: Message, errors: &mut (impl Write + AsFd)) {
        match message {
            Message::Line(line) => match line.sink {
                Sink::Errors => self.write_error(&line.text, errors),
                Sink::Journal => self.write_entry(&line, errors),
                Sink::Record => self.write_record(&line),
            },
            // A caller that has lost its patience is gone.
            Message::Flush(done) => done.send(()).unwrap_or_default(),
        }
    }

    fn write_error(&mut self, text: &str, errors: &mut (impl Write + AsFd)) {
        let patience = if self.unread > 0 { NO_PATIENCE } else { PATIENCE };
        let has_room = poll(&mut [PollFd::new(&*errors, PollFlags::OUT)], Some(&patience)).is_ok_and(|ready| ready > 0);
        if !has_room {
            self.unread += 1;
            return;
        }
        let unread = std::mem::take(&mut self.unread);
        if unread > 0 {
            tracing::warn!(target: OWN_TARGET, unread, "standard error was not read: {unread} lines were lost there");
        }
        // A failed write has no other place to go.
        errors.write_all(text.as_bytes()).unwrap_or_default();
    }

    /// What the journal does not take goes to standard error, without its values.
    fn write_entry(&mut self, entry: &Line, errors: &mut (impl Write + AsFd)) {
        if !self.journal.send(&entry.text) {
            self.write_error(&leveled(entry.level, journal::message_of(&entry.text)), errors);
        }
    }

    fn write_record(&mut self, line: &Line) {
        // The record has what standard error has, so it counts for both. Standard error misses no line that it would not have.
        let Line { left_out, target, .. } = line;
        let is_said = *left_out > 0 && target != OWN_TARGET;
        if is_said && line.level <= Level::INFO {
            tracing::warn!(target: OWN_TARGET, left_out, "{left_out} lines of {target} were left out");
        } else if is_said {
            tracing::debug!(target: OWN_TARGET, left_out, "{left_out} lines of {target} were left out");
        }
        let Some(record) = &mut self.record else { return };
        if let Err(error) = record.write(&line.text) {
            self.record = None;
            tracing::warn!(target: OWN_TARGET, "the record of the log ends: {error}");
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
pub(super) mod tests;
