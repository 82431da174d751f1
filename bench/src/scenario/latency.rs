//! `latency`: one request at a time on one connection, replies of several sizes (Opening Up Kernel-Bypass TCP Stacks: figure 4).

use super::{Kind, MESSAGE, Scenario, closed, or};
use crate::options::{Options, size_name};
use crate::point::{Figure, Point};

pub(super) const LATENCY: Scenario = Scenario {
    name: "latency",
    about: "one request at a time: median and tail of the unloaded latency, by size of the reply",
    rounds: 5,
    seconds: 1.0,
    points,
    kind: Kind::Traffic,
    compares_two: false,
};

fn points(options: &Options) -> Vec<Point> {
    let mut points = Vec::new();
    for connections in or(&options.connections, &[1]) {
        for size in or(&options.size, &[64, 256, 1024, 4096, 16 << 10, 64 << 10]) {
            let numbers = [("connections", f64::from(connections)), ("size", f64::from(size))];
            points.push(Point::new(size_name(size), &numbers, closed(connections, MESSAGE, size, 1), Figure::Latency));
        }
    }
    points
}
