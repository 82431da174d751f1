//! `ringway bench`: rows as promised, wrong calls refused, nothing left behind.

use std::fs;
use std::os::unix::process::CommandExt;
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

/// A few of each; where a connection stays in the stack it fails.
#[test]
fn handovers_are_timed() {
    let net = Net::new();
    let mut bench = net.spawn_here(&[RINGWAY, "bench", "handover", "--connections", "20", "--rounds", "2"]);
    wait_until("the measurement ends", 2 * DEADLINE, || bench.poll().is_some());
    assert_eq!(left_behind(bench.pid().as_raw_pid()), Vec::<String>::new());
    let printed = bench.finish(DEADLINE).success().stdout;
    for (line, begins) in
        printed.lines().skip(1).zip(["one idle", "20 idle", "longest round trip, with a", "longest round trip, without"])
    {
        assert!(line.starts_with(begins) && line.contains(|sign: char| sign.is_ascii_digit()), "{printed}");
    }
    assert_eq!(printed.lines().count(), 5, "{printed}");
}

fn called(arguments: &[&str]) -> Output {
    Command::new(RINGWAY).arg("bench").args(arguments).output().expect("the command can be started")
}

fn reported(arguments: &[&str]) -> Output {
    Command::new(RINGWAY).arg("report").args(arguments).output().expect("the command can be started")
}

#[test]
fn conns_measures_all_targets_over_veth() {
    let rows = rows(&[
        "conns",
        "--target",
        "linux,linux-spin,linux-uring,preload,mtcp,fstack,service,embedded",
        "--connections",
        "2",
        "--seconds",
        "0.5",
        "--rounds",
        "1",
        "--patience",
        "0",
        "--json",
    ]);
    let mut targets: Vec<&str> = rows.iter().filter_map(|row| row["target"].as_str()).collect();
    targets.sort_unstable();
    assert_eq!(targets, ["embedded", "fstack", "linux", "linux-spin", "linux-uring", "mtcp", "preload", "service"]);
    for row in &rows {
        assert_eq!(
            (&row["scenario"], &row["point"], &row["unit"], &row["wire"]),
            (&"conns".into(), &"2".into(), &"requests/s".into(), &"veth".into())
        );
        // Where the machine forbids io_uring its row says so, and the others are measured.
        if row["target"] == "linux-uring" && row["note"].as_str().is_some_and(|note| note.starts_with("not measured: ")) {
            continue;
        }
        for figure in [
            "value",
            "p50_us",
            "p99_us",
            "server_cpu_us_per_request",
            "server_cpu_ratio",
            "client_cpu_us_per_request",
            "cycles_per_request",
            "ratio",
        ] {
            assert!(row[figure].as_f64().is_some_and(|value| value > 0.0), "{figure}: {row}");
        }
        for part in ["server_user_us_per_request", "server_system_us_per_request", "server_softirq_us_per_request"] {
            assert!(row[part].is_number(), "{part}: {row}");
        }
        assert_eq!(row["note"], "", "the kernel's TCP took no part where Ringway serves: {row}");
        assert!(row["noise"].is_string() && row["commit"].is_string() && row["retransmissions"].is_u64(), "{row}");
        assert_eq!((row["rounds"].as_u64(), row["repeated"].as_u64()), (Some(1), Some(0)), "{row}");
    }
    let linux = rows.iter().find(|row| row["target"] == "linux").expect("it is there");
    assert_eq!((linux["ratio"].as_f64(), linux["server_cpu_ratio"].as_f64()), (Some(1.0), Some(1.0)));
}

/// The processes that a process has started.
fn children(pid: i32) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let texts = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    texts.flat_map(|text| text.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<i32>>()).collect()
}

/// The state of the server that spins, among what `pid` has started; `T` is stopped.
fn state_of_spinning(pid: i32) -> Option<char> {
    let spins = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == b"--spin")
    };
    let stat = fs::read_to_string(format!("/proc/{}/stat", children(pid).iter().find(|pid| spins(pid))?)).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

