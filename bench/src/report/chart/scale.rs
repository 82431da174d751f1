//! The vertical axis: linear from zero, or logarithmic when the values of lines are far apart. Lengths of bars are compared, so that theirs
//! is linear.

use std::ops::Range;

use super::super::number;
use super::super::papers::Shape;
use super::super::series::Plot;

/// Maps values to positions.
pub(super) enum Scale {
    Linear {
        top: f64,
    },
    /// Positions are decimal logarithms.
    Logarithmic {
        bottom: f64,
        top: f64,
    },
}

/// Ratio of the largest to the smallest value above which the axis is logarithmic.
const FAR_APART: f64 = 60.0;

impl Scale {
    /// Chooses the scale for the values.
    pub(super) fn of(plot: &Plot, shape: Shape) -> Scale {
        let marks = plot.series.iter().flat_map(|series| series.marks.iter().flatten());
        let values = marks.flat_map(|mark| [mark.value, mark.range.map_or(mark.value, |(_, most)| most)]);
        let values: Vec<f64> = values.chain(plot.paper.iter().map(|(_, value)| *value)).collect();
        let (least, most) = values.iter().fold((f64::MAX, 0.0_f64), |(least, most), value| (least.min(*value), most.max(*value)));
        if shape == Shape::Stacked {
            let column =
                |at: usize| plot.series.iter().filter_map(|series| series.marks[at].as_ref()).map(|mark| mark.value).sum();
            return Scale::Linear { top: (0..plot.categories.len()).map(column).fold(0.0, f64::max).max(1.0) };
        }
        if shape == Shape::Lines && least > 0.0 && most / least > FAR_APART {
            return Scale::Logarithmic { bottom: least.log10().floor(), top: most.log10() + 0.6 };
        }
        Scale::Linear { top: if most > 0.0 { most * 1.18 } else { 1.0 } }
    }

    pub(super) fn is_logarithmic(&self) -> bool {
        matches!(self, Scale::Logarithmic { .. })
    }

    pub(super) fn range(&self) -> Range<f64> {
        match self {
            Scale::Linear { top } => 0.0..*top,
            Scale::Logarithmic { bottom, top } => *bottom..*top,
        }
    }

    /// Position of a value; negative values are on the axis.
    pub(super) fn position(&self, value: f64) -> f64 {
        match self {
            Scale::Linear { .. } => value.max(0.0),
            Scale::Logarithmic { .. } => value.log10(),
        }
    }

    /// Largest number of labels on the axis.
    pub(super) fn labels(&self) -> usize {
        match self {
            Scale::Linear { .. } => 7,
            Scale::Logarithmic { bottom, top } => (top.floor() - bottom) as usize + 1,
        }
    }

    /// The label at a position; between decades there is none.
    pub(super) fn label(&self, position: f64) -> String {
        match self {
            Scale::Linear { .. } => number::tick(position),
            Scale::Logarithmic { .. } if (position - position.round()).abs() > 0.01 => String::new(),
            Scale::Logarithmic { .. } => number::tick(10_f64.powf(position.round())),
        }
    }
}
