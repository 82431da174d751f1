//! A report is read; a run that failed has no figures.
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

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

fn output(stdout: &str, code: i32) -> Output {
    Output { status: ExitStatus::from_raw(code << 8), stdout: stdout.into(), stderr: b"words".to_vec() }
}

#[test]
fn a_report_is_read() {
    let expected = Report { requests: 183_077.0, requests_per_s: 91_461.52, p50_us: 650.0, p99_us: 1320.0 };
    assert_eq!(read(&output(REPORT, 0), SocketErrors::Fail).expect("a report"), expected);
    let slow = REPORT.replace("1.32ms", "2.50s").replace("650.00us", "1.50m");
    let slow = read(&output(&slow, 0), SocketErrors::Fail).expect("a report");
    assert_eq!((slow.p50_us, slow.p99_us), (90e6, 2.5e6));
}

#[test]
fn a_run_that_failed_has_no_figures() {
    let broken = format!("{REPORT}  Socket errors: connect 0, read 5, write 0, timeout 0\n");
    let refused = format!("{REPORT}  Non-2xx or 3xx responses: 3\n");
    assert!(read(&output(&broken, 0), SocketErrors::Expected).is_ok());
    let cases = [(&broken[..], 0), (&refused, 0), (REPORT, 1), ("unable to connect", 0), ("Requests/sec: many", 0)];
    for (text, code) in cases {
        let error = read(&output(text, code), SocketErrors::Fail).expect_err(text).to_string();
        assert!(error.contains(text) && error.ends_with("words"), "{error}");
    }
    assert!(read(&output(&refused, 0), SocketErrors::Expected).is_err());
}
