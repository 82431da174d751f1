use super::*;
use crate::report::papers::Papers;
use crate::report::series::plots;
use crate::row::{Parameter, Row};

fn row(scenario: &str, target: &str, connections: f64, value: f64) -> Row {
    Row {
        scenario: scenario.into(),
        target: target.into(),
        parameters: [("connections".to_string(), Parameter::Number(connections))].into(),
        wire: "veth".into(),
        value,
        unit: if scenario == "idle" { "wakeups/s" } else { "requests/s" }.into(),
        p50_us: Some(1e6 / value.max(1.0)),
        noise: "quiet".into(),
        ..Row::default()
    }
}

fn found(id: &str, rows: &[Row]) -> (Option<String>, Card) {
    let papers = Papers::load();
    let figure = papers.figures.iter().find(|figure| figure.id == id).expect("it is there");
    let headline = papers.headlines.iter().find(|headline| headline.figure == id);
    let headline = headline.unwrap_or(&papers.headlines[0]);
    let plots = plots(figure, rows);
    (plots.first().and_then(|plot| Comparison::of(figure, plot)).map(|found| found.title()), card(headline, figure, &plots))
}

#[test]
fn a_heading_has_the_range_of_all_points() {
    let mut measured = row("conns", "preload", 64.0, 30.0);
    measured.ratio = Some(1.6);
    let rows =
        [row("conns", "linux", 1.0, 10.0), row("conns", "linux", 64.0, 20.0), row("conns", "preload", 1.0, 11.0), measured];
    let (title, card) = found("conns", &rows);
    assert_eq!(title.as_deref(), Some("Unmodified programs: 1.10 to 1.60 times the kernel's requests per second"));
    assert_eq!((card.value.as_str(), card.range.as_str()), ("1.35 ×", "1.10 to 1.60 (veth, by connections)"));
    let (title, _) = found("conns-latency", &rows);
    assert_eq!(title.as_deref(), Some("Unmodified programs: 0.67 to 0.91 of the kernel's median latency"));
}

#[test]
fn the_card_of_bulk_is_about_the_default() {
    let size = |target: &str, value| {
        let mut row = row("bulk", target, 1.0, value);
        let named = [("direction", Parameter::Text("download".into())), ("size", Parameter::Number(2_097_152.0))];
        row.parameters.extend(named.map(|(name, value)| (name.to_string(), value)));
        row.unit = "Gbit/s".into();
        row
    };
    let rows = [size("linux", 40.0), size("preload", 20.0), size("preload-bulk", 38.0)];
    let (title, card) = found("bulk", &rows);
    assert_eq!(title.as_deref(), Some("Unmodified programs: 0.50 times the kernel's throughput"), "the figure has both");
    assert_eq!(card.value, "0.95 ×");
    assert_eq!(found("bulk", &rows[..2]).1.value, "0.50 ×", "what was measured");
}

#[test]
fn what_cannot_be_compared_says_so() {
    let (title, card) = found("conns", &[row("conns", "preload", 1.0, 11.0)]);
    assert_eq!((title, card.range.as_str()), (None, "no kernel beside it"));
    let (title, card) = found("conns", &[]);
    assert_eq!((title, card.range.as_str()), (None, "not measured: ringway bench conns"));
    let (title, card) = found("idle", &[row("idle", "linux", 1.0, 0.0), row("idle", "preload", 1.0, 0.0)]);
    assert_eq!((title, card.value.as_str(), card.range.as_str()), (None, "0", "wakeups/s; the kernel: 0"));
}
