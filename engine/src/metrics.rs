//! A worker's statistics in shared memory (`ringway_shm::stats`): the counters of the stack, the worker and the
//! devices, and a record per socket.
//!
//! Promises: the data path only adds to plain integers and marks sockets. The shared file is written at most ten times
//! a second, more rarely the more sockets it lists, and once more before a long sleep. Does not do: answering tools;
//! they read the file without asking.

use std::io;
use std::path::Path;

use ringway_shm::capture::EndedWriter;
use ringway_shm::stats::{HolderRecord, InterfaceRecord, Names, SocketRecord, StatsWriter};
use ringway_shm::{Arena, Class, Duration, Instant};
use ringway_stack::{Counter, Stack, stats::COUNTERS};

use crate::interface::Interfaces;
use crate::quota::{Hits, QUOTAS, Quota};

mod histograms;

use histograms::{Batches, HISTOGRAMS, TurnTimes};
pub use histograms::{HistogramInfo, Part, histogram_of};

/// Shortest time between two writes of the file.
const INTERVAL: Duration = Duration::from_millis(100);
/// Each further so many sockets lengthen the interval by one, so that listing them costs the data path little.
const SOCKETS_PER_INTERVAL: u64 = 256;
/// Longest time between two writes while there is work.
const INTERVAL_MAX: Duration = Duration::from_secs(1);
/// Number of sockets that have a record.
const SOCKETS: usize = 65_536;
/// Users and groups whose quotas are written at most.
const HOLDERS: usize = 4_096;

/// Counters of a worker besides those of its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Work {
    Turns,
    IdleTurns,
    Wakeups,
    Requests,
    Violations,
    AcceptedSockets,
    RefusedSockets,
    ProcessesGone,
    DeviceErrors,
    DeviceRxDropped,
    DeviceTxDropped,
    DeviceSyscalls,
    Regions,
    Sockets,
    UnlistedTimeWait,
    UnlistedOthers,
    LargeFramesFree,
    SmallFramesFree,
    BulkChunksLent,
    RoomsFree,
    WakeupCostNanos,
    SpinLimitNanos,
    Spins,
    SpinsInVain,
    BusyNanos,
    FlowGroups,
    FlowGroupsHandedOver,
    HandOversRefused,
    FlowsKept,
    FlowsNotKept,
    UnshownPorts,
    RevokedClaims,
    TurnsUsedUp,
    QuotaHits,
    PortsLent,
    OrphansReset,
    SocketsHandedOver,
    HandoversUndone,
    SocketsAdopted,
    BulkHandedOver,
    MulticastJoined,
    SynsDropped,
    DatagramsDropped,
}

impl Work {
    /// Its place among the counters of the statistics file.
    pub(crate) fn index_in_statistics(self) -> usize {
        COUNTERS + self as usize
    }
}

const WORKS: usize = Work::DatagramsDropped as usize + 1;

