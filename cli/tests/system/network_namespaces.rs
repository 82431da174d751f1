//! Services of one name in two network namespaces: each program meets its own, and the tools show one, the other or both.

use serde_json::Value;

use crate::harness::*;

const SERVER: &str = "
import socket, signal
s = socket.create_server(('', 4700))
c, _ = s.accept()
c.sendall(c.recv(100).upper())
print('answered', flush=True)
signal.pause()";

const CLIENT: &str = "
import socket, signal, sys
c = socket.create_connection((sys.argv[1], 4700))
c.sendall(b'hello'); print(c.recv(100).decode(), flush=True)
signal.pause()";

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn each_has_a_service_of_the_name_and_the_tools_show_those_that_are_asked_for() {
    let net = Net::of_one_worker();
    let (_server_service, name) = net.serve(Server, &[]);
    let _client_service = net.serve_as(Client, &name, &[]);
    let there = net.namespace(Client);
    let run = [RINGWAY, "run", "-q", "-e", "strict", "--name", &name, "--", "python3", "-c"];
    let mut server = net.spawn(Server, &[&run[..], &[SERVER]].concat());
    net.wait_served(Server, 4700, &mut server);
    let before = [net.kernel_tcp(Server), net.kernel_tcp(Client)];
    let file = text(&net.path("both.pcapng"));
    let mut capture = net.spawn(Server, &[RINGWAY, "tcpdump", "--all-namespaces", "--name", &name, "-c", "6", "-w", &file]);
    capture.wait_for_error_line("listening on");
    let mut client = net.spawn(Client, &[&run[..], &[CLIENT, &net.address(Server)]].concat());
    net.wait_printed(&mut client, "HELLO");
    net.assert_kernel_received(Server, &before[0], 0);
    net.assert_kernel_received(Client, &before[1], 0);
    let heard = capture.stderr();
    assert!(
        heard.contains(&format!("listening on {INTERFACE},{there}/{INTERFACE} of service {name}, {name}@{there}")),
        "{heard}"
    );
    capture.finish(DEADLINE).success();
    assert!(net.output(Server, &["tcpdump", "-nr", &file]).lines().count() == 6);

    let tool = |words: &[&str]| net.output(Server, &[&[RINGWAY][..], words, &["--name", &name]].concat());
    let all = |words: &[&str]| tool(&[words, &["--all-namespaces"]].concat());
    wait_until("both ends are listed", DEADLINE, || all(&["ss", "-Htn"]).lines().count() == 2);
    let here = tool(&["ss", "-Htn"]);
    assert!(here.lines().count() == 1 && here.contains(":4700 ") && !here.contains("service:"), "{here}");
    let other = tool(&["ss", "-HtnN", &there]);
    assert!(other.lines().count() == 1 && other.trim_end().ends_with(":4700"), "{other}");
    let by_path = tool(&["ss", "-Htn", "--net", &format!("/run/netns/{there}")]);
    assert_eq!(by_path, other);
    let both = all(&["ss", "-Htn"]);
    for service in [format!(" service:{name}\n"), format!(" service:{name}@{there}\n")] {
        assert!(both.contains(&service), "no {service:?}: {both}");
    }
    let services =
        |sockets: &Value| sockets.as_array().expect("a list").iter().map(|one| one["service"].clone()).collect::<Vec<_>>();
    let listed = json(&all(&["ss", "-tnj"]));
    assert!(services(&listed["sockets"]).contains(&Value::String(format!("{name}@{there}"))), "{listed}");
    let counted = json(&all(&["nstat", "-asj"]));
    assert_eq!((&counted["ringway"]["TcpActiveOpens"], &counted["ringway"]["TcpPassiveOpens"]), (&1.into(), &1.into()));
    let rates = json(&all(&["top", "--once", "--json", "-d", "0.1"]));
    assert_eq!(rates["workers"].as_array().map(Vec::len), Some(2), "{rates}");
    let page = all(&["metrics"]);
    assert!(page.contains(&format!("TcpActiveOpens_total{{service=\"{name}@{there}\",worker=\"0\"}} 1")), "{page}");
    let listed = all(&["tcpdump", "-D"]);
    assert!(listed.contains(&format!("\n{INTERFACE} [Ethernet, MTU 1500, service {name}@{there}]\n")), "{listed}");
    let why = net.output(Server, &[RINGWAY, "why", &client.pid().as_raw_pid().to_string()]);
    assert!(why.contains(&format!("on Ringway, service {name}@{there}")), "{why}");
}

#[test]
fn what_does_not_exist_is_named() {
    let net = Net::new();
    let ask = |words: &[&str]| net.run(Server, &[&[RINGWAY, "ss"], words].concat());
    for (words, code, expected) in [
        (&["--net", "no-such"][..], 1, "network namespace no-such: No such file or directory"),
        (&["--net", "no-such", "--all-namespaces"], 2, "cannot be used with"),
        (&["--name", "no-such"], 1, "no service no-such"),
        (&["--name", "no-such", "--all-namespaces"], 1, "no service no-such: it runs in no network namespace"),
    ] {
        let refused = ask(words);
        assert!(refused.code() == code && refused.stderr.contains(expected), "{words:?}: {}", refused.stderr);
    }
    let refused = net.run(Server, &[RINGWAY, "tcpdump", "--net", "x", "--all-namespaces"]);
    assert!(refused.code() == 1 && refused.stderr.contains("exclude each other"), "{}", refused.stderr);
    let none = net.run(Server, &[RINGWAY, "nstat", "--net", &net.namespace(Client)]);
    assert!(
        none.stderr.contains(&format!("no service is running in network namespace {}", net.namespace(Client))),
        "{}",
        none.stderr
    );
}
