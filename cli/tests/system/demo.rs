//! `ringway demo`: the promised object, and nothing left behind.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::*;

/// Namespaces and folders of wires that this process made.
fn left_behind(process: &Process) -> Vec<String> {
    let prefix = format!("rw-{}-", process.pid().as_raw_pid());
    let folders = ["/run/netns".into(), std::env::temp_dir()];
    let entries = folders.iter().flat_map(|folder: &std::path::PathBuf| fs::read_dir(folder).into_iter().flatten().flatten());
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).filter(|name| name.starts_with(&prefix)).collect()
}

#[test]
fn demo_prints_the_promised_object() {
    let net = Net::new();
    let mut demo = net.spawn_here(&[RINGWAY, "demo", "--json", "--rounds", "1", "--seconds", "1"]);
    wait_until("the demo ends", DEADLINE, || demo.poll().is_some());
    assert_eq!(left_behind(&demo), Vec::<String>::new());
    let printed = demo.finish(DEADLINE).success().stdout;
    let object: Value = serde_json::from_str(&printed).expect("one JSON object");
    assert_eq!((&object["bytes_ok"], &object["kernel_tcp_untouched"]), (&Value::Bool(true), &Value::Bool(true)));
    assert!(object["first_byte_s"].as_f64().is_some_and(|seconds| seconds < 60.0), "{printed}");
    for stack in ["ringway", "kernel"] {
        for figure in ["requests_per_s", "p50_us", "p99_us", "cpu_s_per_million"] {
            assert!(object[stack][figure].as_f64().is_some_and(|value| value > 0.0), "{stack} {figure}: {printed}");
        }
    }
}

#[test]
fn an_interrupted_demo_leaves_nothing() {
    let net = Net::new();
    let mut demo = net.spawn_here(&[RINGWAY, "demo", "--rounds", "50"]);
    demo.wait_for_error_line("round 1 of 50");
    assert_ne!(left_behind(&demo), Vec::<String>::new(), "the demo stands on wires");
    demo.signal(Signal::INT);
    wait_until("the demo ends", DEADLINE, || demo.poll().is_some());
    assert_eq!(left_behind(&demo), Vec::<String>::new());
    assert_eq!(demo.finish(DEADLINE).code(), 130);
}
