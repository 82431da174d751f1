//! `ringway ss`, `ringway nstat` and `ringway tcpdump`, beside the tools they look like.

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::*;
use crate::http::{nginx_config, site};

/// Takes one connection, says so, and keeps it.
const KEEPER: &str = "
import signal, socket
s = socket.create_server(('0.0.0.0', 4000), backlog=7)
c, _ = s.accept(); c.sendall(b'x' * 1000)
signal.pause()";

const CLIENT: &str = "
import signal, socket, sys
c = socket.create_connection((sys.argv[1], 4000)); c.recv(10)
print('connected', c.getsockname()[1], flush=True)
signal.pause()";

struct Connection {
    _server: Process,
    _client: Process,
    peer: String,
}

fn connection(net: &Net) -> Connection {
    let mut server = net.spawn_ringway(Server, &["python3", "-c", KEEPER]);
    net.wait_served(Server, 4000, &mut server);
    let mut client = net.spawn(Client, &["python3", "-c", CLIENT, &net.address(Server)]);
    net.wait_printed(&mut client, "connected");
    let port = client.stdout().split_whitespace().nth(1).expect("the client prints its port").to_string();
    Connection { _server: server, _client: client, peer: format!("{}:{port}", net.address(Client)) }
}

#[test]
fn ss_looks_like_ss() {
    let net = Net::new();
    let connection = connection(&net);
    let local = format!("{}:4000", net.address(Server));
    let header = net.output(Server, &[RINGWAY, "ss", "-tan"]);
    let head: Vec<&str> = header.lines().next().expect("a header").split_whitespace().collect();
    assert_eq!(head.join(" "), "State Recv-Q Send-Q Local Address:Port Peer Address:Port Process");
    wait_until("the listener has nobody waiting", DEADLINE, || {
        let listening = net.output(Server, &[RINGWAY, "ss", "-Hltn"]);
        let words: Vec<&str> = listening.split_whitespace().collect();
        words == ["LISTEN", "0", "7", "0.0.0.0:4000", "0.0.0.0:*"]
    });
    wait_until("the connection stands in the table", DEADLINE, || {
        let established = net.output(Server, &[RINGWAY, "ss", "-Htn"]);
        established.lines().count() == 1 && {
            let words: Vec<&str> = established.split_whitespace().collect();
            words[0] == "ESTAB" && words[3] == local && words[4] == connection.peer
        }
    });
    let all = net.output(Server, &[RINGWAY, "ss", "-Hatnp"]);
    assert_eq!(all.lines().count(), 2, "{all}");
    assert!(all.lines().all(|line| line.contains("users:((\"python3\",pid=")), "{all}");
}

#[test]
fn ss_tells_of_tcp_and_memory() {
    let net = Net::new();
    let _connection = connection(&net);
    wait_until("the peer has acknowledged all", DEADLINE, || {
        net.output(Server, &[RINGWAY, "ss", "-Htni"]).contains("bytes_acked:1000")
    });
    let info = net.output(Server, &[RINGWAY, "ss", "-Htnim"]);
    for token in ["cubic", "wscale:", "rto:", "rtt:", "mss:", "cwnd:", "bytes_sent:1000", "skmem:(", "stack:ringway"] {
        assert!(info.contains(token), "no `{token}`: {info}");
    }
}

#[test]
fn ss_prints_json() {
    let net = Net::new();
    let connection = connection(&net);
    wait_until("listener and connection stand in the table", DEADLINE, || {
        let printed = net.output(Server, &[RINGWAY, "ss", "-tan", "-j"]);
        let table: Value = serde_json::from_str(&printed).expect("JSON");
        let sockets = table["sockets"].as_array().expect("a list of sockets");
        let established = sockets.iter().find(|socket| socket["state"] == "ESTAB");
        established.is_some_and(|socket| socket["peer"] == connection.peer)
            && sockets.iter().any(|socket| socket["state"] == "LISTEN")
    });
}

