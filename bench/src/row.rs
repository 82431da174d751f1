//! The result of one measured point: the object that `ringway bench --json` prints and `ringway report` reads.
//!
//! Promises: the object always has every field, `null` when not measured; unknown fields of a later version
//! are ignored. Does not do: measuring.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::measure::machine::Facts;

/// One point of one scenario on one target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Name of the scenario, such as `conns`.
    pub scenario: String,
    /// Name of the point, for display: `64` for 64 connections, `2 MiB download`.
    pub point: String,
    /// Parameters of the point, for programs: `{"connections": 64, "size": 64}`.
    #[serde(default)]
    pub parameters: BTreeMap<String, Parameter>,
    /// The server: `linux`, `embedded`, `service`, `preload`, …
    pub target: String,
    /// The link between client and server: `veth`, `tap`, `memory`, `path`.
    pub wire: String,
    /// The client's stack: `kernel` or `ringway`.
    #[serde(default)]
    pub client: String,
    /// The point's main result, in `unit`; the median of all rounds.
    pub value: f64,
    /// The value of each round, in the order of the rounds, which all rows of a run share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<f64>,
    /// `requests/s`, `Gbit/s`, `connections/s`, `us`, `bytes/connection`, …
    pub unit: String,
    /// Median latency, microseconds.
    pub p50_us: Option<f64>,
    /// 99th percentile of the latency, microseconds.
    pub p99_us: Option<f64>,
    /// 99.9th percentile of the latency, microseconds.
    #[serde(default)]
    pub p999_us: Option<f64>,
    /// CPU time of the server's side per request, softirqs included, microseconds.
    pub server_cpu_us_per_request: Option<f64>,
    /// CPU time of the client's side per request, microseconds.
    pub client_cpu_us_per_request: Option<f64>,
    /// Median over rounds of the ratio of this target's server CPU time per request to that of `linux` in the same round.
    #[serde(default)]
    pub server_cpu_ratio: Option<f64>,
    /// Part of `server_cpu_us_per_request` in programs, by the ticks of the server's core.
    #[serde(default)]
    pub server_user_us_per_request: Option<f64>,
    /// Part of `server_cpu_us_per_request` in the kernel on behalf of programs.
    #[serde(default)]
    pub server_system_us_per_request: Option<f64>,
    /// Part of `server_cpu_us_per_request` in interrupts and softirqs.
    #[serde(default)]
    pub server_softirq_us_per_request: Option<f64>,
    /// Cycles of the server's side per request: its CPU time times the calibrated frequency.
    pub cycles_per_request: Option<f64>,
    /// Cycles of the server's side per byte of payload.
    pub cycles_per_byte: Option<f64>,
    /// `value` per second of the server's CPU time: the throughput of one busy core.
    pub throughput_per_core: Option<f64>,
    /// Load of the server's core by its side's work, percent.
    #[serde(default)]
    pub server_core_percent: Option<f64>,
    /// Load of the client's core by its side's work, percent.
    #[serde(default)]
    pub client_core_percent: Option<f64>,
    /// Retransmitted segments, both ends, all rounds.
    pub retransmissions: Option<u64>,
    /// Packets that interfaces and services have dropped, both ends, all rounds.
    #[serde(default)]
    pub drops: Option<u64>,
    /// Packets of both directions lost by the path's configured loss, all rounds.
    #[serde(default)]
    pub lost_on_path: Option<u64>,
    /// Packets lost because the queue of the path's bottleneck was full.
    #[serde(default)]
    pub overflowed_on_path: Option<u64>,
    /// Median over rounds of the ratio of this target's value to that of `linux` in the same round; `None` without one.
    pub ratio: Option<f64>,
    /// `quiet`, or `noisy: ` and the reason why the figures are unreliable.
    pub noise: String,
    /// Number of rounds of the medians.
    #[serde(default)]
    pub rounds: u32,
    /// Number of rounds measured beyond those, to replace disturbed ones.
    #[serde(default)]
    pub repeated: u32,
    /// Remarks, such as why there is no value; empty: none.
    #[serde(default)]
    pub note: String,
    /// Processor and number of cores.
    pub machine: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Commit that the binary was built from.
    pub commit: String,
    /// What the machines `client` and `server` are, where there are two: processor, kernel, interface, settings.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ends: BTreeMap<String, Facts>,
}

/// A value of a point's parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Parameter {
    /// A number: connections, bytes, requests per second.
    Number(f64),
    /// A word: `download`.
    Text(String),
}

impl Row {
    /// The value of a numeric parameter.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.parameters.get(name) {
            Some(Parameter::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// The value of a text parameter.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.parameters.get(name) {
            Some(Parameter::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns true when nothing disturbed the measurement.
    pub fn is_quiet(&self) -> bool {
        self.noise == QUIET
    }

    /// Returns true when the point has a value; otherwise the note says why not.
    pub fn is_measured(&self) -> bool {
        !self.note.starts_with(NOT_MEASURED)
    }

    /// The row as one line of JSON, without a newline.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a row has text keys and plain values")
    }
}

/// Returns true for values of which less is better.
pub fn less_is_better(unit: &str) -> bool {
    matches!(unit, "us" | "µs" | "ms" | "bytes/connection" | "wakeups/s")
}

/// `noise` of an undisturbed row.
pub const QUIET: &str = "quiet";

/// Beginning of the `note` of a row without a value; its `value` is 0.
pub const NOT_MEASURED: &str = "not measured: ";

#[cfg(test)]
mod tests;
