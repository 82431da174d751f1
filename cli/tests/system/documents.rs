//! Each command of README, the documents, the manual pages and the help runs as its reader types it, or a test that runs it is named here.

#[path = "../../src/args/documents/named.rs"]
mod named;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rustix::process::Signal;

use crate::harness::*;
use crate::http::{nginx_config, site};
use named::{Named, documents, named, named_in};

/// Commands that change the machine, need another one or a terminal, or measure: the beginning of each, and the test that runs it.
const ELSEWHERE: [(&str, &str); 26] = [
    ("bench list", ""),
    ("bench compare", "report::a_bundle_is_compared_with_later_rows"),
    ("bench pack", "report::a_bundle_is_compared_with_later_rows"),
    ("bench agent", "machines::a_client_measures_servers_of_another_machine"),
    ("bench conns --peer ssh", "machines::ssh_starts_the_agent"),
    ("bench bulk --peer", "machines::a_client_measures_servers_of_another_machine"),
    ("bench cores", "bench::cores_has_a_worker_on_each_of_two_cores"),
    ("bench cpuload", "bench::cpuload_asks_all_targets_for_shares_of_the_kernels_peak"),
    ("bench handover", "bench::handovers_are_timed"),
    ("bench conns", "bench::conns_measures_all_targets_over_veth"),
    ("bench", "bench::all_writes_rows_and_a_report_and_a_report_can_be_made_again"),
    ("report", "bench::all_writes_rows_and_a_report_and_a_report_can_be_made_again"),
    ("config set --persist", "config::a_running_service_is_changed_and_compared_with_its_file"),
    ("demo", "demo::demo_prints_the_promised_object"),
    ("disable", "packaging::a_package_is_installed_used_and_purged"),
    ("enable", "packaging::a_package_is_installed_used_and_purged"),
    ("doctor --measure", "bulk::doctor_measures_and_a_service_follows_it"),
    ("doctor --self-test", "selftest::doctor_tries_af_xdp_when_asked"),
    ("doctor --undo", "doctor::doctor_removes_what_a_killed_service_left"),
    ("handover all", "handover::connections_go_home_while_both_directions_are_busy"),
    ("serve --replace", "replaced::a_service_takes_the_place_of_another"),
    ("serve", "config::a_second_service_of_the_same_name_is_refused"),
    ("top --once", ""),
    ("top --json", ""),
    ("top", "top::keys_lead_through_the_tables_and_the_terminal_is_given_back"),
    ("trace 192.0.2.1:443 198.51.100.7:50000", "trace::a_connection_is_told_with_its_decisions"),
];

/// What goes on until it is interrupted: the beginning of each.
const UNTIL_INTERRUPTED: [&str; 8] =
    ["log -f", "metrics --listen", "run -- nginx", "ss -E", "tcpdump", "top --json", "trace -w", "trace :"];

/// One that ends by itself although it begins like those.
const ENDS: &str = "tcpdump -c";

/// The test that runs a command instead; `None`: this one does.
fn elsewhere(command: &str) -> Option<&'static str> {
    let known = ELSEWHERE.iter().find(|(begin, _)| command.starts_with(begin));
    known.map(|(_, test)| *test).filter(|test| !test.is_empty())
}

/// The commands, without the program's own name, and the first place of each.
fn commands(net: &Net) -> BTreeMap<String, Named> {
    let help = |command: &[&str]| {
        let text = net.output(Server, &[&[RINGWAY], command, &["--help"]].concat());
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("  ringway ")).collect();
        named_in(&format!("help of {command:?}"), &format!("```\n{}\n", lines.join("\n")))
    };
    let of_documents: Vec<Named> = documents().iter().flat_map(|path| named(path)).collect();
    let firsts: Vec<String> = of_documents.iter().filter_map(|named| named.words.get(1).cloned()).collect();
    let below = firsts.iter().filter(|first| first.starts_with(|letter: char| letter.is_ascii_lowercase()));
    let of_help = below.flat_map(|first| help(&[first])).chain(help(&[]));
    let mut found = BTreeMap::<String, Named>::new();
    for named in of_documents.into_iter().chain(of_help) {
        let is_whole = named.is_whole;
        let known = found.entry(named.words[1..].join(" ")).or_insert(named);
        known.is_whole |= is_whole;
    }
    found
}

/// What a reader has: a service, web servers on it, and a client.
struct Machine {
    net: Net,
    /// The pid of the web server.
    pid: String,
    _processes: Vec<Process>,
}

/// Asks both ports some fifty times a second, for four minutes at most.
const CLIENT: &str = r"
import socket, sys, time
end = time.monotonic() + 240
while time.monotonic() < end:
    for port in 80, 443:
        try:
            with socket.create_connection((sys.argv[1], port), 5) as s:
                s.sendall(b'GET / HTTP/1.0\r\n\r\n')
                while s.recv(65536): pass
        except OSError: pass
    time.sleep(0.02)";

