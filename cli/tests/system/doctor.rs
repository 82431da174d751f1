//! `ringway doctor`.

use serde_json::Value;

use crate::harness::*;

#[test]
fn doctor_says_what_would_be_chosen() {
    let net = Net::new();
    let report = net.run(Server, &[RINGWAY, "doctor"]);
    assert!((0..=1).contains(&report.code()), "as root nothing may fail: {}\n{}", report.stdout, report.stderr);
    for word in [INTERFACE, "packet", "OK"] {
        assert!(report.stdout.contains(word), "no `{word}`:\n{}", report.stdout);
    }
    let json = net.run(Server, &[RINGWAY, "doctor", "--json"]);
    serde_json::from_str::<Value>(&json.stdout).expect("JSON");
}
