//! A point of a scenario, and the row computed from its samples.

use std::collections::BTreeMap;

use crate::bed::{Sample, Setup};
use crate::load::exchange::PIECE;
use crate::load::order::{Outcome, Passage, Plan};
use crate::load::tuning::Congestion;
use crate::measure::cpu::Core;
use crate::measure::machine::Facts;
use crate::measure::noise::Disturbance;
use crate::measure::statistics::{median, median_ratio};
use crate::path::Path;
use crate::row::{NOT_MEASURED, Parameter, QUIET, Row};

/// The quantity of a point's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Replies per second.
    Requests,
    /// Connections per second, each with one or more requests.
    Connections,
    /// Payload in the larger direction, Gbit/s.
    Gigabits,
    /// The median latency, microseconds.
    Latency,
    /// The mean latency, milliseconds.
    Delay,
    /// Bytes of streams, Gbit/s.
    Stream,
    /// Bytes of streams and of requests together, Gbit/s.
    BothWays,
    /// Jain's index over the connections' shares.
    Fairness,
}

/// One point.
#[derive(Clone, Debug)]
pub struct Point {
    /// Name for display.
    pub label: String,
    /// Parameters, for programs.
    pub parameters: BTreeMap<String, Parameter>,
    /// The client's plan; each bed fills in its server's address.
    pub plan: Plan,
    /// The quantity of the value.
    pub figure: Figure,
    /// Settings of the wire and the sockets.
    pub setup: Setup,
}

/// Fields common to all rows of a run.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    /// The scenario's name.
    pub scenario: String,
    /// The wire's name.
    pub wire: String,
    /// The client's stack.
    pub client: String,
    /// Processor and cores.
    pub machine: String,
    /// The kernel's release.
    pub kernel: String,
    /// The commit.
    pub commit: String,
    /// Cycles per nanosecond.
    pub frequency_ghz: f64,
    /// What both machines are, where there are two.
    pub ends: BTreeMap<String, Facts>,
}

/// Results of one target at one point.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// One sample per kept round.
    pub samples: Vec<Sample>,
    /// The worst disturbance of all kept rounds.
    pub disturbance: Disturbance,
    /// Rounds that were measured but not kept.
    pub repeated: u32,
    /// Retransmitted segments, in all rounds.
    pub retransmissions: Option<u64>,
    /// Dropped packets, likewise.
    pub drops: Option<u64>,
    /// Remarks for the reader.
    pub note: String,
}

impl Point {
    /// Creates a point with numeric parameters.
    pub fn new(label: String, numbers: &[(&str, f64)], plan: Plan, figure: Figure) -> Point {
        let parameters = numbers.iter().map(|(name, value)| (name.to_string(), Parameter::Number(*value))).collect();
        Point { label, parameters, plan, figure, setup: Setup::default() }
    }

    /// Returns the point over a path; the path's numbers become parameters.
    pub fn over(mut self, path: Path) -> Point {
        self.label = format!("{}, {}", self.label, path.label());
        self.parameters.extend(path.numbers().map(|(name, value)| (name.to_string(), Parameter::Number(value))));
        self.setup.path = Some(path);
        self
    }

    /// Returns the point with this congestion control.
    pub fn with_congestion(mut self, congestion: Congestion) -> Point {
        let name = congestion.name();
        self.label = format!("{}, {name}", self.label);
        self.parameters.insert("congestion".into(), Parameter::Text(name.into()));
        self.setup.tuning.congestion = Some(congestion);
        self
    }

    fn wire(&self, setting: &Setting) -> String {
        if self.setup.path.is_some() { PATH.to_string() } else { setting.wire.clone() }
    }

    fn bytes_per_request(&self) -> f64 {
        match self.figure {
            Figure::Stream => f64::from(PIECE),
            _ => f64::from(self.plan.request.max(self.plan.reply)),
        }
    }

