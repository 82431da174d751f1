//! `loss` and `host loss`: one stream over a path that loses packets (host overheads: figure 9), both ends with the same
//! congestion control.

use super::{Kind, Scenario, closed, or};
use crate::load::order::Plan;
use crate::load::tuning::Congestion;
use crate::options::Options;
use crate::path::{Loss, Path};
use crate::point::{Figure, Point};
use crate::row::Parameter;

pub(super) const LOSS: Scenario = Scenario {
    name: "loss",
    about: "one stream each way over a path that loses packets, by congestion control: Gbit/s",
    rounds: 3,
    seconds: 4.0,
    points: loss,
    kind: Kind::Traffic,
    compares_two: true,
};

pub(super) const HOST_LOSS: Scenario =
    Scenario { name: "host loss", about: "one stream by loss rate: Gbit/s, also per core", points: host_loss, ..LOSS };

/// The paper's loss rates, parts per million, and a long path.
const LOSSES: [Loss; 4] = [Loss::None, Loss::Random(150), Loss::Random(1_500), Loss::Random(15_000)];
const LONG_RTT_US: u32 = 20_000;
const LONG_LOSS: Loss = Loss::Random(10_000);
/// Bytes of the short message in the other direction, and of a piece of a stream: small, as few arrive at high loss.
const SHORT: u32 = 64;
const PIECE: u32 = 16 << 10;
/// Bytes requested ahead on a short path; on a long one, this number of bandwidth-delay products more.
const UNDER_WAY: u64 = 2 << 20;
const PRODUCTS: u64 = 2;
/// Bytes requested ahead when losses limit the window to a few dozen packets: they must still arrive after the round.
const UNDER_WAY_BOUND: u64 = 512 << 10;
/// Loss share from which a loss-based congestion control is limited by losses.
const BINDING_LOSS: f64 = 1e-4;

fn loss(options: &Options) -> Vec<Point> {
    let mut points = Vec::new();
    let with_a_long_one = true;
    for path in paths(options, with_a_long_one) {
        for congestion in or(&options.congestion, &[Congestion::Cubic, Congestion::Bbr]) {
            for direction in ["download", "upload"] {
                points.push(point(direction, path, congestion).over(path).with_congestion(congestion));
            }
        }
    }
    points
}

fn host_loss(options: &Options) -> Vec<Point> {
    let over = |path: Path| ["download", "upload"].map(|direction| point(direction, path, Congestion::Cubic).over(path));
    let with_a_long_one = false;
    paths(options, with_a_long_one).into_iter().flat_map(over).collect()
}

fn paths(options: &Options, with_a_long_one: bool) -> Vec<Path> {
    let said = options.paths();
    if !options.loss.is_empty() {
        return said;
    }
    let path = |loss: Loss, rtt_us: u32| Path::new(options.rtt.unwrap_or(rtt_us), loss, options.bandwidth, options.queue);
    let long = (with_a_long_one && options.rtt.is_none()).then(|| path(LONG_LOSS, LONG_RTT_US));
    LOSSES.into_iter().map(|loss| path(loss, 0)).chain(long).collect()
}

fn point(direction: &str, path: Path, congestion: Congestion) -> Point {
    let product = path.bits_per_second * u64::from(path.rtt_us) / 8_000_000;
    let is_bound = congestion != Congestion::Bbr && path.rtt_us > 0 && path.loss.share() >= BINDING_LOSS;
    let under_way = if is_bound { UNDER_WAY_BOUND } else { UNDER_WAY + PRODUCTS * product };
    let pieces = (under_way / u64::from(PIECE)) as u32;
    let plan: Plan = match direction {
        "download" => closed(1, SHORT, PIECE, pieces),
        _ => closed(1, PIECE, SHORT, pieces),
    };
    let mut point = Point::new(direction.to_string(), &[("connections", 1.0)], plan, Figure::Gigabits);
    point.parameters.insert("direction".into(), Parameter::Text(direction.into()));
    point
}
