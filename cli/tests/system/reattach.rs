//! The service ends, and another one of the same name comes: programs attach to it, and their listeners are served again.

use rustix::process::Signal;

use crate::harness::*;

/// Accepts one connection after another, echoes in upper case; a thread for each.
const THREADS: &str = "
import socket, threading
def talk(c):
    try:
        while data := c.recv(65536): c.sendall(data.upper())
    except ConnectionResetError: pass
    c.close()
s = socket.create_server(('0.0.0.0', 4000))
while True: threading.Thread(target=talk, args=(s.accept()[0],), daemon=True).start()";

/// The same in two processes that share the listener, each with an epoll instance of its own.
const WORKERS: &str = "
import os, select, socket
s = socket.create_server(('0.0.0.0', 4000), backlog=77); s.setblocking(False)
os.fork()
e = select.epoll(); e.register(s, select.EPOLLIN | select.EPOLLET); open = {}
while True:
    for number, _ in e.poll(0.2):
        try:
            if number == s.fileno():
                while True:
                    c, _ = s.accept(); c.setblocking(False); open[c.fileno()] = c; e.register(c, select.EPOLLIN)
            elif data := open[number].recv(65536): open[number].sendall(data.upper())
            else: open.pop(number).close()
        except BlockingIOError: pass
        except ConnectionError: open.pop(number).close()";

/// The same in one process without other threads; the connections that have ended are closed.
const LOOP: &str = "
import select, socket
s = socket.create_server(('0.0.0.0', 4000), backlog=77); s.setblocking(False)
e = select.epoll(); e.register(s, select.EPOLLIN); open = {}
while True:
    for number, _ in e.poll(0.2):
        try:
            if number == s.fileno():
                c, _ = s.accept(); c.setblocking(False); open[c.fileno()] = c; e.register(c, select.EPOLLIN)
            elif number in open:
                data = open[number].recv(65536)
                if data: open[number].sendall(data.upper())
                else: open.pop(number).close()
        except BlockingIOError: pass
        except ConnectionError: open.pop(number).close()";

/// Forty connections whose messages and pauses differ; each byte of an answer is compared. Until the file is there.
const CHATTER: &str = "
import os, random, socket, sys, threading, time
def chat(seed):
    draw = random.Random(seed); c = socket.create_connection((sys.argv[1], 4000), 20); c.settimeout(30)
    while not os.path.exists(sys.argv[2]):
        sent = bytes(draw.choice(b'abcdef') for _ in range(draw.choice((1, 100, 3000)))); c.sendall(sent); got = b''
        while len(got) < len(sent): got += c.recv(65536) or sys.exit('the connection has ended')
        if got != sent.upper(): os._exit(3)
        time.sleep(draw.choice((0, 0.05, 0.3, 0.6)))
    done.append(seed)
done = []; all = [threading.Thread(target=chat, args=(seed,)) for seed in range(40)]
for t in all: t.start()
print('connected', flush=True)
for t in all: t.join()
print(len(done), 'of', len(all), flush=True)";

/// Connects and proves the echo, waits for the file, and proves it again.
const TALKER: &str = "
import os, socket, sys, time
c = socket.create_connection((sys.argv[1], 4000), 20)
def prove(): c.sendall(b'hello'); assert c.recv(5) == b'HELLO'
prove(); print('connected', c.getsockname()[1], flush=True)
while not os.path.exists(sys.argv[2]): time.sleep(0.01)
prove(); print('again', flush=True)";

/// A server on Ringway, and the service that it is attached to.
struct House {
    net: Net,
    service: Option<Process>,
    name: String,
    server: Process,
}

impl House {
    fn start(program: &str) -> House {
        House::on(Net::new(), program)
    }

    fn on(net: Net, program: &str) -> House {
        House::with(net, program, &[])
    }

    fn with(net: Net, program: &str, options: &[&str]) -> House {
        let (service, name) = net.serve(Server, options);
        let server = net.spawn(Server, &[RINGWAY, "run", "--name", &name, "--", "python3", "-c", program]);
        let mut house = House { net, service: Some(service), name, server };
        house.net.wait_served(Server, 4000, &mut house.server);
        house
    }

    fn talker(&self) -> Process {
        let go_on = text(&self.net.path("go-on"));
        let mut talker = self.net.spawn(Client, &["python3", "-c", TALKER, &self.net.address(Server), &go_on]);
        self.net.wait_printed(&mut talker, "connected");
        talker
    }

