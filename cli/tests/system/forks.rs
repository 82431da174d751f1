//! fork(2) beside threads that open and close connections, or wait: no child and no thread sees another's bytes, none hangs.

use std::time::Duration;

use crate::harness::*;

const CONNECTIONS: &str = include_str!("posix/fork_threads.c");
const WAITS: &str = include_str!("posix/fork_epoll.c");
/// Echoes; a thread for each connection.
const ECHO: &str = "
import socket, threading
def talk(c):
    with c:
        try:
            while data := c.recv(65536): c.sendall(data)
        except ConnectionResetError: pass
s = socket.create_server(('0.0.0.0', 4200), backlog=512)
while True: threading.Thread(target=talk, args=(s.accept()[0],), daemon=True).start()";

/// Runs the program of this source beside an echo server; returns what it printed.
fn fork_beside_threads(source: &str, forks: &str) -> String {
    let net = Net::new();
    let (source, program) = (net.file("forks.c", source), text(&net.path("forks")));
    net.output(Client, &["cc", "-O2", "-pthread", "-o", &program, &source]);
    let mut peer = net.spawn(Client, &["python3", "-c", ECHO]);
    net.wait_listening(Client, 4200, &mut peer);
    let run = [RINGWAY, "run", "-q", "-e", "strict", "--", &program, &net.address(Client), "4200", forks];
    net.spawn(Server, &run).finish(Duration::from_secs(3_000)).success().stdout
}

#[test]
fn a_child_has_the_parents_descriptors_and_no_others() {
    // The first use of each table falls into a program's first forks.
    for _ in 0..5 {
        assert_eq!(fork_beside_threads(CONNECTIONS, "200"), "bad children 0 wrong 0 errors 0 some 1\n");
    }
}

#[test]
#[ignore = "minutes: make test-all"]
fn a_hundred_thousand_forks() {
    assert_eq!(fork_beside_threads(CONNECTIONS, "100000"), "bad children 0 wrong 0 errors 0 some 1\n");
}

/// Each child waits in the instance in which threads of the parent waited when it was made.
#[test]
fn a_child_can_wait_where_threads_of_its_parent_did() {
    assert_eq!(fork_beside_threads(WAITS, "300"), "bad children 0\n");
}
