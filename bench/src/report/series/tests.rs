use super::*;
use crate::report::papers::Papers;
use crate::row::NOT_MEASURED;

fn row(target: &str, connections: f64, value: f64) -> Row {
    let parameters = [("connections".to_string(), Parameter::Number(connections))].into();
    Row {
        scenario: "conns".into(),
        point: connections.to_string(),
        parameters,
        target: target.into(),
        wire: "veth".into(),
        value,
        unit: "requests/s".into(),
        noise: "quiet".into(),
        ..Row::default()
    }
}

fn conns(rows: &[Row]) -> Option<Plot> {
    plot(Papers::load().figures.iter().find(|figure| figure.id == "conns").expect("it is there"), rows)
}

#[test]
fn points_lie_in_the_order_of_their_amount_and_a_hole_is_told() {
    let plot = conns(&[row("linux", 1024.0, 3.0), row("linux", 64.0, 2.0), row("embedded", 64.0, 4.0)]).expect("has rows");
    assert_eq!(plot.categories, ["64", "1024"]);
    let names: Vec<&str> = plot.series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["linux", "embedded"]);
    assert_eq!(plot.series[0].marks.iter().flatten().map(|mark| mark.value).collect::<Vec<_>>(), [2.0, 3.0]);
    assert_eq!(plot.remarks, ["embedded: no value at 1024."]);
}

#[test]
fn what_differs_beside_the_axis_is_in_the_name() {
    let mut upload = row("linux", 64.0, 1.0);
    upload.parameters.insert("direction".into(), Parameter::Text("upload".into()));
    let mut download = row("linux", 64.0, 2.0);
    download.parameters.insert("direction".into(), Parameter::Text("download".into()));
    let mut tap = download.clone();
    tap.wire = "tap".into();
    let plot = conns(&[upload, download, tap]).expect("has rows");
    let names: Vec<&str> = plot.series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["linux, veth, upload", "linux, veth, download", "linux, tap, download"]);
}

#[test]
fn noisy_unmeasured_and_foreign_rows_are_told() {
    let mut noisy = row("linux", 1.0, 5.0);
    noisy.noise = "noisy: calibration moved by 9 %".into();
    let mut missing = row("preload", 1.0, 0.0);
    missing.note = format!("{NOT_MEASURED}nginx is not installed");
    let mut other = row("embedded", 1.0, 7.0);
    other.unit = "Gbit/s".into();
    let plot = conns(&[noisy, missing, other]).expect("has rows");
    assert_eq!(plot.series.len(), 1);
    assert!(!plot.series[0].marks[0].as_ref().expect("measured").is_quiet);
    let expected = [
        "1 on linux over veth: noisy: calibration moved by 9 %.",
        "1 on preload over veth: not measured: nginx is not installed.",
        "1 on embedded over veth: in Gbit/s, not drawn.",
    ];
    assert_eq!(plot.remarks, expected);
}

#[test]
fn without_rows_there_is_no_plot() {
    assert_eq!(conns(&[]), None);
    let mut other = row("linux", 1.0, 1.0);
    other.scenario = "bulk".into();
    assert_eq!(conns(&[other]), None);
}

#[test]
fn a_figure_with_a_unit_takes_only_its_rows_and_cpu_is_that_of_all_requests() {
    let papers = Papers::load();
    let figure = |id: &str| papers.figures.iter().find(|figure| figure.id == id).expect("it is there");
    let mut stream = row("linux", 1.0, 20.0);
    (stream.scenario, stream.unit) = ("mixed".into(), "Gbit/s".into());
    let mut small = row("linux", 64.0, 90_000.0);
    small.scenario = "mixed".into();
    let rows = [stream, small];
    let values = |id: &str| {
        plot(figure(id), &rows).expect("has rows").series[0].marks.iter().flatten().map(|mark| mark.value).collect::<Vec<_>>()
    };
    assert_eq!((values("mixed"), values("mixed-small")), (vec![20.0], vec![90_000.0]));
    let mut load = row("linux", 64.0, 100_000.0);
    (load.scenario, load.server_cpu_us_per_request) = ("cpuload".into(), Some(5.0));
    assert_eq!(value_of(&load, figure("cpuload").metric), Some(50.0));
}
