//! Programs and services in different PID namespaces, as containers have them: neither knows the other's numbers of processes.

use std::path::Path;

use crate::harness::*;

/// Every child gets a connection that the parent closes, and ends without closing it: the service must see its end.
const SERVER: &str = "
import os, signal, socket, subprocess
s = socket.create_server(('0.0.0.0', 4300), backlog=64)
for _ in range(20):
    c, _ = s.accept()
    child = os.fork()
    if child == 0:
        s.close()
        c.sendall(c.recv(100))
        c.recv(1)
        os._exit(0)
    c.close(); os.waitpid(child, 0)
for _ in range(5):
    c, _ = s.accept()
    cat = subprocess.Popen(['cat'], stdin=c, stdout=c)
    c.close(); cat.wait()
print('served', flush=True)";

/// A connection ends with the child that had it.
const CLIENT: &str = "
import socket, sys
for n in range(25):
    with socket.create_connection((sys.argv[1], 4300), timeout=30) as c:
        c.sendall(b'hello %d' % n)
        assert c.recv(100) == b'hello %d' % n
        c.shutdown(socket.SHUT_WR)
        assert c.recv(100) == b'', 'the end'
print('done')";

const UNSHARE: [&str; 4] = ["unshare", "--pid", "--fork", "--mount-proc"];

/// Starts a Python program on the service of this name, strictly. The library directly: the command looks for its service by the number of
/// its process.
pub(crate) fn spawn_python(net: &Net, name: &str, before: &[&str], script: &str) -> Process {
    let library = Path::new(RINGWAY).with_file_name("libringway_preload.so");
    let environment = [
        ("LD_PRELOAD", library.to_str().expect("a plain path")),
        ("RINGWAY_SOCKET", name),
        ("RINGWAY_GROUP", "000102030405060708090a0b0c0d0e0f"),
        ("RINGWAY_STRICT", "1"),
    ];
    net.spawn_with(Server, &[before, &["python3", "-c", script]].concat(), &environment, None)
}

pub(crate) fn serve_connections(net: &Net, name: &str, before: &[&str]) {
    let before_all = net.kernel_tcp(Server);
    let mut server = spawn_python(net, name, before, SERVER);
    net.wait_listening(Server, 4300, &mut server);
    assert_eq!(net.output(Client, &["python3", "-c", CLIENT, &net.address(Server)]), "done\n");
    assert_eq!(server.finish(DEADLINE).success().stdout, "served\n");
    net.assert_kernel_received(Server, &before_all, 0);
}

#[test]
fn a_program_in_a_pid_namespace_of_its_own_is_served() {
    let net = Net::new();
    let (_service, name) = net.serve(Server, &[]);
    serve_connections(&net, &name, &UNSHARE);
}

#[test]
fn a_program_that_the_service_has_no_number_for_is_served() {
    let net = Net::new();
    let Some((_service, name)) = serve_apart(&net) else { return };
    serve_connections(&net, &name, &[]);
}

/// A service in a PID namespace of its own, and its name; `None`: this kernel lets it serve no program outside.
pub(crate) fn serve_apart(net: &Net) -> Option<(Process, String)> {
    if !kernel_names_processes_by_pidfd() {
        eprintln!("skipped: before Linux 6.9 such a program is refused");
        return None;
    }
    let name = format!("test-{}-apart", std::process::id());
    let serve = [&UNSHARE[..], &[RINGWAY, "serve", "--name", &name]].concat();
    let (mut service, socket) = (net.spawn(Server, &serve), net.service_socket(Server, &name));
    service.wait_while_running("has its socket", || socket.exists());
    Some((service, name))
}

/// Returns true if pidfds have inodes of their own (pidfs).
fn kernel_names_processes_by_pidfd() -> bool {
    let own = rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty());
    let own = own.expect("pidfd_open(2) is older than the oldest kernel that is served");
    rustix::fs::fstatfs(own).is_ok_and(|system| system.f_type == 0x5049_4446)
}