#[test]
fn a_server_that_spins_stands_still_while_others_are_measured() {
    let net = Net::new();
    let mut bench =
        net.spawn_here(&[RINGWAY, "bench", "conns", "--target", "linux-spin,linux", "--connections", "1", "--rounds", "100"]);
    let pid = bench.pid().as_raw_pid();
    bench.wait_for_error_line("linux, round 1 of 100");
    wait_until("the spinning server is stopped", DEADLINE, || state_of_spinning(pid) == Some('T'));
    bench.wait_for_error_line("linux-spin, round 2 of 100");
    wait_until("it goes on in its turn", DEADLINE, || state_of_spinning(pid) == Some('R'));
    bench.signal(Signal::TERM);
    wait_until("it ends", DEADLINE, || bench.poll().is_some());
    assert_eq!(left_behind(pid), Vec::<String>::new());
    assert_eq!(bench.finish(DEADLINE).code(), 143);
}

#[test]
fn cpuload_asks_all_targets_for_shares_of_the_kernels_peak() {
    let rows = rows(&["cpuload", "--target", "linux,embedded", "--seconds", "0.3", "--rounds", "1", "--patience", "0", "--json"]);
    let points: Vec<(&str, &str)> =
        rows.iter().filter_map(|row| Some((row["point"].as_str()?.split(' ').next()?, row["target"].as_str()?))).collect();
    let shares = ["10", "50", "90"];
    let wanted: Vec<(&str, &str)> = shares.iter().flat_map(|share| [(*share, "linux"), (*share, "embedded")]).collect();
    assert_eq!(points, wanted);
    let peaks = rows.iter().zip(&points).map(|(row, (share, _))| {
        let share: f64 = share.parse().expect("a number");
        row["parameters"]["rate"].as_f64().expect("every point has a rate") * 100.0 / share
    });
    let peaks: Vec<f64> = peaks.collect();
    assert!(peaks.iter().all(|peak| (peak / peaks[0] - 1.0).abs() < 0.01), "{peaks:?}");
    assert!(rows.iter().all(|row| row["server_cpu_ratio"].as_f64().is_some_and(|ratio| ratio > 0.0)), "{rows:?}");
}

#[test]
fn cores_has_a_worker_on_each_of_two_cores() {
    let rows = rows(&[
        "cores",
        "--target",
        "linux,preload,embedded",
        "--connections",
        "16",
        "--seconds",
        "0.3",
        "--rounds",
        "1",
        "--patience",
        "0",
        "--json",
    ]);
    for row in &rows {
        let cores = row["parameters"]["cores"].as_f64();
        let note = row["note"].as_str().unwrap_or_default();
        if row["target"] == "preload" && cores == Some(2.0) {
            assert_eq!(note, "not measured: preload has one worker here");
            continue;
        }
        assert!(row["value"].as_f64().is_some_and(|value| value > 0.0), "{row}");
        assert!(!note.contains("kernel's TCP"), "{row}");
    }
    assert_eq!(rows.len(), 6);
    let kept = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    let kept: Vec<String> = kept.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    assert!(!kept.iter().any(|name| name.starts_with("ringway-bench-")), "{kept:?}");
}

#[test]
fn all_writes_rows_and_a_report_and_a_report_can_be_made_again() {
    let net = Net::new();
    let out = net.path("measured").display().to_string();
    let mut all = net.spawn_here(&[RINGWAY, "bench", "all", "--quick", "--only", "latency,accept", "-o", &out]);
    wait_until("the measurement ends", 4 * DEADLINE, || all.poll().is_some());
    let told = all.finish(DEADLINE).success().stderr;
    assert!(told.contains("latency") && told.contains("(2 of 2)") && told.contains("s left"), "{told}");
    let rows = net.path("measured/rows.jsonl");
    let text = fs::read_to_string(&rows).expect("it was written");
    assert!(text.contains("\"scenario\":\"latency\"") && text.contains("\"scenario\":\"accept\""), "{text}");
    for name in ["report.html", "report.md", "figures/latency.svg", "figures/accept.svg"] {
        assert!(net.path("measured").join(name).exists(), "{name}");
    }
    let (rows, beside) = (rows.display().to_string(), net.path("beside").display().to_string());
    assert!(reported(&[&rows, "--markdown", "-o", &beside]).status.success());
    assert!(net.path("beside/report.md").exists() && net.path("beside/latency.svg").exists());
    assert!(!net.path("beside/report.html").exists());
    let wrong = net.file("wrong.jsonl", "{\"scenario\":1}\n");
    let output = reported(&[&wrong, "-o", &beside]);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && words.contains("wrong.jsonl:1"), "{words}");
}

