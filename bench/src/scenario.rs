//! The scenarios: which points they have, and what runs at each.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::load::order::{Pace, Plan};
use crate::load::tuning::{Congestion, Tuning};
use crate::options::Options;
use crate::path::Path;
use crate::point::Point;
use crate::still::Question;

mod accept;
pub mod apps;
mod bulk;
mod conns;
pub(crate) mod cores;
pub(crate) mod cpuload;
mod fair;
pub mod host;
mod latency;
mod loss;
mod mixed;
mod mpc;
mod replay;
mod resp;
mod rpc;
mod setup;
mod still;
mod ttcp;
mod wrk;

/// A scenario that is a list of points.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// As on the command line.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// Rounds of each target, if nothing else is said.
    pub rounds: u32,
    /// Seconds of each round, if nothing else is said.
    pub seconds: f64,
    /// Its points.
    pub points: fn(&Options) -> Vec<Point>,
    /// What runs at each point.
    pub kind: Kind,
    /// Linux and embedded are enough where the user names no target.
    pub compares_two: bool,
}

/// What runs at the points of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The load, target by target in turn.
    Traffic,
    /// The load at shares of what the kernel carries, unless rates are named.
    SharesOfPeak,
    /// The load on servers of one and more cores.
    Cores,
    /// Nothing: connections are open and still.
    Still(Question),
    /// Our load and wrk in turn.
    AgainstWrk,
}

/// All of them, in the order of `ringway bench list`.
pub const ALL: &[Scenario] = &[
    conns::CONNS,
    cores::CORES,
    latency::LATENCY,
    bulk::BULK,
    mpc::CRR,
    mpc::MPC,
    accept::ACCEPT,
    setup::SETUP,
    cpuload::CPULOAD,
    mixed::MIXED,
    fair::FAIR,
    resp::RESP,
    rpc::ZC,
    rpc::RPC,
    ttcp::TTCP,
    still::IDLE,
    still::MEMORY,
    wrk::WRK,
    loss::LOSS,
    replay::REPLAY,
    host::SINGLE,
    host::BUFFER,
    host::ONE_TO_ONE,
    host::INCAST,
    host::OUTCAST,
    host::ALL_TO_ALL,
    loss::HOST_LOSS,
    host::MIXED,
    host::CC,
];

/// The scenario of a name.
pub fn find(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name)
}

/// The points over each path and with each congestion control that was asked for, where they have none of their own.
pub fn varied(points: Vec<Point>, options: &Options) -> Vec<Point> {
    let paths = if points.iter().any(|point| point.setup.path.is_some()) { Vec::new() } else { options.paths() };
    let has_congestion = points.iter().any(|point| point.setup.tuning.congestion.is_some());
    let controls = if has_congestion { &[][..] } else { &options.congestion };
    let over = |path: &Path| points.iter().map(|point| point.clone().over(*path)).collect::<Vec<_>>();
    let points = if paths.is_empty() { points } else { paths.iter().flat_map(over).collect() };
    let with = |control: &Congestion| points.iter().map(|point| point.clone().with_congestion(*control)).collect::<Vec<_>>();
    if controls.is_empty() { points } else { controls.iter().flat_map(with).collect() }
}

/// Bytes of a request, and of a reply where nothing else is said.
const MESSAGE: u32 = 64;

/// Requests one after the other on each of so many connections.
fn closed(connections: u32, request: u32, reply: u32, depth: u32) -> Plan {
    // Every bed puts its own address here.
    let server = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
    Plan {
        server,
        sources: Vec::new(),
        connections,
        request,
        reply,
        depth,
        pace: Pace::Closed,
        streams: 0,
        http: false,
        log: None,
        tuning: Tuning::default(),
    }
}

/// What the user said, or what the scenario has in mind.
fn or<T: Copy>(said: &[T], otherwise: &[T]) -> Vec<T> {
    if said.is_empty() { otherwise.to_vec() } else { said.to_vec() }
}

#[cfg(test)]
mod tests;
