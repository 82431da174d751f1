//! Draws a figure as SVG text, with `plotters`.
//!
//! Promises: labels never overlap: the legend has its own strip, too wide labels are broken or turned; a target has one color in all
//! figures; noisy values are hollow. Does not do: choose what is drawn.

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::number;
use super::papers::Shape;
use super::series::{Mark, Plot, Series};

mod colors;
mod labels;
mod scale;

use colors::{colors, pieces};
use labels::Labels;
use scale::Scale;

type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

const WIDTH: u32 = 780;
const LEGEND_WIDTH: u32 = 190;
const LEGEND_TEXT_WIDTH: f64 = LEGEND_WIDTH as f64 - 30.0;
const PLOT_HEIGHT: u32 = 260;
const Y_LABELS_WIDTH: u32 = 68;
const MARGIN: u32 = 10;
const SMALL: i32 = 11;
const TINY: i32 = 10;
/// Share of a category's width that its bars fill.
const BARS_PART: f64 = 0.76;
const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
/// Corners around the middle, pixels.
const DIAMOND: [(i32, i32); 4] = [(0, -5), (4, 0), (0, 5), (-4, 0)];

/// Draws a plot; `x` is the horizontal axis's label.
///
/// # Errors
/// The library refused a coordinate, which does not happen for finite values.
pub(super) fn draw(plot: &Plot, shape: Shape, x: &str) -> Result<String, Box<dyn std::error::Error>> {
    let scale = Scale::of(plot, shape);
    let room = f64::from(WIDTH - LEGEND_WIDTH - Y_LABELS_WIDTH - 2 * MARGIN) / plot.categories.len() as f64;
    let labels = Labels::fit(&plot.categories, room);
    let height = (PLOT_HEIGHT + labels.height() + 46).max(legend_height(plot));
    let mut svg = String::new();
    {
        let canvas = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        canvas.fill(&WHITE)?;
        let (left, legend) = canvas.split_horizontally(WIDTH - LEGEND_WIDTH);
        let mut chart = ChartBuilder::on(&left)
            .margin(MARGIN)
            .x_label_area_size(labels.height() + 24)
            .y_label_area_size(Y_LABELS_WIDTH)
            .build_cartesian_2d(0.0..plot.categories.len() as f64, scale.range())?;
        axes(&mut chart, plot, &scale)?;
        match shape {
            Shape::Lines => lines(&mut chart, plot, &scale)?,
            Shape::Bars => bars(&mut chart, plot)?,
            Shape::Stacked => stacked(&mut chart, plot)?,
        }
        paper_marks(&mut chart, plot, &scale)?;
        let bottom = scale.range().start;
        category_labels(&left, &chart, &labels, bottom)?;
        let axis = (chart.backend_coord(&(0.0, bottom)), chart.backend_coord(&(plot.categories.len() as f64, bottom)));
        let middle = ((axis.0.0 + axis.1.0) / 2, axis.0.1 + 10 + labels.height() as i32);
        axis_label(&left, middle, x)?;
        draw_legend(&legend, plot, shape)?;
        canvas.present()?;
    }
    Ok(svg)
}

fn axes(chart: &mut Chart<'_, '_>, plot: &Plot, scale: &Scale) -> Drawn {
    let unit = if scale.is_logarithmic() { format!("{} (log scale)", plot.unit) } else { plot.unit.clone() };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .y_labels(scale.labels())
        .y_max_light_lines(1)
        .bold_line_style(RGBColor(0xdd, 0xdd, 0xdd))
        .light_line_style(WHITE)
        .y_label_formatter(&|position| scale.label(*position))
        .y_desc(unit)
        .label_style(("sans-serif", SMALL).into_font().color(&INK))
        .axis_desc_style(("sans-serif", SMALL + 1).into_font().color(&INK))
        .draw()?;
    Ok(())
}

fn lines(chart: &mut Chart<'_, '_>, plot: &Plot, scale: &Scale) -> Drawn {
    for (index, color) in colors(plot).into_iter().enumerate() {
        let marks = plot.series[index].marks.iter().enumerate();
        let points: Vec<((f64, f64), bool)> = marks
            .filter_map(|(at, mark)| mark.as_ref().map(|mark| ((at as f64 + 0.5, scale.position(mark.value)), mark.is_quiet)))
            .collect();
        chart.draw_series(LineSeries::new(points.iter().map(|(point, _)| *point), color.stroke_width(2)))?;
        chart.draw_series(points.iter().map(|(point, _)| Circle::new(*point, 4, color.filled())))?;
        let noisy = points.iter().filter(|(_, is_quiet)| !is_quiet);
        chart.draw_series(noisy.map(|(point, _)| Circle::new(*point, 2, WHITE.filled())))?;
        for (at, mark) in plot.series[index].marks.iter().enumerate() {
            error_bar(chart, at as f64 + 0.5, mark.as_ref(), (scale, color))?;
        }
    }
    Ok(())
}

