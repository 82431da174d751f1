//! `replay`: n copies of a log of requests at once, each request on a connection of its own (mTCP: tables 3 and 4).
//!
//! The value is the mean time from when a request was meant to begin to its last byte: the log has no times of its own to
//! compare with, so that all of it is extra delay.

use super::{Kind, MESSAGE, Scenario, closed, or};
use crate::load::log::Source;
use crate::load::order::{Pace, Plan};
use crate::options::Options;
use crate::point::{Figure, Point};

pub(super) const REPLAY: Scenario = Scenario {
    name: "replay",
    about: "n copies of a log of requests at once: mean delay",
    rounds: 3,
    seconds: 3.0,
    points,
    kind: Kind::Traffic,
    compares_two: false,
};

/// Requests per second of a copy that is made, and copies.
const RATE: u32 = 1_000;
const COPIES: [u32; 7] = [1, 2, 3, 4, 5, 6, 7];
/// Connections at once; requests that find no free one wait for it.
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