    fn value(&self, outcome: &Outcome) -> f64 {
        let rate = |count: u64| if outcome.seconds > 0.0 { count as f64 / outcome.seconds } else { 0.0 };
        match self.figure {
            Figure::Requests => rate(outcome.replies),
            Figure::Connections => match self.plan.pace {
                crate::load::order::Pace::Short(share) => rate(outcome.replies) / f64::from(share.max(1)),
                _ => rate(outcome.opened),
            },
            Figure::Gigabits => rate(outcome.replies) * self.bytes_per_request() * 8.0 / 1e9,
            Figure::Stream => rate(outcome.stream_bytes) * 8.0 / 1e9,
            Figure::BothWays => (rate(outcome.replies) * f64::from(self.plan.request) + rate(outcome.stream_bytes)) * 8.0 / 1e9,
            Figure::Latency => outcome.p50_us,
            Figure::Delay => outcome.mean_us / 1e3,
            Figure::Fairness => outcome.fairness,
        }
    }

    /// The unit of the value.
    pub fn unit(&self) -> &'static str {
        match self.figure {
            Figure::Requests => "requests/s",
            Figure::Connections => "connections/s",
            Figure::Gigabits | Figure::Stream | Figure::BothWays => "Gbit/s",
            Figure::Latency => "us",
            Figure::Delay => "ms",
            Figure::Fairness => "Jain's index",
        }
    }

    /// The values of all rounds.
    fn values(&self, series: &Series) -> Vec<f64> {
        series.samples.iter().map(|sample| self.value(&sample.outcome)).collect()
    }

    /// The row of a target that could not be measured.
    pub fn absent(&self, setting: &Setting, target: &str, why: &str) -> Row {
        let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
        Row { note: format!("{NOT_MEASURED}{why}"), noise: QUIET.into(), ..self.blank(setting, target) }
    }

    /// A row with the fields common to all rows of the point.
    fn blank(&self, setting: &Setting, target: &str) -> Row {
        Row {
            scenario: setting.scenario.clone(),
            point: self.label.clone(),
            parameters: self.parameters.clone(),
            target: target.to_string(),
            wire: self.wire(setting),
            client: setting.client.clone(),
            unit: self.unit().to_string(),
            machine: setting.machine.clone(),
            kernel: setting.kernel.clone(),
            commit: setting.commit.clone(),
            ends: setting.ends.clone(),
            ..Row::default()
        }
    }

    /// The row of one target; `linux`: the results of the `linux` target in the same rounds.
    pub fn row(&self, setting: &Setting, target: &str, series: &Series, linux: Option<&Series>) -> Row {
        let of = |figure: &dyn Fn(&Sample) -> f64| median(series.samples.iter().map(figure));
        let server_ns = of(&|sample| per_request(sample.server.cpu_ns(), &sample.outcome));
        let values = self.values(series);
        let value = median(values.iter().copied()).unwrap_or(0.0);
        let is_rate = !matches!(self.figure, Figure::Latency | Figure::Delay | Figure::Fairness);
        let part = |of: fn(&Core) -> u64| Some(rounded(server_ns? / 1e3 * share_of_core(series, of)?));
        // The value per second of the server's CPU time.
        let per_core = of(&|sample| {
            let busy_s = busy_ns(sample.server.cpu_ns(), &sample.outcome) / 1e9;
            if busy_s > 0.0 { self.value(&sample.outcome) * sample.outcome.seconds / busy_s } else { 0.0 }
        });
        let busy = |cpu_ns: fn(&Sample) -> u64| {
            of(&|sample| busy_ns(cpu_ns(sample), &sample.outcome) / sample.outcome.seconds.max(1e-9) / 1e7)
        };
        let passages = |count: fn(&Passage) -> u64| series.samples.iter().map(|sample| count(&sample.passage)).sum();
        Row {
            value: rounded(value),
            values: values.iter().copied().map(rounded).collect(),
            p50_us: of(&|sample| sample.outcome.p50_us).map(rounded),
            p99_us: of(&|sample| sample.outcome.p99_us).map(rounded),
            p999_us: of(&|sample| sample.outcome.p999_us).map(rounded),
            server_cpu_us_per_request: server_ns.map(|ns| rounded(ns / 1e3)),
            client_cpu_us_per_request: of(&|sample| per_request(sample.client.cpu_ns(), &sample.outcome) / 1e3).map(rounded),
            server_cpu_ratio: linux.and_then(|linux| median_ratio(&server_cpu(series), &server_cpu(linux))).map(rounded),
            server_user_us_per_request: part(|core| core.user_ns),
            server_system_us_per_request: part(|core| core.busy_ns - core.user_ns - core.softirq_ns),
            server_softirq_us_per_request: part(|core| core.softirq_ns),
            cycles_per_request: server_ns.map(|ns| rounded(ns * setting.frequency_ghz)),
            cycles_per_byte: server_ns
                .map(|ns| rounded(ns * setting.frequency_ghz / self.bytes_per_request()))
                .filter(|_| self.figure != Figure::Delay),
            throughput_per_core: per_core.filter(|per_core| is_rate && *per_core > 0.0).map(rounded),
            retransmissions: series.retransmissions,
            drops: series.drops,
            server_core_percent: busy(|sample| sample.server.cpu_ns()).map(rounded),
            client_core_percent: busy(|sample| sample.client.cpu_ns()).map(rounded),
            lost_on_path: self.setup.path.map(|_| passages(|passage| passage.lost)),
            overflowed_on_path: self.setup.path.map(|_| passages(|passage| passage.overflowed)),
            ratio: linux.and_then(|linux| median_ratio(&values, &self.values(linux))).map(rounded),
            noise: series.disturbance.verdict(),
            rounds: series.samples.len() as u32,
            repeated: series.repeated,
            note: note(series),
            ..self.blank(setting, target)
        }
    }
}

