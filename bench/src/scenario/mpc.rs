//! `crr` and `mpc`: short connections (mTCP: figure 7). Each is opened, carries one or more messages, and is reset.

use super::{Kind, MESSAGE, Scenario, closed, or};
use crate::load::order::{Pace, Plan};
use crate::options::{Options, size_name};
use crate::point::{Figure, Point};

pub(super) const CRR: Scenario = Scenario {
    name: "crr",
    about: "connect, one request and reply, close: connections per second, by connections at a time and size",
    rounds: 5,
    seconds: 1.0,
    points: crr,
    kind: Kind::Traffic,
    compares_two: false,
};

pub(super) const MPC: Scenario = Scenario {
    name: "mpc",
    about: "1 to 128 messages per connection: requests per second",
    rounds: 3,
    seconds: 1.0,
    points: mpc,
    kind: Kind::Traffic,
    compares_two: false,
};

/// Default number of connections at a time.
const CONCURRENT: u32 = 64;

fn crr(options: &Options) -> Vec<Point> {
    let mut points = Vec::new();
    for size in or(&options.size, &[MESSAGE, 8 << 10]) {
        for connections in or(&options.connections, &[CONCURRENT]) {
            let numbers = [("connections", f64::from(connections)), ("size", f64::from(size)), ("messages", 1.0)];
            let label = format!("{connections} at a time, {}", size_name(size));
            points.push(Point::new(label, &numbers, short(connections, size, 1), Figure::Connections));
        }
    }
    points
}

fn mpc(options: &Options) -> Vec<Point> {
    let mut points = Vec::new();
    for connections in or(&options.connections, &[CONCURRENT]) {
        for size in or(&options.size, &[MESSAGE]) {
            for messages in [1, 2, 4, 8, 16, 32, 64, 128] {
                let numbers =
                    [("connections", f64::from(connections)), ("size", f64::from(size)), ("messages", f64::from(messages))];
                let label = format!("{messages} per connection, {}", size_name(size));
                points.push(Point::new(label, &numbers, short(connections, size, messages), Figure::Requests));
            }
        }
    }
    points
}

fn short(connections: u32, size: u32, messages: u32) -> Plan {
    Plan { pace: Pace::Short(messages), ..closed(connections, MESSAGE, size, 1) }
}
