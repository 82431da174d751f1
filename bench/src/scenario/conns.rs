//! `conns`: small requests and replies by number of connections (Opening Up Kernel-Bypass TCP Stacks: figures 5 and 6).

use super::{Kind, MESSAGE, Scenario, closed, or};
use crate::options::{Options, size_name};
use crate::point::{Figure, Point};
use crate::target::WireKind;

pub(super) const CONNS: Scenario = Scenario {
    name: "conns",
    about: "small requests and replies over 1 to thousands of connections: requests per second, latency, CPU",
    rounds: 5,
    seconds: 1.0,
    points,
    kind: Kind::Traffic,
    compares_two: false,
};

fn points(options: &Options) -> Vec<Point> {
    let most = if options.wire == WireKind::Memory { 10_000 } else { 4800 };
    let sizes = or(&options.size, &[MESSAGE]);
    let mut points = Vec::new();
    for size in &sizes {
        for connections in or(&options.connections, &[1, 64, 1024, most]) {
            let label = if sizes.len() == 1 { connections.to_string() } else { format!("{connections}, {}", size_name(*size)) };
            let numbers = [("connections", f64::from(connections)), ("size", f64::from(*size))];
            points.push(Point::new(label, &numbers, closed(connections, MESSAGE, *size, 1), Figure::Requests));
        }
    }
    points
}
