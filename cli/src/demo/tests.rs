use ringway_bench::wrk::Report;

use super::load::{Figures, figures, median};
use super::*;

/// CPU time is per million requests.
#[test]
fn cpu_time_is_per_million_requests() {
    let report = Report { requests: 183_077.0, requests_per_s: 91_461.52, p50_us: 650.0, p99_us: 1320.0 };
    let figures = figures(report, 1.83077);
    assert_eq!((figures.requests_per_s, figures.p50_us, figures.p99_us), (91_461.52, 650.0, 1320.0));
    assert!((figures.cpu_s_per_million - 10.0).abs() < 1e-9);
}

#[test]
fn the_median_is_taken_figure_by_figure() {
    let round = |value: f64| Figures { requests_per_s: value, p50_us: 10.0 - value, p99_us: 1.0, cpu_s_per_million: value * 2.0 };
    let middle = median(&[round(3.0), round(1.0), round(2.0)]);
    assert_eq!((middle.requests_per_s, middle.p50_us, middle.cpu_s_per_million), (2.0, 8.0, 4.0));
    assert_eq!(median(&[round(1.0), round(2.0)]).requests_per_s, 1.5);
}

fn outcome(kernel_segments: u64) -> Outcome {
    let figures = |requests_per_s| Figures { requests_per_s, p50_us: 500.0, p99_us: 900.0, cpu_s_per_million: 8.25 };
    Outcome {
        program: "nginx",
        ringway: figures(120_000.4),
        kernel: figures(80_000.0),
        bytes_ok: true,
        kernel_segments,
        first_byte: Duration::from_millis(1234),
    }
}

/// The JSON object has exactly the documented keys.
#[test]
fn the_json_is_the_promised_object() {
    let value: serde_json::Value = serde_json::from_str(&as_json(&outcome(0))).expect("JSON");
    let figures =
        |rate: f64| serde_json::json!({ "requests_per_s": rate, "p50_us": 500.0, "p99_us": 900.0, "cpu_s_per_million": 8.25 });
    let expected = serde_json::json!({
        "ringway": figures(120_000.0), "kernel": figures(80_000.0),
        "bytes_ok": true, "kernel_tcp_untouched": true, "first_byte_s": 1.234,
    });
    assert_eq!(value, expected);
}

#[test]
fn the_table_does_not_hide_a_failure() {
    assert!(as_table(&outcome(0)).contains("1.50x"));
    assert!(as_table(&outcome(7)).contains("RECEIVED 7 SEGMENTS"));
}
