//! Limits of one user, peer or program on what all use.

use rustix::process::Signal;

use crate::harness::{Client, DEADLINE, INTERFACE, Net, Process, RINGWAY, Server, wait_until};

const READERS: &str = include_str!("quotas/readers.py");
const HALF_OPEN: &str = include_str!("quotas/half_open.py");
const MANY: &str = include_str!("quotas/many.py");
const PIN: &str = include_str!("quotas/pin.py");
const PORTS: &str = include_str!("quotas/ports.py");

/// A thousand peers that ask for 4 MiB each and read nothing hold back no other peer.
#[test]
fn slow_readers_leave_room_for_others() {
    let net = Net::new();
    let script = net.file("readers.py", READERS);
    let address = net.address(Server);
    let readers = |role| ["python3", &script, role, &address, "8080"];
    let mut server = net.spawn_ringway(Server, &readers("server"));
    net.wait_served(Server, 8080, &mut server);
    let mut slow = net.spawn(Client, &readers("slow"));
    net.wait_printed(&mut slow, "asked for much");
    let served = net.run(Client, &readers("served")).success().stdout;
    assert_eq!(served, "all answered\n");
    drop(slow);
    let served = net.spawn(Client, &readers("served")).finish(DEADLINE).success().stdout;
    assert_eq!(served, "all answered\n", "after the slow ones have gone");
}

/// A counter of the service on the server's side.
fn counter(net: &Net, name: &str) -> u64 {
    let shown = net.output(Server, &[RINGWAY, "nstat", "-asz"]);
    let line = shown.lines().find(|line| line.split_whitespace().next() == Some(name));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or_else(|| panic!("no counter {name}"))
}

/// Starts a program of the server's side on a private service with these limits.
fn limited(net: &Net, limits: &str, program: &[&str]) -> Process {
    let config = net.file("limits.toml", format!("[limits]\n{limits}\n"));
    let run = [&[RINGWAY, "run", "-q", "--config", &config, "--"], program].concat();
    net.spawn_with(Server, &run, &[("RINGWAY_LOG", "fallback")], None)
}

