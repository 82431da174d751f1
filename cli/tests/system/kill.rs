//! `kill -9` of an application and of the service.

use std::time::Duration;

use rustix::process::Signal;

use crate::harness::*;

/// Accepts one connection after another, echoes in upper case; a thread for each.
const ECHO: &str = "
import os, socket, sys, threading
def talk(c):
    while data := c.recv(65536): c.sendall(data.upper())
s = socket.create_server(('0.0.0.0', int(sys.argv[1])))
print('pid', os.getpid(), flush=True)
while True: threading.Thread(target=talk, args=(s.accept()[0],), daemon=True).start()";

/// Connects, proves the echo, then waits for the end of the connection and says how it came.
const WITNESS: &str = "
import socket, sys, time
c = socket.create_connection((sys.argv[1], int(sys.argv[2])), 20)
c.sendall(b'hello'); assert c.recv(5) == b'HELLO'
print('connected', flush=True)
try: end = 'FIN' if c.recv(1) == b'' else 'data'
except ConnectionResetError: end = 'RST'
print('ended by', end, flush=True)";

/// The program's own process id, as it printed it.
fn printed_pid(net: &Net, process: &mut Process) -> rustix::process::Pid {
    net.wait_printed(process, "pid ");
    let printed = process.stdout();
    let number = printed.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    number.and_then(rustix::process::Pid::from_raw).expect("the program printed its process id")
}

#[test]
fn a_killed_application_loses_only_its_own_connections() {
    let net = Net::new();
    let (_service, name) = net.serve(Server, &[]);
    let run = |port| [RINGWAY, "run", "-q", "--name", &name, "--", "python3", "-c", ECHO, port];
    let mut victim = net.spawn(Server, &run("4000"));
    let mut other = net.spawn(Server, &run("4001"));
    net.wait_served(Server, 4000, &mut victim);
    net.wait_served(Server, 4001, &mut other);
    let mut bereft = net.spawn(Client, &["python3", "-c", WITNESS, &net.address(Server), "4000"]);
    let mut content = net.spawn(Client, &["python3", "-c", WITNESS, &net.address(Server), "4001"]);
    net.wait_printed(&mut bereft, "connected");
    net.wait_printed(&mut content, "connected");
    rustix::process::kill_process(printed_pid(&net, &mut victim), Signal::KILL).expect("the victim lives");
    let ended = bereft.finish(Duration::from_secs(2)).success();
    assert!(ended.stdout.contains("ended by FIN") || ended.stdout.contains("ended by RST"), "{}", ended.stdout);
    assert_eq!(victim.finish(DEADLINE).code(), -9);
    assert!(content.poll().is_none(), "the other application's connection ended: {}", content.stdout());
    assert_eq!(net.output(Client, &["python3", "-c", ONCE, &net.address(Server), "4001"]), "HELLO\n");
    assert_eq!(net.run(Client, &["python3", "-c", ONCE, &net.address(Server), "4000"]).stdout, "refused\n");
}

/// Sends more than the peer takes at once, and says so when all of it is taken over.
const GENEROUS: &str = "
import os, socket, sys, time
c, _ = socket.create_server(('0.0.0.0', 4000)).accept()
c.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
c.sendall(bytes(i % 251 for i in range(150_000)))
print('pid', os.getpid(), flush=True); time.sleep(60)";

/// Reads nothing until the file is there, then everything.
const LATE_READER: &str = "
import os, socket, sys, time
c = socket.socket(); c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14); c.settimeout(20)
c.connect((sys.argv[1], 4000)); print('connected', flush=True)
while not os.path.exists(sys.argv[2]): time.sleep(0.01)
got = b''
while piece := c.recv(1 << 16): got += piece
print(len(got), got == bytes(i % 251 for i in range(150_000)))";

