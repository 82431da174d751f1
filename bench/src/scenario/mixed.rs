//! `mixed`: an endless stream beside small requests (host overheads: figure 11). The points with only one of the two show
//! the loss of each by the other.

use super::{Kind, MESSAGE, Scenario, closed, or};
use crate::load::order::Plan;
use crate::options::Options;
use crate::point::{Figure, Point};

pub(super) const MIXED: Scenario = Scenario {
    name: "mixed",
    about: "one stream and 64 small connections, each alone and together",
    rounds: 5,
    seconds: 1.0,
    points,
    kind: Kind::Traffic,
    compares_two: false,
};

fn points(options: &Options) -> Vec<Point> {
    let mut points = vec![point("1 stream alone".into(), 0, 1, MESSAGE, Figure::Stream)];
    for small in or(&options.connections, &[64]) {
        for size in or(&options.size, &[MESSAGE]) {
            points.push(point(format!("{small} small alone"), small, 0, size, Figure::Requests));
            points.push(point(format!("{small} small, 1 stream"), small, 1, size, Figure::Requests));
            points.push(point(format!("1 stream, {small} small"), small, 1, size, Figure::Stream));
        }
    }
    points
}

fn point(label: String, small: u32, streams: u32, size: u32, figure: Figure) -> Point {
    let numbers = [("connections", f64::from(small)), ("streams", f64::from(streams)), ("size", f64::from(size))];
    Point::new(label, &numbers, Plan { streams, ..closed(small + streams, MESSAGE, size, 1) }, figure)
}
