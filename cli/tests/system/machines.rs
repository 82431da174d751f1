//! `ringway bench --peer`: client and server on two machines, here two namespaces.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::*;
use crate::ssh::{self, sshd};

const PORT: &str = "7711";
const TOKEN: &str = "token-of-this-test";
const SHORT: [&str; 8] = ["--connections", "4", "--seconds", "0.3", "--rounds", "1", "--patience", "0"];

/// An agent on the server's machine, and how it is named on the client's.
fn agent(net: &Net) -> (Process, String) {
    let at = format!("{}:{PORT}", net.address(Server));
    let mut agent =
        net.spawn_with(Server, &[RINGWAY, "bench", "agent", "--listen", &at], &[("RINGWAY_BENCH_TOKEN", TOKEN)], None);
    net.wait_printed(&mut agent, "listening on");
    (agent, at)
}

/// A measurement from the client's machine.
fn bench(net: &Net, token: &str, words: &[&str]) -> Process {
    net.spawn_with(Client, &[&[RINGWAY, "bench"], words].concat(), &[("RINGWAY_BENCH_TOKEN", token)], None)
}

fn rows(ended: Finished) -> Vec<Value> {
    ended.success().stdout.lines().map(|line| serde_json::from_str(line).expect("one object per line")).collect()
}

/// Each target was measured, by servers of the other machine alone.
fn assert_measured(net: &Net, rows: &[Value], targets: &[&str]) {
    assert_eq!(rows.iter().filter_map(|row| row["target"].as_str()).collect::<Vec<_>>(), targets);
    for row in rows {
        assert!(row["value"].as_f64().is_some_and(|value| value > 0.0), "{row}");
        assert!(row["server_cpu_us_per_request"].as_f64().is_some_and(|value| value > 0.0), "{row}");
        assert_eq!((&row["wire"], &row["note"]), (&"network".into(), &"".into()), "{row}");
        for (end, side) in [("server", Server), ("client", Client)] {
            let facts = &row["ends"][end];
            assert_eq!((&facts["address"], &facts["MTU"]), (&net.address(side).into(), &"1500".into()), "{row}");
            assert_eq!((&facts["interface"], &facts["driver"]), (&INTERFACE.into(), &"veth".into()), "{row}");
        }
    }
}

#[test]
fn a_client_measures_servers_of_another_machine() {
    let net = Net::new();
    let (_agent, at) = agent(&net);
    let words = ["conns", "--peer", &at, "--target", "linux,preload,service", "-q", "--json"];
    let measured = rows(bench(&net, TOKEN, &[&words[..], &SHORT].concat()).finish(2 * DEADLINE));
    assert_measured(&net, &measured, &["linux", "preload", "service"]);
    assert_eq!(measured[0]["ratio"].as_f64(), Some(1.0));
}

/// The service that is there is used; the load goes to another address than the calls.
#[test]
fn servers_use_the_service_of_their_machine_and_the_address_that_is_named() {
    let net = Net::new();
    let mut service = net.spawn(Server, &[RINGWAY, "serve"]);
    service.wait_for_error_line("ready: TCP on");
    let (_agent, at) = agent(&net);
    let other = net.address6(Server);
    let load = format!("[{other}]:8099");
    let words = ["conns", "--peer", &at, "--peer-address", &load, "--target", "preload", "-q", "--json"];
    let measured = rows(bench(&net, TOKEN, &[&words[..], &SHORT].concat()).finish(2 * DEADLINE));
    assert_eq!((measured.len(), &measured[0]["note"], &measured[0]["ends"]["server"]["address"]), (1, &"".into(), &other.into()));
    let counted = net.output(Server, &[RINGWAY, "nstat", "-asz", "--name", "default", "TcpPassiveOpens"]);
    assert!(counted.split_whitespace().any(|word| word == "4"), "{counted}");
}

/// One client here and one at an agent, which stands in the same namespace: both know the interface to the server.
#[test]
fn several_clients_share_a_load() {
    let net = Net::new();
    let (_agent, at) = agent(&net);
    let of_client = format!("{}:7712", net.address(Client));
    let token = [("RINGWAY_BENCH_TOKEN", TOKEN)];
    let mut other = net.spawn_with(Client, &[RINGWAY, "bench", "agent", "--listen", &of_client], &token, None);
    net.wait_printed(&mut other, "listening on");
    let words = ["conns", "--peer", &at, "--clients", &of_client, "--target", "linux,preload", "-q", "--json"];
    let measured = rows(bench(&net, TOKEN, &[&words[..], &SHORT].concat()).finish(2 * DEADLINE));
    assert_measured(&net, &measured, &["linux", "preload"]);
    for row in &measured {
        assert_eq!(row["ends"]["client 2"]["address"], net.address(Client), "{row}");
        assert!(row["p50_us"].as_f64().is_some_and(|p50| p50 > 0.0), "{row}");
    }
    let few = bench(&net, TOKEN, &[&words[..], &["--connections", "1", "--patience", "0"]].concat()).finish(DEADLINE);
    assert!(few.code() == 1 && few.stderr.contains("1 connections are too few for 2 clients"), "{}", few.stderr);
    let alone = bench(&net, TOKEN, &["conns", "--clients", &of_client]).finish(DEADLINE);
    assert!(alone.code() == 2 && alone.stderr.contains("--peer"), "{}", alone.stderr);
}

/// Says lines to an agent, and prints the answer to each.
const SAYS: &str = r"
import socket, sys
s = socket.create_connection((sys.argv[1], 7711)); answers = s.makefile()
for line in sys.argv[2:]:
    s.sendall(line.encode() + b'\n'); print(answers.readline(), end='')";

