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
        let net = Net::new();
        let (service, name) = net.serve(Server, &[]);
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
        let said = talker.stdout();
        let port = said.split_whitespace().nth(1).expect("it has printed its port");
        wait_until("the connection is the stack's", DEADLINE, || {
            self.rows(&["state", "established"]).iter().any(|row| row.contains(&format!(":{port}")))
        });
        std::fs::write(self.net.path("go-on"), "").expect("a folder of ours");
        assert!(talker.finish(DEADLINE).success().stdout.ends_with("again\n"));
        assert_eq!(self.server.stderr().matches("attached again to service").count(), 1, "{}", self.server.stderr());
    }
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