/// Draws the range of the rounds.
fn error_bar(chart: &mut Chart<'_, '_>, x: f64, mark: Option<&Mark>, (scale, color): (&Scale, RGBColor)) -> Drawn {
    let Some((least, most)) = mark.and_then(|mark| mark.range) else { return Ok(()) };
    let ends = [least, most].map(|value| (x, scale.position(value)));
    chart.draw_series([PathElement::new(ends.to_vec(), color.stroke_width(1))])?;
    let cap = |end| EmptyElement::at(end) + PathElement::new(vec![(-3, 0), (3, 0)], color.stroke_width(1));
    chart.draw_series(ends.map(cap))?;
    Ok(())
}

/// Draws the paper's values as diamonds.
fn paper_marks(chart: &mut Chart<'_, '_>, plot: &Plot, scale: &Scale) -> Drawn {
    let marks = plot.paper.iter().map(|(at, value)| (*at as f64 + 0.5, scale.position(*value)));
    chart.draw_series(marks.map(|place| EmptyElement::at(place) + Polygon::new(DIAMOND, INK.filled())))?;
    Ok(())
}

fn bars(chart: &mut Chart<'_, '_>, plot: &Plot) -> Drawn {
    let width = BARS_PART / plot.series.len() as f64;
    for (index, color) in colors(plot).into_iter().enumerate() {
        for (at, mark) in plot.series[index].marks.iter().enumerate() {
            let Some(mark) = mark else { continue };
            let left = at as f64 + (1.0 - BARS_PART) / 2.0 + width * index as f64;
            let corners = [(left, 0.0), (left + width * 0.94, mark.value.max(0.0))];
            rectangle(chart, corners, color, mark)?;
            error_bar(chart, left + width * 0.47, Some(mark), (&Scale::Linear { top: 0.0 }, INK))?;
            let top = mark.range.map_or(corners[1].1, |(_, most)| corners[1].1.max(most));
            print_above(chart, [corners[0], (corners[1].0, top)], mark.above.unwrap_or(mark.value))?;
        }
    }
    Ok(())
}

fn rectangle(chart: &mut Chart<'_, '_>, corners: [(f64, f64); 2], color: RGBColor, mark: &Mark) -> Drawn {
    let fill = if mark.is_quiet { color } else { WHITE };
    chart.draw_series([Rectangle::new(corners, fill.filled()), Rectangle::new(corners, color.stroke_width(1))])?;
    Ok(())
}

/// Draws the number above a bar, vertically when the bar is narrower than the number.
fn print_above(chart: &mut Chart<'_, '_>, corners: [(f64, f64); 2], above: f64) -> Drawn {
    let (left, right) = (chart.backend_coord(&corners[0]).0, chart.backend_coord(&corners[1]).0);
    // A number needs a line's height even when it is turned.
    if right - left < TINY - 1 {
        return Ok(());
    }
    let text = number::value(above);
    let font = ("sans-serif", TINY).into_font();
    let middle = ((corners[0].0 + corners[1].0) / 2.0, corners[1].1);
    let style = if f64::from(right - left) >= labels::width(&text, TINY) {
        font.color(&INK).pos(Pos::new(HPos::Center, VPos::Bottom))
    } else {
        font.transform(FontTransform::Rotate270).color(&INK).pos(Pos::new(HPos::Left, VPos::Center))
    };
    let element = EmptyElement::at(middle) + Text::new(text, (0, -3), style);
    chart.draw_series([element])?;
    Ok(())
}

