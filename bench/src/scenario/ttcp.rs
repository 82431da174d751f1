//! `ttcp`: a stream to the server in buffers of several sizes (Joyride: figures 3 and 4).

use super::{Kind, Scenario, closed, or};
use crate::options::{Options, size_name};
use crate::point::{Figure, Point};

pub(super) const TTCP: Scenario = Scenario {
    name: "ttcp",
    about: "a stream to the server in buffers of 1 to 64 KiB: Gbit/s",
    rounds: 3,
    seconds: 1.0,
    points,
    kind: Kind::Traffic,
    compares_two: false,
};

/// Bytes in flight over all buffers, enough that the sender never waits for the application.
const UNDER_WAY: u32 = 1 << 20;
/// Bytes of the server's reply to a buffer.
const SHORT: u32 = 16;

fn points(options: &Options) -> Vec<Point> {
    let mut points = Vec::new();
    for connections in or(&options.connections, &[1]) {
        for size in or(&options.size, &[1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10]) {
            let plan = closed(connections, size, SHORT, (UNDER_WAY / size).max(2));
            let numbers = [("connections", f64::from(connections)), ("size", f64::from(size))];
            let label = match connections {
                1 => size_name(size),
                many => format!("{}, {many} connections", size_name(size)),
            };
            points.push(Point::new(label, &numbers, plan, Figure::Gigabits));
        }
    }
    points
}
