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
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use ringway_device::Medium;
use ringway_device::pcap::{Interface, Record};
use ringway_shm::capture::{CaptureReader, Direction, Packet};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::services::{self, Service};

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
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let workers = only(services::find(options.name.as_deref())?)?;
    let service = &workers[0];
    let source = Source::new(service, &options)?;
    let readers: Vec<CaptureReader> =
        workers.iter().map(|worker| CaptureReader::open(&worker.file("capture"))).collect::<io::Result<_>>()?;
    let sink = Sink::open(&options, &source.interfaces(), readers[0].snaplen() as u32)?;
    eprintln!("ringway tcpdump: listening on {} of service {}, both directions", source.names.join(","), service.name);
    let status = feed(service, &source, readers, sink, &stop)?;
    Ok(status.map_or(ExitCode::SUCCESS, exit_code))
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

/// Selects packets of the capture rings and describes their stream.
struct Source {
    medium: Medium,
    numbers: Vec<u32>,
    /// Names of the interfaces as a file has them.
    names: Vec<String>,
    direction: Option<Direction>,
    /// Names of the counters, which are the reasons for drops.
    counters: Vec<String>,
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
        let names: Vec<String> = same.iter().map(|(_, interface)| interface.name.clone()).collect();
        Ok(Source {
            medium: if first.ethernet { Medium::Ethernet } else { Medium::Ip },
            numbers: same.iter().map(|(number, _)| *number).collect(),
            names: if first.ethernet { names } else { vec![names.join(",")] },
            direction: options.direction,
            counters: service.stats.counters().into_iter().map(|(name, _)| name).collect(),
        })
    }

    /// Returns the interfaces as a file has them. libpcap refuses files with several interfaces of raw IP (it compares
    /// LINKTYPE_RAW, 101, with DLT_RAW, 12): those are one interface there, with all names.
    fn interfaces(&self) -> Vec<Interface<'_>> {
        self.names.iter().map(|name| Interface { name, medium: self.medium }).collect()
    }

    fn wants(&self, packet: &Packet) -> bool {
        self.numbers.contains(&packet.interface) && self.direction.is_none_or(|direction| packet.direction == direction)
    }

    /// Returns the packet as a file has it; `to_wall` makes its time the time of day.
    fn record<'a>(&'a self, packet: &'a Packet, to_wall: u64) -> Record<'a> {
        let index = self.numbers.iter().position(|number| *number == packet.interface).unwrap_or(0);
        Record {
            nanos: packet.time.as_nanos().wrapping_add(to_wall),
            interface: index.min(self.names.len() - 1) as u32,
            direction: Some(packet.direction),
            drop_reason: packet.drop_reason.and_then(|reason| self.counters.get(usize::from(reason))).map(String::as_str),
            bytes: &packet.bytes,
            original_len: packet.original_len,
        }
    }
}

/// Copies packets to the sink until either side ends; returns how tcpdump ended, if it was used. Packets of several
/// workers are sorted by time within one batch taken from all rings.
fn feed(
    service: &Service,
    source: &Source,
    mut readers: Vec<CaptureReader>,
    mut sink: Sink,
    stop: &AtomicBool,
) -> io::Result<Option<ExitStatus>> {
    let to_wall = wall_offset()?;
    let (mut captured, mut nanos) = (0_u64, 0);
    while sink.is_open()? {
        // Read before the rings are drained, so that packets captured before the signal are still written.
        let last = stop.load(Ordering::Relaxed) || !service.is_alive();
        let mut batch = Vec::new();
        for reader in &mut readers {
            take(reader, source, &mut batch);
        }
        batch.sort_by_key(|packet| packet.time);
        for packet in &batch {
            let record = source.record(packet, to_wall);
            captured += u64::from(sink.write(&record)?);
            nanos = record.nanos;
        }
        sink.flush()?;
        if batch.is_empty() && last {
            break;
        }
        if batch.is_empty() {
            sleep(POLL);
        }
    }
    let lost = readers.iter().map(CaptureReader::lost).sum::<u64>();
    let status = sink.finish(nanos, lost)?;
    eprintln!("ringway tcpdump: {captured} packets captured, {lost} lost");
    Ok(status)
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
/// Bytes collected for one batch.
const BATCH_BYTES: usize = 1 << 18;

#[cfg(test)]
mod tests;
