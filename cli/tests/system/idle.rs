//! An idle service with idle applications: no wakeup, no CPU.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use crate::harness::*;

/// Waits in epoll with a listener and an established connection.
const IDLER: &str = "
import select, socket
s = socket.create_server(('0.0.0.0', 4000))
c, _ = s.accept()
e = select.epoll(); e.register(s, select.EPOLLIN); e.register(c, select.EPOLLIN)
c.send(b'ready')
e.poll()";

const CLIENT: &str = "
import socket, sys
c = socket.create_connection((sys.argv[1], 4000)); assert c.recv(5) == b'ready'; print('connected', flush=True)
c.recv(1)";

/// Context switches of all threads of all processes in the namespace: (process, count) in stable order.
pub(crate) fn switches(net: &Net) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for pid in net.processes(Server) {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            let counts = status.lines().filter(|line| line.contains("ctxt_switches:"));
            let sum = counts.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum();
            found.push((format!("{} {}", name.trim(), task.file_name().to_string_lossy()), sum));
        }
    }
    found.sort();
    found
}

#[test]
fn an_idle_service_never_wakes() {
    let net = Net::new();
    let (_service, name) = net.serve(Server, &[]);
    let mut idler = net.spawn(Server, &[RINGWAY, "run", "-q", "--name", &name, "--", "python3", "-c", IDLER]);
    net.wait_served(Server, 4000, &mut idler);
    let mut client = net.spawn(Client, &["python3", "-c", CLIENT, &net.address(Server)]);
    net.wait_printed(&mut client, "connected");
    // Delayed ACKs, neighbour probes and the kernel's own start-up noise end by themselves; then ten seconds must be silent.
    let mut before = switches(&net);
    wait_until("ten seconds without a single context switch", Duration::from_secs(45), || {
        sleep(Duration::from_secs(10));
        let after = switches(&net);
        let moved: Vec<String> = after
            .iter()
            .zip(&before)
            .filter(|(after, before)| after != before)
            .map(|(after, before)| format!("{before:?} -> {after:?}"))
            .collect();
        let silent = moved.is_empty() && after.len() == before.len();
        before = after;
        if !silent {
            eprintln!("woke: {}", moved.join(", "));
        }
        silent
    });
}
