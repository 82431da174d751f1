//! `resp`: duration of whole transactions with thousands of concurrent short connections (mTCP: table 2).

use super::{Kind, MESSAGE, Scenario, closed, or};
use crate::load::order::{Pace, Plan};
use crate::options::{Options, size_name};
use crate::point::{Figure, Point};

pub(super) const RESP: Scenario = Scenario {
    name: "resp",
    about: "connect, one request and reply, close, many at a time: median and tail of the whole transaction",
    rounds: 3,
    seconds: 2.0,
    points,
    kind: Kind::Traffic,
    compares_two: false,
};

fn points(options: &Options) -> Vec<Point> {
    let mut points = Vec::new();
    for connections in or(&options.connections, &[256, 1024, 4096]) {
        for size in or(&options.size, &[MESSAGE]) {
            let plan = Plan { pace: Pace::Short(1), ..closed(connections, MESSAGE, size, 1) };
            let numbers = [("connections", f64::from(connections)), ("size", f64::from(size))];
            let label = format!("{connections} at a time, {}", size_name(size));
            points.push(Point::new(label, &numbers, plan, Figure::Latency));
        }
    }
    points
}
