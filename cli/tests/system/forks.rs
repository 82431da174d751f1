//! fork(2) beside threads that open and close connections: no child and no thread sees another's bytes.

use std::time::Duration;

use crate::harness::*;

const PROGRAM: &str = include_str!("posix/fork_threads.c");
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

fn fork_beside_threads(forks: &str) {
    let net = Net::new();
    let (source, program) = (net.file("fork_threads.c", PROGRAM), text(&net.path("fork_threads")));
    net.output(Client, &["cc", "-O2", "-pthread", "-o", &program, &source]);
    let mut peer = net.spawn(Client, &["python3", "-c", ECHO]);
    net.wait_listening(Client, 4200, &mut peer);
    let run = [RINGWAY, "run", "-q", "-e", "strict", "--", &program, &net.address(Client), "4200", forks];
    let ended = net.spawn(Server, &run).finish(Duration::from_secs(3_000)).success();
    assert_eq!(ended.stdout, "bad children 0 wrong 0 errors 0 some 1\n", "{}", ended.stderr);
}

#[test]
fn a_child_has_the_parents_descriptors_and_no_others() {
    fork_beside_threads("1000");
}

#[test]
#[ignore = "minutes: make test-all"]
fn a_hundred_thousand_forks() {
    fork_beside_threads("100000");
}
