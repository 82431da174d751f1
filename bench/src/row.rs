//! What one measured point says: the object that `ringway bench --json` prints and `ringway bench report` reads.
//!
//! Promises: every field is always in the object, `null` where it was not measured; unknown fields of
//! a later version are passed over. Does not do: measuring.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One point of one scenario on one target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Such as `conns`.
    pub scenario: String,
    /// Which point of the scenario, for people: `64` for 64 connections, `2 MiB download`.
    pub point: String,
    /// The same for programs: `{"connections": 64, "size": 64}`.
    #[serde(default)]
    pub parameters: BTreeMap<String, Parameter>,
    /// Who served: `linux`, `embedded`, `service`, `preload`, …
    pub target: String,
    /// What joined client and server: `veth`, `tap`, `memory`, `path`.
    pub wire: String,
    /// Whose stack the client stood on: `kernel` or `ringway`.
    #[serde(default)]
    pub client: String,
    /// What the point is about, in `unit`; the median of all rounds.
    pub value: f64,
    /// `requests/s`, `Gbit/s`, `connections/s`, `us`, `bytes/connection`, …
    pub unit: String,
    /// Median latency, microseconds.
    pub p50_us: Option<f64>,
    /// 99th percentile of the latency, microseconds.
    pub p99_us: Option<f64>,
    /// 99.9th percentile of the latency, microseconds.
    #[serde(default)]
    pub p999_us: Option<f64>,
    /// CPU of everything at the server's side, softirq included, per request.
    pub server_cpu_us_per_request: Option<f64>,
    /// The same of the client's side.
    pub client_cpu_us_per_request: Option<f64>,
    /// The median over rounds of this target's server CPU per request by the `linux` target's of the same round.
    #[serde(default)]
    pub server_cpu_ratio: Option<f64>,
    /// Of `server_cpu_us_per_request`, what the server's core spent in programs, by its ticks.
    #[serde(default)]
    pub server_user_us_per_request: Option<f64>,
    /// The same in the kernel on behalf of programs.
    #[serde(default)]
    pub server_system_us_per_request: Option<f64>,
    /// The same in interrupts and softirqs.
    #[serde(default)]
    pub server_softirq_us_per_request: Option<f64>,
    /// Cycles of the server's side per request: its CPU time at the frequency found by calibration.
    pub cycles_per_request: Option<f64>,
    /// Cycles of the server's side per byte of payload.
    pub cycles_per_byte: Option<f64>,
    /// `value` per second of the server's CPU: what one busy core would carry.
    pub throughput_per_core: Option<f64>,
    /// How busy the server's core was with its side's work, percent.
    #[serde(default)]
    pub server_core_percent: Option<f64>,
    /// The same of the client's.
    #[serde(default)]
    pub client_core_percent: Option<f64>,
    /// Segments sent again, both ends, all rounds.
    pub retransmissions: Option<u64>,
    /// Packets of both directions that the path lost because it shall, all rounds.
    #[serde(default)]
    pub lost_on_path: Option<u64>,
    /// Packets that found the queue before the path's bottleneck full.
    #[serde(default)]
    pub overflowed_on_path: Option<u64>,
    /// The median over rounds of this target's value by the `linux` target's of the same round; `None` without one.
    pub ratio: Option<f64>,
    /// `quiet`, or `noisy: ` and why the figures may not be believed.
    pub noise: String,
    /// Rounds that the medians are of.
    #[serde(default)]
    pub rounds: u32,
    /// Rounds that were measured beyond those because others were disturbed.
    #[serde(default)]
    pub repeated: u32,
    /// What is remarkable about this point, such as why there is no value; empty: nothing.
    #[serde(default)]
    pub note: String,
    /// Processor and number of cores.
    pub machine: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Commit that the binary was built from.
    pub commit: String,
}

/// A value of a point's parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Parameter {
    /// An amount: connections, bytes, requests per second.
    Number(f64),
    /// A choice: `download`.
    Text(String),
}

impl Row {
    /// The amount of a parameter.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.parameters.get(name) {
            Some(Parameter::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// The choice of a parameter.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.parameters.get(name) {
            Some(Parameter::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Whether nothing disturbed the measurement.
    pub fn is_quiet(&self) -> bool {
        self.noise == QUIET
    }

    /// Whether the point has a value; one that could not be measured says why in its note.
    pub fn is_measured(&self) -> bool {
        !self.note.starts_with(NOT_MEASURED)
    }

    /// The row as one line of JSON, without the line's end.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a row has text keys and plain values")
    }
}

/// `noise` of an undisturbed row.
pub const QUIET: &str = "quiet";

/// How the `note` of a row without a value begins; `value` is 0 then.
pub const NOT_MEASURED: &str = "not measured: ";

#[cfg(test)]
mod tests;
