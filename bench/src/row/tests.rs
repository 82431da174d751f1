//! A row is one line of JSON with every promised field, and reads back unchanged.
use super::*;

const PROMISED: [&str; 24] = [
    "scenario",
    "point",
    "target",
    "wire",
    "value",
    "unit",
    "p50_us",
    "p99_us",
    "server_cpu_us_per_request",
    "client_cpu_us_per_request",
    "server_cpu_ratio",
    "server_user_us_per_request",
    "server_system_us_per_request",
    "server_softirq_us_per_request",
    "repeated",
    "cycles_per_request",
    "cycles_per_byte",
    "throughput_per_core",
    "retransmissions",
    "ratio",
    "noise",
    "machine",
    "kernel",
    "commit",
];

#[test]
fn every_promised_field_is_there_even_when_not_measured() {
    let line = Row { scenario: "conns".into(), noise: QUIET.into(), ..Row::default() }.to_json();
    let object: serde_json::Value = serde_json::from_str(&line).expect("one object");
    for field in PROMISED {
        assert!(object.get(field).is_some(), "{field} in {line}");
    }
    assert!(object["ratio"].is_null());
    assert!(!line.contains('\n'));
}

#[test]
fn a_row_reads_back_as_it_was() {
    let mut row = Row { value: 118_000.5, p50_us: Some(532.0), retransmissions: Some(3), ..Row::default() };
    row.parameters.insert("connections".into(), Parameter::Number(64.0));
    row.parameters.insert("direction".into(), Parameter::Text("download".into()));
    let back: Row = serde_json::from_str(&row.to_json()).expect("our own line");
    assert_eq!(back, row);
    assert_eq!((back.number("connections"), back.text("direction")), (Some(64.0), Some("download")));
    assert_eq!((back.number("direction"), back.text("size")), (None, None));
}