impl Machine {
    fn new() -> Machine {
        let net = Net::of_one_worker();
        site(&net);
        let file = net.file("ringway.toml", "[tcp]\nretries = 12\n");
        let mut processes = vec![net.serve_as(Server, "default", &["--config", &file])];
        for port in [80, 443] {
            let config = nginx_config(&net, port);
            let mut nginx = net.spawn(Server, &[RINGWAY, "run", "-q", "--name", "default", "--", "nginx", "-c", &config]);
            net.wait_served(Server, port, &mut nginx);
            processes.push(nginx);
        }
        let pid = net.output(Server, &["pgrep", "-o", "-P", &processes[1].pid().as_raw_nonzero().to_string()]);
        processes.push(net.spawn(Client, &["python3", "-c", CLIENT, &net.address(Server)]));
        Machine { pid: pid.trim().to_owned(), net, _processes: processes }
    }

    /// The words of a command with this machine's own in the place of a reader's.
    fn words(&self, words: &[String]) -> Vec<String> {
        let file = |name: &str| text(&self.net.path(name));
        let mut before = "";
        let mut filled = vec![RINGWAY.to_owned()];
        for word in &words[1..] {
            filled.push(match (before, word.as_str()) {
                ("--name", "NAME" | "web") => "default".to_owned(),
                ("--profile", "NAME") => "latency".to_owned(),
                ("--worker", "N") => "0".to_owned(),
                ("--workers", "N") => "2".to_owned(),
                ("diff", "FILE") => file("ringway.toml"),
                (_, "FILE") => file("capture.pcapng"),
                (_, "slow.pcapng" | "/run/ringway-metrics.sock") => file(word.trim_start_matches("/run/")),
                (_, "ADDRESS") => self.net.address(Server),
                (_, "PID" | "4711") => self.pid.clone(),
                (_, "END") => ":443".to_owned(),
                (_, "KEY") => "tcp.retries".to_owned(),
                (_, "KEY=VALUE") => "tcp.retries=9".to_owned(),
                ("why", "PROGRAM") => "nginx".to_owned(),
                (_, "PROGRAM" | "./server") => "true".to_owned(),
                (_, "./echo") => "echo".to_owned(),
                (_, "ARGS") => continue,
                _ => word.clone(),
            });
            before = word;
        }
        // Port 80 is taken.
        if words.contains(&"nginx".to_owned()) && words.contains(&"-g".to_owned()) {
            let pid = file("other.pid");
            let config = format!("pid {pid}; error_log stderr; events {{}} http {{ access_log off; server {{ listen 8080; }} }}");
            filled.extend(["-c".to_owned(), self.net.file("other.conf", config)]);
        }
        filled
    }

    /// nginx forgets a signal that comes between its handlers and its first wait: a request is answered after that.
    fn wait_answered(&self) {
        let url = format!("http://{}:8080/", self.net.address(Server));
        let ask = ["curl", "-s", "-o", "/dev/null", "--max-time", "5", &url];
        wait_until("an answer of nginx", DEADLINE, || self.net.run(Client, &ask).status.success());
    }

    /// Runs a command as long as a reader would; `Err`: it did not do what it promises.
    fn run(&self, command: &str, named: &Named) -> Result<(), String> {
        let words = self.words(&named.words);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut process = self.net.spawn(Server, &words);
        let goes_on = UNTIL_INTERRUPTED.iter().any(|begin| command.starts_with(begin)) && !command.starts_with(ENDS);
        if goes_on {
            wait_until(command, DEADLINE, || process.poll().is_some() || !(process.stdout() + &process.stderr()).is_empty());
            if command.starts_with("run -- nginx") {
                self.wait_answered();
            }
            process.signal(Signal::INT);
        }
        let ended = process.finish(DEADLINE);
        let is_short = !named.is_whole && ended.code() == 2 && ended.stderr.contains("Usage: ringway");
        match ended.code() {
            0 => Ok(()),
            code if goes_on && [130, -2].contains(&code) => Ok(()),
            _ if is_short => Ok(()),
            code => Err(format!("{}\n    {words:?}: {code}: {}{}", named.place, ended.stdout, ended.stderr)),
        }
    }
}

#[test]
fn each_command_of_the_documents_runs() {
    let machine = Machine::new();
    let commands = commands(&machine.net);
    assert!(commands.len() > 80, "{} commands", commands.len());
    // What reads a capture comes after what writes one.
    let (reads, others): (Vec<_>, Vec<_>) =
        commands.iter().partition(|(command, _)| command.starts_with("check-trace") || command.contains(" -r "));
    let mut wrong = Vec::new();
    for (command, named) in others.into_iter().chain(reads) {
        if elsewhere(command).is_none() {
            wrong.extend(machine.run(command, named).err());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_test_that_runs_a_command_instead_is_one() {
    for (command, test) in ELSEWHERE.iter().filter(|(_, test)| !test.is_empty()) {
        let (module, function) = test.split_once("::").expect("MODULE::FUNCTION");
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/system/{module}.rs"));
        let source = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert!(source.contains(&format!("#[test]\nfn {function}()")), "ringway {command}: there is no test {test}");
    }
}
