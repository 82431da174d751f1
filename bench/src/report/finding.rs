//! What a figure shows, in a sentence: its heading, and a card of the first screen.
//!
//! Promises: the sentence has the range of all points that were measured on the kernel, too. Does not do: choosing points.

use super::number;
use super::papers::{Figure, Headline, Metric};
use super::series::{Plot, Series};
use crate::measure::statistics::median;
use crate::row::less_is_better;

/// Targets that a finding is about, the first that was measured, and their names in a sentence.
const SUBJECTS: [(&str, &str); 4] = [
    ("preload", "Unmodified programs"),
    ("service", "Programs of the native API"),
    ("embedded", "The embedded stack"),
    ("preload-bulk", "Unmodified programs, bulk on the kernel"),
];
const KERNEL: &str = "linux";

/// A target beside the kernel.
#[derive(Debug, PartialEq)]
pub(super) struct Comparison {
    subject: &'static str,
    /// Quotients of the target's values and the kernel's: least, median, greatest.
    least: f64,
    middle: f64,
    most: f64,
    /// The quantity, as the kernel's.
    quantity: String,
    less_is_better: bool,
}

/// A card of the first screen.
#[derive(Debug, PartialEq)]
pub(super) struct Card {
    pub(super) title: String,
    /// The figure's anchor.
    pub(super) anchor: String,
    pub(super) value: String,
    pub(super) range: String,
    pub(super) sentence: String,
}

impl Comparison {
    /// `None`: the kernel and a target were not measured at the same point, or the kernel's values are zero.
    pub(super) fn of(figure: &Figure, plot: &Plot) -> Option<Comparison> {
        let is_measured = |(target, _): &&(&str, _)| plot.series.iter().any(|series| series.target == *target);
        Comparison::about(SUBJECTS.iter().find(is_measured)?, figure, plot)
    }

    fn about(subject: &(&'static str, &'static str), figure: &Figure, plot: &Plot) -> Option<Comparison> {
        let mut quotients = Vec::new();
        for theirs in plot.series.iter().filter(|series| series.target == KERNEL) {
            let ours = plot.series.iter().find(|series| series.target == subject.0 && series.variant == theirs.variant);
            quotients.extend(ours.into_iter().flat_map(|ours| quotients_of(ours, theirs)));
        }
        let middle = median(quotients.iter().copied())?;
        let (least, most) = quotients.iter().fold((middle, middle), |(least, most), ratio| (least.min(*ratio), most.max(*ratio)));
        let (quantity, less_is_better) = quantity(figure.metric, &plot.unit);
        Some(Comparison { subject: subject.1, least, middle, most, quantity, less_is_better })
    }

    /// The heading of the figure.
    pub(super) fn title(&self) -> String {
        let times = if self.less_is_better { "of" } else { "times" };
        format!("{}: {} {times} the kernel's {}", self.subject, self.range(), self.quantity)
    }

    fn range(&self) -> String {
        let (least, most) = (number::ratio(self.least), number::ratio(self.most));
        if least == most { least } else { format!("{least} to {most}") }
    }
}

fn quotients_of(ours: &Series, theirs: &Series) -> Vec<f64> {
    let both = ours.marks.iter().zip(&theirs.marks).filter_map(|(ours, theirs)| ours.as_ref().zip(theirs.as_ref()));
    both.filter_map(|(ours, theirs)| ours.ratio.or_else(|| (theirs.value > 0.0).then(|| ours.value / theirs.value))).collect()
}

/// The quantity that a figure draws, and whether less of it is better.
fn quantity(metric: Metric, unit: &str) -> (String, bool) {
    let words = match (metric, unit) {
        (Metric::P50Us, _) => "median latency",
        (Metric::P99Us, _) => "latency of the slowest percent",
        (Metric::ServerCpuUsPerRequest, _) => "CPU time per request",
        (Metric::ServerCpuPercent, _) => "CPU time",
        (Metric::ThroughputPerCore, _) => "throughput per core",
        (Metric::Value, "requests/s") => "requests per second",
        (Metric::Value, "connections/s") => "connections per second",
        (Metric::Value, "Gbit/s") => "throughput",
        (Metric::Value, "µs" | "ms") => "time",
        (Metric::Value, "bytes/connection") => "memory",
        (Metric::Value, "wakeups/s") => "wakeups",
        (Metric::Value, other) => other,
    };
    let is_time = !matches!(metric, Metric::Value | Metric::ThroughputPerCore);
    (words.to_string(), is_time || metric == Metric::Value && less_is_better(unit))
}

/// The card of a headline; without rows it says how to measure them.
pub(super) fn card(headline: &Headline, figure: &Figure, plots: &[Plot]) -> Card {
    let blank = |value: String, range: String| Card {
        title: headline.title.clone(),
        anchor: figure.id.clone(),
        value,
        range,
        sentence: headline.sentence.clone(),
    };
    let Some(plot) = plots.first() else {
        return blank("–".to_string(), format!("not measured: ringway bench {}", figure.scenario));
    };
    let named = headline.target.as_deref().and_then(|named| SUBJECTS.iter().find(|(target, _)| *target == named));
    let found = named.and_then(|subject| Comparison::about(subject, figure, plot));
    let Some(found) = found.or_else(|| Comparison::of(figure, plot)) else {
        return absolute(plot)
            .map_or_else(|| blank("–".to_string(), "no kernel beside it".to_string()), |(value, range)| blank(value, range));
    };
    blank(format!("{} ×", number::ratio(found.middle)), format!("{} ({}, by {})", found.range(), plot.wire, figure.x))
}

/// The greatest values of the subject and of the kernel, where no quotient is possible.
fn absolute(plot: &Plot) -> Option<(String, String)> {
    let greatest = |target: &str| {
        let marks = plot.series.iter().filter(|series| series.target == target).flat_map(|series| series.marks.iter().flatten());
        marks.map(|mark| mark.value).max_by(f64::total_cmp)
    };
    let ours = SUBJECTS.iter().find_map(|(target, _)| greatest(target))?;
    Some((number::value(ours), format!("{}; the kernel: {}", plot.unit, number::value(greatest(KERNEL)?))))
}

#[cfg(test)]
mod tests;