/// Draws shares on top of each other, in the order of the series.
fn stacked(chart: &mut Chart<'_, '_>, plot: &Plot) -> Drawn {
    let mut tops = vec![0.0; plot.categories.len()];
    for (series, color) in plot.series.iter().zip(pieces()) {
        for (at, mark) in series.marks.iter().enumerate() {
            let Some(mark) = mark else { continue };
            let corners = [(at as f64 + 0.2, tops[at]), (at as f64 + 0.8, tops[at] + mark.value)];
            tops[at] += mark.value;
            rectangle(chart, corners, color, mark)?;
            let height = (chart.backend_coord(&corners[0]).1 - chart.backend_coord(&corners[1]).1).abs();
            if height > TINY + 3 {
                let style = ("sans-serif", TINY)
                    .into_font()
                    .color(if mark.is_quiet { &WHITE } else { &INK })
                    .pos(Pos::new(HPos::Center, VPos::Center));
                let middle = (at as f64 + 0.5, tops[at] - mark.value / 2.0);
                chart.draw_series([Text::new(number::value(mark.value), middle, style)])?;
            }
        }
    }
    Ok(())
}

/// Draws the labels of the categories under the axis, which is at `bottom`.
fn category_labels(canvas: &Canvas<'_>, chart: &Chart<'_, '_>, labels: &Labels, bottom: f64) -> Drawn {
    for (at, lines) in labels.lines.iter().enumerate() {
        let (middle, bottom) = chart.backend_coord(&(at as f64 + 0.5, bottom));
        let font = ("sans-serif", SMALL).into_font();
        for (row, line) in lines.iter().enumerate() {
            let text = if labels.is_turned {
                let style = font.clone().transform(FontTransform::Rotate270).color(&INK).pos(Pos::new(HPos::Right, VPos::Center));
                Text::new(line.clone(), (middle, bottom + 6), style)
            } else {
                let style = font.clone().color(&INK).pos(Pos::new(HPos::Center, VPos::Top));
                Text::new(line.clone(), (middle, bottom + 6 + row as i32 * labels::LINE_HEIGHT), style)
            };
            canvas.draw(&text)?;
        }
    }
    Ok(())
}

fn axis_label(canvas: &Canvas<'_>, place: (i32, i32), text: &str) -> Drawn {
    let style = ("sans-serif", SMALL + 1).into_font().color(&INK).pos(Pos::new(HPos::Center, VPos::Top));
    canvas.draw(&Text::new(text.to_string(), place, style))?;
    Ok(())
}

/// Height of the legend with its notes.
fn legend_height(plot: &Plot) -> u32 {
    let lines = |series: &Series| labels::broken(&series.name, LEGEND_TEXT_WIDTH, SMALL).len() as i32 * labels::LINE_HEIGHT + 5;
    let all: i32 = plot.series.iter().map(lines).sum();
    (22 + all + 4 * labels::LINE_HEIGHT) as u32
}

fn draw_legend(canvas: &Canvas<'_>, plot: &Plot, shape: Shape) -> Drawn {
    let all = if shape == Shape::Stacked { pieces().take(plot.series.len()).collect() } else { colors(plot) };
    let left = canvas.get_base_pixel();
    let (x, mut y) = (left.0.min(0) + 4, 22);
    for (series, color) in plot.series.iter().zip(all) {
        canvas.draw(&Rectangle::new([(x, y - 5), (x + 12, y + 5)], color.filled()))?;
        for line in labels::broken(&series.name, LEGEND_TEXT_WIDTH, SMALL) {
            let style = ("sans-serif", SMALL).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
            canvas.draw(&Text::new(line, (x + 18, y), style))?;
            y += labels::LINE_HEIGHT;
        }
        y += 5;
    }
    if plot.series.iter().flat_map(|series| &series.marks).flatten().any(|mark| !mark.is_quiet) {
        note(canvas, (x, y + 4), "hollow: noisy")?;
        y += labels::LINE_HEIGHT;
    }
    if plot.series.iter().flat_map(|series| &series.marks).flatten().any(|mark| mark.range.is_some()) {
        note(canvas, (x, y + 4), "thin line: least to greatest round")?;
        y += labels::LINE_HEIGHT;
    }
    if !plot.paper.is_empty() {
        canvas.draw(&(EmptyElement::at((x + 5, y + 4)) + Polygon::new(DIAMOND, INK.filled())))?;
        note(canvas, (x + 14, y + 4), "in the paper, on its machine")?;
    }
    Ok(())
}

fn note(canvas: &Canvas<'_>, place: (i32, i32), words: &str) -> Drawn {
    let style = ("sans-serif", TINY).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
    canvas.draw(&Text::new(words.to_string(), place, style))?;
    Ok(())
}

#[cfg(test)]
mod tests;