#[test]
fn an_interrupted_run_of_all_leaves_nothing() {
    let net = Net::new();
    let out = net.path("measured").display().to_string();
    let mut all = net.spawn_here(&[RINGWAY, "bench", "all", "--only", "conns", "-o", &out]);
    all.wait_for_error_line("round 1 of");
    let pid = all.pid().as_raw_pid();
    let child = *children(pid).first().expect("it measures in a process of its own");
    assert_ne!(left_behind(child), Vec::<String>::new(), "it stands on wires");
    all.signal(Signal::INT);
    wait_until("it ends", DEADLINE, || all.poll().is_some());
    assert_eq!(left_behind(child), Vec::<String>::new());
    assert_eq!(all.finish(DEADLINE).code(), 130);
}

#[test]
fn without_root_or_without_ip_nothing_is_measured_and_the_reason_is_told() {
    let net = Net::new();
    // Where others may not look into the build's folder.
    let copy = net.path("ringway");
    fs::copy(RINGWAY, &copy).expect("there is room");
    for scenario in [&["conns"][..], &["apps"], &["handover"], &["all", "-o", "/nonexistent"]] {
        let mut nobody = Command::new(&copy);
        let output = nobody.uid(NOBODY).gid(NOBODY).arg("bench").args(scenario).output().expect("it can be started");
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && words.contains("needs root"), "{scenario:?}: {words}");
    }
    let without = Command::new(RINGWAY).args(["bench", "conns", "--quiet"]).env("PATH", "/nonexistent").output();
    let without = without.expect("it can be started");
    let words = String::from_utf8_lossy(&without.stderr).into_owned();
    assert!(without.status.code() == Some(1) && words.contains("the program ip"), "{words}");
}

/// A user that is not root.
const NOBODY: u32 = 65_534;

#[test]
fn a_path_delays_and_loses_what_it_is_told() {
    let rows = rows(&[
        "latency",
        "--rtt",
        "20ms",
        "--loss",
        "5%",
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
        assert_eq!((&row["wire"], row["parameters"]["loss"].as_f64(), &row["note"]), (&"path".into(), Some(0.05), &"".into()));
        // A request and its reply cross it once each; one of them that is lost is sent again. (A loss of every nth packet is
        // no measure here: retransmissions may fall into step with it.)
        assert!(row["p50_us"].as_f64().is_some_and(|us| us >= 20_000.0), "{row}");
        assert!(row["lost_on_path"].as_u64().is_some_and(|lost| lost > 0), "{row}");
        assert_eq!(row["overflowed_on_path"], 0, "{row}");
    }
}

/// The kernel's sockets have the congestion control that was asked for, not the one of the wire's routes. (BBR needs a module: Reno
/// is always there.)
#[test]
fn congestion_control_reaches_the_kernels_sockets() {
    let net = Net::new();
    let what =
        ["bench", "loss", "--rtt", "5ms", "--loss", "1%", "--cc", "reno", "--target", "linux", "--seconds", "3", "--rounds", "1"];
    let bench = net.spawn_here(&[&[RINGWAY][..], &what].concat());
    let namespace = format!("rw-{}-0-a", bench.pid().as_raw_pid());
    let sockets = || {
        let list = Command::new("ip").args(["netns", "exec", &namespace, "ss", "-tniOH"]).output().expect("ip runs");
        String::from_utf8_lossy(&list.stdout).into_owned()
    };
    wait_until("a connection", DEADLINE, || sockets().contains("ESTAB"));
    let seen = sockets();
    assert!(seen.contains(" reno ") && !seen.contains(" cubic "), "{seen}");
    bench.signal(Signal::TERM);
    bench.finish(DEADLINE);
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
        (&["conns", "--workers", "2", "--wire", "tap"], "the veth wire"),
        (&["conns", "--patience", "101"], "patience"),
        (&["all"], "--out"),
        (&["all", "-o", "/tmp", "--only", "nonsense"], "nonsense"),
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
