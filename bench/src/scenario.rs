//! The scenarios: their points, and what runs at each.

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
    /// Name on the command line.
    pub name: &'static str,
    /// One line of description.
    pub about: &'static str,
    /// Default number of rounds per target.
    pub rounds: u32,
    /// Default seconds per round.
    pub seconds: f64,
    /// Its points.
    pub points: fn(&Options) -> Vec<Point>,
    /// The activity at each point.
    pub kind: Kind,
    /// The default targets are only Linux and embedded.
    pub compares_two: bool,
}

/// The activity at the points of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The load, on each target in turn.
    Traffic,
    /// The load at shares of the kernel's peak, unless the user gives rates.
    SharesOfPeak,
    /// The load on servers with one and more cores.
    Cores,
    /// No traffic: connections are open and idle.
    Still(Question),
    /// This crate's load and wrk in turn.
    AgainstWrk,
}

/// All scenarios, in the order of `ringway bench list`.
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

/// Finds a scenario by its name.
pub fn find(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name)
}

/// The points over each path and with each congestion control of the options, unless the points set their own.
pub fn varied(points: Vec<Point>, options: &Options) -> Vec<Point> {
    let paths = if points.iter().any(|point| point.setup.path.is_some()) { Vec::new() } else { options.paths() };
    let has_congestion = points.iter().any(|point| point.setup.tuning.congestion.is_some());
    let controls = if has_congestion { &[][..] } else { &options.congestion };
    let over = |path: &Path| points.iter().map(|point| point.clone().over(*path)).collect::<Vec<_>>();
    let points = if paths.is_empty() { points } else { paths.iter().flat_map(over).collect() };
    let with = |control: &Congestion| points.iter().map(|point| point.clone().with_congestion(*control)).collect::<Vec<_>>();
    if controls.is_empty() { points } else { controls.iter().flat_map(with).collect() }
}

/// Bytes of a request, and of a reply by default.
const MESSAGE: u32 = 64;

/// Plan of a closed loop with `depth` requests in flight on each connection.
pub(crate) fn closed(connections: u32, request: u32, reply: u32, depth: u32) -> Plan {
    // Each bed fills in its own address.
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

/// The user's values, or the scenario's defaults.
fn or<T: Copy>(said: &[T], otherwise: &[T]) -> Vec<T> {
    if said.is_empty() { otherwise.to_vec() } else { said.to_vec() }
}

#[cfg(test)]
mod tests;
