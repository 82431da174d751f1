//! `ringway trace END [END]`: the segments of a connection, each with what the stack makes of it.
//!
//! Promises: only packets of these connections are written to the ring, so that a busy service can be followed; a file of
//! `-w` holds all that is printed, and `-r` prints it again. Does not do: say what the stack was like between two segments of
//! one turn; those that leave together come with the state after the last.

mod absent;
mod follow;
mod line;
mod state;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use ringway_device::pcap::{Record, Writer};
use ringway_shm::capture::{CaptureReader, End, Ends};
use ringway_trace::ReadError;

use crate::capture::{Packets, RingPacket, Source, feed, until_a_signal, workers_of};
use crate::output;
use crate::services::{Choice, Service};
use absent::Absent;
use follow::{Captured, Followed};
use line::Lines;

/// Arguments of `ringway trace`.
#[derive(Args, Debug)]
#[command(
    after_help = "Each segment is a line in tcpdump's words, with why it was sent or what it brings. Below it stands, in ss's words, what
has changed at the connection: `ca` is the state of congestion control, `waits` what it waits for before it sends more.

Examples:
  ringway trace :443                                what happens on port 443
  ringway trace 192.0.2.1:443 198.51.100.7:50000    one connection, by both ends
  ringway trace -w slow.pcapng :443                 into a file, which Wireshark and ringway check-trace read too
  ringway trace -r slow.pcapng                      print that file
Connections that the kernel serves are not seen; it is said when one goes there, with the reason of ringway why.
Exit status: 0: the end, or a signal; 1: a failure; 2: wrong arguments."
)]
pub(crate) struct Arguments {
    /// An end of the connection, ours or the peer's: ADDRESS:PORT or :PORT; two name both ends
    #[arg(value_name = "END", value_parser = end, num_args = 0..=2, required_unless_present = "read")]
    ends: Vec<End>,
    /// Write the packets to a pcapng file with the connection's state as comments; `-` is standard output
    #[arg(short, long, value_name = "FILE", conflicts_with = "read")]
    write: Option<PathBuf>,
    /// Print as well as write
    #[arg(long, requires = "write")]
    print: bool,
    /// Print a file of -w; `-` is standard input
    #[arg(short, long, value_name = "FILE")]
    read: Option<PathBuf>,
    /// End after this many segments
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Only segments at this interface
    #[arg(short, long, conflicts_with = "read")]
    interface: Option<String>,
    /// The service, if several are running
    #[arg(long, conflicts_with = "read")]
    name: Option<String>,
    /// Print one JSON object for each segment
    #[arg(short, long)]
    json: bool,
}

impl Arguments {
    /// The connections that are meant; `None`: all of a file.
    fn connections(&self) -> Option<Ends> {
        let one = *self.ends.first()?;
        Some(Ends { one, other: self.ends.get(1).copied() })
    }
}

fn end(text: &str) -> Result<End, String> {
    if let Some(port) = text.strip_prefix(':') {
        return port.parse().map(|port| End { ip: None, port }).map_err(|_| format!("{port} is no port"));
    }
    let end: SocketAddr = text.parse().map_err(|_| "it is neither ADDRESS:PORT nor :PORT".to_owned())?;
    Ok(End { ip: Some(end.ip()), port: end.port() })
}

/// Traces until a signal, the end of the service or that of the file.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let done = match &arguments.read {
        Some(file) => read(arguments, file),
        None => live(arguments),
    };
    output::end("trace", done)
}

fn live(arguments: &Arguments) -> io::Result<()> {
    let stop = until_a_signal()?;
    let workers = workers_of(&Choice::here(arguments.name.as_deref()))?;
    let source = Source::new(&workers, arguments.interface.as_deref(), None)?;
    let connections = arguments.connections();
    let open = |worker: &Service| {
        let path = worker.file("capture");
        CaptureReader::open(&path, connections).map_err(|error| of_file(&path, &error))
    };
    let readers: Vec<CaptureReader> = workers.iter().map(open).collect::<io::Result<_>>()?;
    let file = match &arguments.write {
        Some(path) => Some(PacketFile::create(path, &source, readers[0].snaplen() as u32)?),
        None => None,
    };
    eprintln!("ringway trace: following service {}", workers[0].name);
    let printer = Printer::new(arguments);
    let prints = arguments.write.is_none() || arguments.print;
    let mut to = Live { workers: &workers, source, printer, file, prints, absent: Absent::default() };
    let fed = feed(&workers, readers, &mut to, &stop)?;
    if let Some(file) = &mut to.file {
        file.end(fed.nanos, fed.lost)?;
    }
    eprintln!("ringway trace: {} segments, {} packets lost", fed.captured, fed.lost);
    Ok(())
}

