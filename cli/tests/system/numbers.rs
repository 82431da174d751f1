//! Many of everything: threads, processes, epoll instances, connections. Nothing ends at a number that was compiled in, and
//! no waiting thread polls.

use std::time::Duration;

use rustix::process::Signal;

use crate::harness::*;
use crate::idle::switches;

const MANY: &str = include_str!("numbers/many.c");
const PREFORK: &str = include_str!("numbers/prefork.py");
const TALK: &str = include_str!("numbers/talk.py");
const KEEPER: &str = include_str!("numbers/keeper.py");
const CROWD: &str = include_str!("numbers/crowd.py");
const BOUND: &str = include_str!("numbers/bound.py");
/// Echoes, with one thread for all.
const ECHO: &str = "
import select, socket
s = socket.create_server(('0.0.0.0', 4200), backlog=4096)
e, all = select.epoll(), {}
e.register(s, select.EPOLLIN)
while True:
    for number, _ in e.poll():
        if number == s.fileno():
            c = s.accept()[0]
            all[c.fileno()] = c
            e.register(c, select.EPOLLIN)
            continue
        try: data = all[number].recv(65536)
        except ConnectionResetError: data = b''
        if data: all[number].sendall(data)
        else: all.pop(number).close()";
/// As many programs start, connect and end as a test has.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs `many` on Ringway; `silent`: checks that nothing wakes a process while it waits.
fn many(what: &str, count: &str, silent: bool) {
    let net = Net::new();
    let (source, program) = (net.file("many.c", MANY), text(&net.path("many")));
    net.output(Client, &["cc", "-O2", "-pthread", "-o", &program, &source]);
    let mut echo = net.spawn(Client, &["python3", "-c", ECHO]);
    net.wait_listening(Client, 4200, &mut echo);
    let run = [RINGWAY, "run", "-q", "-e", "strict", "--", &program, what, count, &net.address(Client), "4200"];
    let mut program = net.spawn(Server, &run);
    let printed = program.stdout_path();
    let waits = || std::fs::read_to_string(&printed).is_ok_and(|text| text.contains("waiting"));
    wait_until("all to wait", PATIENCE, || waits() || program.poll().is_some());
    if silent {
        let mut before = switches(&net);
        // Delayed acknowledgments and the like end by themselves.
        wait_until("three seconds without a context switch", DEADLINE, || {
            std::thread::sleep(Duration::from_secs(3));
            let after = switches(&net);
            std::mem::replace(&mut before, after) == before
        });
    }
    program.signal(Signal::USR1);
    let ended = program.finish(PATIENCE).success();
    assert_eq!(ended.stdout, format!("waiting\n{count} of {count}\n"), "{}", ended.stderr);
}

#[test]
#[ignore = "hundreds of threads that all begin at once: make test-all"]
fn eight_hundred_threads_wait_and_no_turn_polls() {
    many("threads", "800", true);
}

#[test]
fn three_hundred_epoll_instances_are_told() {
    many("epolls", "300", false);
}

#[test]
fn three_hundred_processes_talk_at_once() {
    many("processes", "300", false);
}

#[test]
#[ignore = "minutes: make test-all"]
fn two_thousand_connections_at_once() {
    many("threads", "2000", true);
    many("epolls", "2000", false);
    many("processes", "1000", false);
}

#[test]
fn a_server_that_forks_for_each_of_four_hundred_connections() {
    let net = Net::new();
    let mut server = net.spawn_ringway(Server, &["python3", "-c", PREFORK]);
    net.wait_served(Server, 4300, &mut server);
    let client = net.spawn(Client, &["python3", "-c", TALK, &net.address(Server), "4300", "400"]).finish(PATIENCE).success();
    assert_eq!(client.stdout, "400 talked twice\n", "{}", server.stderr());
}

#[test]
#[ignore = "a minute, and a GB of the kernel's: make test-all"]
fn a_hundred_thousand_connections_of_one_tree_of_programs() {
    let net = Net::new();
    let mut server = net.spawn_ringway(Server, &["python3", "-c", CROWD, "serve", "8"]);
    (5000..5008).for_each(|port| net.wait_served(Server, port, &mut server));
    let crowd = ["python3", "-c", CROWD, &net.address(Server), "8", "12500"];
    let ended = net.spawn(Client, &crowd).finish(PATIENCE).success();
    assert_eq!(ended.stdout, "all open\nall talked\n", "{}", ended.stderr);
}

/// Beyond the bound no handshake is completed; it is counted, and goes on when there is room.
#[test]
fn a_handshake_without_room_is_not_answered_until_there_is_some() {
    let net = Net::of_one_worker();
    let config = net.file("ringway.toml", "[limits]\nsockets_per_group = 33\n");
    let mut server = net.spawn(Server, &[RINGWAY, "run", "-q", "--config", &config, "--", "python3", "-c", KEEPER]);
    net.wait_served(Server, 4400, &mut server);
    let mut clients = net.spawn(Client, &["python3", "-c", BOUND, &net.address(Server), "4400", "100"]);
    net.wait_printed(&mut server, "32 kept");
    let counter = |name: &str| {
        let shown = net.output(Server, &[RINGWAY, "nstat", "-asz"]);
        let line = shown.lines().find(|line| line.split_whitespace().next() == Some(name)).map(str::to_owned);
        line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0)
    };
    // Those that got no answer ask again after a second. Handshakes that have begun take up the room too, so that a SYN is
    // refused before the last socket is taken; and the service writes its counters at times.
    server.wait_while_running("SYNs that are refused", || counter("TcpExtListenOverflows") > 0);
    server.wait_while_running("the quota's hit", || counter("RingwayQuotaHits") > 0);
    net.wait_printed(&mut clients, "32 connections");
    assert!(!clients.stdout().contains("33 connections"), "{}", clients.stdout());
    server.signal(Signal::USR1);
    let ended = clients.finish(PATIENCE).success();
    assert!(ended.stdout.contains("all"), "{}", ended.stdout);
}
