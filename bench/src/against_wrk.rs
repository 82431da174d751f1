//! `wrk`: measures the same HTTP server with this crate's client and with wrk in turn, and compares the results.
//!
//! The results can agree only where neither client is the bottleneck: with one connection, or where each request costs the
//! server's program CPU time. Both clients use the kernel's stack of the same namespace and core.

use std::io;
use std::time::Duration;

use crate::bed::{Bed, Ends};
use crate::measure::statistics::{median, median_ratio};
use crate::options::Options;
use crate::point::{Point, Setting};
use crate::row::{Parameter, QUIET, Row};
use crate::target::{ClientStack, Target, WireKind};

/// Connections, and microseconds of work per request.
pub(crate) const POINTS: [(u32, u64); 2] = [(1, 0), (64, 50)];
const WARMUP: Duration = Duration::from_millis(100);
/// Largest deviation from 1 of the ratio to wrk's figure.
const AGREEMENT: f64 = 0.05;

/// Measures all points with both clients.
///
/// # Errors
/// wrk is missing, a bed could not be created or a role failed.
pub fn measure(
    setting: &Setting,
    options: &Options,
    (targets, points): (&[Target], &[Point]),
    (rounds, seconds): (u32, f64),
    give: &mut dyn FnMut(Row) -> io::Result<()>,
) -> io::Result<()> {
    if options.wire != WireKind::Veth || options.client_stack() != ClientStack::Kernel {
        return Err(io::Error::other("wrk uses the kernel's stack: it needs --wire veth --client kernel"));
    }
    let seconds = (seconds.ceil() as u64).max(1);
    for (point, (connections, work_us)) in points.iter().zip(POINTS) {
        for target in targets {
            let options = Options { work_us: options.work_us.max(work_us), ..options.clone() };
            let mut bed = Bed::start(*target, &options, &point.setup, connections)?;
            bed.prepare(&point.plan)?;
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for round in 1..=rounds {
                let sample = bed.run(WARMUP, Duration::from_secs(seconds), u64::from(round))?;
                ours.push(sample.outcome.replies as f64 / sample.outcome.seconds);
                theirs.push(bed.wrk(connections, seconds)?.requests_per_s);
            }
            let ratio = median_ratio(&ours, &theirs).unwrap_or(0.0);
            let agree = if (ratio - 1.0).abs() <= AGREEMENT { "they agree" } else { "they do not agree" };
            let note = format!("{ratio:.3} of wrk's figure: {agree}");
            give(row(setting, point, target.name(), Measured { client: "ours", values: &ours, note }))?;
            give(row(setting, point, target.name(), Measured { client: "wrk", values: &theirs, note: String::new() }))?;
        }
    }
    Ok(())
}

/// Requests per second that one of the two clients has measured.
struct Measured<'a> {
    client: &'a str,
    values: &'a [f64],
    note: String,
}

fn row(setting: &Setting, point: &Point, target: String, measured: Measured<'_>) -> Row {
    let Measured { client, values, note } = measured;
    let mut parameters = point.parameters.clone();
    parameters.insert("generator".into(), Parameter::Text(client.into()));
    Row {
        scenario: setting.scenario.clone(),
        point: format!("{}, {client}", point.label),
        parameters,
        target,
        wire: setting.wire.clone(),
        client: setting.client.clone(),
        value: median(values.iter().copied()).unwrap_or(0.0).round(),
        unit: "requests/s".into(),
        noise: QUIET.into(),
        rounds: values.len() as u32,
        note,
        machine: setting.machine.clone(),
        kernel: setting.kernel.clone(),
        commit: setting.commit.clone(),
        ..Row::default()
    }
}
