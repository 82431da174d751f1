//! Where captured packets go: to the tcpdump program, which prints them, or to a file that is written here.
//!
//! Both get pcapng. Promises: a file that cannot be written ends the capture with its name and the reason; each of several files (`-C`) can be
//! read by itself. Does not do: files by time (`-G`), which tcpdump writes.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use ringway_device::Medium;
use ringway_device::pcap::{Interface, Record, Writer};

use super::files::{Counted, Files};
use super::filter::Filter;
use super::options::Options;

/// The end of a stream of packets.
pub(super) struct Sink {
    writer: Writer<Counted>,
    /// For error messages.
    name: String,
    /// The program that reads the stream.
    child: Option<Child>,
    filter: Option<Filter>,
    /// Packets that are still wanted (`-c`).
    left: u64,
    /// The other end is closed.
    closed: bool,
    /// What follows when the file is full.
    files: Option<Files>,
    /// What each file begins with.
    interfaces: Vec<(String, Medium)>,
    snaplen: u32,
}

impl Sink {
    /// Opens the file of `-w`, or starts tcpdump. All interfaces have one medium.
    ///
    /// # Errors
    /// tcpdump cannot be started or refuses the filter; the file cannot be written.
    pub(super) fn open(options: &Options, interfaces: &[Interface<'_>], snaplen: u32) -> io::Result<Sink> {
        let Some(file) = options.file() else { return Sink::tcpdump(options, interfaces, snaplen) };
        let filter = match &options.filter[..] {
            [] => None,
            expression => Some(Filter::compile(expression, interfaces[0].medium)?),
        };
        let name = file.to_string_lossy().into_owned();
        let mut files = options.file_bytes.map(|size| Files::new(name.clone(), size, options.files));
        let to = match &mut files {
            Some(_) if file == OsStr::new("-") => return Err(io::Error::other("-C and -w - exclude each other")),
            Some(files) => files.create().map_err(|error| cannot_write(&files.name(), &error))?,
            None if file == OsStr::new("-") => Counted::new(Box::new(io::stdout())),
            None => Counted::new(Box::new(File::create(file).map_err(|error| cannot_write(&name, &error))?)),
        };
        let name = files.as_ref().map_or(name, Files::name);
        let snaplen = options.snaplen.filter(|&wanted| wanted > 0).map_or(snaplen, |wanted| wanted.min(snaplen));
        let mut sink = Sink::new(to, name, interfaces, snaplen)?;
        (sink.filter, sink.files) = (filter, files);
        sink.left = options.count.unwrap_or(u64::MAX);
        Ok(sink)
    }

    /// Starts tcpdump, which reads the stream, in its own process group, so that Ctrl-C ends the stream first.
    fn tcpdump(options: &Options, interfaces: &[Interface<'_>], snaplen: u32) -> io::Result<Sink> {
        let mut command = Command::new("tcpdump");
        command.args(["-r", "-"]);
        if rustix::process::getuid().is_root() && !options.names_user {
            // Otherwise tcpdump writes its file as another user, without permission for it.
            command.args(["-Z", "root"]);
        }
        let started = command.args(&options.passed).stdin(Stdio::piped()).process_group(0).spawn();
        let mut child = started.map_err(|error| super::cannot_start(&error))?;
        let pipe = child.stdin.take().expect("the pipe was asked for");
        let mut sink = Sink::new(Counted::new(Box::new(pipe)), "the pipe to tcpdump".into(), interfaces, snaplen)?;
        sink.child = Some(child);
        Ok(sink)
    }

    fn new(to: Counted, name: String, interfaces: &[Interface<'_>], snaplen: u32) -> io::Result<Sink> {
        let writer = Writer::new(to, interfaces, snaplen).map_err(|error| cannot_write(&name, &error))?;
        let interfaces = interfaces.iter().map(|interface| (interface.name.to_owned(), interface.medium)).collect();
        let mut sink =
            Sink { writer, name, child: None, filter: None, left: u64::MAX, closed: false, files: None, interfaces, snaplen };
        sink.flush()?;
        Ok(sink)
    }

    /// Goes on in the next file if this one is full.
    fn turn_over(&mut self) -> io::Result<()> {
        if !self.files.as_ref().is_some_and(Files::is_full) {
            return Ok(());
        }
        self.flush()?;
        let Some(files) = &mut self.files else { return Ok(()) };
        files.advance();
        self.name = files.name();
        let interfaces: Vec<Interface<'_>> =
            self.interfaces.iter().map(|(name, medium)| Interface { name, medium: *medium }).collect();
        let begun = files.create().and_then(|to| Writer::new(to, &interfaces, self.snaplen));
        self.writer = begun.map_err(|error| cannot_write(&self.name, &error))?;
        Ok(())
    }

    /// Returns true while more packets are wanted.
    ///
    /// # Errors
    /// tcpdump cannot be asked for its state.
    pub(super) fn is_open(&mut self) -> io::Result<bool> {
        if let Some(child) = &mut self.child
            && child.try_wait()?.is_some()
        {
            self.closed = true;
        }
        Ok(!self.closed && self.left > 0)
    }

    /// Passes a packet on if it is wanted; returns true if it was.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(&mut self, packet: &Record<'_>) -> io::Result<bool> {
        let accepted = match &self.filter {
            Some(filter) => filter.accepts(packet.bytes)?,
            None => true,
        };
        if self.closed || self.left == 0 || !accepted {
            return Ok(false);
        }
        self.left -= 1;
        self.turn_over()?;
        let written = self.writer.write(packet);
        self.check(written)?;
        Ok(true)
    }

    /// Makes the packets so far visible to readers.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let flushed = self.writer.flush();
        self.check(flushed)
    }

    /// Ends the stream; a file says how many packets were lost. Returns how tcpdump ended, if it was used.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn finish(mut self, nanos: u64, lost: u64) -> io::Result<Option<ExitStatus>> {
        if self.child.is_none() && lost > 0 {
            let written = self.writer.write_lost(nanos, 0, lost);
            self.check(written)?;
        }
        self.flush()?;
        let Sink { writer, child, .. } = self;
        drop(writer);
        child.map(|mut child| child.wait()).transpose()
    }

    /// A reader that has closed its end wants no more, which is no error.
    fn check(&mut self, result: io::Result<()>) -> io::Result<()> {
        match result {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => self.closed = true,
            Err(error) => return Err(cannot_write(&self.name, &error)),
            Ok(()) => {}
        }
        Ok(())
    }
}

fn cannot_write(name: &str, error: &io::Error) -> io::Error {
    io::Error::other(format!("cannot write {name}: {error}"))
}

#[cfg(test)]
mod tests;
