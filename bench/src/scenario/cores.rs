//! `cores`: small requests on many connections, by server cores (Opening Up Kernel-Bypass TCP Stacks: figures 7 and 8).
//!
//! On the kernel each core has a process with its own listener (SO_REUSEPORT); embedded, each core has a worker on the same
//! interface. When the machine has no more cores, the last worker shares one with the client, and its row says so.

use super::{Kind, MESSAGE, Scenario, closed, or};
use crate::options::Options;
use crate::point::{Figure, Point};

pub(super) const CORES: Scenario = Scenario {
    name: "cores",
    about: "many connections, server on 1 and 2 cores: requests per second",
    rounds: 5,
    seconds: 1.0,
    points,
    kind: Kind::Cores,
    compares_two: false,
};

/// The paper's number of connections.
const CONNECTIONS: u32 = 4800;
/// Default numbers of server cores.
const WORKERS: [u8; 2] = [1, 2];

/// The points for `options.workers` cores.
fn points(options: &Options) -> Vec<Point> {
    let cores = options.workers();
    let point = |connections: u32| {
        let label = format!("{cores} {}, {connections} connections", if cores == 1 { "core" } else { "cores" });
        let numbers = [("cores", cores as f64), ("connections", f64::from(connections))];
        Point::new(label, &numbers, closed(connections, MESSAGE, MESSAGE, 1), Figure::Requests)
    };
    or(&options.connections, &[CONNECTIONS]).into_iter().map(point).collect()
}

/// The options of each run: servers restart for each number of cores.
pub(crate) fn runs(options: &Options) -> Vec<Options> {
    let workers = options.workers.map_or(WORKERS.to_vec(), |workers| vec![workers]);
    workers.into_iter().map(|workers| Options { workers: Some(workers), ..options.clone() }).collect()
}
