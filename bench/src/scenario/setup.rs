//! `setup`: the time from connect(2) to the first byte of the reply, one connection after the other.

use super::{Kind, MESSAGE, Scenario, closed, or};
use crate::load::order::{Pace, Plan};
use crate::options::{Options, size_name};
use crate::point::{Figure, Point};

pub(super) const SETUP: Scenario = Scenario {
    name: "setup",
    about: "time to first byte of a new connection, one after the other",
    rounds: 5,
    seconds: 1.0,
    points,
    kind: Kind::Traffic,
    compares_two: false,
};

fn points(options: &Options) -> Vec<Point> {
    let sizes = or(&options.size, &[MESSAGE]);
    let point = |size: u32| {
        let plan = Plan { pace: Pace::Short(1), ..closed(1, MESSAGE, size, 1) };
        Point::new(size_name(size), &[("connections", 1.0), ("size", f64::from(size))], plan, Figure::Latency)
    };
    sizes.into_iter().map(point).collect()
}
