//! `ringway tcpdump ARGS`: the real tcpdump(8), fed with the packets that the workers receive and send.
//!
//! Arguments are tcpdump's own. Those of a live source (`-i`, `-Q`, `-p`, `-B`, and `--name`) are handled
//! here, because tcpdump reads a stream; all others are passed on. The file of `-w` is written here too: pcapng with
//! interfaces, directions and the reasons for drops, which tcpdump would leave out. Promises: Ctrl-C ends it cleanly, with a
//! complete file; lost packets are counted. Does not do: slow the worker.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, ExitStatus};

use clap::Args;
use ringway_shm::capture::{CaptureReader, Packet};

use crate::capture::{Packets, Source, feed, only, until_a_signal};
use crate::services;

mod filter;
mod options;
mod sink;

use options::Options;
use sink::Sink;

/// Arguments of `ringway tcpdump`.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    /// tcpdump's own arguments, and `--name NAME` to choose a service
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

/// Captures until tcpdump or the service ends, or a signal arrives.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    match capture(&arguments.arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("ringway tcpdump: {error}");
            ExitCode::FAILURE
        }
    }
}

fn capture(arguments: &[OsString]) -> io::Result<ExitCode> {
    let options = Options::read(arguments).map_err(io::Error::other)?;
    if options.without_source {
        return Ok(exit_code(Command::new("tcpdump").args(&options.passed).status()?));
    }
    let stop = until_a_signal()?;
    let workers = only(services::find(options.name.as_deref())?)?;
    let service = &workers[0];
    let source = Source::new(service, options.interface.as_deref(), options.direction)?;
    let readers: Vec<CaptureReader> =
        workers.iter().map(|worker| CaptureReader::open(&worker.file("capture"), None)).collect::<io::Result<_>>()?;
    let sink = Sink::open(&options, &source.interfaces(), readers[0].snaplen() as u32)?;
    eprintln!("ringway tcpdump: listening on {} of service {}, both directions", source.names.join(","), service.name);
    let mut to = Records { source: &source, sink };
    let fed = feed(service, readers, &mut to, &stop)?;
    let status = to.sink.finish(fed.nanos, fed.lost)?;
    eprintln!("ringway tcpdump: {} packets captured, {} lost", fed.captured, fed.lost);
    Ok(status.map_or(ExitCode::SUCCESS, exit_code))
}

/// Passes the packets of a source on to a sink.
struct Records<'a> {
    source: &'a Source,
    sink: Sink,
}

impl Packets for Records<'_> {
    fn wants_more(&mut self) -> io::Result<bool> {
        self.sink.is_open()
    }

    fn take(&mut self, packet: &Packet, nanos: u64) -> io::Result<bool> {
        if !self.source.wants(packet) {
            return Ok(false);
        }
        self.sink.write(&self.source.record(packet, nanos))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

#[cfg(test)]
mod tests;
