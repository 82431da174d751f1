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
use ringway_shm::stats::InterfaceRecord;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::services::{Choice, Service};

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

/// Returns the workers of the only service, or of all that were asked for.
///
/// # Errors
/// There is none, or there are several without `--all-namespaces`, which needs `--name`.
pub(crate) fn workers_of(choice: &Choice) -> io::Result<Vec<Service>> {
    let workers = choice.find()?;
    let names: Vec<&str> = workers.iter().filter(|worker| worker.worker == 0).map(|worker| worker.label.as_str()).collect();
    match names.len() {
        0 => Err(choice.nothing()),
        many if many > 1 && !choice.all_namespaces => {
            Err(io::Error::other(format!("several services are running; choose one with --name: {}", names.join(", "))))
        }
        _ => Ok(workers),
    }
}

/// Selects packets of the capture rings and describes their stream.
pub(crate) struct Source {
    pub(crate) medium: Medium,
    /// The interfaces that are wanted: the index of the worker that names them, their number, and their name as a file has it.
    interfaces: Vec<(usize, u32, String)>,
    direction: Option<Direction>,
    /// Of each worker, the index of the first one of its service, which names interfaces and counters.
    firsts: Vec<usize>,
    /// Of each worker the names of the counters, which are the reasons for drops.
    counters: Vec<Vec<String>>,
}

impl Source {
    /// The packets of an interface (`None` or `any`: of all) in one direction or both.
    ///
    /// # Errors
    /// There is no such interface.
    pub(crate) fn new(workers: &[Service], interface: Option<&str>, direction: Option<Direction>) -> io::Result<Source> {
        let wanted = interface.filter(|name| *name != "any");
        let first_of = |worker: &Service| workers.iter().position(|other| other.is_of(worker)).expect("itself at least");
        let firsts: Vec<usize> = workers.iter().map(first_of).collect();
        let services = workers.iter().enumerate().filter(|(index, _)| firsts[*index] == *index);
        let all: Vec<_> = services
            .flat_map(|(index, service)| {
                service.stats.interfaces().into_iter().map(move |(number, found)| (index, number, found))
            })
            .collect();
        let chosen: Vec<_> = all.iter().filter(|(_, _, interface)| wanted.is_none_or(|name| interface.name == name)).collect();
        let name = |index: usize, interface: &InterfaceRecord| workers[index].interface_name(&interface.name);
        let Some((_, _, first)) = chosen.first() else {
            let names: Vec<String> = all.iter().map(|(index, _, interface)| name(*index, interface)).collect();
            let labels: Vec<&str> = workers.iter().filter(|worker| worker.worker == 0).map(|worker| &*worker.label).collect();
            return Err(io::Error::other(format!(
                "service {} has no interface {}; it has: {}",
                labels.join(", "),
                wanted.unwrap_or("any"),
                names.join(", ")
            )));
        };
        // A stream has one link type; interfaces of the other type need -i.
        let same = chosen.iter().filter(|(_, _, interface)| interface.ethernet == first.ethernet);
        Ok(Source {
            medium: if first.ethernet { Medium::Ethernet } else { Medium::Ip },
            interfaces: same.map(|(index, number, interface)| (*index, *number, name(*index, interface))).collect(),
            direction,
            firsts,
            counters: workers.iter().map(|worker| worker.stats.counters().into_iter().map(|(name, _)| name).collect()).collect(),
        })
    }

    /// Names of the interfaces as a file has them.
    pub(crate) fn names(&self) -> Vec<String> {
        let names = self.interfaces.iter().map(|(_, _, name)| name.clone());
        match self.medium {
            Medium::Ethernet => names.collect(),
            Medium::Ip => vec![names.collect::<Vec<_>>().join(",")],
        }
    }

    /// Returns the interfaces as a file has them. libpcap refuses files with several interfaces of raw IP (it compares
    /// LINKTYPE_RAW, 101, with DLT_RAW, 12): those are one interface there, with all names.
    pub(crate) fn interfaces<'a>(&self, names: &'a [String]) -> Vec<Interface<'a>> {
        names.iter().map(|name| Interface { name, medium: self.medium }).collect()
    }

    fn interface_of(&self, captured: &RingPacket) -> Option<usize> {
        let place = (self.firsts[captured.worker], captured.packet.interface);
        self.interfaces.iter().position(|(index, number, _)| (*index, *number) == place)
    }

    /// Returns true for a packet of this source.
    pub(crate) fn wants(&self, captured: &RingPacket) -> bool {
        let is_its_way = self.direction.is_none_or(|direction| captured.packet.direction == direction);
        is_its_way && self.interface_of(captured).is_some()
    }

    /// Returns the packet as a file has it; `nanos`: its time since 1970.
    pub(crate) fn record<'a>(&'a self, captured: &'a RingPacket, nanos: u64) -> Record<'a> {
        let packet = &captured.packet;
        let counters = &self.counters[captured.worker];
        let interface = if self.medium == Medium::Ip { 0 } else { self.interface_of(captured).unwrap_or(0) };
        Record {
            nanos,
            interface: interface as u32,
            direction: Some(packet.direction),
            drop_reason: packet.drop_reason.and_then(|reason| counters.get(usize::from(reason))).map(String::as_str),
            comment: None,
            bytes: &packet.bytes,
            original_len: packet.original_len,
        }
    }
}

/// A packet of a worker's ring.
pub(crate) struct RingPacket {
    /// The worker's index among those that are read.
    worker: usize,
    pub(crate) packet: Packet,
}

/// What takes packets.
pub(crate) trait Packets {
    /// Returns false when no more are wanted.
    fn wants_more(&mut self) -> io::Result<bool>;

    /// Takes a packet that was captured `nanos` after the beginning of 1970; returns true if it counts.
    fn take(&mut self, captured: &RingPacket, nanos: u64) -> io::Result<bool>;

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

/// Passes packets of these workers on until either side ends; `readers` are those of their rings.
pub(crate) fn feed(
    workers: &[Service],
    mut readers: Vec<CaptureReader>,
    to: &mut dyn Packets,
    stop: &AtomicBool,
) -> io::Result<Fed> {
    let to_wall = wall_offset()?;
    let mut fed = Fed::default();
    while to.wants_more()? {
        // Read before the rings are drained, so that packets captured before the signal are still passed on.
        let last = stop.load(Ordering::Relaxed) || !workers.iter().any(Service::is_alive);
        let mut batch = Vec::new();
        for (worker, reader) in readers.iter_mut().enumerate() {
            take(worker, reader, &mut batch);
        }
        batch.sort_by_key(|captured| captured.packet.time);
        for captured in &batch {
            fed.nanos = captured.packet.time.as_nanos().wrapping_add(to_wall);
            fed.captured += u64::from(to.take(captured, fed.nanos)?);
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
fn take(worker: usize, reader: &mut CaptureReader, batch: &mut Vec<RingPacket>) {
    let mut bytes = 0;
    while let Some(packet) = reader.next_packet() {
        bytes += packet.bytes.len();
        batch.push(RingPacket { worker, packet });
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