#[test]
fn nstat_uses_the_kernels_names() {
    let net = Net::new();
    let _connection = connection(&net);
    let value = |name: &str, text: &str| -> Option<u64> {
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(name))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    let mut printed = String::new();
    wait_until("the connection is counted", DEADLINE, || {
        printed = net.output(Server, &[RINGWAY, "nstat", "-s"]);
        value("TcpPassiveOpens", &printed) == Some(1) && value("TcpInSegs", &printed).is_some_and(|segments| segments >= 3)
    });
    assert!(printed.lines().next().is_some_and(|line| line.trim_end() == "#ringway"), "{printed}");
    assert_eq!(value("TcpExtTCPTimeouts", &printed), None, "zeros are hidden");
    let zeros = net.output(Server, &[RINGWAY, "nstat", "-asz"]);
    assert_eq!(value("TcpExtTCPTimeouts", &zeros), Some(0), "{zeros}");
    assert!(zeros.lines().any(|line| line.starts_with("RingwayDropNoSocket")), "every drop reason: {zeros}");
    let json: Value = serde_json::from_str(&net.output(Server, &[RINGWAY, "nstat", "-asj"])).expect("JSON");
    assert_eq!(json["ringway"]["TcpPassiveOpens"], 1);
}

#[test]
fn tcpdump_shows_both_directions() {
    let net = Net::new();
    site(&net);
    let mut nginx = net.spawn_ringway(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_served(Server, 80, &mut nginx);
    let mut capture = net.spawn(Server, &[RINGWAY, "tcpdump", "-n", "-l", "-c", "6", "tcp", "port", "80"]);
    capture.wait_for_error_line("listening on");
    net.output(Client, &["curl", "-sS", "-o", "/dev/null", &net.url(80, "small.txt")]);
    let lines = capture.finish(DEADLINE).success().stdout;
    let listed = net.output(Server, &[RINGWAY, "tcpdump", "-D"]);
    assert!(listed.starts_with(&format!("{INTERFACE} [Ethernet, MTU 1500, service private-")), "{listed}");
    let help = net.output(Server, &[RINGWAY, "tcpdump", "--help"]);
    assert!(help.contains("-w FILE") && help.contains("man tcpdump"), "{help}");
    let without = net.run(Server, &["env", "PATH=/nonexistent", RINGWAY, "tcpdump", "-n"]);
    assert!(without.code() == 1 && without.stderr.contains("apt install tcpdump"), "{}", without.stderr);
    let (server, client) = (net.address(Server), net.address(Client));
    let inward = lines.lines().filter(|line| line.contains(&format!("> {server}.80: Flags"))).count();
    let outward = lines.lines().filter(|line| line.contains(&format!("> {client}."))).count();
    assert!(inward >= 2 && outward >= 2, "{lines}");
    assert!(lines.contains("Flags [S],") && lines.contains("Flags [S.],"), "the handshake: {lines}");
}

/// Sends a TCP segment without a checksum to the port 80 of an address.
const BROKEN_SEGMENT: &str = "import socket, struct, sys
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
raw.sendto(struct.pack('!HHIIHHHH', 4000, 80, 1, 1, 0x5010, 100, 0, 0), (sys.argv[1], 0))";

/// The file of `-w` is read by tcpdump and by `check-trace`; it has the interface and the reason for a drop, the filter holds
/// for it, and `-w -` is standard output.
#[test]
fn tcpdump_writes_files() {
    let net = Net::new();
    site(&net);
    let mut nginx = net.spawn_ringway(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_served(Server, 80, &mut nginx);
    let file = text(&net.path("trace.pcapng"));
    let mut capture = net.spawn(Server, &[RINGWAY, "tcpdump", "-w", &file, "tcp", "port", "80"]);
    capture.wait_for_error_line("listening on");
    let piped = format!("{RINGWAY} tcpdump -c 3 -w - tcp port 80 | tcpdump -n -r -");
    let mut pipe = net.spawn(Server, &["sh", "-c", &piped]);
    pipe.wait_for_error_line("listening on");
    net.output(Client, &["curl", "-sS", "-o", "/dev/null", &net.url(80, "small.txt")]);
    let handshake = pipe.finish(DEADLINE).success().stdout;
    assert!(handshake.lines().count() == 3 && handshake.contains("Flags [S.],"), "{handshake}");
    net.output(Client, &["python3", "-c", BROKEN_SEGMENT, &net.address(Server)]);
    let has = |text: &str| std::fs::read(&file).is_ok_and(|file| file.windows(text.len()).any(|part| part == text.as_bytes()));
    wait_until("the dropped segment is in the file", DEADLINE, || has("TcpInCsumErrors"));
    capture.signal(Signal::INT);
    capture.finish(DEADLINE).success();
    let lines = net.output(Server, &["tcpdump", "-n", "-r", &file]);
    assert!(lines.contains("HTTP: GET /small.txt") && lines.contains("HTTP/1.1 200 OK"), "{lines}");
    let checked = net.run(Server, &[RINGWAY, "check-trace", &file]).stdout;
    assert!(checked.contains(":80: tcp-checksum: ") && checked.contains("1 flows, 1 findings"), "{checked}");
    assert!(has(INTERFACE), "the interface {INTERFACE}");
}

#[test]
fn tcpdump_says_which_file_it_cannot_write() {
    let net = Net::new();
    site(&net);
    let mut nginx = net.spawn_ringway(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_served(Server, 80, &mut nginx);
    for (file, reason) in [("/dev/full", "No space left on device"), ("/nonexistent/file", "No such file or directory")] {
        let ended = net.spawn(Server, &[RINGWAY, "tcpdump", "-w", file]).finish(DEADLINE);
        assert!(ended.stderr.contains(&format!("ringway tcpdump: cannot write {file}: {reason}")), "{}", ended.stderr);
        assert_eq!(ended.code(), 1);
    }
}

/// `daemon` leaves the process that made the group, and workers share the listener: all that live are named, as in ss(8).
#[test]
fn the_processes_of_a_daemon_are_named() {
    let net = Net::new();
    crate::http::site(&net);
    let config = crate::http::nginx_config(&net, 80);
    let text_of = std::fs::read_to_string(&config).expect("it was just written");
    let config = net.file("nginx.conf", text_of.replace("daemon off", "daemon on"));
    let (_service, name) = net.serve(Server, &[]);
    net.output(Server, &[RINGWAY, "run", "-q", "--name", &name, "--", "nginx", "-c", &config]);
    let master = || std::fs::read_to_string(net.path("nginx.pid")).ok().and_then(|pid| pid.trim().parse::<u32>().ok());
    let children = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let workers = || master().map(children).unwrap_or_default();
    wait_until("two workers", DEADLINE, || workers().split_whitespace().count() == 2);
    let mut expected: Vec<String> = workers().split_whitespace().map(str::to_owned).collect();
    expected.extend(master().map(|pid| pid.to_string()));
    expected.sort();
    let mut last = String::new();
    let named = |last: &mut String| {
        *last = net.output(Server, &[RINGWAY, "ss", "-Htlnp", "--name", &name]);
        let pids = last.split("pid=").skip(1).map(|rest| rest.split([',', ')']).next().unwrap_or_default().to_owned());
        let mut pids: Vec<String> = pids.collect();
        pids.sort();
        pids
    };
    wait_until(&format!("the processes {expected:?}"), DEADLINE, || named(&mut last) == expected);
    assert!(last.contains("nginx"), "{last}");
    let why = net.output(Server, &[RINGWAY, "why", ":80"]);
    assert!(why.contains(&format!("on Ringway, service {name}")), "{why}");
    let master = master().and_then(|pid| rustix::process::Pid::from_raw(pid as i32)).expect("it runs");
    rustix::process::kill_process(master, rustix::process::Signal::QUIT).expect("it is ours");
    wait_until("the end of nginx", DEADLINE, || !net.path("nginx.pid").exists());
}

/// `ss -p`, as ss(8) has it: each process that has a socket, with every number by which it has it, whatever was duplicated, closed
/// and inherited before.
#[test]
fn each_descriptor_of_a_socket_is_shown() {
    const SERVER: &str = "import os, signal, socket, sys
s = socket.create_server(('', 4000))
c, _ = s.accept(); c.send(b'x')
moved = os.dup(c.fileno()); os.close(c.detach())
twice = os.dup2(moved, 50)
reused = os.dup(s.fileno())
if os.fork() == 0:
    s.close(); os.close(moved)
    print('child', os.getpid(), flush=True)
    signal.pause()
print('numbers', os.getpid(), s.fileno(), reused, moved, twice, flush=True)
signal.pause()";
    let net = Net::new();
    let mut server = net.spawn_ringway(Server, &["python3", "-c", SERVER]);
    net.wait_served(Server, 4000, &mut server);
    let mut client = net.spawn(Client, &["python3", "-c", CLIENT, &net.address(Server)]);
    net.wait_printed(&mut client, "connected");
    net.wait_printed(&mut server, "numbers");
    net.wait_printed(&mut server, "child");
    let printed = server.stdout();
    let words = |name: &str| {
        let line = printed.lines().find(|line| line.starts_with(name)).expect("it is printed");
        line.split_whitespace().skip(1).map(|word| word.parse().expect("a number")).collect::<Vec<u32>>()
    };
    let (child, numbers) = (words("child")[0], words("numbers"));
    let user = |pid: u32, fd: u32| format!("(\"python3\",pid={pid},fd={fd})");
    let [parent, listener, reused, moved, twice] = numbers[..] else { panic!("{printed}") };
    let listening = [user(parent, listener), user(parent, reused), user(child, reused)];
    let connected = [user(parent, moved), user(parent, twice), user(child, twice)];
    // The library may keep a duplicate of its own, which is shown as well.
    let closed = [user(child, listener), user(child, moved)];
    let shows = |arguments: &str, users: &[String]| {
        let line = net.output(Server, &[RINGWAY, "ss", arguments]);
        let has = |user: &String| line.contains(user);
        line.lines().count() == 1 && users.iter().all(has) && !closed.iter().any(has)
    };
    wait_until(&format!("{listening:?}"), DEADLINE, || shows("-Hltnp", &listening));
    wait_until(&format!("{connected:?}"), DEADLINE, || shows("-Htnp", &connected));
}

/// What a datagram socket has carried is counted, as on the wire.
#[test]
fn datagrams_of_a_socket_are_counted() {
    const SERVER: &str = "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('', 4000))
while True:
    data, peer = s.recvfrom(2000)
    s.sendto(data * 2, peer)";
    const ASK: &str = "import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(5)
for _ in range(3):
    s.sendto(b'x' * 500, (sys.argv[1], 4000))
    assert len(s.recv(2000)) == 1000";
    let net = Net::new();
    let _server = net.spawn_ringway(Server, &["python3", "-c", SERVER]);
    wait_until("the socket", DEADLINE, || !net.run(Server, &[RINGWAY, "ss", "-Huan"]).stdout.is_empty());
    net.output(Client, &["python3", "-c", ASK, &net.address(Server)]);
    let expected = "bytes_sent:3000 bytes_received:1500 segs_out:3 segs_in:3 stack:ringway";
    wait_until(expected, DEADLINE, || net.output(Server, &[RINGWAY, "ss", "-Huani"]).contains(expected));
}

/// `ss -E`: connections that end by a FIN and by a RST, the listener and the socket of UDP, each once.
#[test]
fn sockets_are_shown_as_they_end() {
    const SERVER: &str = "import signal, socket
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('', 5000))
s = socket.create_server(('', 4000))
for _ in range(2):
    c, _ = s.accept()
    try:
        while (b := c.recv(2000)): c.sendall(b)
    except ConnectionResetError: pass
    c.close()
s.close(); u.close()
signal.pause()";
    const TALK: &str = "import socket, struct, sys
for size, ending in (700, 'fin'), (300, 'rst'):
    c = socket.create_connection((sys.argv[1], 4000), 5)
    c.sendall(b'x' * size)
    while size: size -= len(c.recv(2000))
    if ending == 'rst': c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    print(c.getsockname()[1])
    c.close()";
    let net = Net::new();
    let (_service, name) = net.serve(Server, &[]);
    let mut server = net.spawn(Server, &[RINGWAY, "run", "-q", "--name", &name, "--", "python3", "-c", SERVER]);
    net.wait_served(Server, 4000, &mut server);
    let ss = |options: &str| [RINGWAY, "ss", options, "--name", &name].map(str::to_owned);
    let mut text = net.spawn(Server, &ss("-Enip").each_ref().map(String::as_str));
    let json = net.spawn(Server, &ss("-Ej").each_ref().map(String::as_str));
    net.wait_printed(&mut text, "Process");
    // The other one prints nothing before.
    wait_until("both listen", DEADLINE, || listeners_for_ends(&net, &name) == 2);
    let ports = net.output(Client, &["python3", "-c", TALK, &net.address(Server)]);
    net.wait_printed(&mut text, ":5000");
    for listener in [&text, &json] {
        listener.signal(rustix::process::Signal::INT);
    }
    let text = text.finish(DEADLINE).success().stdout;
    for (port, bytes) in ports.lines().zip([700, 300]) {
        let row = text.lines().position(|line| line.contains(&format!(":{port} "))).expect("it has ended");
        let rows: Vec<&str> = text.lines().skip(row).take(2).collect();
        assert!(rows[0].starts_with("tcp") && rows[0].contains("users:((\"python3\",pid="), "{text}");
        assert!(rows[1].contains(&format!("bytes_received:{bytes} ")), "{text}");
        assert_eq!(text.matches(&format!(":{port} ")).count(), 1, "{text}");
    }
    let json = json.finish(DEADLINE).success().stdout;
    let ended: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |netid: &str, state: &str| ended.iter().filter(|end| end["netid"] == netid && end["state"] == state).count();
    assert_eq!((ended.len(), of("tcp", "UNCONN"), of("tcp", "LISTEN"), of("udp", "UNCONN")), (4, 2, 1, 1), "{json}");
}

/// Tools that have registered for the ends of sockets: the words of their processes in the ring (`shm/src/capture.rs`).
fn listeners_for_ends(net: &Net, name: &str) -> usize {
    let socket = net.service_socket(Server, name);
    let ring = std::fs::read(std::path::Path::new(&socket).with_extension("ended")).expect("the service has it");
    ring[24 * 8..32 * 8].chunks(8).filter(|word| word.iter().any(|byte| *byte != 0)).count()
}

/// `ss -K`, as ss(8) has it: the named connection ends at both ends, the others go on.
#[test]
fn connections_are_reset_by_ss() {
    const ECHO: &str = "import socket, threading
s = socket.create_server(('', 4000))
def talk(c):
    try:
        while (b := c.recv(100)): c.sendall(b)
    except OSError as error: print(error.errno, flush=True)
while True: threading.Thread(target=talk, args=(s.accept()[0],), daemon=True).start()";
    const PAIR: &str = "import socket, sys
one, two = (socket.create_connection((sys.argv[1], 4000)) for _ in range(2))
for c in (one, two): c.sendall(b'x'); assert c.recv(1) == b'x'
print(one.getsockname()[1], flush=True)
try: print('got', one.recv(1))
except ConnectionResetError: print('reset')
two.sendall(b'y'); print(two.recv(1), flush=True)";
    let net = Net::new();
    let (_service, name) = net.serve(Server, &[]);
    let mut server = net.spawn(Server, &[RINGWAY, "run", "-q", "--name", &name, "--", "python3", "-c", ECHO]);
    net.wait_served(Server, 4000, &mut server);
    let mut client = net.spawn(Client, &["python3", "-c", PAIR, &net.address(Server)]);
    net.wait_printed(&mut client, "\n");
    let port = client.stdout().trim().to_owned();
    let filter = format!(":{port}");
    // Statistics are up to 100 ms old.
    let listed = || net.output(Server, &[RINGWAY, "ss", "-Htn", "--name", &name, "dport", "=", &filter]);
    client.wait_while_running("is listed", || !listed().is_empty());
    let killed = net.output(Server, &[RINGWAY, "ss", "-KHtn", "--name", &name, "dport", "=", &filter]);
    assert_eq!(killed.lines().count(), 1, "{killed}");
    assert!(killed.contains(&filter), "{killed}");
    let ended = client.finish(DEADLINE).success();
    assert!(ended.stdout.ends_with("reset\nb'y'\n"), "{}", ended.stdout);
    net.wait_printed(&mut server, "103\n");
    assert_eq!(net.output(Server, &[RINGWAY, "ss", "-KHtn", "--name", &name, "dport", "=", &filter]), "");
}
