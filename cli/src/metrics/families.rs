//! The families: counters and histograms of workers, counters of interfaces, quotas, and sockets by program.
//!
//! A counter has the name that `ringway nstat` prints, without `Ringway` and with `ringway_` before it: `TcpRetransSegs` is
//! `ringway_TcpRetransSegs_total`.

use std::collections::BTreeMap;
use std::fmt::Error;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet, text::encode};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use ringway_engine::{CounterInfo, HistogramInfo, Part, counter_info, histogram_of};
use ringway_shm::stats::{Holder, InterfaceRecord, SocketRecord};

use crate::services::{Service, sockets};
use crate::ss::state_name;

type Labels = Vec<(String, String)>;

/// Metrics of one name.
#[derive(Debug)]
pub(super) struct Family {
    name: String,
    info: CounterInfo,
    samples: Vec<(Labels, u64)>,
}

/// Histograms of one name: by their labels, the count of each class and the sum.
#[derive(Debug)]
struct HistogramFamily {
    info: &'static HistogramInfo,
    samples: BTreeMap<Labels, (Vec<u64>, u64)>,
}

impl HistogramFamily {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let about = self.info.about.trim_end_matches('.');
        let mut metric = encoder.encode_descriptor(self.info.name, about, None, MetricType::Histogram)?;
        for (labels, (counts, sum)) in &self.samples {
            let buckets: Vec<(f64, u64)> = self.info.bounds().into_iter().zip(counts.iter().copied()).collect();
            let mut sample = metric.encode_family(labels)?;
            let sum = *sum as f64 * self.info.scale;
            sample.encode_histogram::<NoLabelSet>(sum, counts.iter().sum(), &buckets, None)?;
        }
        Ok(())
    }
}

/// All of a page.
#[derive(Debug, Default)]
pub(super) struct Families {
    plain: Vec<Family>,
    histograms: Vec<HistogramFamily>,
}

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), Error> {
        for family in &self.plain {
            // The encoder adds a full stop to each help.
            let help = family.info.about.trim_end_matches('.');
            let kind = if family.info.is_gauge { MetricType::Gauge } else { MetricType::Counter };
            let mut metric = encoder.encode_descriptor(&family.name, help, None, kind)?;
            for (labels, value) in &family.samples {
                let sample = metric.encode_family(labels)?;
                if family.info.is_gauge {
                    ConstGauge::new(*value as f64).encode(sample)?;
                } else {
                    ConstCounter::new(*value).encode(sample)?;
                }
            }
        }
        self.histograms.iter().try_for_each(|family| family.encode(&mut encoder))
    }
}

/// The page of these services.
pub(super) fn page(services: &[Service]) -> String {
    write(all(services))
}

/// A page of families.
pub(super) fn write(families: Families) -> String {
    let mut registry = Registry::with_prefix("ringway");
    registry.register_collector(Box::new(families));
    let mut page = String::new();
    encode(&mut page, &registry).expect("a text takes all");
    page
}

fn all(services: &[Service]) -> Families {
    let mut table = Table::default();
    for service in services {
        table.counters(service);
        for (_, interface) in service.stats.interfaces() {
            table.interface(service, &interface);
        }
        table.quotas(service);
    }
    let sockets = sockets::joined(services, |service| service.stats.sockets());
    table.sockets(sockets.map(|(service, socket)| (service.label.clone(), socket)));
    table.into_families()
}

/// Families by name.
#[derive(Default)]
pub(super) struct Table {
    plain: BTreeMap<String, Family>,
    histograms: BTreeMap<&'static str, HistogramFamily>,
}

