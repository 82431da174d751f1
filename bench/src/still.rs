//! `idle` and `memory`: the server's cost of many open connections without traffic.
//!
//! `idle`: wakeups per second of the server's threads, and their CPU time. `memory`: growth of the server's resident memory
//! per connection; when the kernel serves, plus half the growth of its slabs, as the client's sockets are the other half.
//! Does not do: traffic.

use std::collections::BTreeMap;
use std::io;
use std::thread::sleep;
use std::time::Duration;

use crate::bed::{Bed, Ends};
use crate::load::order::Plan;
use crate::measure::rest::Rest;
use crate::options::Options;
use crate::point::{Point, Setting};
use crate::row::{Parameter, QUIET, Row};
use crate::target::Target;

/// The measured quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Wakeups and CPU per second.
    Idle,
    /// Bytes per connection.
    Memory,
}

impl Question {
    /// Time until delayed acknowledgments and start-up work are over; for `idle` also the kernel's probe of a new neighbor
    /// after five seconds (delay_first_probe_time).
    pub(crate) fn settles(self) -> Duration {
        Duration::from_secs(if self == Question::Idle { 6 } else { 3 })
    }
}

/// Measures every target at each point.
///
/// # Errors
/// A bed could not be created or a role failed.
///
/// # Blocking
/// For some seconds at each point.
pub fn measure(
    question: Question,
    setting: &Setting,
    options: &Options,
    (targets, points): (&[Target], &[Point]),
    give: &mut dyn FnMut(Row) -> io::Result<()>,
) -> io::Result<()> {
    let watched = Duration::from_secs_f64(options.seconds.unwrap_or(5.0));
    for Point { plan, setup, .. } in points {
        let mut linux = None;
        for target in targets {
            // A new server each time: a server may keep memory that it once used.
            let mut bed = Bed::start(*target, options, setup, plan.connections)?;
            let before = Rest::of(bed.server_pid());
            let client_before = Rest::of(bed.client_pid());
            bed.prepare(plan)?;
            sleep(question.settles());
            let (value, note) = match question {
                Question::Idle => idle(&bed, watched),
                Question::Memory => (memory(&bed, &before, plan.connections), both_ends(&bed, &client_before, plan.connections)),
            };
            if *target == Target::Linux {
                linux = Some(value);
            }
            give(row(question, setting, target.name(), plan, Measured { value, linux, note }))?;
        }
    }
    Ok(())
}

fn idle(bed: &Bed, watched: Duration) -> (f64, String) {
    let before = Rest::of(bed.server_pid());
    sleep(watched);
    let after = Rest::of(bed.server_pid());
    let per_second = |count: u64| count as f64 / watched.as_secs_f64();
    let cpu_us = per_second(after.cpu_ns.saturating_sub(before.cpu_ns)) / 1e3;
    (per_second(after.switches.saturating_sub(before.switches)), format!("{cpu_us:.0} us of CPU per second"))
}

fn memory(bed: &Bed, before: &Rest, connections: u32) -> f64 {
    let after = Rest::of(bed.server_pid());
    let mut bytes = after.resident_bytes.saturating_sub(before.resident_bytes);
    if bed.target().is_the_kernels() {
        bytes += after.slab_bytes.saturating_sub(before.slab_bytes) / 2;
    }
    bytes as f64 / f64::from(connections)
}

/// Describes the client's memory per connection, with its load state, and the resident memory of both ends.
fn both_ends(bed: &Bed, before: &Rest, connections: u32) -> String {
    let [server, client] = [bed.server_pid(), bed.client_pid()].map(|pid| Rest::of(pid).resident_bytes);
    let each = client.saturating_sub(before.resident_bytes) as f64 / f64::from(connections);
    format!("client {each:.0} bytes/connection; both ends {} MB resident", (server + client) / 1_000_000)
}

struct Measured {
    value: f64,
    /// The kernel's value of the same point.
    linux: Option<f64>,
    note: String,
}

fn row(question: Question, setting: &Setting, target: String, plan: &Plan, measured: Measured) -> Row {
    let Measured { value, linux, note } = measured;
    let parameters = BTreeMap::from([("connections".to_string(), Parameter::Number(f64::from(plan.connections)))]);
    Row {
        scenario: setting.scenario.clone(),
        point: plan.connections.to_string(),
        parameters,
        target,
        wire: setting.wire.clone(),
        client: setting.client.clone(),
        value: (value * 10.0).round() / 10.0,
        unit: if question == Question::Idle { "wakeups/s" } else { "bytes/connection" }.to_string(),
        ratio: linux.filter(|linux| *linux > 0.0).map(|linux| (value / linux * 1000.0).round() / 1000.0),
        noise: QUIET.to_string(),
        rounds: 1,
        note,
        machine: setting.machine.clone(),
        kernel: setting.kernel.clone(),
        commit: setting.commit.clone(),
        ..Row::default()
    }
}
