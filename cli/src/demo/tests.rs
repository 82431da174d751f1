use super::load::{Figures, median, parse};
use super::*;

const REPORT: &str = "Running 2s test @ http://10.77.1.1/small.txt
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   694.96us  212.53us   3.49ms   77.96%
    Req/Sec    91.98k     3.68k   97.26k    80.00%
  Latency Distribution
     50%  650.00us
     75%  803.00us
     90%    0.96ms
     99%    1.32ms
  183077 requests in 2.00s, 147.61MB read
Requests/sec:  91461.52
Transfer/sec:     73.75MB
";

/// wrk's report becomes figures; CPU time is per million requests.
#[test]
fn a_report_of_wrk_is_read() {
    let figures = parse(REPORT, 1.83077).expect("a report of wrk");
    assert_eq!((figures.requests_per_s, figures.p50_us, figures.p99_us), (91461.52, 650.0, 1320.0));
    assert!((figures.cpu_s_per_million - 10.0).abs() < 1e-9);
    assert_eq!(parse("Requests/sec: many", 1.0), None);
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
