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

use clap::{Args, CommandFactory};
use ringway_shm::capture::CaptureReader;

use crate::capture::{Packets, RingPacket, Source, feed, until_a_signal, workers_of};
use crate::services::Choice;

mod files;
mod filter;
mod options;
mod sink;

use options::{Asked, Options};
use sink::Sink;

const HELP: &str = "Handled here, since the packets are a service's and not an interface's:
  -D             list the interfaces of services
  -i INTERFACE   only this one of them; any: all
  -Q in|out      only this direction
  -w FILE        pcapng with interface, direction and the reasons for drops; needs no tcpdump unless there is a filter
  -C SIZE        with -w: the next file, FILE1, after so many million bytes
  -W COUNT       with -C: so many files in turn, FILE0 and on
  --name NAME    the service, if several are running
  --net NAMESPACE, --all-namespaces
                 services of another network namespace, or of all
  -h             print this
All others are tcpdump's own (man tcpdump); -p, -B and -j have no meaning here.

Examples:
  ringway tcpdump -n port 80
  ringway tcpdump -c 100 -w FILE";

/// Arguments of `ringway tcpdump`.
#[derive(Args, Debug)]
#[command(disable_help_flag = true, after_help = HELP)]
pub(crate) struct Arguments {
    /// tcpdump's own arguments, and `--name`, `--net` and `--all-namespaces` to choose services
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
    match options.asked {
        Some(Asked::Help) => return Ok(help()),
        Some(Asked::Interfaces) => return interfaces(&options.services),
        None => {}
    }
    if options.without_source {
        let status = Command::new("tcpdump").args(&options.passed).status().map_err(|error| cannot_start(&error))?;
        return Ok(exit_code(status));
    }
    let stop = until_a_signal()?;
    let workers = workers_of(&options.services)?;
    let source = Source::new(&workers, options.interface.as_deref(), options.direction)?;
    let names = source.names();
    let readers: Vec<CaptureReader> =
        workers.iter().map(|worker| CaptureReader::open(&worker.file("capture"), None)).collect::<io::Result<_>>()?;
    let sink = Sink::open(&options, &source.interfaces(&names), readers[0].snaplen() as u32)?;
    let mut labels: Vec<&str> = workers.iter().map(|worker| &*worker.label).collect();
    labels.dedup();
    eprintln!("ringway tcpdump: listening on {} of service {}, both directions", names.join(","), labels.join(", "));
    let mut to = Records { source: &source, sink };
    let fed = feed(&workers, readers, &mut to, &stop)?;
    let status = to.sink.finish(fed.nanos, fed.lost)?;
    eprintln!("ringway tcpdump: {} packets captured, {} lost", fed.captured, fed.lost);
    Ok(status.map_or(ExitCode::SUCCESS, exit_code))
}

fn help() -> ExitCode {
    let mut command = crate::args::Arguments::command();
    let own = command.find_subcommand_mut("tcpdump").expect("it is a command");
    crate::output::print("tcpdump", &own.render_long_help().to_string())
}

/// Lists the interfaces of these services, as `-i` takes them.
fn interfaces(choice: &Choice) -> io::Result<ExitCode> {
    let mut text = String::new();
    for service in choice.find()?.iter().filter(|service| service.worker == 0) {
        for (_, interface) in service.stats.interfaces() {
            let frames = if interface.ethernet { "Ethernet" } else { "raw IP" };
            text += &format!("{} [{frames}, MTU {}, service {}]\n", interface.name, interface.mtu, service.label);
        }
    }
    if text.is_empty() {
        return Err(choice.nothing());
    }
    Ok(crate::output::print("tcpdump", &text))
}

/// Says why the program cannot be started, and what goes without it.
fn cannot_start(error: &io::Error) -> io::Error {
    io::Error::other(match error.kind() {
        io::ErrorKind::NotFound => "tcpdump is not installed (apt install tcpdump). Without it, -w FILE without a filter writes \
                                    packets, and ringway trace :PORT prints segments of TCP"
            .to_owned(),
        _ => format!("cannot start tcpdump: {error}"),
    })
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

    fn take(&mut self, captured: &RingPacket, nanos: u64) -> io::Result<bool> {
        if !self.source.wants(captured) {
            return Ok(false);
        }
        self.sink.write(&self.source.record(captured, nanos))
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
