//! The histograms of a worker's statistics file: each class is a value with a name of its own, the sum is the last.
//!
//! `ringway nstat` prints the classes, `ringway metrics` makes histograms of them.

use ringway_shm::Histogram;
use ringway_stack::stats::RoundTrips;

/// Packets that an iteration has received: 1, 2, up to 4 and so on to 64, and more.
pub(super) type Batches = Histogram<0, 9>;
/// Time of an iteration that did something, nanoseconds: up to 1 us, 2 us and so on to 17 ms, and more.
pub(super) type TurnTimes = Histogram<10, 17>;

/// What a histogram is, for tools.
#[derive(Debug, PartialEq)]
pub struct HistogramInfo {
    /// Its name, with the unit.
    pub name: &'static str,
    /// A sentence.
    pub about: &'static str,
    /// What its values are multiplied by to have that unit.
    pub scale: f64,
    /// The beginning of its values' names in the file, and the unit there.
    prefix: &'static str,
    unit: &'static str,
    first: u32,
    classes: usize,
}

/// All, in the file's order.
pub(super) const HISTOGRAMS: [HistogramInfo; 3] = [
    HistogramInfo {
        name: "round_trip_seconds",
        about: "Samples of round-trip times of all connections.",
        scale: 1e-6,
        prefix: "RingwayRtt",
        unit: "us",
        first: 4,
        classes: RoundTrips::CLASSES,
    },
    HistogramInfo {
        name: "turn_seconds",
        about: "Time of the worker's iterations that did something.",
        scale: 1e-9,
        prefix: "RingwayTurnTime",
        unit: "ns",
        first: 10,
        classes: TurnTimes::CLASSES,
    },
    HistogramInfo {
        name: "batch_packets",
        about: "Packets that an iteration has received, if any.",
        scale: 1.0,
        prefix: "RingwayBatch",
        unit: "",
        first: 0,
        classes: Batches::CLASSES,
    },
];

/// A value of the file that is part of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The count of this class.
    Class(usize),
    /// The sum of all values.
    Sum,
}

impl HistogramInfo {
    /// The upper bounds of its classes; the last is infinite.
    pub fn bounds(&self) -> Vec<f64> {
        let bounded = (0..self.classes - 1).map(|class| (1_u64 << (self.first as usize + class)) as f64 * self.scale);
        bounded.chain([f64::INFINITY]).collect()
    }

    /// The names of its values.
    pub(super) fn names(&self) -> Vec<String> {
        let bounded = (0..self.classes - 1).map(|class| 1_u64 << (self.first as usize + class));
        let named = bounded.map(|bound| format!("{}{bound}{}", self.prefix, self.unit));
        named.chain([format!("{}More", self.prefix), format!("{}Sum", self.prefix)]).collect()
    }
}

/// The histogram that the value with this name is part of, if it is of one.
pub fn histogram_of(name: &str) -> Option<(&'static HistogramInfo, Part)> {
    let info = HISTOGRAMS.iter().find(|info| name.starts_with(info.prefix))?;
    let place = info.names().iter().position(|known| known == name)?;
    Some((info, if place == info.classes { Part::Sum } else { Part::Class(place) }))
}
