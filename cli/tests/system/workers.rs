//! A service with two workers: programs see one socket where there are two stacks.

use rustix::process::Signal;

use crate::harness::*;
use crate::http::{assert_wrk, nginx_config, site};

const TWO: &[&str] = &[RINGWAY, "run", "-q", "-e", "strict", "--workers", "2", "--"];

fn start(net: &Net, side: Side, arguments: &[&str]) -> Process {
    net.spawn(side, &[TWO, arguments].concat())
}

/// Connections that a worker of the service on `side` has accepted or opened, ever.
fn opened(net: &Net, side: Side, worker: &str, counter: &str) -> u64 {
    let shown = net.output(side, &[RINGWAY, "nstat", "-asz", "--worker", worker, counter]);
    let value = shown.lines().find_map(|line| line.strip_prefix(counter)?.split_whitespace().next()?.parse().ok());
    value.unwrap_or_else(|| panic!("no {counter} in:\n{shown}"))
}

/// The same listener accepts at both, keep-alive and not; and what nginx's two processes do with it is what the kernel would.
#[test]
fn nginx_accepts_at_both_workers() {
    let net = Net::new();
    let [large, small] = site(&net);
    let mut nginx = start(&net, Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_served(Server, 80, &mut nginx);
    let got = text(&net.path("got"));
    net.untouched(Server, || {
        for _ in 0..12 {
            for (file, expected) in [("small.txt", &small), ("large.bin", &large)] {
                net.output(Client, &["curl", "-sS", "--fail", "--max-time", "50", "-o", &got, &net.url(80, file)]);
                assert_eq!(&digest_of(&got).expect("curl has written it"), expected);
            }
        }
        assert_wrk(&net.output(Client, &["wrk", "-t1", "-c32", "-d2s", &net.url(80, "small.txt")]));
    });
    for worker in ["0", "1"] {
        assert!(opened(&net, Server, worker, "TcpPassiveOpens") >= 5, "worker {worker} has flows");
    }
    let listeners = net.output(Server, &[RINGWAY, "ss", "-Hltn"]);
    assert_eq!(listeners.lines().count(), 1, "one socket:\n{listeners}");
    nginx.signal(Signal::QUIT);
    nginx.finish(DEADLINE).success();
}

/// Accepts in several processes that share the listener, blocking; each sends its number and what it was sent.
const FORKING_SERVER: &str = "
import os, socket, sys
s = socket.create_server(('0.0.0.0', 4000), backlog=64)
for number in range(3):
    if os.fork() == 0:
        while True:
            c, peer = s.accept()
            data = b''
            while not data.endswith(b'.'): data += c.recv(65536)
            c.sendall(data); c.close()
s.close()
print('ready', flush=True)
for number in range(3): os.wait()";

/// Thirty connections at a time, each with some bytes both ways, in an epoll loop; the ports are told.
const CLIENT: &str = "
import select, socket, sys
ep, left, socks = select.epoll(), {}, {}
for n in range(30):
    s = socket.create_connection((sys.argv[1], 4000)); s.sendall(b'%d' % n * 5000 + b'.')
    s.setblocking(False); ep.register(s, select.EPOLLIN | select.EPOLLET); socks[s.fileno()] = s; left[s.fileno()] = b''
    wanted = b'%d' % n
while socks:
    for fd, _ in ep.poll(20):
        try:
            while True:
                part = socks[fd].recv(65536)
                if not part: break
                left[fd] += part
        except BlockingIOError: continue
        ep.unregister(fd); socks.pop(fd).close()
assert sorted(left.values()) == sorted(b'%d' % n * 5000 + b'.' for n in range(30))
print('all equal')";

#[test]
fn processes_share_a_listener_of_two_workers() {
    let net = Net::new();
    let mut server = start(&net, Server, &["python3", "-c", FORKING_SERVER]);
    net.wait_printed(&mut server, "ready");
    for _ in 0..2 {
        assert_eq!(net.output(Client, &["python3", "-c", CLIENT, &net.address(Server)]), "all equal\n");
    }
    let counts = || ["0", "1"].map(|worker| opened(&net, Server, worker, "TcpPassiveOpens"));
    wait_until("all are counted", DEADLINE, || counts().iter().sum::<u64>() >= 60);
    let counts = counts();
    assert_eq!(counts.iter().sum::<u64>(), 60);
    assert!(counts.iter().all(|&count| count >= 10), "{counts:?}");
}

/// A client's connections go round the workers, and one epoll instance hears of all.
#[test]
fn a_client_connects_by_both_workers() {
    let net = Net::new();
    let mut server = net.spawn(Server, &["python3", "-c", FORKING_SERVER]);
    net.wait_printed(&mut server, "ready");
    let hold = CLIENT.replace("print('all equal')", "print('connected', flush=True); select.select([], [], [], 1000)");
    let mut client = start(&net, Client, &["python3", "-c", &hold, &net.address(Server)]);
    net.wait_printed(&mut client, "connected");
    wait_until("each has opened half", DEADLINE, || {
        ["0", "1"].iter().all(|worker| opened(&net, Client, worker, "TcpActiveOpens") == 15)
    });
}

/// Accepts twenty connections and keeps them to a sudden end.
const KEEPING_SERVER: &str = "
import os, signal, socket
s = socket.create_server(('0.0.0.0', 4000)); print('ready', flush=True)
held = [s.accept()[0] for _ in range(20)]
os.kill(os.getpid(), signal.SIGKILL)";

/// Opens twenty connections and waits for the end of each.
const PATIENT_CLIENT: &str = "
import socket, sys
for s in [socket.create_connection((sys.argv[1], 4000)) for _ in range(20)]:
    try: assert s.recv(1) == b''
    except ConnectionResetError: pass
print('told', flush=True)";

/// A server with connections at both workers is killed: everybody is told, and the next one has the port at both.
#[test]
fn a_killed_program_leaves_nothing_at_either_worker() {
    let net = Net::new();
    let (_service, name) = net.serve(Server, &["--workers", "2"]);
    let run = [RINGWAY, "run", "-q", "-e", "strict", "--name", &name, "--"];
    for _ in 0..2 {
        let mut server = net.spawn(Server, &[&run[..], &["python3", "-c", KEEPING_SERVER]].concat());
        net.wait_printed(&mut server, "ready");
        let client = net.spawn(Client, &["python3", "-c", PATIENT_CLIENT, &net.address(Server)]);
        assert_eq!(client.finish(DEADLINE).success().stdout, "told\n");
    }
    wait_until("no socket is left", DEADLINE, || {
        let shown = net.output(Server, &[RINGWAY, "ss", "-Han"]);
        shown.lines().all(|line| line.contains("TIME-WAIT"))
    });
}

const ECHO: &str = "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('0.0.0.0', 4000)); print('ready', flush=True)
while True:
    data, peer = s.recvfrom(2000); s.sendto(data, peer)";

/// Forty peers, one datagram each.
const ASKING_CLIENT: &str = "
import socket, sys
for n in range(40):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(10)
    s.sendto(b'%d' % n, (sys.argv[1], 4000)); assert s.recv(100) == b'%d' % n
print('all back')";

/// Datagrams of one port have one owner, whoever sends them.
#[test]
fn datagrams_of_many_peers_reach_their_socket() {
    let net = Net::new();
    let mut server = start(&net, Server, &["python3", "-c", ECHO]);
    net.wait_printed(&mut server, "ready");
    assert_eq!(net.output(Client, &["python3", "-c", ASKING_CLIENT, &net.address(Server)]), "all back\n");
}