fn read(arguments: &Arguments, path: &Path) -> io::Result<()> {
    let mut printer = Printer::new(arguments);
    let mut failed = Ok(());
    let mut visit = |packet: &ringway_trace::Packet<'_>| {
        let is_over = failed.is_err() || printer.left == 0;
        if let Some(segment) = (!is_over).then(|| Captured::of_file(packet)).flatten().filter(|segment| printer.wants(segment)) {
            printer.print(&segment);
            failed = printer.flush();
        }
    };
    let ending = if path.as_os_str() == "-" {
        ringway_trace::read(io::stdin(), &mut visit)
    } else {
        ringway_trace::read(File::open(path).map_err(|error| of_file(path, &error))?, &mut visit)
    };
    failed?;
    let ending = ending.map_err(|error: ReadError| io::Error::other(format!("{}: {error}", path.display())))?;
    if ending.truncated {
        eprintln!("ringway trace: {} ends inside a packet", path.display());
    }
    if ending.dropped > 0 {
        eprintln!("ringway trace: {} packets are missing in the file", ending.dropped);
    }
    Ok(())
}

fn of_file(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Prints segments, and remembers their connections.
struct Printer {
    connections: Option<Ends>,
    followed: Followed,
    lines: Lines,
    left: u64,
    text: String,
}

impl Printer {
    fn new(arguments: &Arguments) -> Printer {
        Printer {
            connections: arguments.connections(),
            followed: Followed::default(),
            lines: Lines::new(arguments.json),
            left: arguments.count.unwrap_or(u64::MAX),
            text: String::new(),
        }
    }

    fn wants(&self, segment: &Captured<'_>) -> bool {
        self.connections.is_none_or(|ends| ends.are_of(&segment.flow))
    }

    /// Adds the lines of a segment.
    fn print(&mut self, segment: &Captured<'_>) {
        let seen = self.followed.take(segment);
        self.lines.add(segment, &seen, &mut self.text);
        self.left -= 1;
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.text.is_empty() {
            return Ok(());
        }
        output::stream(&std::mem::take(&mut self.text))
    }
}

/// What a running service's packets go to.
struct Live<'a> {
    workers: &'a [Service],
    source: Source,
    printer: Printer,
    file: Option<PacketFile>,
    prints: bool,
    absent: Absent,
}

impl Packets for Live<'_> {
    fn wants_more(&mut self) -> io::Result<bool> {
        Ok(self.printer.left > 0)
    }

    fn take(&mut self, captured: &RingPacket, nanos: u64) -> io::Result<bool> {
        if self.printer.left == 0 || !self.source.wants(captured) {
            return Ok(false);
        }
        let packet = &captured.packet;
        let state = packet.observed.as_deref().map(|observed| state::text(observed, packet.time));
        let record = Record { comment: state.as_deref(), ..self.source.record(captured, nanos) };
        let Some(segment) = Captured::of_record(&record, self.source.medium).filter(|segment| self.printer.wants(segment)) else {
            return Ok(false);
        };
        if let Some(file) = &mut self.file {
            file.write(&record)?;
        }
        match self.prints {
            true => self.printer.print(&segment),
            false => self.printer.left -= 1,
        }
        Ok(true)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.printer.flush()?;
        let ends = self.printer.connections;
        for line in ends.map(|ends| self.absent.look(self.workers, ends)).unwrap_or_default() {
            eprintln!("ringway trace: {line}");
        }
        self.file.as_mut().map_or(Ok(()), PacketFile::flush)
    }
}

/// The file of `-w`.
struct PacketFile {
    path: PathBuf,
    writer: Writer<BufWriter<Box<dyn Write>>>,
}

impl PacketFile {
    fn create(path: &Path, source: &Source, snaplen: u32) -> io::Result<PacketFile> {
        let to: Box<dyn Write> = match path.as_os_str() == OsStr::new("-") {
            true => Box::new(io::stdout()),
            false => Box::new(File::create(path).map_err(|error| of_file(path, &error))?),
        };
        let writer = Writer::new(BufWriter::new(to), &source.interfaces(&source.names()), snaplen)
            .map_err(|error| of_file(path, &error))?;
        Ok(PacketFile { path: path.to_owned(), writer })
    }

    fn write(&mut self, record: &Record<'_>) -> io::Result<()> {
        self.writer.write(record).map_err(|error| of_file(&self.path, &error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush().map_err(|error| of_file(&self.path, &error))
    }

    /// Says at the end how many packets are missing.
    fn end(&mut self, nanos: u64, lost: u64) -> io::Result<()> {
        if lost > 0 {
            self.writer.write_lost(nanos, 0, lost).map_err(|error| of_file(&self.path, &error))?;
        }
        self.flush()
    }
}

#[cfg(test)]
mod tests;
