//! `ringway bench`: rows as promised, wrong calls refused, nothing left behind.

use std::fs;
use std::process::{Command, Output};

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::*;

/// Namespaces and folders of wires that a process made.
fn left_behind(pid: i32) -> Vec<String> {
    let prefix = format!("rw-{pid}-");
    let folders = ["/run/netns".into(), std::env::temp_dir()];
    let entries = folders.iter().flat_map(|folder: &std::path::PathBuf| fs::read_dir(folder).into_iter().flatten().flatten());
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).filter(|name| name.starts_with(&prefix)).collect()
}

/// Runs a measurement to its end and returns its rows.
fn rows(arguments: &[&str]) -> Vec<Value> {
    let net = Net::new();
    let mut bench = net.spawn_here(&[&[RINGWAY, "bench"], arguments].concat());
    wait_until("the measurement ends", 2 * DEADLINE, || bench.poll().is_some());
    assert_eq!(left_behind(bench.pid().as_raw_pid()), Vec::<String>::new());
    let printed = bench.finish(DEADLINE).success().stdout;
    printed.lines().map(|line| serde_json::from_str(line).expect("one object per line")).collect()
}

fn called(arguments: &[&str]) -> Output {
    Command::new(RINGWAY).arg("bench").args(arguments).output().expect("the command can be started")
}

#[test]
fn conns_measures_all_targets_over_veth() {
    let rows = rows(&[
        "conns",
        "--target",
        "linux,preload,service,embedded",
        "--connections",
        "2",
        "--seconds",
        "1",
        "--rounds",
        "1",
        "--json",
    ]);
    let targets: Vec<&str> = rows.iter().filter_map(|row| row["target"].as_str()).collect();
    assert_eq!(targets, ["linux", "preload", "service", "embedded"]);
    for row in &rows {
        assert_eq!(
            (&row["scenario"], &row["point"], &row["unit"], &row["wire"]),
            (&"conns".into(), &"2".into(), &"requests/s".into(), &"veth".into())
        );
        for figure in
            ["value", "p50_us", "p99_us", "server_cpu_us_per_request", "client_cpu_us_per_request", "cycles_per_request", "ratio"]
        {
            assert!(row[figure].as_f64().is_some_and(|value| value > 0.0), "{figure}: {row}");
        }
        assert_eq!(row["note"], "", "the kernel's TCP took no part where Ringway serves: {row}");
        assert!(row["noise"].is_string() && row["commit"].is_string() && row["retransmissions"].is_u64(), "{row}");
    }
    assert_eq!(rows[0]["ratio"], 1.0);
}

#[test]
fn a_path_delays_and_loses_what_it_is_told() {
    let rows = rows(&[
        "latency",
        "--rtt",
        "20ms",
        "--loss",
        "1/5",
        "--target",
        "linux,preload",
        "--size",
        "64",
        "--seconds",
        "2",
        "--rounds",
        "1",
        "--json",
    ]);
    assert_eq!(rows.len(), 2);
    for row in &rows {
        assert_eq!((&row["wire"], row["parameters"]["loss"].as_f64(), &row["note"]), (&"path".into(), Some(0.2), &"".into()));
        // A request and its reply cross it once each; one of them that is lost is sent again.
        assert!(row["p50_us"].as_f64().is_some_and(|us| us >= 20_000.0), "{row}");
        assert!(row["lost_on_path"].as_u64().is_some_and(|lost| lost > 0), "{row}");
        assert_eq!(row["overflowed_on_path"], 0, "{row}");
    }
}

#[test]
fn conns_over_memory_needs_no_kernel_and_has_no_ratio() {
    let rows = rows(&[
        "conns",
        "--wire",
        "memory",
        "--target",
        "embedded",
        "--connections",
        "1,300",
        "--seconds",
        "0.5",
        "--rounds",
        "1",
        "--json",
    ]);
    assert_eq!(rows.iter().filter_map(|row| row["point"].as_str()).collect::<Vec<_>>(), ["1", "300"]);
    assert!(rows.iter().all(|row| row["value"].as_f64().is_some_and(|value| value > 0.0) && row["ratio"].is_null()));
}

#[test]
fn wrong_calls_are_refused_at_once() {
    for (arguments, words) in [
        (&["nonsense"][..], "unrecognized subcommand"),
        (&["conns", "--target", "nonsense"], "possible values"),
        (&["conns", "--wire", "memory", "--target", "linux"], "it carries embedded"),
        (&["conns", "--wire", "memory", "--client", "kernel"], "cannot stand on the memory wire"),
        (&["conns", "--connections", "0"], "connections"),
        (&["conns", "--size", "3"], "a message has 16 bytes"),
        (&["conns", "--seconds", "0"], "0.05"),
    ] {
        let output = called(arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(words), "{arguments:?}: {text}");
    }
}

#[test]
fn an_interrupted_measurement_leaves_nothing() {
    let net = Net::new();
    let mut bench = net.spawn_here(&[RINGWAY, "bench", "conns", "--rounds", "100"]);
    bench.wait_for_error_line("round 1 of 100");
    let pid = bench.pid().as_raw_pid();
    assert_ne!(left_behind(pid), Vec::<String>::new(), "it stands on wires");
    bench.signal(Signal::INT);
    wait_until("it ends", DEADLINE, || bench.poll().is_some());
    assert_eq!(left_behind(pid), Vec::<String>::new());
    assert_eq!(bench.finish(DEADLINE).code(), 130);
}
