//! wrk's report is parsed; other text is an error.
use super::*;

#[test]
fn the_rate_is_read_from_the_report() {
    let report = "Running 1s test\n  Latency Distribution\n     50%  532.00us\n  118000 requests in 1.00s, 20MB read\nRequests/sec: 117123.45\n";
    assert_eq!(requests_per_second(report).expect("it is there"), 117_123.45);
    assert!(requests_per_second("unable to connect").is_err());
}
