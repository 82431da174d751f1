use super::*;

fn rows(ratios: [Option<f64>; 4]) -> Vec<Value> {
    let places = [("preload", "download"), ("preload-bulk", "download"), ("preload", "upload"), ("preload-bulk", "upload")];
    let row = |((target, direction), ratio): ((&str, &str), Option<f64>)| json!({ "target": target, "parameters": { "direction": direction }, "ratio": ratio });
    let linux = json!({ "target": "linux", "parameters": { "direction": "download" }, "ratio": 1.0 });
    std::iter::once(linux).chain(places.into_iter().zip(ratios).map(row)).collect()
}

#[test]
fn the_choice_follows_what_gains() {
    for (ratios, expected) in [
        ([0.8, 1.0, 0.7, 0.9], BulkChoice::Kernel),
        ([0.86, 1.01, 1.05, 0.92], BulkChoice::Sent),
        // Only what is received would gain: servers send.
        ([1.0, 1.0, 0.7, 0.9], BulkChoice::Stack),
        // A few percent are noise.
        ([0.96, 1.0, 1.0, 1.0], BulkChoice::Stack),
    ] {
        let rows = rows(ratios.map(Some));
        let of = |name| direction(&rows, name).expect("all ratios are there");
        assert_eq!(choose(of("download"), of("upload")), expected, "{ratios:?}");
    }
    let rows = rows([Some(0.8), None, Some(1.0), Some(1.0)]);
    assert_eq!(direction(&rows, "download"), None);
}

#[test]
fn what_cannot_be_written_is_a_warning_with_the_choice() {
    let mut report = Report::default();
    remember(BulkChoice::Sent, Path::new("/proc/no/such/measured.toml"), &mut report);
    let text = report.text();
    assert!(text.starts_with("WARN  policy.bulk  /proc/no/such/measured.toml: ") && text.contains("\"sent\" would be"), "{text}");
}
