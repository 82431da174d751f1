//! `ringway top` beside iperf3: as JSON, as text, and in a real terminal with keys.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::harness::*;

/// A server of iperf3 on Ringway and a client that sends 50 Mbit/s until it is dropped.
fn loaded(net: &Net) -> (Process, Process, Process, String) {
    let (service, name) = net.serve(Server, &[]);
    let mut server = net.spawn(Server, &[RINGWAY, "run", "-q", "--name", &name, "--", "iperf3", "-s"]);
    net.wait_served(Server, 5201, &mut server);
    let client = net.spawn(Client, &["iperf3", "-c", &net.address(Server), "-t", "60", "-b", "50M"]);
    (service, server, client, name)
}

fn once(net: &Net, name: &str, more: &[&str]) -> Value {
    let text = net.output(Server, &[&[RINGWAY, "top", "--once", "--json", "-d", "0.5", "--name", name], more].concat());
    serde_json::from_str(&text).expect("a line of JSON")
}

#[test]
fn rates_are_those_of_the_load() {
    let net = Net::new();
    let (service, _server, mut client, name) = loaded(&net);
    let mut last = Value::Null;
    client.wait_while_running("a stream of 50 Mbit/s", || {
        last = once(&net, &name, &["sport", "=", ":5201"]);
        let stream = last["connections"].as_array().into_iter().flatten().find(|row| row["in_bits_per_s"].as_f64() > Some(25e6));
        stream.is_some()
    });
    let number = |value: &Value| value.as_f64().expect("a number");
    let works = |worker: &Value| number(&worker["busy"]) > 0.0 && number(&worker["in_packets_per_s"]) > 100.0;
    assert!(last["workers"].as_array().is_some_and(|workers| workers.iter().any(works)), "{last}");
    assert_eq!(last["interfaces"][0]["interface"], INTERFACE, "{last}");
    assert!(number(&last["interfaces"][0]["in_bits_per_s"]) > 25e6, "{last}");
    let program = &last["programs"][0];
    assert_eq!((program["program"].as_str(), program["listeners"].as_u64()), (Some("iperf3"), Some(1)), "{last}");
    assert!(number(&program["in_bits_per_s"]) > 25e6, "{last}");
    // The filter is for connections only.
    let none = once(&net, &name, &["sport", "=", ":1"]);
    assert_eq!((none["connections"].as_array().map(Vec::len), none["programs"].as_array().map(Vec::len)), (Some(0), Some(1)));
    let text = net.output(Server, &[RINGWAY, "top", "--once", "-d", "0.2", "--name", &name]);
    assert!(text.contains("WORKER") && text.contains("iperf3") && text.contains(":5201"), "{text}");
    // A reader that has seen enough ends it; a service that has gone is an error.
    let pipe = format!("{RINGWAY} top --json -d 0.1 --name {name} | head -n 2 | wc -l");
    assert_eq!(net.output(Server, &["sh", "-c", &pipe]).trim(), "2");
    drop(service);
    let failed = net.run(Server, &[RINGWAY, "top", "--once", "-d", "0.1"]);
    assert_eq!(failed.code(), 1);
    assert!(failed.stderr.contains("no service is running in this network namespace"), "{}", failed.stderr);
}

/// A terminal of 80 columns and 24 lines.
struct Screen<'a> {
    net: &'a Net,
    socket: String,
}

impl Screen<'_> {
    fn open<'a>(net: &'a Net, command: &str) -> Screen<'a> {
        let screen = Screen { net, socket: text(&net.path("tmux")) };
        // What is left behind ends by itself.
        let command =
            format!("timeout --foreground 60 {command}; echo ended with $?; stty -a | tr ';' '\\n' | tail -n 6; exec sleep 60");
        screen.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", &command]);
        screen
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        self.net.output(Server, &[&["tmux", "-S", &self.socket], arguments].concat())
    }

    fn shows(&self, words: &[&str]) {
        let mut last = String::new();
        wait_until(&format!("a screen with {words:?}"), DEADLINE, || {
            // What a test that fails has seen.
            let before = std::mem::replace(&mut last, self.tmux(&["capture-pane", "-p"]));
            if before != last {
                println!("{last}");
            }
            words.iter().all(|word| last.contains(word))
        });
    }

    fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }
}

impl Drop for Screen<'_> {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[test]
fn keys_lead_through_the_tables_and_the_terminal_is_given_back() {
    let net = Net::of_one_worker();
    let (_service, _server, _client, name) = loaded(&net);
    let top = format!("{RINGWAY} top -d 0.2 --name {name}");
    let screen = Screen::open(&net, &top);
    screen.shows(&["ringway top", "1 service, 1 worker, 1 program", "WORKER", "BUSY", "INTERFACE", INTERFACE, "q end"]);
    screen.press("2");
    screen.shows(&["PROGRAM", "LISTEN", "iperf3"]);
    screen.press("Enter");
    screen.shows(&["of iperf3", "LOCAL", "PEER", ":5201", "ESTAB"]);
    for key in ["/", "s", "p", "o", "r", "t", "Space", "=", "Space", ":", "5", "2", "0", "1", "Enter"] {
        screen.press(key);
    }
    screen.shows(&["where sport = :5201", "ESTAB"]);
    // Two connections of a run of iperf3: the one that receives is first when sorted by what comes in.
    screen.press("S");
    screen.press("Home");
    screen.press("Enter");
    screen.shows(&["in bit/s", "rtt", "most", "rto:"]);
    screen.press("Escape");
    screen.press("4");
    screen.shows(&["COUNTER", "MEANING"]);
    screen.press("?");
    screen.shows(&["pause", "Ctrl-C"]);
    screen.press("q");
    screen.press("q");
    screen.shows(&["ended with 0", " echo", "icanon"]);
}

#[test]
fn a_signal_gives_the_terminal_back() {
    let net = Net::new();
    let screen = Screen::open(&net, &format!("{RINGWAY} top -d 0.2"));
    screen.shows(&["no service is running in this network namespace"]);
    let shell = screen.tmux(&["list-panes", "-F", "#{pane_pid}"]);
    let shell = shell.trim();
    let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).expect("the shell waits for it");
    let timeout = children.trim().parse().ok().and_then(Pid::from_raw).expect("one child");
    kill_process(timeout, Signal::TERM).expect("it runs");
    screen.shows(&["ended with", " echo", "icanon"]);
}
