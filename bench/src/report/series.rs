//! Converts rows to a figure's data: categories along the axis, and a value of each series at each.
//!
//! Promises: rows that are missing, noisy or in another unit are listed, not silently dropped. Does not do: drawing.

use std::collections::BTreeSet;

use super::number;
use super::papers::{Figure, Metric, Shape};
use crate::row::{Parameter, Row};

/// Data of a figure.
#[derive(Debug, PartialEq)]
pub(super) struct Plot {
    /// Labels along the horizontal axis.
    pub(super) categories: Vec<String>,
    pub(super) series: Vec<Series>,
    /// Unit of the vertical axis.
    pub(super) unit: String,
    /// Remarks for the reader: missing and noisy points, other units.
    pub(super) remarks: Vec<String>,
}

/// One line, or one color of bars.
#[derive(Debug, PartialEq)]
pub(super) struct Series {
    pub(super) name: String,
    /// One per category; `None`: not measured.
    pub(super) marks: Vec<Option<Mark>>,
}

/// One measured value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mark {
    pub(super) value: f64,
    /// Number printed above a bar.
    pub(super) above: Option<f64>,
    pub(super) is_quiet: bool,
}

/// Builds the plot of a figure from the rows of its scenario; `None` when there are no rows.
pub(super) fn plot(figure: &Figure, rows: &[Row]) -> Option<Plot> {
    let mine: Vec<&Row> = rows.iter().filter(|row| is_of(figure, row)).collect();
    let mut remarks = Vec::new();
    let unit = unit_of(figure, mine.iter().find(|row| value_of(row, figure.metric).is_some())?);
    let mut usable = Vec::new();
    for row in &mine {
        let place = format!("{} on {} over {}", row.point, row.target, row.wire);
        match value_of(row, figure.metric) {
            None if row.note.is_empty() => remarks.push(format!("{place}: not measured.")),
            None => remarks.push(format!("{place}: {}.", row.note)),
            Some(_) if unit_of(figure, row) != unit => remarks.push(format!("{place}: in {}, not drawn.", row.unit)),
            Some(value) => usable.push((*row, value)),
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
            series.push(Series { name, marks: vec![None; categories.len()] });
            series.len() - 1
        });
        let above = figure.above.and_then(|metric| value_of(row, metric));
        if series[place].marks[at].replace(Mark { value: *value, above, is_quiet: row.is_quiet() }).is_some() {
            remarks.push(format!("{} at {} has several values; the last one is drawn.", series[place].name, categories[at]));
        }
    }
    if figure.shape != Shape::Stacked {
        remarks.extend(holes(&categories, &series));
    }
    Some(Plot { categories, series, unit, remarks })
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
        Metric::Value => row.unit.clone(),
        Metric::P50Us | Metric::P99Us => "µs".to_string(),
        Metric::ServerCpuUsPerRequest => "µs of CPU per request".to_string(),
        Metric::ThroughputPerCore => format!("{} per core", row.unit),
        Metric::ServerCpuPercent => "% of a core".to_string(),
    }
}

/// Names of the rows of a figure, from the axis and from all other parameters that differ.
struct Naming<'a> {
    /// Parameter of the axis, when every row has it.
    axis: Option<&'a str>,
    /// Parameters that differ, except the axis.
    varying: Vec<String>,
    wires: bool,
    clients: bool,
    shape: Shape,
}

impl<'a> Naming<'a> {
    fn of(figure: &'a Figure, rows: &[&Row]) -> Naming<'a> {
        let axis = Some(figure.axis.as_str()).filter(|axis| rows.iter().all(|row| row.number(axis).is_some()));
        let names: BTreeSet<&String> = rows.iter().flat_map(|row| row.parameters.keys()).collect();
        let differs = |name: &str| distinct(rows.iter().map(|row| row.parameters.get(name).map(word))) > 1;
        let varying = names.into_iter().filter(|name| Some(name.as_str()) != axis && differs(name)).cloned().collect();
        let wires = distinct(rows.iter().map(|row| &row.wire)) > 1;
        let clients = distinct(rows.iter().map(|row| &row.client)) > 1;
        Naming { axis, varying, wires, clients, shape: figure.shape }
    }

    fn category(&self, row: &Row) -> String {
        if self.shape == Shape::Stacked {
            let group = row.text("group").unwrap_or(&row.point);
            return format!("{} {group}", row.target);
        }
        match self.axis.and_then(|axis| row.number(axis)) {
            // Streams have no size.
            Some(0.0) if self.axis == Some("size") => "no end".to_string(),
            Some(amount) => number::amount(amount),
            None => row.point.clone(),
        }
    }

    /// Categories sorted by the axis's number; points' names in the order of the rows.
    fn categories<'r>(&self, rows: impl Iterator<Item = &'r Row>) -> Vec<String> {
        let mut found: Vec<(f64, String)> = Vec::new();
        for row in rows {
            let amount = self.axis.and_then(|axis| row.number(axis)).unwrap_or(0.0);
            let key = if self.axis == Some("size") && amount == 0.0 { f64::INFINITY } else { amount };
            let category = self.category(row);
            if !found.iter().any(|(_, other)| *other == category) {
                found.push((key, category));
            }
        }
        found.sort_by(|one, other| one.0.total_cmp(&other.0));
        found.into_iter().map(|(_, category)| category).collect()
    }

    fn series(&self, row: &Row) -> String {
        if self.shape == Shape::Stacked {
            return row.text("class").unwrap_or(&row.point).to_string();
        }
        let mut name = row.target.clone();
        if self.wires {
            name.push_str(&format!(", {}", row.wire));
        }
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
