use super::*;
use crate::row::{NOT_MEASURED, Parameter, Row};

fn row(scenario: &str, point: &str, parameters: &[(&str, Parameter)], target: &str, value: f64) -> Row {
    Row {
        scenario: scenario.into(),
        point: point.into(),
        parameters: parameters.iter().map(|(name, value)| (name.to_string(), value.clone())).collect(),
        target: target.into(),
        wire: "veth".into(),
        client: "kernel".into(),
        value,
        unit: if scenario == "bulk" { "Gbit/s" } else { "requests/s" }.into(),
        p50_us: Some(10.0),
        p99_us: Some(30.0),
        server_cpu_us_per_request: Some(if target == "linux" { 4.0 } else { 2.0 }),
        ratio: Some(if target == "linux" { 1.0 } else { 1.6 }),
        noise: "quiet".into(),
        machine: "test machine".into(),
        kernel: "6.0".into(),
        commit: "abc".into(),
        ..Row::default()
    }
}

fn small() -> Rows {
    let at = |connections: f64| [("connections", Parameter::Number(connections))];
    let mut rows = [
        row("conns", "64", &at(64.0), "linux", 200_000.0),
        row("conns", "64", &at(64.0), "embedded", 320_000.0),
        row("conns", "1024", &at(1024.0), "linux", 180_000.0),
        row("bulk", "2 MiB", &[("size", Parameter::Number(2097152.0))], "linux", 14.0),
        row("novel", "7", &[], "linux", 1.0),
        row("apps", "nginx keep-alive", &[], "preload", 0.0),
    ];
    rows[5].note = format!("{NOT_MEASURED}nginx is not installed");
    rows[3].noise = "noisy: steal 4 %".into();
    let text: String = rows.iter().map(|row| row.to_json() + "\n").collect();
    let mut read = Rows::default();
    read.read_lines(Path::new("rows.jsonl"), &mut text.as_bytes()).expect("rows are read as they are written");
    read
}

fn report() -> (String, String) {
    let blocks = blocks(&Papers::load(), &small()).expect("all can be drawn");
    (page::html(TITLE, &blocks), page::markdown(FIGURES, &blocks))
}

#[test]
fn the_report_of_fixed_rows_has_its_figures_numbers_and_confessions() {
    let (html, markdown) = report();
    let in_both = [
        "test machine",
        "The embedded stack: 1.60 times the kernel's requests per second",
        "Requests per second by number of connections.",
        "Many connections",
        "1.60 ×",
        "not measured: ringway bench crr",
        "Figure 5 of “Opening Up Kernel-Bypass TCP Stacks”",
        "14.69",
        "embedded: no value at 1024.",
        "noisy: steal 4 %",
        "Rows without a figure",
        "Not measured",
        "nginx is not installed",
        "Messages per connection",
    ];
    for words in in_both {
        assert!(html.contains(words), "report.html lacks {words}");
        assert!(markdown.contains(words), "report.md lacks {words}");
    }
    assert_eq!(html.matches("<svg").count(), markdown.matches("](figures/").count());
    let drawn: Vec<&str> =
        markdown.lines().filter_map(|line| line.strip_prefix("![")).filter_map(|line| line.split(']').next()).collect();
    assert_eq!(drawn, ["bulk", "conns", "conns-latency", "conns-cpu"]);
}

#[test]
fn beside_the_kernel_stands_the_ratio_and_the_quotient_of_cpu() {
    let (_, markdown) = report();
    let line = markdown.lines().find(|line| line.starts_with("| conns | 64 | embedded")).expect("the row is compared");
    assert_eq!(line, "| conns | 64 | embedded | veth | kernel | 320 k | requests/s | 1.60 | 0.50 | quiet |");
}

#[test]
fn a_report_without_rows_is_an_error() {
    let folder = std::env::temp_dir().join(format!("ringway-report-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("the temporary folder is writable");
    let file = folder.join("empty.jsonl");
    fs::write(&file, "\n").expect("written");
    let error = write(&[file], &folder.join("out"), Form::Page).expect_err("there is nothing to report").to_string();
    assert_eq!(error, "the files have no rows");
    assert!(!folder.join("out").exists());
    fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn as_markdown_the_figures_are_beside_the_text_and_there_is_no_page() {
    let folder = std::env::temp_dir().join(format!("ringway-report-markdown-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("the temporary folder is writable");
    let file = folder.join("rows.jsonl");
    let row = Row { scenario: "conns".into(), target: "linux".into(), unit: "requests/s".into(), value: 1.0, ..Row::default() };
    fs::write(&file, row.to_json() + "\n").expect("written");
    write(&[file], &folder.join("out"), Form::Markdown).expect("a row is enough");
    let mut names: Vec<String> = fs::read_dir(folder.join("out"))
        .expect("it was made")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["conns.svg", "report.md"]);
    assert!(fs::read_to_string(folder.join("out/report.md")).expect("it is there").contains("](./conns.svg)"));
    fs::remove_dir_all(&folder).expect("removed");
}
