//! Columns are aligned with their headings.
use super::*;

#[test]
fn a_row_has_its_figures_or_dashes() {
    let row = Row {
        point: "64".into(),
        target: "embedded".into(),
        value: 182_900.0,
        unit: "requests/s".into(),
        ratio: Some(1.434),
        p50_us: Some(532.14),
        server_cpu_us_per_request: Some(4.2),
        server_cpu_ratio: Some(0.4),
        noise: "quiet".into(),
        note: "odd".into(),
        ..Row::default()
    };
    let line = line(&row);
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words, ["64", "embedded", "182900", "requests/s", "1.43x", "532.1", "-", "4.200", "0.40x", "-", "quiet", "(odd)"]);
    assert_eq!(heading().find("ratio").map(|at| at + "ratio".len()), line.find("1.43x").map(|at| at + "1.43x".len()));
}
