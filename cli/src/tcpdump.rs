//! `ringway tcpdump ARGS`: the real tcpdump(8), fed with the packets that the workers receive and send.
//!
//! Arguments are tcpdump's own. Those of a live source (`-i`, `-Q`, `-p`, `-B`, and `--name`) are handled
//! here, because tcpdump reads a stream; all others are passed on. Promises: Ctrl-C ends it cleanly, with a
//! complete file under `-w`; lost packets are counted. Does not do: slow the worker.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use ringway_shm::capture::{CaptureReader, Direction, Packet};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::services::{self, Service};

mod options;
mod pcap;

use options::Options;

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
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let workers = only(services::find(options.name.as_deref())?)?;
    let service = &workers[0];
    let source = Source::new(service, &options)?;
    let readers = workers.iter().map(|worker| CaptureReader::open(&worker.file("capture"))).collect::<io::Result<_>>()?;
    eprintln!("ringway tcpdump: listening on {} of service {}, both directions", source.title, service.name);
    let mut child = start(&options)?;
    let result = feed(service, &source, readers, &mut child, &stop);
    let status = child.wait()?;
    result.map(|()| exit_code(status))
}

/// Returns the workers of the only service; fails when there are several, which needs `--name`.
fn only(services: Vec<Service>) -> io::Result<Vec<Service>> {
    let names: Vec<&str> = services.iter().filter(|service| service.worker == 0).map(|service| service.name.as_str()).collect();
    match names.len() {
        0 => Err(io::Error::other("no service is running in this network namespace")),
        1 => Ok(services),
        _ => Err(io::Error::other(format!("several services are running; choose one with --name: {}", names.join(", ")))),
    }
}

/// Starts tcpdump, which reads the stream, in its own process group, so that Ctrl-C ends the stream first.
fn start(options: &Options) -> io::Result<Child> {
    let mut command = Command::new("tcpdump");
    command.args(["-r", "-"]);
    if rustix::process::getuid().is_root() && !options.names_user {
        // Otherwise tcpdump writes its file as another user, without permission for it.
        command.args(["-Z", "root"]);
    }
    let started = command.args(&options.passed).stdin(Stdio::piped()).process_group(0).spawn();
    started.map_err(|error| io::Error::other(format!("cannot start tcpdump: {error}")))
}

/// Selects packets of the capture rings and describes their stream.
struct Source {
    link_type: u32,
    interfaces: Vec<u32>,
    direction: Option<Direction>,
    title: String,
}

impl Source {
    fn new(service: &Service, options: &Options) -> io::Result<Source> {
        let all = service.stats.interfaces();
        let wanted = options.interface.as_deref().filter(|name| *name != "any");
        let chosen: Vec<_> = all.iter().filter(|(_, interface)| wanted.is_none_or(|name| interface.name == name)).collect();
        let Some((_, first)) = chosen.first() else {
            let names: Vec<&str> = all.iter().map(|(_, interface)| interface.name.as_str()).collect();
            let wanted = wanted.unwrap_or("any");
            return Err(io::Error::other(format!(
                "service {} has no interface {wanted}; it has: {}",
                service.name,
                names.join(", ")
            )));
        };
        // A stream has one link type; interfaces of the other type need -i.
        let same: Vec<_> = chosen.iter().filter(|(_, interface)| interface.ethernet == first.ethernet).collect();
        let names: Vec<&str> = same.iter().map(|(_, interface)| interface.name.as_str()).collect();
        Ok(Source {
            link_type: if first.ethernet { pcap::LINK_ETHERNET } else { pcap::LINK_RAW },
            interfaces: same.iter().map(|(number, _)| *number).collect(),
            direction: options.direction,
            title: names.join(","),
        })
    }

    fn wants(&self, packet: &Packet) -> bool {
        self.interfaces.contains(&packet.interface) && self.direction.is_none_or(|direction| packet.direction == direction)
    }
}

/// Copies packets to tcpdump until either side ends. Packets of several workers are sorted by time within one batch taken
/// from all rings.
fn feed(
    service: &Service,
    source: &Source,
    mut readers: Vec<CaptureReader>,
    child: &mut Child,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut pipe = child.stdin.take().expect("the pipe was asked for");
    let to_wall = wall_offset()?;
    let mut captured = 0_u64;
    let mut open = write(&mut pipe, &pcap::file_header(source.link_type, readers[0].snaplen()))?;
    while open && child.try_wait()?.is_none() {
        // Read before the rings are drained, so that packets captured before the signal are still written.
        let last = stop.load(Ordering::Relaxed) || !service.is_alive();
        let mut batch = Vec::new();
        for reader in &mut readers {
            take(reader, source, &mut batch);
        }
        batch.sort_by_key(|packet| packet.time);
        let idle = batch.is_empty();
        captured += batch.len() as u64;
        let mut bytes = Vec::new();
        for packet in &batch {
            pcap::append_packet(&mut bytes, packet.time.as_nanos().wrapping_add(to_wall), packet);
        }
        open = write(&mut pipe, &bytes)?;
        if idle && last {
            break;
        }
        if idle {
            sleep(POLL);
        }
    }
    drop(pipe);
    eprintln!("ringway tcpdump: {captured} packets captured, {} lost", readers.iter().map(CaptureReader::lost).sum::<u64>());
    Ok(())
}

/// Takes wanted packets from a ring, about `BATCH_BYTES` at a time.
fn take(reader: &mut CaptureReader, source: &Source, batch: &mut Vec<Packet>) {
    let mut bytes = 0;
    while let Some(packet) = reader.next_packet() {
        if source.wants(&packet) {
            bytes += packet.bytes.len();
            batch.push(packet);
        }
        if bytes > BATCH_BYTES {
            break;
        }
    }
}

/// Writes to tcpdump; returns false when it has closed its end.
fn write(pipe: &mut ChildStdin, bytes: &[u8]) -> io::Result<bool> {
    match pipe.write_all(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

/// Nanoseconds to add to the worker's clock (CLOCK_MONOTONIC) to get the time of day.
fn wall_offset() -> io::Result<u64> {
    let monotonic = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let monotonic = (monotonic.tv_sec as u64) * 1_000_000_000 + monotonic.tv_nsec as u64;
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?;
    Ok((wall.as_nanos() as u64).wrapping_sub(monotonic))
}

fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// Polling interval of empty rings.
const POLL: Duration = Duration::from_millis(5);
/// Bytes collected for one write.
const BATCH_BYTES: usize = 1 << 18;

#[cfg(test)]
mod tests;