    /// One connection, from its beginning to its end.
    fn prove(&self) {
        let program = ["python3", "-c", TALKER, &self.net.address(Server), "/"];
        assert_eq!(self.net.run(Client, &program).success().stdout.lines().last(), Some("again"));
    }

    fn end_service(&mut self, signal: Signal) {
        let service = self.service.take().expect("one runs");
        service.signal(signal);
        service.finish(DEADLINE);
    }

    fn start_service(&mut self, options: &[&str]) {
        let mut service = self.net.spawn(Server, &[&[RINGWAY, "serve", "--name", &self.name], options].concat());
        let socket = self.net.service_socket(Server, &self.name);
        let (net, name) = (&self.net, &self.name);
        service.wait_while_running("answers", || {
            socket.exists() && net.run(Server, &[RINGWAY, "ss", "--name", name, "-Hltn"]).code() == 0
        });
        self.service = Some(service);
    }

    /// Rows of the service about the port.
    fn rows(&self, what: &[&str]) -> Vec<String> {
        let listed = self.net.output(Server, &[&[RINGWAY, "ss", "--name", &self.name, "-Htn"], what].concat());
        listed.lines().filter(|row| row.contains(":4000") && !row.contains("path:kernel")).map(str::to_owned).collect()
    }

    /// Connections come until the new service has the listener.
    fn wait_returned(&self) {
        wait_until("the listener is served again", DEADLINE, || {
            self.prove();
            self.rows(&["-l"]).len() == 1
        });
    }

    /// A connection that comes now is the stack's.
    fn prove_served(&self) {
        let talker = self.talker();
        let port = port_of(&talker);
        wait_until("the connection is the stack's", DEADLINE, || {
            self.rows(&["state", "established"]).iter().any(|row| row.contains(&format!(":{port}")))
        });
        std::fs::write(self.net.path("go-on"), "").expect("a folder of ours");
        assert!(talker.finish(DEADLINE).success().stdout.ends_with("again\n"));
        assert_eq!(self.server.stderr().matches("attached again to service").count(), 1, "{}", self.server.stderr());
    }
}

/// The port that a client has printed.
fn port_of(talker: &Process) -> String {
    talker.stdout().split_whitespace().nth(1).expect("it has printed its port").to_owned()
}

/// SIGTERM: connections go on in the kernel, and new ones are the next service's.
#[test]
fn a_server_is_served_again_after_a_restart_of_the_service() {
    let mut house = House::start(THREADS);
    let old = house.talker();
    house.end_service(Signal::TERM);
    house.prove();
    house.start_service(&[]);
    house.wait_returned();
    house.prove_served();
    assert!(old.finish(DEADLINE).success().stdout.ends_with("again\n"), "it has moved, and goes on");
}

/// Two processes share the listener: one slot, and both accept from it.
#[test]
fn processes_that_share_a_listener_return_with_it_after_a_crash() {
    let mut house = House::start(WORKERS);
    let _lost = house.talker();
    house.end_service(Signal::KILL);
    house.prove();
    house.start_service(&[]);
    house.wait_returned();
    for _ in 0..20 {
        house.prove();
    }
    assert_eq!(house.rows(&["-l"]).len(), 1);
    house.prove_served();
    // Once more: what has returned may go and return again.
    house.end_service(Signal::TERM);
    house.prove();
    house.start_service(&[]);
    house.wait_returned();
}

/// policy.adopt = "none": listeners stay with the kernel.
#[test]
fn a_service_that_adopts_nothing_leaves_listeners_to_the_kernel() {
    let mut house = House::start(WORKERS);
    house.end_service(Signal::TERM);
    let file = house.net.file("adopt.toml", "[policy]\nadopt = \"none\"\n");
    house.start_service(&["--config", &file]);
    house.server.wait_for_error_line("attached again to service");
    for _ in 0..20 {
        house.prove();
    }
    assert!(house.rows(&["-l"]).is_empty());
    assert!(house.net.output(Server, &["ss", "-Htln", "sport", "=", ":4000"]).contains(":4000"));
}

impl House {
    /// The next service, which takes connections back.
    fn start_adopting(&mut self) {
        let file = self.net.file("adopt.toml", "[policy]\nadopt = \"all\"\n");
        self.start_service(&["--config", &file]);
    }

