//! The tables: what changed between two samples, per second.

use std::collections::{BTreeMap, HashMap};

use ringway_engine::counter_info;
use ringway_shm::stats::InterfaceRecord;
use serde_json::json;

use super::cell::Cell;
use super::history::Point;
use super::sample::{Sample, Socket, WorkerSample};
use super::sheet::{Column, Order, Row, Sheet};
use crate::ss::{Filter, LISTEN, ends, is_connection, is_counted, state_name};

/// What happened between two samples.
#[derive(Debug)]
pub(super) struct Rates {
    pub(super) total: Total,
    pub(super) workers: Sheet,
    pub(super) interfaces: Sheet,
    pub(super) programs: Sheet,
    pub(super) connections: Sheet,
    pub(super) drops: Sheet,
    seconds: f64,
}

/// Sums over all services.
#[derive(Debug, Default)]
pub(super) struct Total {
    pub(super) services: usize,
    pub(super) workers: usize,
    pub(super) programs: usize,
    pub(super) connections: usize,
    /// Bits per second, received and sent.
    pub(super) bits: [f64; 2],
    /// Packets per second, received and sent.
    pub(super) packets: [f64; 2],
    /// The busiest worker's share of time.
    pub(super) busy: f64,
    /// Segments per second that were sent again.
    pub(super) retransmitted: f64,
    /// Packets per second that were lost at interfaces.
    pub(super) dropped: f64,
}

const fn column(title: &'static str, key: &'static str) -> Column {
    Column { title, key }
}

const WORKERS: &[Column] = &[
    column("WORKER", "worker"),
    column("BUSY", "busy"),
    column("IN pkt/s", "in_packets_per_s"),
    column("OUT pkt/s", "out_packets_per_s"),
    column("RETR/s", "retransmitted_per_s"),
    column("DROP/s", "dropped_per_s"),
    column("BATCH", "packets_per_turn"),
    column("WAKE/s", "wakeups_per_s"),
    column("CALL/s", "device_calls_per_s"),
    column("SOCKETS", "sockets"),
    column("GROUPS", "groups"),
    column("FREE", "large_frames_free"),
    column("SMALL", "small_frames_free"),
];

const INTERFACES: &[Column] = &[
    column("INTERFACE", "interface"),
    column("IN bit/s", "in_bits_per_s"),
    column("IN pkt/s", "in_packets_per_s"),
    column("DROP/s", "in_dropped_per_s"),
    column("OUT bit/s", "out_bits_per_s"),
    column("OUT pkt/s", "out_packets_per_s"),
    column("DROP/s", "out_dropped_per_s"),
    column("SERVICE", "service"),
];

const PROGRAMS: &[Column] = &[
    column("PROGRAM", "program"),
    column("UID", "uid"),
    column("CONNS", "connections"),
    column("LISTEN", "listeners"),
    column("IN bit/s", "in_bits_per_s"),
    column("OUT bit/s", "out_bits_per_s"),
    column("RETR/s", "retransmitted_per_s"),
    column("RTT", "rtt_us"),
    column("UNREAD", "unread_bytes"),
    column("UNACKED", "unacknowledged_bytes"),
    column("KERNEL", "with_the_kernel"),
    column("SERVICE", "service"),
];

const CONNECTIONS: &[Column] = &[
    column("PROGRAM", "program"),
    column("LOCAL", "local"),
    column("PEER", "peer"),
    column("STATE", "state"),
    column("IN", "in_bits_per_s"),
    column("OUT", "out_bits_per_s"),
    column("RTT", "rtt_us"),
    column("RETR", "retransmitted_per_s"),
    column("UNREAD", "unread_bytes"),
    column("UNACKED", "unacknowledged_bytes"),
    column("CWND", "cwnd_segments"),
    column("PID", "pid"),
    column("UID", "uid"),
    column("SERVICE", "service"),
];

const DROPS: &[Column] =
    &[column("COUNTER", "counter"), column("/s", "per_s"), column("TOTAL", "total"), column("MEANING", "meaning")];

/// Parts of the names of counters that tell of something lost, refused or done again.
const TROUBLE: [&str; 20] = [
    "Abort",
    "Blackhole",
    "Challenge",
    "Drop",
    "Err",
    "Fail",
    "HandoversUndone",
    "Lost",
    "NoPorts",
    "NoRoutes",
    "Overflow",
    "Prune",
    "Quota",
    "Refused",
    "Reset",
    "Retrans",
    "Skipped",
    "sDropped",
    "Timeout",
    "Violation",
];

