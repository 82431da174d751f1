//! The figures of the report and the papers' own numbers, from `papers.toml`.
//!
//! Promises: a test parses the compiled-in file, so that loading cannot fail. Does not do: numbers that
//! a paper shows only in a drawing.

use serde::Deserialize;

/// Content of `papers.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Papers {
    paper: Vec<Paper>,
    /// The figures of the first screen.
    #[serde(rename = "headline")]
    pub(super) headlines: Vec<Headline>,
    /// The figures, in the order of the report.
    #[serde(rename = "figure")]
    pub(super) figures: Vec<Figure>,
}

/// Source of numbers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Paper {
    key: String,
    pub(super) title: String,
    /// The machine of its measurements.
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
    /// The figure of the paper that it reproduces; `own`: none.
    pub(super) figure: String,
    pub(super) scenario: String,
    pub(super) metric: Metric,
    /// Unit of the figure's rows; `None`: rows of all units.
    pub(super) unit: Option<String>,
    /// Field printed above each bar.
    pub(super) above: Option<Metric>,
    pub(super) shape: Shape,
    /// Parameter along the horizontal axis; `none`: the points' names.
    pub(super) axis: String,
    /// The horizontal axis's label.
    pub(super) x: String,
    /// The axis counts bytes.
    #[serde(default)]
    pub(super) bytes: bool,
    /// Numbers in the paper's text.
    pub(super) numbers: Vec<Number>,
}

/// A figure of the first screen.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Headline {
    /// The figure that has it.
    pub(super) figure: String,
    pub(super) title: String,
    pub(super) sentence: String,
    /// The target that it is about; none: the first of those that a finding is about.
    pub(super) target: Option<String>,
}

/// Field of a row to draw.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Metric {
    Value,
    P50Us,
    P99Us,
    ServerCpuUsPerRequest,
    ThroughputPerCore,
    /// CPU time of the server's side in percent of a core: the time per request times the rate.
    ServerCpuPercent,
}

/// Shape of a figure.
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
    /// The value as printed in the paper, perhaps a range.
    pub(super) value: String,
    pub(super) unit: String,
    /// The position on the axis where the figure marks the value.
    pub(super) at: Option<f64>,
    /// Section, figure or table that contains it.
    pub(super) section: String,
}

impl Figure {
    /// Returns true when it reproduces a paper's figure.
    pub(super) fn is_of_a_paper(&self) -> bool {
        self.paper != "none"
    }
}

const TEXT: &str = include_str!("papers.toml");

impl Papers {
    /// Loads the compiled-in file.
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
