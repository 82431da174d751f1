//! `accept`: connections that are opened, and reset after the shortest exchange, by concurrency (mTCP: figure 8).

use super::{Kind, Scenario, closed, or};
use crate::load::message::HEADER_BYTES;
use crate::load::order::{Pace, Plan};
use crate::options::Options;
use crate::point::{Figure, Point};

pub(super) const ACCEPT: Scenario = Scenario {
    name: "accept",
    about: "connections accepted per second, by number opened at a time",
    rounds: 3,
    seconds: 1.0,
    points,
    kind: Kind::Traffic,
    compares_two: false,
};

fn points(options: &Options) -> Vec<Point> {
    let shortest = HEADER_BYTES as u32;
    let point = |connections: u32| {
        let plan = Plan { pace: Pace::Short(1), ..closed(connections, shortest, shortest, 1) };
        Point::new(connections.to_string(), &[("connections", f64::from(connections))], plan, Figure::Connections)
    };
    or(&options.connections, &[1, 8, 64, 512]).into_iter().map(point).collect()
}
