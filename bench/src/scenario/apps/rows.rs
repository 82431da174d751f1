//! Computes rows from the rounds of a program.

use crate::measure::machine;
use crate::measure::noise::Disturbance;
use crate::measure::statistics::{median, median_ratio};
use crate::row::{NOT_MEASURED, Parameter, Row};

use super::load::Figures;
use super::program::Stack;

/// Results of one round of one target.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    pub(super) figures: Figures,
    pub(super) server_ns: u64,
    pub(super) client_ns: u64,
    pub(super) resent: u64,
    /// Segments that the kernel's TCP received at the server's side.
    pub(super) kernel_segments: u64,
    pub(super) disturbance: Disturbance,
}

/// Values common to all rows.
#[derive(Debug)]
pub(super) struct Setting {
    frequency_ghz: f64,
}

impl Setting {
    pub(super) fn new(frequency_ghz: f64) -> Setting {
        Setting { frequency_ghz }
    }

    /// Makes a row for each target; `rounds` has a list for each.
    pub(super) fn rows(&self, label: &str, connections: u32, stacks: &[Stack], rounds: &[Vec<Round>]) -> Vec<Row> {
        let rates = |rounds: &Vec<Round>| rounds.iter().map(|round| round.figures.requests_per_s).collect::<Vec<f64>>();
        let cpu = |rounds: &Vec<Round>| rounds.iter().map(|round| per_request(round.server_ns, round)).collect::<Vec<f64>>();
        let linux_cpu = stacks.iter().position(|stack| *stack == Stack::Linux).map(|at| cpu(&rounds[at]));
        let linux = stacks.iter().position(|stack| *stack == Stack::Linux).map(|at| rates(&rounds[at]));
        let row = |(stack, rounds): (&Stack, &Vec<Round>)| {
            let cpu_ratio = linux_cpu.as_ref().and_then(|linux| median_ratio(&cpu(rounds), linux));
            let ratio = linux.as_ref().and_then(|linux| median_ratio(&rates(rounds), linux));
            let server_cpu_ratio = cpu_ratio.map(|ratio| (ratio * 1000.0).round() / 1000.0);
            let ratio = ratio.map(|ratio| (ratio * 1000.0).round() / 1000.0);
            Row { ratio, server_cpu_ratio, ..self.row(label, connections, *stack, rounds) }
        };
        stacks.iter().zip(rounds).map(row).collect()
    }

    fn row(&self, label: &str, connections: u32, stack: Stack, rounds: &[Round]) -> Row {
        let of =
            |figure: &dyn Fn(&Round) -> f64| median(rounds.iter().map(figure)).map(|value| (value * 1000.0).round() / 1000.0);
        let server_us = of(&|round| per_request(round.server_ns, round));
        let segments: u64 = rounds.iter().map(|round| round.kernel_segments).sum();
        let disturbance = rounds.iter().fold(Disturbance::default(), |worst, round| worst.worse(round.disturbance));
        let note = match stack {
            Stack::Preload if segments > 0 => {
                format!(
                    "the kernel's TCP received {segments} segments: not all was Ringway's, or policy.bulk gave bulk to the kernel"
                )
            }
            _ => String::new(),
        };
        Row {
            parameters: [("connections".to_string(), Parameter::Number(f64::from(connections)))].into(),
            value: of(&|round| round.figures.requests_per_s).unwrap_or(0.0),
            values: rounds.iter().map(|round| round.figures.requests_per_s).collect(),
            p50_us: of(&|round| round.figures.p50_us),
            p99_us: of(&|round| round.figures.p99_us),
            server_cpu_us_per_request: server_us,
            client_cpu_us_per_request: of(&|round| per_request(round.client_ns, round)),
            cycles_per_request: server_us.map(|us| (us * 1e3 * self.frequency_ghz).round()),
            throughput_per_core: server_us.filter(|us| *us > 0.0).map(|us| (1e6 / us).round()),
            retransmissions: Some(rounds.iter().map(|round| round.resent).sum()),
            noise: disturbance.verdict(),
            rounds: rounds.len() as u32,
            note,
            ..self.blank(label, stack)
        }
    }

    /// Makes a row that says why there is no value.
    pub(super) fn absent(&self, label: &str, stack: Stack, why: &str) -> Row {
        Row { note: format!("{NOT_MEASURED}{why}"), noise: crate::row::QUIET.to_string(), ..self.blank(label, stack) }
    }

    fn blank(&self, label: &str, stack: Stack) -> Row {
        Row {
            scenario: "apps".into(),
            point: label.to_string(),
            target: stack.name().to_string(),
            wire: "veth".into(),
            client: "kernel".into(),
            unit: "requests/s".into(),
            machine: machine::processor(),
            kernel: machine::kernel(),
            commit: machine::commit().to_string(),
            ..Row::default()
        }
    }
}

/// Microseconds per request.
fn per_request(ns: u64, round: &Round) -> f64 {
    ns as f64 / 1e3 / round.figures.requests.max(1.0)
}

/// The first line of the table.
pub(super) fn heading() -> String {
    format!(
        "{:<26}{:<9}{:>12}{:>9}{:>9}{:>15}{:>15}{:>7}  noise\n",
        "program", "target", "requests/s", "p50 us", "p99 us", "server us/req", "client us/req", "ratio"
    )
}

/// Formats a row of the table.
pub(super) fn line(row: &Row) -> String {
    if !row.is_measured() {
        return format!("{:<26}{:<9}{}\n", row.point, row.target, row.note);
    }
    let option = |value: Option<f64>, digits: usize| value.map_or("-".to_string(), |value| format!("{value:.digits$}"));
    format!(
        "{:<26}{:<9}{:>12.0}{:>9}{:>9}{:>15}{:>15}{:>7}  {}{}\n",
        row.point,
        row.target,
        row.value,
        option(row.p50_us, 0),
        option(row.p99_us, 0),
        option(row.server_cpu_us_per_request, 2),
        option(row.client_cpu_us_per_request, 2),
        option(row.ratio, 2),
        row.noise,
        if row.note.is_empty() { String::new() } else { format!("; {}", row.note) }
    )
}

#[cfg(test)]
mod tests;
