//! Converts rows to a figure's data: categories along the axis, and a value of each series at each.
//!
//! Promises: rows of different wires are in plots of their own; rows that are missing, noisy or in another unit are listed, not silently
//! dropped. Does not do: drawing.

use std::collections::BTreeSet;

use super::number;
use super::papers::{Figure, Metric, Shape};
use crate::row::{Parameter, Row};

/// Data of a figure over one wire.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plot {
    /// The wire of all its rows.
    pub(super) wire: String,
    /// What its series have in common, where others have plots of their own.
    pub(super) part: String,
    /// It stands for the rows of all parts.
    pub(super) has_rows: bool,
    /// Labels along the horizontal axis.
    pub(super) categories: Vec<String>,
    pub(super) series: Vec<Series>,
    /// Unit of the vertical axis.
    pub(super) unit: String,
    /// Remarks for the reader: missing and noisy points, other units.
    pub(super) remarks: Vec<String>,
    /// Values of the paper: category and value.
    pub(super) paper: Vec<(usize, f64)>,
}

/// One line, or one color of bars.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) target: String,
    /// The name without the target: what tells series of one target apart.
    pub(super) variant: String,
    /// One per category; `None`: not measured.
    pub(super) marks: Vec<Option<Mark>>,
}

/// One measured value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mark {
    pub(super) value: f64,
    /// The least and the greatest value of all rounds, where they are known.
    pub(super) range: Option<(f64, f64)>,
    /// Number printed above a bar.
    pub(super) above: Option<f64>,
    /// The ratio to the kernel in the same rounds.
    pub(super) ratio: Option<f64>,
    pub(super) is_quiet: bool,
}

/// Builds the plots of a figure from the rows of its scenario, one for each wire, and for each variant where one would be crowded.
pub(super) fn plots(figure: &Figure, rows: &[Row]) -> Vec<Plot> {
    let mine: Vec<&Row> = rows.iter().filter(|row| is_of(figure, row)).collect();
    let mut wires: Vec<&str> = Vec::new();
    for row in &mine {
        if !wires.contains(&row.wire.as_str()) {
            wires.push(&row.wire);
        }
    }
    let of = |wire: &str| mine.iter().filter(|row| row.wire == wire).copied().collect::<Vec<_>>();
    wires.into_iter().filter_map(|wire| plot(figure, wire, &of(wire))).flat_map(apart).collect()
}

/// The plot, or one for each of its variants.
fn apart(plot: Plot) -> Vec<Plot> {
    let variants: BTreeSet<String> = plot.series.iter().map(|series| series.variant.clone()).collect();
    if plot.series.len() <= SERIES_MAX || variants.len() < 2 {
        return vec![plot];
    }
    let part = |variant: String| {
        let mine = plot.series.iter().filter(|series| series.variant == variant);
        let series = mine.map(|series| Series { name: series.target.clone(), ..series.clone() }).collect();
        let has_rows = plot.series.first().is_some_and(|first| first.variant == variant);
        Plot { part: variant.trim_start_matches(", ").to_string(), has_rows, series, ..plot.clone() }
    };
    let mut parts: Vec<Plot> = variants.into_iter().map(part).collect();
    parts.sort_by_key(|part| plot.series.iter().position(|series| series.variant.ends_with(&part.part)));
    parts
}

/// Series that one plot has at most, where it can be taken apart.
const SERIES_MAX: usize = 8;