/// Names and meanings.
const TABLE: [(&str, &str); WORKS] = [
    ("RingwayTurns", "Iterations of the worker that did something."),
    ("RingwayIdleTurns", "Iterations that found nothing to do."),
    ("RingwayWakeups", "Ends of the worker's sleep."),
    ("RingwayRequests", "Requests of programs."),
    ("RingwayChannelViolations", "Requests and words of programs that break the channel's rules."),
    ("RingwayAcceptedSockets", "Connections given to programs by accept."),
    ("RingwayRefusedSockets", "Sockets that programs wanted and the kernel serves."),
    ("RingwayProcessesGone", "Processes whose end the worker has cleaned up after."),
    ("RingwayDeviceErrors", "Errors of interfaces' devices."),
    ("RingwayDeviceRxDropped", "Packets lost before the worker has read them."),
    ("RingwayDeviceTxDropped", "Packets that a device has refused."),
    ("RingwayDeviceSyscalls", "System calls for packets."),
    ("RingwayRegions", "Application groups that are attached."),
    ("RingwaySockets", "Sockets of programs."),
    ("RingwayUnlistedTimeWait", "Connections in TIME-WAIT that have no row."),
    ("RingwayUnlistedOthers", "Other orphans that have no row."),
    ("RingwayLargeFramesFree", "Large frames that are free."),
    ("RingwaySmallFramesFree", "Small frames that are free."),
    ("RingwayBulkChunksLent", "Chunks for large writes that programs have."),
    ("RingwayRoomsFree", "Rooms for payload that are free."),
    ("RingwayWakeupCostNanos", "Cost of a wake-up as measured, nanoseconds."),
    ("RingwaySpinLimitNanos", "Time for which the worker looks for work before it sleeps, nanoseconds."),
    ("RingwaySpins", "Times that it has looked for work before it slept."),
    ("RingwaySpinsInVain", "Those of them that found none."),
    ("RingwayBusyNanos", "Time in iterations that did something, nanoseconds."),
    ("RingwayFlowGroups", "Flow groups that the worker has."),
    ("RingwayFlowGroupsHandedOver", "Flow groups given to other workers."),
    ("RingwayHandOversRefused", "Such hand-overs that were refused."),
    ("RingwayFlowsKept", "Flows that stayed when their group went."),
    ("RingwayFlowsNotKept", "Flows that could not stay."),
    ("RingwayUnshownPorts", "Requests for ports to which no right was shown."),
    ("RingwayRevokedClaims", "Rights to ports that have ended."),
    ("RingwayTurnsUsedUp", "Iterations in which a group has used up its share."),
    ("RingwayQuotaHits", "Hits of all quotas."),
    ("RingwayPortsLent", "Connections that share a port of the service's with others."),
    ("RingwayOrphansReset", "Orphans that were reset."),
    ("RingwaySocketsHandedOver", "Sockets that went to the kernel."),
    ("RingwayHandoversUndone", "Sockets that came back because the kernel could not take them."),
    ("RingwaySocketsAdopted", "Connections of the kernel's that came to the stack (policy.adopt)."),
    ("RingwayBulkHandedOver", "Connections that went to the kernel because they carry bulk data (policy.bulk)."),
    ("RingwayMulticastJoined", "Multicast groups that sockets of programs have joined on the stack."),
    ("RingwaySynsDropped", "SYNs of a flood that were dropped because more came than the worker can answer."),
    ("RingwayDatagramsDropped", "Datagrams of a flood that were dropped because more came than the worker can deliver."),
];

/// Those that rise and fall.
const GAUGES: [Work; 11] = [
    Work::Regions,
    Work::Sockets,
    Work::UnlistedTimeWait,
    Work::UnlistedOthers,
    Work::LargeFramesFree,
    Work::SmallFramesFree,
    Work::BulkChunksLent,
    Work::RoomsFree,
    Work::WakeupCostNanos,
    Work::SpinLimitNanos,
    Work::FlowGroups,
];

/// What a value of a worker's statistics file means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterInfo {
    /// A sentence.
    pub about: String,
    /// It rises and falls; `false`: it only grows.
    pub is_gauge: bool,
}

/// The meaning of the value with this name; `None`: this version has none.
pub fn counter_info(name: &str) -> Option<CounterInfo> {
    let of_stack = Counter::ALL.iter().find(|counter| counter.name() == name).map(|counter| counter.about().trim().to_owned());
    let of_quota =
        || QUOTAS.iter().find(|info| info.counter == name).map(|info| format!("Hits of the quota limits.{}.", info.key));
    if let Some(about) = of_stack.or_else(of_quota) {
        return Some(CounterInfo { about, is_gauge: false });
    }
    let place = TABLE.iter().position(|(known, _)| *known == name)?;
    Some(CounterInfo { about: TABLE[place].1.to_owned(), is_gauge: GAUGES.iter().any(|gauge| *gauge as usize == place) })
}

/// The worker's own counters and the shared file.
pub(crate) struct Metrics {
    values: [u64; WORKS],
    batches: Batches,
    turn_times: TurnTimes,
    hits: Hits,
    writer: Option<StatsWriter>,
    ended: Option<EndedWriter>,
    free: Vec<u32>,
    next: u32,
    /// Record indices of orphans.
    orphans: Vec<u32>,
    written_at: Instant,
    dirty: bool,
}