impl Rates {
    /// The rates between two samples; the filter is for connections.
    pub(super) fn between(before: &Sample, now: &Sample, filter: &Filter) -> Rates {
        let seconds = now.at.duration_since(before.at).as_secs_f64().max(0.001);
        let spans: Vec<Span<'_>> = now.workers.iter().map(|worker| Span::of(before, worker, seconds)).collect();
        let mut sockets: Vec<Traffic<'_>> =
            now.sockets.iter().map(|(id, socket)| Traffic::of(before, (id, socket), seconds)).collect();
        sockets.sort_by_key(|traffic| traffic.id);
        let programs = programs(&sockets);
        let interfaces = interfaces(&spans);
        let total = total(&spans, &interfaces, (programs.rows.len(), &sockets));
        sockets.retain(|traffic| filter.wants(&traffic.socket.record));
        Rates {
            total,
            workers: sheet("workers", WORKERS, spans.iter().map(worker_row)),
            interfaces,
            programs,
            connections: sheet("connections", CONNECTIONS, sockets.iter().map(connection_row)),
            drops: drops(&spans),
            seconds,
        }
    }

    /// All tables as text.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut connections = self.connections.clone();
        connections.sort(Order { column: 5, descending: true });
        for sheet in [&self.workers, &self.interfaces, &self.programs, &connections, &self.drops] {
            if sheet.rows.is_empty() {
                continue;
            }
            for line in sheet.lines() {
                text.push_str(&line);
                text.push('\n');
            }
            text.push('\n');
        }
        text
    }

    /// All tables in a line of JSON.
    pub(super) fn json(&self) -> String {
        let mut value = json!({ "seconds": Cell::Number(self.seconds).json() });
        for sheet in [&self.workers, &self.interfaces, &self.programs, &self.connections, &self.drops] {
            value[sheet.name] = sheet.json();
        }
        format!("{value}\n")
    }
}

/// The latest interval of each connection.
pub(super) fn points<'a>(before: &Sample, now: &'a Sample) -> HashMap<&'a str, Point> {
    let seconds = now.at.duration_since(before.at).as_secs_f64().max(0.001);
    let connections = now.sockets.iter().filter(|(_, socket)| is_counted(&socket.record));
    connections
        .map(|(id, socket)| {
            let traffic = Traffic::of(before, (id, socket), seconds);
            let info = &socket.record.info;
            let point = Point {
                received: traffic.received,
                sent: traffic.sent,
                rtt_us: info.rtt_us,
                cwnd_segments: info.cwnd_segments,
                retransmitted: (traffic.retransmitted * seconds).round() as u64,
            };
            (id.as_str(), point)
        })
        .collect()
}

fn sheet(name: &'static str, columns: &'static [Column], rows: impl Iterator<Item = Row>) -> Sheet {
    Sheet { name, columns, rows: rows.collect() }
}

/// A worker's two samples.
struct Span<'a> {
    before: Option<&'a WorkerSample>,
    now: &'a WorkerSample,
    seconds: f64,
}

impl<'a> Span<'a> {
    fn of(before: &'a Sample, now: &'a WorkerSample, seconds: f64) -> Span<'a> {
        let before = before.workers.iter().find(|known| known.service == now.service && known.worker == now.worker);
        Span { before, now, seconds }
    }

    /// How much a counter grew per second. Of a service that has just started nothing is known.
    fn rate(&self, name: &str) -> f64 {
        let Some(before) = self.before else { return 0.0 };
        self.now.value(name).saturating_sub(before.value(name)) as f64 / self.seconds
    }

    fn interface_rate(&self, name: &str, value: fn(&InterfaceRecord) -> u64) -> f64 {
        let of = |worker: &WorkerSample| worker.interfaces.iter().find(|known| known.name == name).map(value);
        let (Some(before), Some(now)) = (self.before.and_then(of), of(self.now)) else { return 0.0 };
        now.saturating_sub(before) as f64 / self.seconds
    }

    fn dropped(&self) -> f64 {
        self.rate("RingwayDeviceRxDropped") + self.rate("RingwayDeviceTxDropped")
    }

    fn busy(&self) -> f64 {
        (self.rate("RingwayBusyNanos") / 1e9).min(1.0)
    }
}