/// `None` when no row has a value.
fn plot(figure: &Figure, wire: &str, mine: &[&Row]) -> Option<Plot> {
    let mut remarks = Vec::new();
    let unit = unit_of(figure, mine.iter().find(|row| value_of(row, figure.metric).is_some())?);
    let mut usable = Vec::new();
    for &row in mine {
        let place = format!("{} on {}", row.point, row.target);
        match value_of(row, figure.metric) {
            None if row.note.is_empty() => remarks.push(format!("{place}: not measured.")),
            None => remarks.push(format!("{place}: {}.", row.note)),
            Some(_) if unit_of(figure, row) != unit => remarks.push(format!("{place}: in {}, not drawn.", row.unit)),
            Some(value) => usable.push((row, value)),
        }
        if !row.is_quiet() {
            remarks.push(format!("{place}: {}.", row.noise));
        }
    }
    let naming = Naming::of(figure, &usable.iter().map(|(row, _)| *row).collect::<Vec<_>>());
    let categories = naming.categories(usable.iter().map(|(row, _)| *row));
    let mut series: Vec<Series> = Vec::new();
    for (row, value) in &usable {
        let name = naming.series(row);
        let at = categories.iter().position(|category| *category == naming.category(row)).expect("made from the same rows");
        let place = series.iter().position(|series| series.name == name).unwrap_or_else(|| {
            let variant = name.strip_prefix(row.target.as_str()).unwrap_or_default().to_string();
            series.push(Series { name, target: row.target.clone(), variant, marks: vec![None; categories.len()] });
            series.len() - 1
        });
        let above = figure.above.and_then(|metric| value_of(row, metric));
        let ratio = row.ratio.filter(|_| figure.metric == Metric::Value);
        let mark = Mark { value: *value, range: range_of(row, figure.metric), above, ratio, is_quiet: row.is_quiet() };
        if series[place].marks[at].replace(mark).is_some() {
            remarks.push(format!("{} at {} has several values; the last one is drawn.", series[place].name, categories[at]));
        }
    }
    if figure.shape != Shape::Stacked {
        remarks.extend(holes(&categories, &series));
    }
    let paper = figure.numbers.iter().filter_map(|number| Some((number, naming.place(number.at?, &categories)?)));
    // Shared memory is no network.
    let paper = paper
        .filter(|(number, _)| number.unit == unit && wire != "memory")
        .filter_map(|(number, at)| Some((at, number.value.parse().ok()?)));
    let paper = paper.collect();
    Some(Plot { wire: wire.to_string(), part: String::new(), has_rows: true, categories, series, unit, remarks, paper })
}

/// The least and the greatest value of the rounds, where the figure draws the rows' values.
fn range_of(row: &Row, metric: Metric) -> Option<(f64, f64)> {
    let is_value = metric == Metric::Value || metric == Metric::P50Us && row.unit == "us";
    let values = row.values.iter().copied().filter(|value| value.is_finite());
    let range = values.fold(None, |range: Option<(f64, f64)>, value| {
        let (least, most) = range.unwrap_or((value, value));
        Some((least.min(value), most.max(value)))
    });
    range.filter(|_| is_value && row.values.len() > 1)
}

/// Returns true when a row belongs to a figure.
pub(super) fn is_of(figure: &Figure, row: &Row) -> bool {
    row.scenario == figure.scenario && (!row.is_measured() || figure.unit.as_ref().is_none_or(|unit| *unit == row.unit))
}

/// Describes the points that a series lacks and another has.
fn holes(categories: &[String], series: &[Series]) -> Vec<String> {
    let of = |series: &Series| {
        let missing =
            categories.iter().zip(&series.marks).filter(|(_, mark)| mark.is_none()).map(|(category, _)| category.as_str());
        let missing: Vec<&str> = missing.collect();
        (!missing.is_empty()).then(|| format!("{}: no value at {}.", series.name, missing.join(", ")))
    };
    series.iter().filter_map(of).collect()
}

/// The field of a row that a figure draws; `None` for a row that was not measured.
pub(super) fn value_of(row: &Row, metric: Metric) -> Option<f64> {
    if !row.is_measured() {
        return None;
    }
    match metric {
        Metric::Value => Some(row.value),
        Metric::P50Us => row.p50_us,
        Metric::P99Us => row.p99_us,
        Metric::ServerCpuUsPerRequest => row.server_cpu_us_per_request,
        Metric::ThroughputPerCore => row.throughput_per_core,
        Metric::ServerCpuPercent => row.server_cpu_us_per_request.map(|us| us * row.value / 1e4),
    }
    .filter(|value| value.is_finite())
}