impl Metrics {
    /// With a file of statistics, and one for sockets that end.
    pub(crate) fn new(path: Option<&Path>, ended: Option<&Path>) -> io::Result<Metrics> {
        let quotas = QUOTAS.iter().map(|info| info.counter);
        let classes: Vec<String> = HISTOGRAMS.iter().flat_map(HistogramInfo::names).collect();
        let works = TABLE.iter().map(|(name, _)| *name);
        let counters = Counter::ALL.iter().map(|counter| counter.name()).chain(works).chain(quotas);
        let counters: Vec<&str> = counters.chain(classes.iter().map(String::as_str)).collect();
        let quotas: Vec<&str> = QUOTAS.iter().map(|info| info.key).collect();
        let names = Names { counters: &counters, quotas: &quotas };
        let writer = path.map(|path| StatsWriter::create(path, names, SOCKETS, HOLDERS)).transpose()?;
        Ok(Metrics {
            values: [0; WORKS],
            batches: Batches::default(),
            turn_times: TurnTimes::default(),
            hits: Hits::default(),
            writer,
            ended: ended.map(EndedWriter::create).transpose()?,
            free: Vec::new(),
            next: 0,
            orphans: Vec::new(),
            written_at: Instant::ZERO,
            dirty: true,
        })
    }

    #[inline]
    pub(crate) fn add(&mut self, work: Work, count: u64) {
        self.values[work as usize] += count;
    }

    #[cfg(test)]
    pub(crate) fn value(&self, work: Work) -> u64 {
        self.values[work as usize]
    }

    pub(crate) fn set(&mut self, work: Work, value: u64) {
        self.values[work as usize] = value;
    }

    /// A quota of `holder` was hit: of a user, a region, or 0 for the service, as its scope says.
    pub(crate) fn hit(&mut self, quota: Quota, holder: u32) {
        self.hits.add(quota, holder, 1);
    }

    /// Returns the counters of quotas that were hit.
    pub(crate) fn hits(&mut self) -> &mut Hits {
        &mut self.hits
    }

    /// Counts an iteration that did something and received `packets`.
    #[inline]
    pub(crate) fn turned(&mut self, packets: usize) {
        self.dirty = true;
        self.add(Work::Turns, 1);
        if packets > 0 {
            self.batches.add(packets as u64);
        }
    }

    /// Notes how long an iteration that did something has taken.
    #[inline]
    pub(crate) fn turn_took(&mut self, time: Duration) {
        self.turn_times.add(time.as_nanos());
    }

    /// Index for the record of a new socket; `None` if there is no file or it is full.
    pub(crate) fn claim_record(&mut self) -> Option<u32> {
        let writer = self.writer.as_ref()?;
        self.free.pop().or_else(|| {
            let index = self.next;
            ((index as usize) < writer.sockets_max()).then(|| {
                self.next += 1;
                index
            })
        })
    }

    /// Releases the record of a closed socket.
    pub(crate) fn release_record(&mut self, index: u32) {
        if let Some(writer) = &mut self.writer {
            writer.set_socket(index as usize, None);
            self.free.push(index);
        }
    }

    pub(crate) fn write_socket(&mut self, index: u32, socket: &SocketRecord) {
        if let Some(writer) = &mut self.writer {
            writer.set_socket(index as usize, Some(socket));
        }
    }

    /// Returns true if a tool listens for sockets that end.
    pub(crate) fn is_followed(&self) -> bool {
        self.ended.as_ref().is_some_and(EndedWriter::is_wanted)
    }

    /// Tells it of one.
    pub(crate) fn write_end(&mut self, now: Instant, socket: &SocketRecord) {
        if let Some(ended) = &mut self.ended {
            ended.write(now, socket);
        }
    }

