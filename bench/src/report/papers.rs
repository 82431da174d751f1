//! The figures of the report and the papers' own numbers, from `papers.toml`.
//!
//! Promises: what is compiled in has been read by a test, so that loading cannot fail. Does not do:
//! numbers that a paper has in a drawing alone.

use serde::Deserialize;

/// The whole of `papers.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Papers {
    paper: Vec<Paper>,
    /// The figures, in the order of the report.
    #[serde(rename = "figure")]
    pub(super) figures: Vec<Figure>,
}

/// Where numbers come from.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Paper {
    key: String,
    pub(super) title: String,
    /// What it was measured on.
    pub(super) machine: String,
}

/// One figure of the report.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Figure {
    /// Name of the file and of the anchor.
    pub(super) id: String,
    pub(super) title: String,
    paper: String,
    /// Which figure of the paper it reproduces; `own`: none.
    pub(super) figure: String,
    pub(super) scenario: String,
    pub(super) metric: Metric,
    /// Rows in other units belong to another figure; without it all rows are of this one.
    pub(super) unit: Option<String>,
    /// What is printed above each bar.
    pub(super) above: Option<Metric>,
    pub(super) shape: Shape,
    /// The parameter along the horizontal axis; `none`: the point's own words.
    pub(super) axis: String,
    /// The horizontal axis's label.
    pub(super) x: String,
    /// What the paper's text says.
    pub(super) numbers: Vec<Number>,
}

/// Which field of a row is drawn.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Metric {
    Value,
    P50Us,
    P99Us,
    ServerCpuUsPerRequest,
    ThroughputPerCore,
    /// CPU of the server's side, percent of a core: that per request, times the requests.
    ServerCpuPercent,
}

/// How it is drawn.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Shape {
    Lines,
    Bars,
    /// Bars of shares: one bar for each point, one piece for each class.
    Stacked,
}

/// One number of a paper.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Number {
    pub(super) what: String,
    /// As the paper prints it, perhaps a range.
    pub(super) value: String,
    pub(super) unit: String,
    /// Section, figure or table whose words say it.
    pub(super) section: String,
}

impl Figure {
    /// Whether it reproduces a paper's figure.
    pub(super) fn is_of_a_paper(&self) -> bool {
        self.paper != "none"
    }
}

const TEXT: &str = include_str!("papers.toml");

impl Papers {
    /// What was compiled in.
    pub(super) fn load() -> Papers {
        toml::from_str(TEXT).expect("a test reads the same text")
    }

    /// The paper of a figure.
    pub(super) fn of(&self, figure: &Figure) -> &Paper {
        self.paper.iter().find(|paper| paper.key == figure.paper).expect("a test looks up every figure's paper")
    }
}

#[cfg(test)]
mod tests;
