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
    let mut plots = of_conns(rows);
    assert!(plots.len() <= 1, "{plots:?}");
    plots.pop()
}

fn of_conns(rows: &[Row]) -> Vec<Plot> {
    plots(Papers::load().figures.iter().find(|figure| figure.id == "conns").expect("it is there"), rows)
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
    let plots = of_conns(&[upload, download, tap]);
    let names = |plot: &Plot| plot.series.iter().map(|series| series.name.clone()).collect::<Vec<_>>();
    assert_eq!(plots.iter().map(|plot| plot.wire.as_str()).collect::<Vec<_>>(), ["veth", "tap"], "wires are not compared");
    assert_eq!(
        (names(&plots[0]), names(&plots[1])),
        (vec!["linux, upload".into(), "linux, download".into()], vec!["linux".to_string()])
    );
    assert_eq!((plots[0].series[0].target.as_str(), plots[0].series[0].variant.as_str()), ("linux", ", upload"));
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
        "1 on linux: noisy: calibration moved by 9 %.",
        "1 on preload: not measured: nginx is not installed.",
        "1 on embedded: in Gbit/s, not drawn.",
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
    let values =
        |id: &str| plots(figure(id), &rows)[0].series[0].marks.iter().flatten().map(|mark| mark.value).collect::<Vec<_>>();
    assert_eq!((values("mixed"), values("mixed-small")), (vec![20.0], vec![90_000.0]));
    let mut load = row("linux", 64.0, 100_000.0);
    (load.scenario, load.server_cpu_us_per_request) = ("cpuload".into(), Some(5.0));
    assert_eq!(value_of(&load, figure("cpuload").metric), Some(50.0));
}

#[test]
fn rounds_give_a_range_and_a_paper_a_mark_where_the_axis_has_its_place() {
    let papers = Papers::load();
    let figure = papers.figures.iter().find(|figure| figure.id == "bulk").expect("it is there");
    let at = |size: f64| {
        let mut row = row("linux", 1.0, 14.0);
        (row.scenario, row.unit, row.values) = ("bulk".into(), "Gbit/s".into(), vec![13.0, 15.5, 14.0]);
        row.parameters = [("size".to_string(), Parameter::Number(size))].into();
        row
    };
    let plot = |rows: &[Row]| plots(figure, rows).pop().expect("has rows");
    let both = plot(&[at(65_536.0), at(2_097_152.0)]);
    assert_eq!(both.categories, ["64 KiB", "2 MiB"]);
    assert_eq!(both.series[0].marks[0].as_ref().and_then(|mark| mark.range), Some((13.0, 15.5)));
    assert_eq!(both.paper, [(1, 14.69), (1, 13.66)]);
    assert_eq!(plot(&[at(65_536.0), at(0.0)]).paper, [], "the paper has no number there");
}

#[test]
fn a_crowded_plot_is_taken_apart_by_what_its_series_share() {
    let of = |direction: &str| {
        let row = |target: &str| {
            let mut row = row(target, 64.0, 1.0);
            row.parameters.insert("direction".into(), Parameter::Text(direction.into()));
            row
        };
        ["linux", "linux-spin", "preload", "service", "embedded"].map(row)
    };
    let plots = of_conns(&[of("upload"), of("download")].concat());
    assert_eq!(plots.iter().map(|plot| plot.part.as_str()).collect::<Vec<_>>(), ["upload", "download"]);
    assert!(plots.iter().all(|plot| plot.series.len() == 5 && plot.series[0].name == "linux"));
}