/// The kernel delivers what send() has taken although the program is gone: so do we, the stack outlives the program.
#[test]
fn what_was_sent_arrives_although_the_sender_was_killed() {
    let net = Net::new();
    let (_service, name) = net.serve(Server, &[]);
    let launchers: [&[&str]; 3] = [&[], &[RINGWAY, "run", "-q", "--"], &[RINGWAY, "run", "-q", "--name", &name, "--"]];
    for launcher in launchers {
        let mut sender = net.spawn(Server, &[launcher, &["python3", "-c", GENEROUS]].concat());
        net.wait_listening(Server, 4000, &mut sender);
        if !launcher.is_empty() {
            net.wait_served(Server, 4000, &mut sender);
        }
        let read = text(&net.path("read"));
        let mut reader = net.spawn(Client, &["python3", "-c", LATE_READER, &net.address(Server), &read]);
        net.wait_printed(&mut reader, "connected");
        rustix::process::kill_process(printed_pid(&net, &mut sender), Signal::KILL).expect("the sender lives");
        net.file("read", "");
        assert_eq!(reader.finish(DEADLINE).success().stdout, "connected\n150000 True\n", "{launcher:?}");
        assert_eq!(sender.finish(DEADLINE).code(), -9);
        std::fs::remove_file(read).expect("it was there");
        net.wait_kernels_quiet();
    }
}

/// One request, one answer.
const ONCE: &str = "
import socket, sys
try: c = socket.create_connection((sys.argv[1], int(sys.argv[2])), 10)
except ConnectionRefusedError: print('refused'); sys.exit()
c.sendall(b'hello'); print(c.recv(5).decode())";

#[test]
fn killed_applications_give_their_memory_back() {
    let net = Net::new();
    let (_service, name) = net.serve(Server, &[]);
    for round in 0..25 {
        let mut victim = net.spawn(Server, &[RINGWAY, "run", "-q", "--name", &name, "--", "python3", "-c", ECHO, "4000"]);
        net.wait_served(Server, 4000, &mut victim);
        let answer = net.output(Client, &["python3", "-c", ONCE, &net.address(Server), "4000"]);
        assert_eq!(answer, "HELLO\n", "round {round}");
        rustix::process::kill_process(printed_pid(&net, &mut victim), Signal::KILL).expect("the victim lives");
        victim.finish(DEADLINE);
        wait_until("no listener is left", Duration::from_secs(2), || {
            !net.output(Server, &[RINGWAY, "ss", "--name", &name, "-Hltn"]).contains(":4000")
        });
    }
}

/// Blocks in recv, in poll and in accept; says how each ended.
const SOCKETS_OF_A_DEAD_SERVICE: &str = "
import errno, select, socket, sys, threading
peer = (sys.argv[1], 4100)
def how(name, call):
    try: result = call()
    except OSError as error: result = errno.errorcode.get(error.errno, error)
    sys.stdout.write('%s %s\\n' % (name, result)); sys.stdout.flush()
def poll(s):
    p = select.poll(); p.register(s, select.POLLIN); events = p.poll(20000)
    return 'HUP' if events and events[0][1] & (select.POLLHUP | select.POLLERR) else events
def epoll(s):
    e = select.epoll(); e.register(s, select.EPOLLIN); events = e.poll(20)
    return 'HUP' if events and events[0][1] & (select.EPOLLHUP | select.EPOLLERR) else events
a, b, c = (socket.create_connection(peer) for _ in range(3))
jobs = [('recv', lambda: a.recv(1)), ('poll', lambda: poll(b)), ('epoll', lambda: epoll(c))]
threads = [threading.Thread(target=how, args=job) for job in jobs]
[t.start() for t in threads]
print('ready', flush=True)
[t.join() for t in threads]
how('send', lambda: a.send(b'x'))";

#[test]
fn a_killed_service_resets_and_hangs_nothing() {
    let net = Net::new();
    let (service, name) = net.serve(Server, &[]);
    let mut peer = net.spawn(Client, &["python3", "-c", ECHO, "4100"]);
    net.wait_listening(Client, 4100, &mut peer);
    let program = ["python3", "-c", SOCKETS_OF_A_DEAD_SERVICE, &net.address(Client)];
    let mut program = net.spawn(Server, &[&[RINGWAY, "run", "-q", "--name", &name, "--"][..], &program].concat());
    net.wait_printed(&mut program, "ready");
    service.signal(Signal::KILL);
    let ended = program.finish(Duration::from_secs(5));
    for line in ["recv ECONNRESET", "poll HUP", "epoll HUP"] {
        assert!(ended.stdout.contains(line), "no `{line}`:\n{}\n{}", ended.stdout, ended.stderr);
    }
    let send = ended.stdout.lines().find(|line| line.starts_with("send")).expect("the program goes on to send");
    assert!(send == "send ECONNRESET" || send == "send EPIPE", "{send}");
    service.finish(DEADLINE);
}
