//! `ringway bench host …`: the experiments of "Understanding Host Network Stack Overheads" on one core at each end.
//!
//! The paper gives each end up to 24 cores; here all flows of an end share one. One-to-one is n flows each way, incast n
//! flows to the server, outcast n flows from it, all-to-all n times n flows, half each way. Values per core are per core of
//! the server's side; rows have the load of both sides.

use clap::Subcommand;

use super::{Kind, Scenario, closed, or};
use crate::load::order::Plan;
use crate::load::tuning::Congestion;
use crate::options::Options;
use crate::point::{Figure, Point};
use crate::row::Parameter;
use crate::target::WireKind;

/// The experiments.
#[derive(Debug, Subcommand)]
pub enum Experiment {
    /// One flow by MTU, with a breakdown of CPU time (figure 3)
    Single(Options),
    /// One flow by receive buffer (figure 3)
    Buffer(Options),
    /// n flows each way (figure 5)
    OneToOne(Options),
    /// n flows to the server (figure 6)
    Incast(Options),
    /// n flows from the server (figure 7)
    Outcast(Options),
    /// n times n flows, half each way (figure 8)
    AllToAll(Options),
    /// One flow by loss rate (figure 9)
    Loss(Options),
    /// 16 connections with requests and replies of 4 to 64 KB (figure 10)
    Rpc(Options),
    /// One flow beside small requests (figure 11)
    Mixed(Options),
    /// One flow by congestion control (figure 13)
    Cc(Options),
}

impl Experiment {
    /// Returns true when the paper breaks its CPU time down and the wire is the one that `cycles` uses.
    pub fn is_broken_down(&self) -> bool {
        matches!(self, Experiment::Single(options) if options.wire == WireKind::Veth && options.paths().is_empty())
    }

    /// The scenario's name and its options.
    pub fn scenario(&self) -> (&'static str, &Options) {
        match self {
            Experiment::Single(options) => (SINGLE.name, options),
            Experiment::Buffer(options) => (BUFFER.name, options),
            Experiment::OneToOne(options) => (ONE_TO_ONE.name, options),
            Experiment::Incast(options) => (INCAST.name, options),
            Experiment::Outcast(options) => (OUTCAST.name, options),
            Experiment::AllToAll(options) => (ALL_TO_ALL.name, options),
            Experiment::Loss(options) => (super::loss::HOST_LOSS.name, options),
            Experiment::Rpc(options) => (super::rpc::RPC.name, options),
            Experiment::Mixed(options) => (MIXED.name, options),
            Experiment::Cc(options) => (CC.name, options),
        }
    }
}

pub(super) const SINGLE: Scenario = Scenario {
    name: "host single",
    about: "one flow by MTU; with perf, a breakdown of CPU time",
    rounds: 5,
    seconds: 1.0,
    points: single,
    kind: Kind::Traffic,
    compares_two: true,
};

pub(super) const BUFFER: Scenario =
    Scenario { name: "host buffer", about: "one flow to the server by its receive buffer", points: buffer, ..SINGLE };
pub(super) const ONE_TO_ONE: Scenario =
    Scenario { name: "host one-to-one", about: "n flows each way", points: one_to_one, ..SINGLE };
pub(super) const INCAST: Scenario = Scenario { name: "host incast", about: "n flows to the server", points: incast, ..SINGLE };
pub(super) const OUTCAST: Scenario =
    Scenario { name: "host outcast", about: "n flows from the server", points: outcast, ..SINGLE };
pub(super) const ALL_TO_ALL: Scenario =
    Scenario { name: "host all-to-all", about: "n times n flows, half each way", points: all_to_all, ..SINGLE };
pub(super) const MIXED: Scenario = Scenario {
    name: "host mixed",
    about: "one flow beside 0 to 16 connections with 4000 bytes each way",
    points: mixed,
    ..SINGLE
};
pub(super) const CC: Scenario = Scenario { name: "host cc", about: "one flow by congestion control", points: cc, ..SINGLE };