    /// Replaces the records of orphans.
    pub(crate) fn write_orphans(&mut self, orphans: &[SocketRecord]) {
        while self.orphans.len() > orphans.len() {
            if let Some(index) = self.orphans.pop() {
                self.release_record(index);
            }
        }
        for (number, orphan) in orphans.iter().enumerate() {
            if number == self.orphans.len() {
                let Some(index) = self.claim_record() else { return };
                self.orphans.push(index);
            }
            self.write_socket(self.orphans[number], orphan);
        }
    }

    /// Returns true if there is a file.
    pub(crate) fn is_written(&self) -> bool {
        self.writer.is_some()
    }

    /// Replaces the records of users' and groups' quotas.
    pub(crate) fn write_holders(&mut self, holders: &[HolderRecord]) {
        if let Some(writer) = &mut self.writer {
            writer.set_holders(&holders[..holders.len().min(HOLDERS)]);
        }
    }

    /// Time at which the file must be written; `None`: nothing has changed.
    pub(crate) fn due(&self) -> Option<Instant> {
        (self.dirty && self.writer.is_some()).then(|| self.written_at + self.interval())
    }

    fn interval(&self) -> Duration {
        let listed = self.values[Work::Sockets as usize] + self.orphans.len() as u64;
        (INTERVAL + Duration::from_nanos(INTERVAL.as_nanos() * listed / SOCKETS_PER_INTERVAL)).min(INTERVAL_MAX)
    }

    /// Writes everything but sockets.
    pub(crate) fn write(&mut self, now: Instant, stack: &Stack, interfaces: &Interfaces, arena: &Arena) {
        self.written_at = now;
        self.dirty = false;
        if let Some(ended) = self.ended.as_ref().filter(|ended| ended.is_wanted()) {
            ended.forget_readers(is_alive);
        }
        self.set(Work::LargeFramesFree, u64::from(arena.free(Class::Large)));
        self.set(Work::SmallFramesFree, u64::from(arena.free(Class::Small)));
        let (mut errors, mut rx_dropped, mut tx_dropped, mut syscalls) = (0, 0, 0, 0);
        for (number, port) in interfaces.iter().enumerate() {
            let counted = port.device.counters();
            errors += port.errors;
            rx_dropped += counted.rx_dropped;
            tx_dropped += counted.tx_dropped;
            syscalls += counted.syscalls;
            if let Some(writer) = self.writer.as_ref().filter(|_| number < ringway_shm::stats::INTERFACES_MAX) {
                writer.set_interface(number, &record(port, &counted));
            }
        }
        self.set(Work::DeviceErrors, errors);
        self.set(Work::DeviceRxDropped, rx_dropped);
        self.set(Work::DeviceTxDropped, tx_dropped);
        self.set(Work::DeviceSyscalls, syscalls);
        self.set(Work::QuotaHits, self.hits.sums().iter().sum());
        if let Some(writer) = &self.writer {
            writer.set_counters(0, stack.counters().values());
            writer.set_counters(COUNTERS, &self.values);
            writer.set_counters(COUNTERS + WORKS, self.hits.sums());
            let mut at = COUNTERS + WORKS + QUOTAS.len();
            let (round_trips, turn_times) = (stack.counters().round_trips().values(), self.turn_times.values());
            for values in [&round_trips[..], &turn_times, &self.batches.values()] {
                writer.set_counters(at, values);
                at += values.len();
            }
        }
    }
}

/// Returns true if there is a process of this number.
pub(crate) fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

fn record(port: &crate::interface::WorkerInterface, counted: &ringway_device::Counters) -> InterfaceRecord {
    InterfaceRecord {
        name: port.name.clone(),
        ethernet: port.device.capabilities().medium == ringway_device::Medium::Ethernet,
        mac: port.mac,
        mtu: u32::from(port.mtu()),
        rx_packets: counted.rx_packets,
        rx_bytes: counted.rx_bytes,
        rx_dropped: counted.rx_dropped,
        tx_packets: counted.tx_packets,
        tx_bytes: counted.tx_bytes,
        tx_dropped: counted.tx_dropped,
        syscalls: counted.syscalls,
    }
}

#[cfg(test)]
mod tests;