/// A user's third port is the kernel's where the user may show two, and it works.
#[test]
fn a_port_beyond_those_that_a_user_may_show_is_the_kernels_and_works() {
    let net = Net::of_one_worker();
    let script = net.file("ports.py", PORTS);
    let mut server = limited(&net, "shown_sockets_per_user = 2", &["python3", &script, "3"]);
    net.wait_printed(&mut server, "listens");
    server.wait_for_error_line("fallback=not-shown listen");
    let ask =
        "import socket, sys; print(socket.create_connection((sys.argv[1], int(sys.argv[2])), 20).recv(100).decode(), end='')";
    for port in ["4420", "4421", "4422"] {
        let answer = net.output(Client, &["python3", "-c", ask, &net.address(Server), port]);
        assert_eq!(answer, format!("{port}\n"));
    }
    server.wait_while_running("the refusal is counted", || counter(&net, "RingwayQuotaUserShownSocketsHits") > 0);
    assert!(counter(&net, "RingwayQuotaHits") > 0, "the sum has it too");
    let shown = net.output(Server, &[RINGWAY, "ss", "-s"]);
    assert!(shown.lines().all(|line| line.len() <= 80), "{shown}");
    let words = |key: &str| -> Vec<String> {
        let line =
            shown.lines().find(|line| line.split_whitespace().next() == Some(key)).unwrap_or_else(|| panic!("{key}: {shown}"));
        line.split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(words("shown_sockets_per_user"), ["shown_sockets_per_user", "2", "2", "1"]);
    assert_eq!(words("processes_per_group")[..3], ["processes_per_group", "1", "4032"]);
    assert!(shown.lines().any(|line| line.starts_with("group ") && line.contains(" python3 of user 0")), "{shown}");
    let json: serde_json::Value = serde_json::from_str(&net.output(Server, &[RINGWAY, "ss", "-sj"])).expect("JSON");
    let scopes: Vec<_> = json["quotas"].as_array().expect("a list").iter().map(|told| told["holder"]["scope"].clone()).collect();
    assert_eq!(scopes, ["service", "user", "group"]);
}

/// A program that asks for more than it may in a second is slower, and loses nothing.
#[test]
fn a_program_beyond_its_requests_waits_and_loses_nothing() {
    let net = Net::new();
    let script = net.file("many.py", MANY);
    let mut server = limited(&net, "requests_per_second = 1000", &["python3", &script, "serve", "-", "0"]);
    net.wait_served(Server, 4410, &mut server);
    let asked = net.output(Client, &["python3", &script, "ask", &net.address(Server), "1000"]);
    assert_eq!(asked, "all answered\n");
    assert!(counter(&net, "RingwayQuotaGroupRequestsHits") > 0);
}

/// SYNs of peers that never answer take the places that their user has; beyond those they get cookies, and a peer that answers is served.
#[test]
fn half_open_connections_of_a_user_are_bounded() {
    let net = Net::of_one_worker();
    let (script, flood) = (net.file("many.py", MANY), net.file("half_open.py", HALF_OPEN));
    let mut server = limited(&net, "half_open_per_user = 4", &["python3", &script, "serve", "-", "0"]);
    net.wait_served(Server, 4410, &mut server);
    let (address, mac) = (net.address(Server), crate::attacks::mac(&net, Server));
    net.output(Client, &["python3", &flood, &address, &net.address(Client), INTERFACE, &mac, "4410", "20"]);
    server.wait_while_running("SYNs beyond the quota", || counter(&net, "RingwayQuotaUserHalfOpenHits") == 16);
    assert_eq!(counter(&net, "TcpExtSyncookiesSent"), 16);
    assert_eq!(net.output(Client, &["python3", &script, "ask", &address, "10"]), "all answered\n");
}

/// Programs that end while their peer reads nothing leave no more memory behind than there may be groups.
#[test]
fn memory_that_ended_programs_leave_is_bounded() {
    let net = Net::new();
    let config = net.file("limits.toml", "[limits]\ngroups = 3\n[memory]\nslots = 1024\n");
    let (service, name) = net.serve(Server, &["--config", &config]);
    let never = "import socket; l = socket.create_server(('0.0.0.0', 9200)); k = []\nwhile True: k.append(l.accept())";
    let mut peer = net.spawn(Client, &["python3", "-c", never]);
    net.wait_listening(Client, 9200, &mut peer);
    let script = net.file("pin.py", PIN);
    for _ in 0..5 {
        let program = [RINGWAY, "run", "-q", "--name", &name, "--", "python3", &script, &net.address(Client)];
        assert_eq!(net.output(Server, &program), "touched True\n");
    }
    let regions = || -> usize {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", service.pid().as_raw_nonzero())).expect("the service lives");
        let inodes =
            maps.lines().filter(|line| line.contains("ringway-region")).filter_map(|line| line.split_whitespace().nth(4));
        inodes.collect::<std::collections::BTreeSet<_>>().len()
    };
    wait_until("all but three are given back", DEADLINE, || regions() <= 3);
    assert!(regions() > 0, "the peer holds some");
    wait_until("what was reset is counted", DEADLINE, || counter(&net, "RingwayQuotaGroupsHits") >= 2);
    let program = [RINGWAY, "run", "-q", "--name", &name, "--", "python3", &script, &net.address(Client)];
    assert_eq!(net.output(Server, &program), "touched True\n", "a new program finds room");
}

/// Reads one connection to its end, and says how many bytes came.
const TAKES: &str = "
import socket
s = socket.create_server(('', 4000))
print('listens', flush=True)
c, _ = s.accept(); count = 0
while data := c.recv(65536): count += len(data)
print('got', count, flush=True)";

/// Connects, and sends when it is told to.
const GIVES: &str = "
import signal, socket, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
s = socket.create_connection((sys.argv[1], 4000))
print('connected', flush=True)
signal.sigwait([signal.SIGUSR1])
s.sendall(b'x' * 2_000_000); s.close()";

/// A connection that went home to the kernel is slowed down by the bound, and loses nothing.
#[test]
fn the_kernel_gets_no_more_packets_of_served_ports_than_it_may() {
    let net = Net::new();
    let (_service, name) = net.serve(Server, &[]);
    let mut server = net.spawn(Server, &[RINGWAY, "run", "-q", "--name", &name, "--", "python3", "-c", TAKES]);
    net.wait_served(Server, 4000, &mut server);
    let mut client = net.spawn(Client, &["python3", "-c", GIVES, &net.address(Server)]);
    net.wait_printed(&mut client, "connected");
    wait_until("the connection is the kernel's", DEADLINE, || {
        net.output(Server, &[RINGWAY, "handover", "all", "--name", &name]).contains(" 0 stay")
            && !net.output(Server, &["ss", "-Htn", "state", "established", "sport", "=", ":4000"]).is_empty()
    });
    let set = |most: u32| {
        net.output(Server, &[RINGWAY, "config", "set", "--name", &name, &format!("limits.kernel_packets_per_second={most}")]);
    };
    set(4);
    client.signal(Signal::USR1);
    server.wait_while_running("has dropped some", || counter(&net, "RingwayQuotaKernelPacketsHits") > 0);
    set(0);
    net.wait_printed(&mut server, "got");
    assert!(server.stdout().contains("got 2000000"), "{}", server.stdout());
}
