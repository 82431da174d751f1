//! Packets of a service's workers, as the capture rings have them: for `ringway tcpdump` and `ringway trace`.
//!
//! Promises: packets of several workers are in the order of their times within one batch; lost packets are counted; packets
//! captured before a signal are still passed on. Does not do: slow the worker.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ringway_device::Medium;
use ringway_device::pcap::{Interface, Record};
use ringway_shm::capture::{CaptureReader, Direction, Packet};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::services::Service;

/// Polling interval of empty rings.
const POLL: Duration = Duration::from_millis(5);
/// Bytes collected for one batch.
const BATCH_BYTES: usize = 1 << 18;

/// Returns what becomes true when a signal asks for the end.
///
/// # Errors
/// What the system says.
pub(crate) fn until_a_signal() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Returns the workers of the only service.
///
/// # Errors
/// There is none, or there are several, which needs `--name`.
pub(crate) fn only(services: Vec<Service>) -> io::Result<Vec<Service>> {
    let names: Vec<&str> = services.iter().filter(|service| service.worker == 0).map(|service| service.name.as_str()).collect();
    match names.len() {
        0 => Err(io::Error::other("no service is running in this network namespace")),
        1 => Ok(services),
        _ => Err(io::Error::other(format!("several services are running; choose one with --name: {}", names.join(", ")))),
    }
}

/// Selects packets of the capture rings and describes their stream.
pub(crate) struct Source {
    pub(crate) medium: Medium,
    numbers: Vec<u32>,
    /// Names of the interfaces as a file has them.
    pub(crate) names: Vec<String>,
    direction: Option<Direction>,
    /// Names of the counters, which are the reasons for drops.
    counters: Vec<String>,
}

impl Source {
    /// The packets of an interface (`None` or `any`: of all) in one direction or both.
    ///
    /// # Errors
    /// There is no such interface.
    pub(crate) fn new(service: &Service, interface: Option<&str>, direction: Option<Direction>) -> io::Result<Source> {
        let all = service.stats.interfaces();
        let wanted = interface.filter(|name| *name != "any");
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
            direction,
            counters: service.stats.counters().into_iter().map(|(name, _)| name).collect(),
        })
    }

    /// Returns the interfaces as a file has them. libpcap refuses files with several interfaces of raw IP (it compares
    /// LINKTYPE_RAW, 101, with DLT_RAW, 12): those are one interface there, with all names.
    pub(crate) fn interfaces(&self) -> Vec<Interface<'_>> {
        self.names.iter().map(|name| Interface { name, medium: self.medium }).collect()
    }

    /// Returns true for a packet of this source.
    pub(crate) fn wants(&self, packet: &Packet) -> bool {
        self.numbers.contains(&packet.interface) && self.direction.is_none_or(|direction| packet.direction == direction)
    }

    /// Returns the packet as a file has it; `nanos`: its time since 1970.
    pub(crate) fn record<'a>(&'a self, packet: &'a Packet, nanos: u64) -> Record<'a> {
        let index = self.numbers.iter().position(|number| *number == packet.interface).unwrap_or(0);
        Record {
            nanos,
            interface: index.min(self.names.len() - 1) as u32,
            direction: Some(packet.direction),
            drop_reason: packet.drop_reason.and_then(|reason| self.counters.get(usize::from(reason))).map(String::as_str),
            comment: None,
            bytes: &packet.bytes,
            original_len: packet.original_len,
        }
    }
}

/// What takes packets.
pub(crate) trait Packets {
    /// Returns false when no more are wanted.
    fn wants_more(&mut self) -> io::Result<bool>;

    /// Takes a packet that was captured `nanos` after the beginning of 1970; returns true if it counts.
    fn take(&mut self, packet: &Packet, nanos: u64) -> io::Result<bool>;

    /// Makes the packets so far visible.
    fn flush(&mut self) -> io::Result<()>;
}

/// What was passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fed {
    /// Packets that count.
    pub(crate) captured: u64,
    /// Packets for which this reader was too slow.
    pub(crate) lost: u64,
    /// Time of the last packet.
    pub(crate) nanos: u64,
}

/// Passes packets on until either side ends.
pub(crate) fn feed(
    service: &Service,
    mut readers: Vec<CaptureReader>,
    to: &mut dyn Packets,
    stop: &AtomicBool,
) -> io::Result<Fed> {
    let to_wall = wall_offset()?;
    let mut fed = Fed::default();
    while to.wants_more()? {
        // Read before the rings are drained, so that packets captured before the signal are still passed on.
        let last = stop.load(Ordering::Relaxed) || !service.is_alive();
        let mut batch = Vec::new();
        for reader in &mut readers {
            take(reader, &mut batch);
        }
        batch.sort_by_key(|packet| packet.time);
        for packet in &batch {
            fed.nanos = packet.time.as_nanos().wrapping_add(to_wall);
            fed.captured += u64::from(to.take(packet, fed.nanos)?);
        }
        to.flush()?;
        if batch.is_empty() && last {
            break;
        }
        if batch.is_empty() {
            sleep(POLL);
        }
    }
    fed.lost = readers.iter().map(CaptureReader::lost).sum();
    Ok(fed)
}

/// Takes packets from a ring, about `BATCH_BYTES` at a time.
fn take(reader: &mut CaptureReader, batch: &mut Vec<Packet>) {
    let mut bytes = 0;
    while let Some(packet) = reader.next_packet() {
        bytes += packet.bytes.len();
        batch.push(packet);
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
