//! `wrk`: this crate's client compared with wrk.

use super::{Kind, Scenario, closed};
use crate::against_wrk::POINTS;
use crate::load::order::Plan;
use crate::options::Options;
use crate::point::{Figure, Point};
use crate::row::Parameter;

pub(super) const WRK: Scenario = Scenario {
    name: "wrk",
    about: "this client and wrk in turn on the same HTTP server, to compare their results",
    rounds: 3,
    seconds: 1.0,
    points,
    kind: Kind::AgainstWrk,
    compares_two: false,
};

fn points(_: &Options) -> Vec<Point> {
    let point = |(connections, work_us): (u32, u64)| {
        let plan = Plan { http: true, ..closed(connections, 64, 64, 1) };
        let label = format!("{connections}, {work_us} us of work");
        let mut point = Point::new(label, &[("connections", f64::from(connections))], plan, Figure::Requests);
        point.parameters.insert("work_us".into(), Parameter::Number(work_us as f64));
        point
    };
    POINTS.into_iter().map(point).collect()
}
