//! `bulk`: bytes per second in both directions (Opening Up Kernel-Bypass TCP Stacks: figure 3).
//!
//! Replies of a size one after the other as the papers do it, and a stream without end: so many
//! messages are under way that the sender always has something to send.

use super::{Kind, Scenario, closed, or};
use crate::load::order::Plan;
use crate::options::{Options, size_name};
use crate::point::{Figure, Point};
use crate::row::Parameter;

pub(super) const BULK: Scenario = Scenario {
    name: "bulk",
    about: "large replies, large requests and streams without end on one connection, and on 16: Gbit/s",
    rounds: 5,
    seconds: 1.0,
    points,
    kind: Kind::Traffic,
    compares_two: false,
};

/// The short message of a large one in the other direction.
const SHORT: u32 = 64;
/// A piece of a stream, and how many are under way.
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

/// `size` 0: a stream without end.
fn point(label: &str, direction: &str, size: u32, plan: Plan) -> Point {
    let numbers = [("connections", f64::from(plan.connections)), ("size", f64::from(size))];
    let label = if plan.connections == 1 { label.to_string() } else { format!("{label}, {} connections", plan.connections) };
    let mut point = Point::new(label, &numbers, plan, Figure::Gigabits);
    point.parameters.insert("direction".into(), Parameter::Text(direction.into()));
    point
}
