//! `bulk`: throughput in both directions (Opening Up Kernel-Bypass TCP Stacks: figure 3).
//!
//! Replies of one size one after the other, as in the papers, and an endless stream: enough
//! messages are in flight that the sender always has data to send.

use super::{Kind, Scenario, closed, or};
use crate::load::order::Plan;
use crate::options::{Options, size_name};
use crate::point::{Figure, Point};
use crate::row::Parameter;

pub(super) const BULK: Scenario = Scenario {
    name: "bulk",
    about: "large replies, large requests and endless streams on 1 and 16 connections: Gbit/s",
    rounds: 5,
    seconds: 1.0,
    points,
    kind: Kind::Traffic,
    compares_two: false,
};

/// Bytes of the short message in the other direction.
const SHORT: u32 = 64;
/// Bytes of a piece of a stream, and pieces in flight.
const PIECE: u32 = 256 << 10;
const PIECES: u32 = 32;

fn points(options: &Options) -> Vec<Point> {
    let mut points = Vec::new();
    for connections in or(&options.connections, &[1, 16]) {
        for size in or(&options.size, &[128 << 10, 2 << 20]) {
            let (down, up) = (closed(connections, SHORT, size, 1), closed(connections, size, SHORT, 1));
            points.push(point(&format!("{} replies", size_name(size)), "download", size, down));
            points.push(point(&format!("{} requests", size_name(size)), "upload", size, up));
        }
        if options.size.is_empty() {
            points.push(point("stream download", "download", 0, closed(connections, SHORT, PIECE, PIECES)));
            points.push(point("stream upload", "upload", 0, closed(connections, PIECE, SHORT, PIECES)));
        }
    }
    points
}

/// Creates a point; `size` 0 means an endless stream.
fn point(label: &str, direction: &str, size: u32, plan: Plan) -> Point {
    let numbers = [("connections", f64::from(plan.connections)), ("size", f64::from(size))];
    let label = if plan.connections == 1 { label.to_string() } else { format!("{label}, {} connections", plan.connections) };
    let mut point = Point::new(label, &numbers, plan, Figure::Gigabits);
    point.parameters.insert("direction".into(), Parameter::Text(direction.into()));
    point
}
