//! Programs that put their sockets into an io_uring: by system calls through libc, by liburing, and with liburing linked in.

use crate::harness::*;

const PROGRAM: &str = include_str!("rings.c");
const PEER: &str = include_str!("rings.py");
const SAID: &str = "gives sockets to an io_uring: they and those it opens from now on are the kernel's";

/// The program, compiled and linked with these options.
fn compiled(net: &Net, options: &[&str]) -> String {
    let (source, program) = (net.file("rings.c", PROGRAM), text(&net.path("rings")));
    net.output(Server, &[&["cc", "-O2", "-Wno-psabi", "-o", &program, &source], options].concat());
    program
}

/// A server whose first clients come before it makes its ring: the stack has accepted them. It answers them and later ones.
fn serves(net: &Net, name: &str, program: &str, how: &str, early: &str) {
    let (fifo, peer) = (text(&net.path(&format!("{how}.fifo"))), net.file("rings.py", PEER));
    net.output(Server, &["mkfifo", &fifo]);
    let mut server = net.spawn(Server, &[RINGWAY, "run", "--name", name, "--", program, how, "4000", "3", &fifo]);
    net.wait_served(Server, 4000, &mut server);
    let connect = || net.spawn(Client, &["python3", &peer, "client", &net.address(Server), "4000", early, "3"]);
    let mut comes_early = (early != "0").then(&connect);
    if let Some(client) = &mut comes_early {
        net.wait_printed(client, "connected");
    }
    std::fs::write(&fifo, "").expect("the server reads it");
    let client = comes_early.unwrap_or_else(|| {
        net.wait_printed(&mut server, "kept");
        connect()
    });
    let client = client.finish(DEADLINE).success();
    let server = server.finish(DEADLINE).success();
    assert!(server.stdout.ends_with("\nserved\n"), "{how}: {} {}", server.stdout, server.stderr);
    let ports = [&client, &server].map(|ended| {
        let mut ports: Vec<u16> = ended.stdout.lines().filter_map(|line| line.parse().ok()).collect();
        ports.sort_unstable();
        ports
    });
    assert_eq!(ports[0], ports[1], "{how}: the addresses of the clients");
    assert_eq!(ports[0].len(), 3);
    assert_eq!(server.stderr.matches(SAID).count(), 1, "{how}: {}", server.stderr);
}

fn goes_home(options: &[&str]) {
    let net = Net::new();
    let (_service, name) = net.serve(Server, &[]);
    let program = compiled(&net, options);
    for how in ["accept", "multishot", "poll"] {
        serves(&net, &name, &program, how, "2");
    }
    // What the ring knows by a number of its own cannot be answered for the kernel: they go into the kernel's accept queue.
    serves(&net, &name, &program, "registered", if super::has_queues() { "2" } else { "0" });
    let peer = net.file("rings.py", PEER);
    let mut answers = net.spawn(Client, &["python3", &peer, "server", "4001"]);
    net.wait_listening(Client, 4001, &mut answers);
    let run = [RINGWAY, "run", "--name", &name, "--", &program, "connect", &net.address(Client), "4001"];
    let ended = net.run(Server, &run).success();
    assert!(ended.stdout.ends_with("answered line\n") && ended.stderr.contains(SAID), "{} {}", ended.stdout, ended.stderr);
    assert_eq!(answers.finish(DEADLINE).success().stdout, "served\n");
    // Four listeners and their six early connections; the counter may be behind by the last socket.
    let counted = net.output(Server, &[RINGWAY, "nstat", "--name", &name, "-az"]);
    let handed = counted.lines().find_map(|line| line.strip_prefix("RingwaySocketsHandedOver")).expect("it is counted");
    let handed: u64 = handed.split_whitespace().next().and_then(|count| count.parse().ok()).expect("a number");
    assert!(handed >= 10, "{handed}");
}

#[test]
fn sockets_in_a_ring_go_home() {
    goes_home(&[]);
}

#[test]
fn sockets_in_a_ring_of_liburing_go_home() {
    goes_home(&["-DLIBURING", "-luring"]);
}

/// Its calls are not seen, but they are known before it starts.
#[test]
fn a_program_with_liburing_linked_in_is_the_kernels() {
    let net = Net::new();
    let (_service, name) = net.serve(Server, &[]);
    let program = compiled(&net, &["-DLIBURING", "-l:liburing.a"]);
    let peer = net.file("rings.py", PEER);
    let mut answers = net.spawn(Client, &["python3", &peer, "server", "4001"]);
    net.wait_listening(Client, 4001, &mut answers);
    let run = [RINGWAY, "run", "--name", &name, "--", &program, "connect", &net.address(Client), "4001"];
    let ended = net.run(Server, &run).success();
    assert!(ended.stdout.ends_with("answered line\n"), "{}", ended.stdout);
    assert!(
        ended.stderr.contains("not accelerated, everything -> kernel") && ended.stderr.contains("io_urings"),
        "{}",
        ended.stderr
    );
    answers.finish(DEADLINE).success();
    let refused =
        net.run(Server, &[RINGWAY, "run", "-e", "strict", "--name", &name, "--", &program, "connect", "192.0.2.1", "1"]);
    assert!(refused.code() == 125 && refused.stderr.contains("io_urings"), "{}", refused.stderr);
}