fn owned(labels: &[(&str, &str)]) -> Labels {
    labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

impl Table {
    fn add(&mut self, name: &str, info: impl FnOnce() -> CounterInfo, labels: &[(&str, &str)], value: u64) {
        let entry = self.plain.entry(name.to_owned());
        let family = entry.or_insert_with(|| Family { name: name.to_owned(), info: info(), samples: Vec::new() });
        family.samples.push((owned(labels), value));
    }

    /// Adds a value of a histogram.
    pub(super) fn add_part(&mut self, (info, part): (&'static HistogramInfo, Part), labels: &[(&str, &str)], value: u64) {
        let family = self.histograms.entry(info.name).or_insert_with(|| HistogramFamily { info, samples: BTreeMap::new() });
        let classes = info.bounds().len();
        let (counts, sum) = family.samples.entry(owned(labels)).or_insert_with(|| (vec![0; classes], 0));
        match part {
            Part::Class(class) => counts[class] = value,
            Part::Sum => *sum = value,
        }
    }

    fn into_families(self) -> Families {
        Families { plain: self.plain.into_values().collect(), histograms: self.histograms.into_values().collect() }
    }

    fn counters(&mut self, service: &Service) {
        let worker = service.worker.to_string();
        for (name, value) in service.stats.counters() {
            let labels = [("service", &*service.label), ("worker", &*worker)];
            if let Some(part) = histogram_of(&name) {
                self.add_part(part, &labels, value);
                continue;
            }
            // Of another version: its meaning is not known here.
            let Some(info) = counter_info(&name) else { continue };
            let short = name.strip_prefix("Ringway").unwrap_or(&name);
            self.add(short, || info, &labels, value);
            if let Some(reason) = name.strip_prefix("RingwayDrop") {
                let [service, worker] = labels;
                let about = "Received packets that were dropped, by reason: the counters Drop... in one";
                self.add("drops", || counter(about), &[service, worker, ("reason", reason)], value);
            }
        }
    }

    fn interface(&mut self, service: &Service, interface: &InterfaceRecord) {
        let worker = service.worker.to_string();
        for (name, about, received, sent) in [
            (
                "interface_packets",
                "Packets that the worker has received from or sent to an interface",
                interface.rx_packets,
                interface.tx_packets,
            ),
            ("interface_bytes", "Bytes of these packets", interface.rx_bytes, interface.tx_bytes),
            ("interface_dropped", "Packets lost at an interface", interface.rx_dropped, interface.tx_dropped),
        ] {
            for (direction, value) in [("in", received), ("out", sent)] {
                let labels =
                    [("service", &*service.label), ("worker", &worker), ("interface", &interface.name), ("direction", direction)];
                self.add(name, || counter(about), &labels, value);
            }
        }
    }

    fn quotas(&mut self, service: &Service) {
        let keys = service.stats.quotas();
        for record in service.stats.holders() {
            let (scope, number) = match &record.holder {
                Holder::Service => ("service", String::new()),
                Holder::User(uid) => ("user", uid.to_string()),
                Holder::Group { pid, .. } => ("group", pid.to_string()),
            };
            for (key, quota) in keys.iter().zip(&record.quotas) {
                let Some(quota) = quota else { continue };
                let labels = [("service", &*service.label), ("quota", key), ("scope", scope), ("holder", &number)];
                if let Some(used) = quota.used {
                    self.add("quota_used", || gauge("What is used of a quota (limits.*)"), &labels, used);
                }
                if let Some(limit) = quota.limit {
                    self.add("quota_limit", || gauge("The quota's limit"), &labels, limit);
                }
            }
        }
    }

    /// Sockets of a program are summed: a sample for each would be without bound.
    pub(super) fn sockets(&mut self, sockets: impl Iterator<Item = (String, SocketRecord)>) {
        let mut counts: BTreeMap<[String; 5], [u64; 3]> = BTreeMap::new();
        for (service, socket) in sockets {
            let path = socket.kernel.map_or("stack", |path| path.reason.word());
            let protocol = if socket.datagrams { "udp" } else { "tcp" };
            let key =
                [service, socket.program.clone(), protocol.to_owned(), state_name(socket.state).to_owned(), path.to_owned()];
            let sums = counts.entry(key).or_default();
            let queues = if state_name(socket.state) == "LISTEN" { [0, 0] } else { [socket.receive_queue, socket.send_queue] };
            *sums = [sums[0] + 1, sums[1] + u64::from(queues[0]), sums[2] + u64::from(queues[1])];
        }
        for ([service, program, protocol, state, path], [count, unread, unacknowledged]) in &counts {
            let labels =
                [("service", &**service), ("program", program), ("protocol", protocol), ("state", state), ("path", path)];
            let names = "Sockets by program; path: stack, or the reason why the kernel serves them";
            self.add("sockets", || gauge(names), &labels, *count);
            self.add("receive_queue_bytes", || gauge("Bytes that programs have yet to read"), &labels, *unread);
            self.add("send_queue_bytes", || gauge("Bytes that peers have yet to acknowledge"), &labels, *unacknowledged);
        }
    }

    #[cfg(test)]
    pub(super) fn into_page(self) -> String {
        write(self.into_families())
    }
}

fn counter(about: &str) -> CounterInfo {
    CounterInfo { about: about.to_owned(), is_gauge: false }
}

fn gauge(about: &str) -> CounterInfo {
    CounterInfo { about: about.to_owned(), is_gauge: true }
}
