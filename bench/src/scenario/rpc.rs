//! `zc` and `rpc`: larger requests with replies of the same size (Z-stack: figures 5 to 8; host overheads: figure 10).

use super::{Kind, Scenario, closed, or};
use crate::options::{Options, size_name};
use crate::point::{Figure, Point};

pub(super) const ZC: Scenario = Scenario {
    name: "zc",
    about: "echo of 64 B to 8 KiB over 1 to 200 connections; embedded without copies",
    rounds: 3,
    seconds: 0.5,
    points: zc,
    kind: Kind::Traffic,
    compares_two: false,
};

pub(super) const RPC: Scenario = Scenario {
    name: "rpc",
    about: "16 connections with requests and replies of 4 to 64 KB",
    rounds: 5,
    seconds: 1.0,
    points: rpc,
    kind: Kind::Traffic,
    compares_two: false,
};

fn zc(options: &Options) -> Vec<Point> {
    echoes(&or(&options.connections, &[1, 50, 200]), &or(&options.size, &[64, 1024, 4096, 8192]))
}

fn rpc(options: &Options) -> Vec<Point> {
    echoes(&or(&options.connections, &[16]), &or(&options.size, &[4000, 16_000, 32_000, 64_000]))
}

fn echoes(connections: &[u32], sizes: &[u32]) -> Vec<Point> {
    let mut points = Vec::new();
    for size in sizes {
        for connections in connections {
            let numbers = [("connections", f64::from(*connections)), ("size", f64::from(*size))];
            let label = format!("{}, {connections} connections", size_name(*size));
            points.push(Point::new(label, &numbers, closed(*connections, *size, *size, 1), Figure::Requests));
        }
    }
    points
}