fn unit_of(figure: &Figure, row: &Row) -> String {
    match figure.metric {
        Metric::Value => number::unit(&row.unit),
        Metric::P50Us | Metric::P99Us => "µs".to_string(),
        Metric::ServerCpuUsPerRequest => "µs of CPU per request".to_string(),
        Metric::ThroughputPerCore => format!("{} per core", number::unit(&row.unit)),
        Metric::ServerCpuPercent => "% of a core".to_string(),
    }
}

/// Names of the rows of a figure, from the axis and from all other parameters that differ.
struct Naming<'a> {
    /// Parameter of the axis, when every row has it.
    axis: Option<&'a str>,
    /// Parameters that differ, except the axis.
    varying: Vec<String>,
    clients: bool,
    figure: &'a Figure,
}

impl<'a> Naming<'a> {
    fn of(figure: &'a Figure, rows: &[&Row]) -> Naming<'a> {
        let axis = Some(figure.axis.as_str()).filter(|axis| rows.iter().all(|row| row.number(axis).is_some()));
        let names: BTreeSet<&String> = rows.iter().flat_map(|row| row.parameters.keys()).collect();
        let differs = |name: &str| distinct(rows.iter().map(|row| row.parameters.get(name).map(word))) > 1;
        let varying = names.into_iter().filter(|name| Some(name.as_str()) != axis && differs(name)).cloned().collect();
        let clients = distinct(rows.iter().map(|row| &row.client)) > 1;
        Naming { axis, varying, clients, figure }
    }

    fn category(&self, row: &Row) -> String {
        if self.figure.shape == Shape::Stacked {
            let group = row.text("group").unwrap_or(&row.point);
            return format!("{} {group}", row.target);
        }
        match self.axis.and_then(|axis| row.number(axis)) {
            Some(amount) => self.position(amount),
            None => row.point.clone(),
        }
    }

    /// The label of a position on the axis.
    fn position(&self, amount: f64) -> String {
        match self.figure.bytes {
            // Streams have no size.
            true if amount == 0.0 => "no end".to_string(),
            true => number::bytes(amount),
            false => number::amount(amount),
        }
    }

    /// The category of a position on the axis, if it is drawn.
    fn place(&self, amount: f64, categories: &[String]) -> Option<usize> {
        self.axis?;
        categories.iter().position(|category| *category == self.position(amount))
    }

    /// Categories sorted by the axis's number; points' names in the order of the rows.
    fn categories<'r>(&self, rows: impl Iterator<Item = &'r Row>) -> Vec<String> {
        let mut found: Vec<(f64, String)> = Vec::new();
        for row in rows {
            let amount = self.axis.and_then(|axis| row.number(axis)).unwrap_or(0.0);
            let key = if self.figure.bytes && amount == 0.0 { f64::INFINITY } else { amount };
            let category = self.category(row);
            if !found.iter().any(|(_, other)| *other == category) {
                found.push((key, category));
            }
        }
        found.sort_by(|one, other| one.0.total_cmp(&other.0));
        found.into_iter().map(|(_, category)| category).collect()
    }

    fn series(&self, row: &Row) -> String {
        if self.figure.shape == Shape::Stacked {
            return row.text("class").unwrap_or(&row.point).to_string();
        }
        let mut name = row.target.clone();
        if self.clients {
            name.push_str(&format!(", client {}", row.client));
        }
        // When the axis shows the points' names, these contain the other parameters.
        let told = if self.axis.is_some() { &self.varying[..] } else { &[] };
        for parameter in told {
            match row.parameters.get(parameter) {
                Some(Parameter::Number(amount)) => name.push_str(&format!(", {parameter} {}", number::amount(*amount))),
                Some(Parameter::Text(text)) => name.push_str(&format!(", {text}")),
                None => {}
            }
        }
        name
    }
}

fn word(parameter: &Parameter) -> String {
    match parameter {
        Parameter::Number(amount) => amount.to_string(),
        Parameter::Text(text) => text.clone(),
    }
}

fn distinct<T: Ord>(items: impl Iterator<Item = T>) -> usize {
    items.collect::<BTreeSet<T>>().len()
}

#[cfg(test)]
mod tests;
