//! `idle` and `memory`: many connections without traffic.

use super::{Kind, MESSAGE, Scenario, closed, or};
use crate::options::Options;
use crate::point::{Figure, Point};
use crate::still::Question;
use crate::target::WireKind;

pub(super) const IDLE: Scenario = Scenario {
    name: "idle",
    about: "wakeups and CPU time of a server with many idle connections",
    rounds: 1,
    seconds: 5.0,
    points,
    kind: Kind::Still(Question::Idle),
    compares_two: false,
};

pub(super) const MEMORY: Scenario =
    Scenario { name: "memory", about: "bytes per idle connection", kind: Kind::Still(Question::Memory), ..IDLE };

fn points(options: &Options) -> Vec<Point> {
    let many = if options.wire == WireKind::Memory { [10_000, 100_000] } else { [1000, 10_000] };
    let point = |connections: u32| {
        let plan = closed(connections, MESSAGE, MESSAGE, 1);
        Point::new(connections.to_string(), &[("connections", f64::from(connections))], plan, Figure::Requests)
    };
    or(&options.connections, &many).into_iter().map(point).collect()
}