fn per_request(ns: u64, outcome: &Outcome) -> f64 {
    ns as f64 / outcome.replies_in_all.max(1) as f64
}

/// CPU time of the measured time, assuming that each reply and stream piece of the run costs the same.
fn busy_ns(cpu_ns: u64, outcome: &Outcome) -> f64 {
    per_request(cpu_ns, outcome) * (outcome.replies + outcome.stream_bytes / u64::from(PIECE)) as f64
}

/// The server's CPU time per request, by round.
fn server_cpu(series: &Series) -> Vec<f64> {
    series.samples.iter().map(|sample| per_request(sample.server.cpu_ns(), &sample.outcome)).collect()
}

/// Share of `part` in the busy time of the server's core, over all rounds together, because ticks are coarse.
fn share_of_core(series: &Series, part: fn(&Core) -> u64) -> Option<f64> {
    let all: u64 = series.samples.iter().map(|sample| sample.server.core.busy_ns).sum();
    let part: u64 = series.samples.iter().map(|sample| part(&sample.server.core)).sum();
    (all > 0).then(|| part as f64 / all as f64)
}

/// Remarks, with the overload of an open loop.
fn note(series: &Series) -> String {
    let sum = |of: fn(&Outcome) -> u64| series.samples.iter().map(|sample| of(&sample.outcome)).sum::<u64>() as f64;
    let late = sum(|outcome| outcome.late) / sum(|outcome| outcome.replies_in_all).max(1.0);
    let overload = (late > LATE_MAX).then(|| format!("{:.0} % of the requests found every connection busy", late * 100.0));
    let words: Vec<String> =
        [Some(series.note.clone()), overload].into_iter().flatten().filter(|text| !text.is_empty()).collect();
    words.join("; ")
}

/// Share of an open loop's requests that waited for a connection, above which the row has a note.
const LATE_MAX: f64 = 0.01;

/// Name of a path in the rows' `wire`.
const PATH: &str = "path";

/// Rounds to four significant digits, more than any measurement's precision here.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10_f64.powi(3 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests;
