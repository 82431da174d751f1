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
    // What was not tried on this interface is not said to work.
    let lines = |start: &str| report.stdout.lines().filter(|line| line.contains(start)).collect::<Vec<_>>();
    assert!(lines("xdp (").iter().all(|line| !line.starts_with("OK")), "{}", report.stdout);
    let xdp = net.spawn_with(Server, &[RINGWAY, "doctor"], &[("RINGWAY_INTERFACE_DEVICE", "xdp")], None).finish(DEADLINE);
    let chosen = xdp.stdout.lines().find(|line| line.contains("xdp would be chosen")).expect("it was asked for");
    assert!(chosen.starts_with("WARN") && chosen.contains("no packet was sent"), "{chosen}");
    let json = net.run(Server, &[RINGWAY, "doctor", "--json"]);
    serde_json::from_str::<Value>(&json.stdout).expect("JSON");
}
