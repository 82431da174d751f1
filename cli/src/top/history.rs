//! What connections did in the latest intervals.

use std::collections::{HashMap, VecDeque};

/// Intervals that are kept.
const LENGTH: usize = 120;
/// Connections that are kept at most: a busy machine has more than a screen shows.
const CONNECTIONS: usize = 4_096;

/// One interval of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Point {
    /// Bits per second received.
    pub(super) received: f64,
    /// Bits per second sent.
    pub(super) sent: f64,
    pub(super) rtt_us: u64,
    pub(super) cwnd_segments: u64,
    /// Segments sent again in the interval.
    pub(super) retransmitted: u64,
}

/// Points of connections by their names, the oldest first.
#[derive(Debug, Default)]
pub(super) struct History(HashMap<String, VecDeque<Point>>);

impl History {
    /// Adds an interval; connections without a point in it have ended.
    pub(super) fn add(&mut self, points: HashMap<&str, Point>) {
        self.0.retain(|name, _| points.contains_key(name.as_str()));
        for (name, point) in points {
            if !self.0.contains_key(name) {
                if self.0.len() >= CONNECTIONS {
                    continue;
                }
                self.0.insert(name.to_owned(), VecDeque::with_capacity(LENGTH));
            }
            let kept = self.0.get_mut(name).expect("it was just put in");
            if kept.len() == LENGTH {
                kept.pop_front();
            }
            kept.push_back(point);
        }
    }

    /// The points of a connection.
    pub(super) fn of(&self, name: &str) -> impl DoubleEndedIterator<Item = &Point> {
        self.0.get(name).into_iter().flatten()
    }
}
