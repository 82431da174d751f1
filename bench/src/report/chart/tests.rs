use super::super::series::Series;
use super::*;

fn mark(value: f64) -> Option<Mark> {
    Some(Mark { value, range: Some((value * 0.9, value * 1.1)), above: Some(value * 3.0), ratio: None, is_quiet: value < 100.0 })
}

fn plot(categories: &[&str], values: &[&[Option<Mark>]]) -> Plot {
    let series = values.iter().enumerate().map(|(at, marks)| {
        let target = ["linux", "target1"][at].to_string();
        Series { name: format!("target{at}"), target, variant: String::new(), marks: marks.to_vec() }
    });
    let categories = categories.iter().map(|text| text.to_string()).collect();
    Plot {
        categories,
        series: series.collect(),
        unit: "requests/s".into(),
        remarks: Vec::new(),
        wire: "veth".into(),
        part: String::new(),
        has_rows: true,
        paper: vec![(0, 12.5)],
    }
}

#[test]
fn each_shape_draws_every_label_series_and_value() {
    let plot = plot(&["1", "64 with words"], &[&[mark(10.0), None], &[mark(20.0), mark(130.0)]]);
    for shape in [Shape::Lines, Shape::Bars, Shape::Stacked] {
        let svg = draw(&plot, shape, "connections").expect("drawn");
        for word in ["target0", "target1", "connections", "requests/s", "hollow: noisy", "least to greatest", "in the paper"] {
            assert!(svg.contains(word), "{shape:?} lacks {word}");
        }
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(!svg.contains("NaN"), "{shape:?} has a coordinate that is no number");
    }
    let bars = draw(&plot, Shape::Bars, "x").expect("drawn");
    assert!(bars.contains("390"), "the number above the bar is missing");
}

#[test]
fn lines_far_apart_are_drawn_in_decades_and_bars_never() {
    let far = plot(&["a", "b"], &[&[mark(1.0), mark(50_000.0)]]);
    assert!(draw(&far, Shape::Lines, "x").expect("drawn").contains("log scale"));
    assert!(!draw(&far, Shape::Bars, "x").expect("drawn").contains("log scale"));
    let zero = plot(&["a", "b"], &[&[mark(0.0), mark(50_000.0)]]);
    assert!(!draw(&zero, Shape::Lines, "x").expect("drawn").contains("log scale"));
    let nothing = plot(&["a"], &[&[mark(0.0)]]);
    assert!(!draw(&nothing, Shape::Lines, "x").expect("drawn").contains("NaN"));
}

#[test]
fn labels_break_at_spaces_and_turn_when_a_word_is_too_wide() {
    let words = ["nginx keep-alive".to_string(), "redis".to_string()];
    let wide = Labels::fit(&words, 80.0);
    assert_eq!((wide.is_turned, wide.lines[0].clone()), (false, vec!["nginx".to_string(), "keep-alive".to_string()]));
    let narrow = Labels::fit(&words, 30.0);
    assert!(narrow.is_turned && narrow.height() > wide.height());
}

#[test]
fn a_target_has_its_color_wherever_it_stands() {
    let one = plot(&["1"], &[&[mark(10.0)]]);
    let two = plot(&["1"], &[&[mark(10.0)], &[mark(20.0)]]);
    assert_eq!(colors(&one)[0], colors(&two)[0]);
    assert_ne!(colors(&two)[0], colors(&two)[1]);
}