fn worker_row(span: &Span<'_>) -> Row {
    let name = format!("{}/{}", span.now.service, span.now.worker);
    let turns = span.rate("RingwayTurns");
    let received = span.rate("IpInReceives");
    let gauge = |name: &str| Cell::Number(span.now.value(name) as f64);
    let cells = vec![
        Cell::Text(name.clone()),
        Cell::Share(span.busy()),
        Cell::Number(received),
        Cell::Number(span.rate("IpOutRequests")),
        Cell::Number(span.rate("TcpRetransSegs")),
        Cell::Number(span.dropped()),
        if turns > 0.0 { Cell::Number(received / turns) } else { Cell::Nothing },
        Cell::Number(span.rate("RingwayWakeups")),
        Cell::Number(span.rate("RingwayDeviceSyscalls")),
        gauge("RingwaySockets"),
        gauge("RingwayRegions"),
        gauge("RingwayLargeFramesFree"),
        gauge("RingwaySmallFramesFree"),
    ];
    Row { id: name, cells }
}

/// A row for each interface of a service; its workers are summed.
fn interfaces(spans: &[Span<'_>]) -> Sheet {
    let values: [fn(&InterfaceRecord) -> u64; 6] = [
        |record| record.rx_bytes * 8,
        |record| record.rx_packets,
        |record| record.rx_dropped,
        |record| record.tx_bytes * 8,
        |record| record.tx_packets,
        |record| record.tx_dropped,
    ];
    let mut sums: BTreeMap<(&str, &str), [f64; 6]> = BTreeMap::new();
    for span in spans {
        for interface in &span.now.interfaces {
            let sum = sums.entry((&span.now.service, &interface.name)).or_default();
            for (sum, value) in sum.iter_mut().zip(values) {
                *sum += span.interface_rate(&interface.name, value);
            }
        }
    }
    let row = |((service, name), sum): ((&str, &str), [f64; 6])| {
        let rates = sum.into_iter().map(Cell::Number);
        let cells = std::iter::once(Cell::Text(name.to_owned())).chain(rates).chain([Cell::Text(service.to_owned())]);
        Row { id: format!("{service} {name}"), cells: cells.collect() }
    };
    sheet("interfaces", INTERFACES, sums.into_iter().map(row))
}

/// A socket's rates.
struct Traffic<'a> {
    id: &'a str,
    socket: &'a Socket,
    /// Bits per second.
    received: f64,
    /// Bits per second.
    sent: f64,
    /// Segments per second.
    retransmitted: f64,
}

impl<'a> Traffic<'a> {
    fn of(before: &Sample, (id, socket): (&'a str, &'a Socket), seconds: f64) -> Traffic<'a> {
        let info = &socket.record.info;
        // A connection that was not there before has made all its traffic in this interval; so has one with the ports of a dead one.
        let known = before.sockets.get(id).map(|known| &known.record.info);
        let known =
            known.filter(|known| known.received_segments <= info.received_segments && known.sent_bytes <= info.sent_bytes);
        let rate = |now: u64, before: Option<u64>| now.saturating_sub(before.unwrap_or(0)) as f64 / seconds;
        Traffic {
            id,
            socket,
            received: 8.0 * rate(info.received_bytes, known.map(|known| known.received_bytes)),
            sent: 8.0 * rate(info.sent_bytes, known.map(|known| known.sent_bytes)),
            retransmitted: rate(info.retransmitted_segments, known.map(|known| known.retransmitted_segments)),
        }
    }
}

fn connection_row(traffic: &Traffic<'_>) -> Row {
    let record = &traffic.socket.record;
    let [local, peer] = ends(record);
    let counted = |cell: Cell| if is_counted(record) { cell } else { Cell::Nothing };
    let of_tcp = |cell: Cell| if is_connection(record) { cell } else { Cell::Nothing };
    let state = match &record.kernel {
        Some(path) => path.reason.word(),
        None => state_name(record.state),
    };
    let waits = record.state == LISTEN;
    let queue = |bytes: u32| if waits { Cell::Number(f64::from(bytes)) } else { Cell::Bytes(u64::from(bytes)) };
    let cells = vec![
        Cell::Text(record.program.clone()),
        Cell::Text(local),
        Cell::Text(peer),
        Cell::Text(state.to_owned()),
        counted(Cell::Number(traffic.received)),
        counted(Cell::Number(traffic.sent)),
        of_tcp(Cell::Time(record.info.rtt_us)),
        of_tcp(Cell::Number(traffic.retransmitted)),
        queue(record.receive_queue),
        queue(record.send_queue),
        of_tcp(Cell::Number(record.info.cwnd_segments as f64)),
        if record.pid == 0 { Cell::Nothing } else { Cell::Name(record.pid) },
        Cell::Name(record.uid),
        Cell::Text(traffic.socket.service.clone()),
    ];
    Row { id: traffic.id.to_owned(), cells }
}