    fn adopted(&self) -> u64 {
        let counted = self.net.output(Server, &[RINGWAY, "nstat", "--name", &self.name, "-az"]);
        let count = counted.lines().find_map(|line| line.strip_prefix("RingwaySocketsAdopted"));
        count.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).expect("it is counted")
    }

    /// Has the kernel this client's connection?
    fn is_at_kernel(&self, talker: &Process) -> bool {
        let port = format!(":{}", port_of(talker));
        let rows = self.net.output(Server, &["ss", "-Htn", "state", "established", "sport", "=", ":4000", "dport", "=", &port]);
        !rows.is_empty()
    }
}

/// policy.adopt = "all": a connection goes to the kernel with one service and comes back with the next one, twice.
#[test]
fn a_silent_connection_comes_back() {
    comes_back(LOOP);
}

/// The operator sends a connection home and has it back, from the same service and while the program sleeps; others stay where they are.
#[test]
fn a_connection_comes_back_when_the_operator_asks() {
    let house = House::on(Net::of_one_worker(), &LOOP.replace("e.poll(0.2)", "e.poll()"));
    let (talker, other) = (house.talker(), house.talker());
    let ask = |what: &[&str]| house.net.run(Server, &[&[RINGWAY, "handover", "--name", &house.name], what].concat());
    let port = format!(":{}", port_of(&talker));
    for _ in 0..2 {
        assert_eq!(ask(&[":4000"]).success().stdout, "2 connections, 2 at the kernel, 0 stay\n");
        assert!(house.is_at_kernel(&talker) && house.is_at_kernel(&other));
        let said = ask(&[":4001", "--to", "stack", "--wait", "1"]);
        assert_eq!((said.code(), said.stdout.as_str()), (1, "0 connections are the stack's again\n"));
        for (what, talker) in [(port.as_str(), &talker), ("all", &other)] {
            assert_eq!(ask(&[what, "--to", "stack", "--wait", "20"]).success().stdout, "1 connections are the stack's again\n");
            assert!(!house.is_at_kernel(talker), "the kernel has forgotten it");
        }
        wait_until("both are the stack's", DEADLINE, || house.rows(&["state", "established"]).len() == 2);
    }
    std::fs::write(house.net.path("go-on"), "").expect("a folder of ours");
    for talker in [talker, other] {
        assert!(talker.finish(DEADLINE).success().stdout.ends_with("again\n"));
    }
    assert_eq!(house.adopted(), 4);
}

/// Busy ones too, each when it pauses, and no byte is lost or twice there while they go to and fro.
#[test]
fn connections_with_pauses_go_to_and_fro() {
    go_to_and_fro(&["--workers", "1"], 20);
}

/// With several workers each connection is adopted by the one to which its packets come.
#[test]
fn connections_of_two_workers_go_to_and_fro() {
    go_to_and_fro(&["--workers", "2"], 28);
}

/// So many of forty come back each time.
fn go_to_and_fro(options: &[&str], count: u64) {
    let house = House::with(Net::new(), LOOP, options);
    let go_on = text(&house.net.path("go-on"));
    let mut chatter = house.net.spawn(Client, &["python3", "-c", CHATTER, &house.net.address(Server), &go_on]);
    house.net.wait_printed(&mut chatter, "connected");
    for round in 1..=3 {
        house.net.run(Server, &[RINGWAY, "handover", ":4000", "--name", &house.name]);
        house.net.run(Server, &[RINGWAY, "handover", ":4000", "--to", "stack", "--wait", "10", "--name", &house.name]).success();
        chatter.wait_while_running("most of them have come back", || house.adopted() >= count * round);
    }
    std::fs::write(&go_on, "").expect("a folder of ours");
    assert!(chatter.finish(DEADLINE).success().stdout.ends_with("40 of 40\n"));
}

/// An IPv6 socket with IPv4-mapped addresses.
#[test]
fn a_mapped_connection_comes_back() {
    comes_back(&LOOP.replace("('0.0.0.0', 4000)", "('::', 4000), family=socket.AF_INET6, dualstack_ipv6=True"));
}

fn comes_back(program: &str) {
    let mut house = House::on(Net::of_one_worker(), program);
    let talker = house.talker();
    for _ in 0..2 {
        house.end_service(Signal::TERM);
        assert!(house.is_at_kernel(&talker));
        house.start_adopting();
        wait_until("the connection is the stack's", DEADLINE, || house.rows(&["state", "established"]).len() == 1);
        assert!(house.adopted() == 1 && !house.is_at_kernel(&talker), "the kernel has forgotten it");
    }
    std::fs::write(house.net.path("go-on"), "").expect("a folder of ours");
    assert!(talker.finish(DEADLINE).success().stdout.ends_with("again\n"));
    wait_until("its end is seen", DEADLINE, || house.rows(&["state", "established"]).is_empty());
    assert_eq!(house.server.stderr().matches("attached again to service").count(), 2, "{}", house.server.stderr());
}

