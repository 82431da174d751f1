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

/// What a killed service left is named, and `--fix` removes it.
#[test]
fn doctor_removes_what_a_killed_service_left() {
    let net = Net::new();
    let (service, name) = net.serve(Server, &[]);
    service.signal(rustix::process::Signal::KILL);
    let ended = service.finish(DEADLINE);
    assert!(!ended.status.success());
    let named = net.run(Server, &[RINGWAY, "doctor"]);
    let line = named.stdout.lines().find(|line| line.contains("files of dead services")).expect("it is named");
    assert!(line.starts_with("WARN") && line.contains(&name), "{line}");
    assert!(named.stdout.contains("fix: ringway doctor --fix"), "{}", named.stdout);
    let fixed = net.run(Server, &[RINGWAY, "doctor", "--fix"]);
    assert!(fixed.stdout.contains(&format!("removed the files of {name}")), "{}", fixed.stdout);
    assert!(!fixed.stdout.contains("files of dead services"), "{}", fixed.stdout);
    let again = net.run(Server, &[RINGWAY, "doctor"]).stdout;
    assert!(!again.contains("files of dead services"), "{again}");
    for word in ["run directory", "namespaces", "processors", "huge pages"] {
        assert!(again.contains(word), "no {word}: {again}");
    }
}