/// Sums over the sockets of a program.
#[derive(Default)]
struct Program {
    connections: usize,
    listeners: usize,
    kernel: u64,
    received: f64,
    sent: f64,
    retransmitted: f64,
    rtts: Vec<u64>,
    unread: u64,
    unacknowledged: u64,
}

impl Program {
    fn add(&mut self, traffic: &Traffic<'_>) {
        let record = &traffic.socket.record;
        if let Some(path) = &record.kernel {
            self.kernel += u64::from(path.count);
        } else if record.state == LISTEN {
            self.listeners += 1;
        } else {
            self.connections += 1;
            self.unread += u64::from(record.receive_queue);
            self.unacknowledged += u64::from(record.send_queue);
        }
        if is_counted(record) {
            self.received += traffic.received;
            self.sent += traffic.sent;
        }
        if is_connection(record) {
            self.retransmitted += traffic.retransmitted;
            self.rtts.push(record.info.rtt_us);
        }
    }

    /// The median round trip; of each connection one value.
    fn rtt(&mut self) -> Cell {
        self.rtts.sort_unstable();
        self.rtts.get(self.rtts.len() / 2).map_or(Cell::Nothing, |rtt| Cell::Time(*rtt))
    }
}

fn programs(sockets: &[Traffic<'_>]) -> Sheet {
    let mut programs: BTreeMap<(&str, &str, u32), Program> = BTreeMap::new();
    for traffic in sockets {
        let Socket { service, record } = traffic.socket;
        // An orphan has no program.
        if record.pid != 0 {
            programs.entry((&record.program, service, record.uid)).or_default().add(traffic);
        }
    }
    let row = |((name, service, uid), mut program): ((&str, &str, u32), Program)| {
        let cells = vec![
            Cell::Text(name.to_owned()),
            Cell::Name(uid),
            Cell::Number(program.connections as f64),
            Cell::Number(program.listeners as f64),
            Cell::Number(program.received),
            Cell::Number(program.sent),
            Cell::Number(program.retransmitted),
            program.rtt(),
            Cell::Bytes(program.unread),
            Cell::Bytes(program.unacknowledged),
            Cell::Number(program.kernel as f64),
            Cell::Text(service.to_owned()),
        ];
        Row { id: format!("{name} {service} {uid}"), cells }
    };
    sheet("programs", PROGRAMS, programs.into_iter().map(row))
}

/// A row for each counter of trouble that is not zero.
fn drops(spans: &[Span<'_>]) -> Sheet {
    let mut sums: BTreeMap<&str, (f64, u64)> = BTreeMap::new();
    for span in spans {
        for (name, value) in &span.now.counters {
            if *value != 0 && TROUBLE.iter().any(|part| name.contains(part)) {
                let sum = sums.entry(name).or_default();
                *sum = (sum.0 + span.rate(name), sum.1 + value);
            }
        }
    }
    let row = |(name, (rate, value)): (&str, (f64, u64))| {
        let info = counter_info(name).filter(|info| !info.is_gauge)?;
        let cells = vec![Cell::Text(name.to_owned()), Cell::Number(rate), Cell::Number(value as f64), Cell::Text(info.about)];
        Some(Row { id: name.to_owned(), cells })
    };
    sheet("drops", DROPS, sums.into_iter().filter_map(row))
}

fn total(spans: &[Span<'_>], interfaces: &Sheet, (programs, sockets): (usize, &[Traffic<'_>])) -> Total {
    let sum_of = |key: &str| {
        let column = INTERFACES.iter().position(|column| column.key == key).expect("a column");
        let number = |row: &Row| if let Cell::Number(number) = row.cells[column] { number } else { 0.0 };
        interfaces.rows.iter().map(number).sum()
    };
    let mut services: Vec<&str> = spans.iter().map(|span| &*span.now.service).collect();
    services.dedup();
    Total {
        services: services.len(),
        workers: spans.len(),
        programs,
        connections: sockets.iter().filter(|traffic| is_connection(&traffic.socket.record)).count(),
        bits: ["in_bits_per_s", "out_bits_per_s"].map(sum_of),
        packets: ["in_packets_per_s", "out_packets_per_s"].map(sum_of),
        busy: spans.iter().map(Span::busy).fold(0.0, f64::max),
        retransmitted: spans.iter().map(|span| span.rate("TcpRetransSegs")).sum(),
        dropped: spans.iter().map(Span::dropped).sum(),
    }
}