/// What comes back is none that is just busy, and no byte is lost or twice there while connections go and come.
#[test]
fn connections_with_pauses_come_back() {
    let mut house = House::on(Net::of_one_worker(), LOOP);
    let go_on = text(&house.net.path("go-on"));
    let mut chatter = house.net.spawn(Client, &["python3", "-c", CHATTER, &house.net.address(Server), &go_on]);
    house.net.wait_printed(&mut chatter, "connected");
    for _ in 0..3 {
        house.end_service(Signal::TERM);
        house.start_adopting();
        chatter.wait_while_running("half of them are the stack's again", || house.adopted() >= 20);
    }
    std::fs::write(&go_on, "").expect("a folder of ours");
    assert!(chatter.finish(DEADLINE).success().stdout.ends_with("40 of 40\n"));
}

/// What the program has set holds before, at the kernel and after.
#[test]
fn options_come_back_too() {
    const SET: &str = "TCP, socket.TCP_NODELAY), (TCP, socket.TCP_KEEPIDLE), (ALL, socket.SO_KEEPALIVE), (ALL, socket.SO_SNDBUF";
    let made = "c.setblocking(False); [c.setsockopt(*o, 7777) for o in OPTIONS]";
    let told = "if data: print([open[number].getsockopt(*o) for o in OPTIONS], open[number].getblocking(), flush=True)";
    let program = LOOP
        .replacen(
            "import select, socket",
            &format!("import select, socket\nTCP, ALL = socket.IPPROTO_TCP, socket.SOL_SOCKET\nOPTIONS = [({SET})]"),
            1,
        )
        .replacen("c.setblocking(False)", made, 1)
        .replacen("if data: open", &format!("{told}\n                if data: open"), 1);
    let mut house = House::on(Net::of_one_worker(), &program);
    let talker = house.talker();
    house.end_service(Signal::TERM);
    house.start_adopting();
    wait_until("the connection is the stack's", DEADLINE, || house.adopted() == 1);
    std::fs::write(house.net.path("go-on"), "").expect("a folder of ours");
    assert!(talker.finish(DEADLINE).success().stdout.ends_with("again\n"));
    let said = house.server.stdout();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert_eq!(lines[0], lines[1]);
    assert!(lines[0].starts_with("[1, 7777, 1, ") && lines[0].ends_with("] False"), "{said}");
}

/// A process that forks while its connections are the kernel's leaves them there: its child has them too.
#[test]
fn connections_of_a_process_that_forks_stay() {
    let forks =
        "    if os.path.exists(sys.argv[1]) and not forked:\n        forked = os.fork() or time.sleep(600)\n    for number";
    let program = LOOP.replacen("import select, socket", "import os, select, socket, sys, time\nforked = None", 1).replacen(
        "    for number",
        forks,
        1,
    );
    let net = Net::of_one_worker();
    let (service, name) = net.serve(Server, &[]);
    let fork = text(&net.path("fork"));
    let server = net.spawn(Server, &[RINGWAY, "run", "--name", &name, "--", "python3", "-c", &program, &fork]);
    let mut house = House { net, service: Some(service), name, server };
    house.net.wait_served(Server, 4000, &mut house.server);
    let (talker, processes) = (house.talker(), house.net.processes(Server).len());
    house.end_service(Signal::TERM);
    std::fs::write(fork, "").expect("a folder of ours");
    wait_until("it has forked", DEADLINE, || house.net.processes(Server).len() == processes);
    house.start_adopting();
    house.wait_returned();
    assert!(house.adopted() == 0 && house.is_at_kernel(&talker));
    std::fs::write(house.net.path("go-on"), "").expect("a folder of ours");
    assert!(talker.finish(DEADLINE).success().stdout.ends_with("again\n"));
}

/// By default they stay where they are, and so do those of a process with threads.
#[test]
fn connections_stay_with_the_kernel_by_default() {
    for (program, adopting) in [(LOOP, false), (THREADS, true)] {
        let mut house = House::start(program);
        let talker = house.talker();
        house.end_service(Signal::TERM);
        if adopting {
            house.start_adopting()
        } else {
            house.start_service(&[])
        }
        house.wait_returned();
        assert!(house.adopted() == 0 && house.is_at_kernel(&talker));
        house.prove_served();
        assert!(talker.finish(DEADLINE).success().stdout.ends_with("again\n"));
    }
}
