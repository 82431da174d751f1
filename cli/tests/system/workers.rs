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

/// Over AF_XDP each worker has a socket on every queue of the card. Both accept, and the kernel sees nothing of it.
#[test]
fn both_workers_accept_over_af_xdp() {
    let net = Net::new();
    let [large, small] = site(&net);
    let config = net.file("ringway.toml", "[interface]\ndevice = \"xdp\"\n[worker]\ncount = 2\n");
    let (service, name) = net.serve(Server, &["--config", &config]);
    let mut nginx = net.spawn(Server, &[RINGWAY, "run", "--name", &name, "--", "nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_served(Server, 80, &mut nginx);
    let got = text(&net.path("got"));
    net.untouched(Server, || {
        for (file, expected) in [("small.txt", &small), ("large.bin", &large)].into_iter().cycle().take(24) {
            net.output(Client, &["curl", "-sS", "--fail", "--max-time", "50", "-o", &got, &net.url(80, file)]);
            assert_eq!(&digest_of(&got).expect("curl has written it"), expected);
        }
        assert_wrk(&net.output(Client, &["wrk", "-t1", "-c32", "-d1s", &net.url(80, "small.txt")]));
    });
    for worker in ["0", "1"] {
        wait_until("both have flows", DEADLINE, || opened(&net, Server, worker, "TcpPassiveOpens") >= 10);
    }
    let ping = net.output(Client, &["ping", "-c", "3", "-i", "0.1", "-W", "2", &net.address(Server)]);
    assert!(ping.contains(" 0% packet loss"), "{ping}");
    assert!(!service.stderr().contains("worker.count"), "{}", service.stderr());
}

/// A client's connections go round the workers over AF_XDP too; what comes back reaches the worker that has asked.
#[test]
fn a_client_connects_by_both_workers_over_af_xdp() {
    let net = Net::new();
    let config = net.file("ringway.toml", "[interface]\ndevice = \"xdp\"\n[worker]\ncount = 2\n");
    let (_service, name) = net.serve(Client, &["--config", &config]);
    let mut server = net.spawn(Server, &["python3", "-c", FORKING_SERVER]);
    net.wait_printed(&mut server, "ready");
    let run = [RINGWAY, "run", "-q", "-e", "strict", "--name", &name, "--", "python3", "-c", CLIENT, &net.address(Server)];
    assert_eq!(net.output(Client, &run), "all equal\n");
    wait_until("each has opened half", DEADLINE, || {
        ["0", "1"].iter().all(|worker| opened(&net, Client, worker, "TcpActiveOpens") == 15)
    });
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

/// Datagrams of one port have one owner, whatever their sender.
#[test]
fn datagrams_of_many_peers_reach_their_socket() {
    let net = Net::new();
    let mut server = start(&net, Server, &["python3", "-c", ECHO]);
    net.wait_printed(&mut server, "ready");
    assert_eq!(net.output(Client, &["python3", "-c", ASKING_CLIENT, &net.address(Server)]), "all back\n");
}

/// A stream of bytes that does not end in the test's time, and a line back for each line that comes on other connections.
const STREAMING_SERVER: &str = "
import selectors, socket
ready, listener = selectors.DefaultSelector(), socket.create_server(('0.0.0.0', 4000), backlog=64)
ready.register(listener, selectors.EVENT_READ); print('ready', flush=True)
piece, streams = bytes(1 << 20), set()
while True:
    for key, events in ready.select():
        s = key.fileobj
        if s is listener:
            ready.register(s.accept()[0], selectors.EVENT_READ)
        elif s in streams:
            try: s.send(piece)
            except OSError: streams.remove(s); ready.unregister(s); s.close()
        elif not (line := s.recv(100)):
            ready.unregister(s); s.close()
        elif line == b'stream':
            s.setblocking(False); streams.add(s); ready.modify(s, selectors.EVENT_WRITE)
        else: s.sendall(line)";

/// Forty connections that stay, so that groups which move have some, a stream that is read all the time, and short connections
/// one after the other, until told to stop; then each of the forty is asked once more.
const STREAMING_CLIENT: &str = "
import os, socket, sys, threading
connect = lambda: socket.create_connection((sys.argv[1], 4000), 20)
def ask(s, what): s.sendall(what); assert s.recv(100) == what
staying = [connect() for _ in range(40)]
for s in staying: ask(s, b'before')
stream, over = connect(), threading.Event(); stream.sendall(b'stream')
def read():
    while not over.is_set(): assert stream.recv(1 << 20)
reader = threading.Thread(target=read); reader.start()
print('streams', flush=True); count = 0
while not os.path.exists(sys.argv[2]):
    s = connect(); ask(s, b'short'); s.close(); count += 1
for s in staying: ask(s, b'after')
over.set(); reader.join(); print('all answered', count > 0)";

/// A stream keeps one worker busy: flow groups go to the other one, and so do the connections that come later. Those that are
/// open go on where they are, the stream too, and none is reset.
#[test]
fn flow_groups_leave_a_worker_that_a_stream_keeps_busy() {
    let net = Net::new();
    // On a machine with few processors a worker waits for the program for most of its time.
    let config = net.file("ringway.toml", "[worker]\ncount = 2\nbalance_percent = 2\n");
    let run = [RINGWAY, "run", "-q", "-e", "strict", "--config", &config, "--"];
    let mut server = net.spawn(Server, &[&run[..], &["python3", "-c", STREAMING_SERVER]].concat());
    net.wait_printed(&mut server, "ready");
    let enough = text(&net.path("enough"));
    let mut client = net.spawn(Client, &["python3", "-c", STREAMING_CLIENT, &net.address(Server), &enough]);
    net.wait_printed(&mut client, "streams");
    let counts = |counter| ["0", "1"].map(|worker| opened(&net, Server, worker, counter));
    // Where most groups are may change while connections come: on a busy machine other work makes either worker look busy.
    let most_groups = || counts("RingwayFlowGroups").iter().position(|&groups| groups > 100);
    wait_until("who comes later comes where most groups are", DEADLINE, || {
        let Some(idle) = most_groups() else { return false };
        let before = counts("TcpPassiveOpens");
        wait_until("a hundred more have come", DEADLINE, || {
            counts("TcpPassiveOpens").iter().sum::<u64>() >= before.iter().sum::<u64>() + 100
        });
        let after = counts("TcpPassiveOpens");
        let came = [after[0] - before[0], after[1] - before[1]];
        most_groups() == Some(idle) && came[idle] > 2 * came[1 - idle]
    });
    assert!(counts("RingwayFlowsKept").iter().sum::<u64>() > 0, "connections were open");
    net.file("enough", "");
    assert_eq!(client.finish(DEADLINE).success().stdout, "streams\nall answered True\n");
    assert_eq!((counts("TcpOutRsts"), counts("RingwayFlowsNotKept")), ([0, 0], [0, 0]));
}
