//! redis-server, redis-cli and redis-benchmark.

use crate::harness::*;

const SERVER: &[&str] = &["redis-server", "--port", "6379", "--save", "", "--protected-mode", "no", "--daemonize", "no"];

fn start(net: &Net, launcher: &[&str]) -> Process {
    let arguments = [launcher, SERVER, &["--bind", "0.0.0.0"]].concat();
    let mut server = net.spawn(Server, &arguments);
    if launcher.is_empty() {
        net.wait_listening(Server, 6379, &mut server);
    } else {
        net.wait_served(Server, 6379, &mut server);
    }
    server
}

/// A value of 1 MB comes back as it went, and counters count.
fn store_and_read(net: &Net, launcher: &[&str]) {
    let value: Vec<u8> = noise(5, 1_000_000).iter().map(|byte| b'a' + byte % 26).collect();
    let input = net.path(&net.file("value", &value));
    let address = net.address(Server);
    let cli = [launcher, &["redis-cli", "-h", &address, "--no-auth-warning"]].concat();
    let set = [cli.clone(), vec!["-x", "SET", "key"]].concat();
    let answer = net.spawn_with(Client, &set, &[], Some(&input)).finish(DEADLINE).success().stdout;
    assert_eq!(answer.trim(), "OK");
    let got = net.output(Client, &[cli.clone(), vec!["GET", "key"]].concat());
    assert_eq!(digest(got.trim_end_matches('\n').as_bytes()), digest(&value));
    for expected in 1..=3 {
        let count = net.output(Client, &[cli.clone(), vec!["INCR", "count"]].concat());
        assert_eq!(count.trim(), expected.to_string());
    }
}

fn benchmark(net: &Net, launcher: &[&str]) {
    let address = net.address(Server);
    for pipeline in ["1", "16"] {
        let arguments = ["redis-benchmark", "-h", &address, "-n", "20000", "-c", "50", "-P", pipeline, "-t", "set,get", "--csv"];
        let report = net.output(Client, &[launcher, &arguments].concat());
        for test in ["\"SET\"", "\"GET\""] {
            assert!(report.lines().any(|line| line.starts_with(test)), "{report}");
        }
    }
}

const ON_RINGWAY: &[&str] = &[RINGWAY, "run", "-q", "--"];

#[test]
fn redis_server_serves_kernel_clients() {
    let net = Net::new();
    let server = start(&net, ON_RINGWAY);
    net.untouched(Server, || {
        store_and_read(&net, &[]);
        benchmark(&net, &[]);
    });
    server.signal(rustix::process::Signal::TERM);
    server.finish(DEADLINE).success();
}

#[test]
fn redis_clients_use_a_kernel_server() {
    let net = Net::new();
    let _server = start(&net, &[]);
    net.untouched(Client, || {
        store_and_read(&net, ON_RINGWAY);
        benchmark(&net, ON_RINGWAY);
    });
}