/// Bytes of the short message in the other direction, and of a piece of a flow.
const SHORT: u32 = 64;
const PIECE: u32 = 256 << 10;
/// Pieces in flight over all flows together; each flow has at least two.
const PIECES: u32 = 32;
/// The paper's numbers of flows.
const FLOWS: [u32; 4] = [1, 8, 16, 24];
/// The MTU of jumbo frames.
const JUMBO_MTU: u16 = 9000;
/// Bytes of the paper's small requests and replies.
const SMALL: u32 = 4000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Download,
    Upload,
}

impl Direction {
    fn name(self) -> &'static str {
        if self == Direction::Download { "download" } else { "upload" }
    }
}

/// Creates a point of `count` flows in one direction.
fn flows(count: u32, direction: Direction) -> Point {
    let depth = (PIECES / count).max(2);
    let plan = match direction {
        Direction::Download => closed(count, SHORT, PIECE, depth),
        Direction::Upload => closed(count, PIECE, SHORT, depth),
    };
    let label = if count == 1 { direction.name().to_string() } else { format!("{count} flows, {}", direction.name()) };
    let mut point = Point::new(label, &[("flows", f64::from(count))], plan, Figure::Gigabits);
    point.parameters.insert("direction".into(), Parameter::Text(direction.name().into()));
    point
}

fn single(_: &Options) -> Vec<Point> {
    let links =
        [("super-segments", None, false), ("super-segments, jumbo", Some(JUMBO_MTU), false), ("no super-segments", None, true)];
    let with = |(name, mtu, small_packets): (&str, Option<u16>, bool)| {
        [Direction::Download, Direction::Upload].map(|direction| {
            let mut point = flows(1, direction);
            point.label = format!("{name}, {}", point.label);
            point.parameters.insert("offloads".into(), Parameter::Text(name.into()));
            point.setup.mtu = mtu;
            point.setup.small_packets = small_packets;
            point
        })
    };
    links.into_iter().flat_map(with).collect()
}

fn buffer(options: &Options) -> Vec<Point> {
    let of = |bytes: u32| {
        let mut point = flows(1, Direction::Upload);
        point.label = format!("{} KB", bytes / 1000);
        point.parameters.insert("buffer".into(), Parameter::Number(f64::from(bytes)));
        point.setup.tuning.receive_buffer = Some(bytes);
        point
    };
    let sizes = [100, 200, 400, 800, 1600, 3200, 6400, 12_800].map(|kilobytes: u32| kilobytes * 1000);
    or(&options.size, &sizes).into_iter().map(of).collect()
}

fn one_to_one(options: &Options) -> Vec<Point> {
    let both = |count: u32| [flows(count, Direction::Download), flows(count, Direction::Upload)];
    or(&options.connections, &FLOWS).into_iter().flat_map(both).collect()
}

fn incast(options: &Options) -> Vec<Point> {
    or(&options.connections, &FLOWS).into_iter().map(|count| flows(count, Direction::Upload)).collect()
}

fn outcast(options: &Options) -> Vec<Point> {
    or(&options.connections, &FLOWS).into_iter().map(|count| flows(count, Direction::Download)).collect()
}

fn all_to_all(options: &Options) -> Vec<Point> {
    let of = |side: u32| {
        let count = side.saturating_mul(side);
        let plan = Plan { streams: count / 2, ..closed(count, PIECE, SHORT, (PIECES / count).max(2)) };
        Point::new(format!("{side} x {side} flows"), &[("flows", f64::from(side))], plan, Figure::BothWays)
    };
    or(&options.connections, &FLOWS).into_iter().map(of).collect()
}

fn mixed(options: &Options) -> Vec<Point> {
    let mut points = Vec::new();
    for small in or(&options.connections, &[0, 1, 4, 16]) {
        let plan = Plan { streams: 1, ..closed(small + 1, SMALL, SMALL, 1) };
        let numbers = [("flows", f64::from(small)), ("size", f64::from(SMALL))];
        points.push(Point::new(format!("the flow beside {small} small"), &numbers, plan.clone(), Figure::Stream));
        if small > 0 {
            points.push(Point::new(format!("{small} small beside the flow"), &numbers, plan, Figure::Requests));
        }
    }
    points
}

fn cc(options: &Options) -> Vec<Point> {
    let controls = or(&options.congestion, &[Congestion::Cubic, Congestion::Bbr, Congestion::Dctcp]);
    controls.into_iter().map(|control| flows(1, Direction::Download).with_congestion(control)).collect()
}
