//! `cores`: small requests on many connections, by cores of the server (Opening Up Kernel-Bypass TCP Stacks: figures 7 and 8).
//!
//! On the kernel each core has a process with a listener of its own (SO_REUSEPORT); embedded, a worker with a seat of the same
//! interface. Where the machine has no more cores, the last worker shares one with the client, and its row says so.

use super::{Kind, MESSAGE, Scenario, closed, or};
use crate::options::Options;
use crate::point::{Figure, Point};

pub(super) const CORES: Scenario = Scenario {
    name: "cores",
    about: "many connections on 1 and 2 cores of the server: requests per second",
    rounds: 5,
    seconds: 1.0,
    points,
    kind: Kind::Cores,
    compares_two: false,
};

/// As many as the paper has.
const CONNECTIONS: u32 = 4800;
/// Cores of the server, where nothing is said.
const WORKERS: [u8; 2] = [1, 2];

/// The points of `options.workers` cores.
fn points(options: &Options) -> Vec<Point> {
    let cores = options.workers();
    let point = |connections: u32| {
        let label = format!("{cores} {}, {connections} connections", if cores == 1 { "core" } else { "cores" });
        let numbers = [("cores", cores as f64), ("connections", f64::from(connections))];
        Point::new(label, &numbers, closed(connections, MESSAGE, MESSAGE, 1), Figure::Requests)
    };
    or(&options.connections, &[CONNECTIONS]).into_iter().map(point).collect()
}

/// The options of each run: servers are started anew for each number of cores.
pub(crate) fn runs(options: &Options) -> Vec<Options> {
    let workers = options.workers.map_or(WORKERS.to_vec(), |workers| vec![workers]);
    workers.into_iter().map(|workers| Options { workers: Some(workers), ..options.clone() }).collect()
}
