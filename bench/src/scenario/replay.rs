//! `replay`: n simultaneous copies of a request log, each request on its own connection (mTCP: tables 3 and 4).
//!
//! The value is the mean time from a request's intended beginning to its last byte. The log has no response times to compare
//! with, so all of this time counts as extra delay.

use super::{Kind, MESSAGE, Scenario, closed, or};
use crate::load::log::Source;
use crate::load::order::{Pace, Plan};
use crate::options::Options;
use crate::point::{Figure, Point};

pub(super) const REPLAY: Scenario = Scenario {
    name: "replay",
    about: "n simultaneous copies of a request log: mean delay",
    rounds: 3,
    seconds: 3.0,
    points,
    kind: Kind::Traffic,
    compares_two: false,
};

/// Requests per second of a generated copy, and numbers of copies.
const RATE: u32 = 1_000;
const COPIES: [u32; 7] = [1, 2, 3, 4, 5, 6, 7];
/// Connections at a time; a request without a free one waits.
const CONNECTIONS: u32 = 4_096;

fn points(options: &Options) -> Vec<Point> {
    let connections = options.connections.first().copied().unwrap_or(CONNECTIONS);
    let rate = options.rate.first().copied().unwrap_or(RATE);
    let source = options.log.clone().map_or(Source::Rate(rate), Source::File);
    let point = |copies: u32| {
        let log = Some((source.clone(), copies));
        let plan = Plan { pace: Pace::Log, log, ..closed(connections, MESSAGE, MESSAGE, 1) };
        let mut numbers = vec![("copies", f64::from(copies)), ("connections", f64::from(connections))];
        numbers.extend(options.log.is_none().then_some(("rate", f64::from(rate))));
        let label = if copies == 1 { "1 copy".to_string() } else { format!("{copies} copies") };
        Point::new(label, &numbers, plan, Figure::Delay)
    };
    or(&options.copies, &COPIES).into_iter().map(point).collect()
}