/// A caller with the token: what it asks of a client out of order, or towards another address, is not done.
#[test]
fn a_client_loads_the_address_that_it_was_started_for_and_no_other() {
    let net = Net::new();
    let (_agent, _) = agent(&net);
    let hello = format!("{{\"Hello\":{{\"protocol\":2,\"token\":\"{TOKEN}\"}}}}");
    let client = format!("{{\"Client\":\"{}:8080\"}}", net.address(Client));
    let tuning = "{\"congestion\":null,\"receive_buffer\":null}";
    let plan = format!(
        "{{\"Order\":{{\"Prepare\":{{\"server\":\"{}:80\",\"sources\":[],\"connections\":1,\"request\":1,\"reply\":1,\"depth\":1,\
         \"pace\":\"Closed\",\"http\":false,\"streams\":0,\"log\":null,\"tuning\":{tuning}}}}}}}",
        net.address(Client)
    );
    let count = "{\"Order\":\"Count\"}";
    let said = net.output(Client, &["python3", "-c", SAYS, &net.address(Server), &hello, &plan, &client, &client, &plan, count]);
    let answers: Vec<&str> = said.lines().collect();
    assert!(answers.len() == 6 && answers[0].contains("Welcome") && answers[2].contains("Facts"), "{said}");
    for (at, why) in [(1, "no client runs"), (3, "a client runs already"), (4, "this is a client of"), (5, "counts no packets")] {
        assert!(answers[at].contains("Failed") && answers[at].contains(why), "{said}");
    }
}

/// The agent needs no port and no token there.
#[test]
fn ssh_starts_the_agent() {
    let net = Net::new();
    let daemon = sshd(&net);
    let mut daemon = net.spawn(Server, &daemon.iter().map(String::as_str).collect::<Vec<_>>());
    net.wait_listening(Server, ssh::PORT, &mut daemon);
    // The test's key and port, which a user has in ssh's configuration.
    let folder = net.path("bin");
    fs::create_dir(&folder).expect("a folder of ours");
    let options = ssh::options(&net).join(" ");
    let script = format!("#!/bin/sh\nexec /usr/bin/ssh -p {} {options} \"$@\"\n", ssh::PORT);
    fs::write(folder.join("ssh"), script).expect("a folder of ours");
    fs::set_permissions(folder.join("ssh"), fs::Permissions::from_mode(0o755)).expect("the file is ours");
    let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", text(&folder));
    let peer = format!("ssh:root@{} {RINGWAY}", net.address(Server));
    let words = [&[RINGWAY, "bench", "conns", "--peer", &peer, "--target", "linux,preload", "-q", "--json"], &SHORT[..]].concat();
    let measured = rows(net.spawn_with(Client, &words, &[("PATH", &path)], None).finish(2 * DEADLINE));
    assert_measured(&net, &measured, &["linux", "preload"]);
}

#[test]
fn what_cannot_be_measured_so_is_said() {
    let net = Net::new();
    let (_agent, at) = agent(&net);
    let nowhere = format!("{}:7712", net.address(Server));
    for (token, words, code, said) in [
        ("token-of-another-one", ["conns", "--peer", &at, "--target", "linux"], 1, "not the agent's token"),
        (TOKEN, ["conns", "--peer", &nowhere, "--target", "linux"], 1, "Connection refused"),
        (TOKEN, ["conns", "--peer", &at, "--target", "embedded"], 2, "embedded cannot use the network wire"),
        (TOKEN, ["memory", "--peer", &at, "--target", "linux"], 2, "makes its own wire"),
        (TOKEN, ["loss", "--peer", &at, "--target", "linux"], 2, "makes its own wire"),
        (TOKEN, ["conns", "--peer", "ssh:-oProxyCommand=true", "--target", "linux"], 2, "expected ssh:HOST"),
        (TOKEN, ["conns", "--peer", &at, "--rtt", "1ms"], 2, "cannot be used with"),
    ] {
        let ended = bench(&net, token, &words).finish(DEADLINE);
        assert!(ended.code() == code && ended.stderr.contains(said), "{words:?}: {} {}", ended.code(), ended.stderr);
    }
}

/// Processes of the server's machine that play a role.
fn roles(net: &Net) -> usize {
    let is_role = |pid: &i32| {
        let words = fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == b"role")
    };
    net.processes(Server).iter().filter(|pid| is_role(pid)).count()
}

#[test]
fn a_killed_caller_leaves_no_server_and_the_next_one_is_served() {
    let net = Net::new();
    let (_agent, at) = agent(&net);
    let words = ["conns", "--peer", &at, "--target", "preload", "--seconds", "60", "--rounds", "1", "--connections", "2", "-q"];
    let mut caller = bench(&net, TOKEN, &words);
    caller.wait_while_running("its server", || roles(&net) > 0);
    let other = bench(&net, TOKEN, &words).finish(DEADLINE);
    assert!(other.code() == 1 && other.stderr.contains("another measurement runs here"), "{}", other.stderr);
    caller.signal(Signal::KILL);
    wait_until("the server's end", DEADLINE, || roles(&net) == 0);
    let words = ["conns", "--peer", &at, "--target", "linux", "-q", "--json"];
    let measured = rows(bench(&net, TOKEN, &[&words[..], &SHORT].concat()).finish(2 * DEADLINE));
    assert_measured(&net, &measured, &["linux"]);
}
