//! Connections go home to the kernel while both directions are busy; the peer is a kernel's TCP, and every byte is compared. Connections
//! that the kernel has stay there.

use rustix::process::Signal;

use crate::harness::*;

const STREAMS: &str = include_str!("handover/streams.py");
const INHERIT: &str = include_str!("handover/inherit.py");
/// A program that copies its input to its output, or what comes from the listener that its input is.
const ECHO: &str = "#include <sys/socket.h>
#include <unistd.h>
int main(int count, char **arguments) {
    char b[64];
    ssize_t n;
    (void)arguments;
    if (count > 1) {
        int fd = accept(0, NULL, NULL);
        dup2(fd, 0);
        dup2(fd, 1);
        close(fd);
    }
    while ((n = read(0, b, 64)) > 0)
        if (write(1, b, n) != n) return 1;
    return n != 0;
}
";
/// The last one takes a kernel that puts connections into accept queues.
const GIVEN: [&str; 4] = ["unread", "half", "listener", "early"];
/// The function of the kernel's that puts a connection into an accept queue (Linux 6.9).
const INTO_QUEUE: &str = " bpf_sk_assign_tcp_reqsk";
const ECHOES: &str = include_str!("handover/echoes.py");
const POOLS: &str = include_str!("handover/pools.py");
const ECHO_SERVER: &str = "
import socket, sys, threading
def serve(c):
    while data := c.recv(100): c.sendall(data)
listener = socket.create_server(('', int(sys.argv[1])), backlog=64)
print('ready', flush=True)
while True: threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()";
/// A connection or a datagram, whatever is taken there.
const KNOCK: &str = "
import socket, sys
end = (sys.argv[1], int(sys.argv[2]))
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', end)
socket.socket().connect_ex(end)";

/// A server on Ringway and a client on the kernel, with streams that have come half their way.
struct Streams {
    net: Net,
    service: Process,
    name: String,
    server: Process,
    client: Process,
    rest: std::path::PathBuf,
}

impl Streams {
    /// `count` connections, `bytes` in each direction of each, at a service with this configuration.
    fn start(count: usize, bytes: usize, config: &str) -> Streams {
        let net = Net::new();
        let config = net.file("ringway.toml", config);
        let (service, name) = net.serve(Server, &["--config", &config]);
        let program = net.file("streams.py", STREAMS);
        let (count, bytes) = (count.to_string(), bytes.to_string());
        let server = [RINGWAY, "run", "-q", "--name", &name, "--", "python3", &program, "server", "4000", &count, &bytes];
        let mut server = net.spawn(Server, &server);
        net.wait_served(Server, 4000, &mut server);
        let rest = net.path("rest");
        let client = ["python3", &program, "client", &net.address(Server), "4000", &count, &bytes, &text(&rest)];
        let mut client = net.spawn(Client, &client);
        net.wait_printed(&mut client, "half");
        Streams { net, service, name, server, client, rest }
    }

    /// Lets the rest come, checks that all of it has, and leaves the service.
    fn finish(self, count: usize) -> (Net, Process) {
        std::fs::write(&self.rest, "").expect("a folder of ours");
        for process in [self.client, self.server] {
            let ended = process.finish(DEADLINE).success();
            assert!(ended.stdout.ends_with(&format!("{count} whole\n")), "{} {}", ended.stdout, ended.stderr);
        }
        (self.net, self.service)
    }

    /// Connections of the kernel's in the server's namespace.
    fn at_kernel(&self) -> usize {
        self.net.output(Server, &["ss", "-Htn", "state", "established", "sport", "=", ":4000"]).lines().count()
    }
}

/// `ringway handover all`: the service goes on, and so do the streams, in the kernel.
#[test]
fn connections_go_home_while_both_directions_are_busy() {
    let streams = Streams::start(8, 3_000_000, "");
    assert_eq!(streams.at_kernel(), 0);
    let said = streams.net.output(Server, &[RINGWAY, "handover", "all", "--name", &streams.name]);
    assert_eq!(said, "8 connections, 8 at the kernel, 0 stay\n");
    assert_eq!(streams.at_kernel(), 8, "{}", streams.net.output(Server, &["ss", "-tn"]));
    let listed = streams.net.output(Server, &[RINGWAY, "ss", "--name", &streams.name, "-Htn", "state", "established"]);
    assert!(!listed.contains(":4000"), "{listed}");
    streams.finish(8);
}

/// SIGTERM: the service ends, and nothing else does.
#[test]
fn the_end_of_the_service_ends_no_connection() {
    let mut streams = Streams::start(8, 3_000_000, "");
    streams.service.signal(Signal::TERM);
    wait_until("the service ends", DEADLINE, || streams.service.poll().is_some());
    let listens = streams.net.output(Server, &["ss", "-Htln", "sport", "=", ":4000"]);
    assert_eq!(listens.lines().count(), 1, "a client that comes now is the kernel's");
    assert_eq!(streams.at_kernel(), 8);
    let (_net, service) = streams.finish(8);
    let ended = service.finish(DEADLINE).success();
    assert!(!ended.stderr.contains("not handed over"), "{}", ended.stderr);
}

/// Connections of pools: no thread is in a call on them or waits for them. Any thread of the program's that uses or waits for another socket gives
/// them.
#[test]
fn idle_connections_outlive_the_service() {
    outlive_the_service("", &["accept", "poll", "epoll", "recvfrom", "turns", "calls"]);
}

/// None of its threads runs code of the library's: the service takes the kernel sockets out of the process.
#[test]
fn connections_of_a_program_that_sleeps_outlive_the_service() {
    outlive_the_service("[service]\ntake_sockets = true\n", &["sleep"]);
}

/// Without CAP_SYS_PTRACE it may not; its log says so, and the connections stay.
#[test]
fn a_service_without_the_right_to_take_sockets_says_so() {
    let net = Net::new();
    let config = net.file("ringway.toml", "[service]\ntake_sockets = true\n");
    let serve = ["setpriv", "--bounding-set", "-sys_ptrace", RINGWAY, "serve", "--name", "limited", "--config", &config];
    let mut service = net.spawn(Server, &serve);
    service.wait_for_error_line("ready");
    let echo = net.file("echo.py", ECHO_SERVER);
    let mut echo = net.spawn(Client, &["python3", &echo, "4000"]);
    net.wait_printed(&mut echo, "ready");
    let program = idle_program(&net, "limited", &["connects", "sleep", &net.address(Client), "4000"]);
    let said = net.run(Server, &[RINGWAY, "handover", "all", "--name", "limited"]);
    assert_eq!((said.code(), said.stdout.as_str()), (1, "3 connections, 0 at the kernel, 3 stay\n"), "{}", said.stderr);
    service.wait_for_error_line("without CAP_SYS_PTRACE the service may not take it out of the program");
    std::fs::write(net.path("file"), "").expect("a folder of ours");
    assert!(program.finish(DEADLINE).success().stdout.ends_with("3 answered\n"));
}

fn outlive_the_service(config: &str, modes: &[&'static str]) {
    let net = Net::new();
    let config = net.file("ringway.toml", config);
    let (service, name) = net.serve(Server, &["--config", &config]);
    let echo = net.file("echo.py", ECHO_SERVER);
    let mut echo = net.spawn(Client, &["python3", &echo, "4000"]);
    net.wait_printed(&mut echo, "ready");
    let programs = modes.iter().map(|mode| (*mode, idle_program(&net, &name, &["connects", mode, &net.address(Client), "4000"])));
    let programs = programs.collect();
    end_and_go_on(&net, service, programs);
}

/// A client connects thrice, sends, and echoes what comes.
const WAITING: &str = "
import socket, sys, threading
def serve(c):
    while data := c.recv(100): c.sendall(data)
pool = [socket.create_connection((sys.argv[1], int(sys.argv[2]))) for _ in range(3)]
for c in pool: c.sendall(b'before')
print('sent', flush=True)
for c in pool: threading.Thread(target=serve, args=(c,)).start()";

/// What waits at a listener when the service ends goes into the kernel's accept queue, whatever the program is busy with.
#[test]
fn connections_that_no_program_has_accepted_outlive_the_service() {
    wait_for_accept_at_the_end(1, &["accept", "poll", "epoll", "recvfrom", "turns", "calls"]);
}

#[test]
fn connections_that_two_workers_have_accepted_outlive_the_service() {
    wait_for_accept_at_the_end(2, &["epoll", "calls"]);
}

fn wait_for_accept_at_the_end(workers: usize, modes: &[&'static str]) {
    if !has_queues() {
        return;
    }
    let net = Net::new();
    let config = net.file("ringway.toml", "[service]\nhandover_s = 2\n");
    let (service, name) = net.serve(Server, &["--config", &config, "--workers", &workers.to_string()]);
    let client = net.file("waiting.py", WAITING);
    let (mut programs, mut clients) = (Vec::new(), Vec::new());
    for (port, mode) in (4001..).zip(modes) {
        let port = port.to_string();
        programs.push((*mode, idle_program(&net, &name, &["listens", mode, "", &port])));
        clients.push(net.spawn(Client, &["python3", &client, &net.address(Server), &port]));
        net.wait_printed(clients.last_mut().expect("it was pushed"), "sent");
    }
    end_and_go_on(&net, service, programs);
    clients.into_iter().for_each(|client| drop(client.finish(DEADLINE).success()));
}

/// Starts `pools.py` with these arguments.
fn idle_program(net: &Net, name: &str, arguments: &[&str]) -> Process {
    let (program, file) = (net.file("pools.py", POOLS), net.path("file"));
    let file = text(&file);
    let run = [&[RINGWAY, "run", "-q", "--name", name, "--", "python3", &program], arguments, &[&file]].concat();
    let mut process = net.spawn(Server, &run);
    net.wait_printed(&mut process, "ready");
    process
}

/// Ends the service. Each connection of the programs goes on in the kernel.
fn end_and_go_on(net: &Net, service: Process, programs: Vec<(&str, Process)>) {
    service.signal(Signal::TERM);
    let ended = service.finish(DEADLINE).success();
    assert!(!ended.stderr.contains("not handed over"), "{}", ended.stderr);
    std::fs::write(net.path("file"), "").expect("a folder of ours");
    for (mode, process) in programs {
        let ready = process.stdout();
        let port = ready.split_whitespace().nth(1).expect("it has a port");
        net.output(Client, &["python3", "-c", KNOCK, &net.address(Server), port]);
        assert!(process.finish(DEADLINE).success().stdout.ends_with("3 answered\n"), "{mode}");
    }
}

/// One connection of several, named by its ends; the others stay.
#[test]
fn one_connection_is_named_by_its_ends() {
    let streams = Streams::start(3, 400_000, "");
    let own = streams.net.address(Server);
    let at_client = streams.net.output(Client, &["ss", "-Htn", "state", "established", "dport", "=", ":4000"]);
    let end = at_client.lines().next().and_then(|line| line.split_whitespace().nth(2)).expect("it is connected").to_owned();
    let said = streams.net.output(Server, &[RINGWAY, "handover", &format!("{own}:4000"), &end, "--name", &streams.name]);
    assert_eq!(said, "1 connections, 1 at the kernel, 0 stay\n");
    assert_eq!(streams.at_kernel(), 1);
    streams.finish(3);
}

/// A port may be the peer's; a process is named by its number.
#[test]
fn connections_are_named_by_a_port_of_either_end_or_their_process() {
    let streams = Streams::start(3, 400_000, "");
    let at_client = streams.net.output(Client, &["ss", "-Htn", "state", "established", "dport", "=", ":4000"]);
    let end = at_client.lines().next().and_then(|line| line.split_whitespace().nth(2)).expect("it is connected");
    let (_, port) = end.rsplit_once(':').expect("an address with a port");
    let printed = streams.server.stdout();
    let process = printed.split_whitespace().nth(1).expect("it says its number");
    for (what, count, at_kernel) in [(&*format!(":{port}"), 1, 1), (process, 2, 3)] {
        let said = streams.net.output(Server, &[RINGWAY, "handover", what, "--name", &streams.name]);
        assert_eq!(said, format!("{count} connections, {count} at the kernel, 0 stay\n"), "{what}");
        assert_eq!(streams.at_kernel(), at_kernel, "{what}");
    }
    streams.finish(3);
}

/// A server that is started while another one's connections of its port are the kernel's: the new ones are the stack's, the old ones go on.
fn connections_go_on_beside_a_new_listener(count: usize, options: &[&str]) {
    let net = Net::new();
    let program = net.file("echoes.py", ECHOES);
    let (address, said) = (net.address(Server), count.to_string());
    let (old_file, new_file) = (net.path("old"), net.path("new"));
    let mut old = net.spawn(Server, &["python3", &program, "server", "4000", &said]);
    net.wait_printed(&mut old, "listens");
    let mut old_client = net.spawn(Client, &["python3", &program, "client", &address, "4000", &said, &text(&old_file)]);
    net.wait_printed(&mut old_client, "connected");
    net.wait_printed(&mut old, "kept");
    let (_service, name) = net.serve(Server, options);
    let new = [RINGWAY, "run", "-q", "--name", &name, "--", "python3", &program, "server", "4000", "1"];
    let mut new = net.spawn(Server, &new);
    net.wait_served(Server, 4000, &mut new);
    let mut client = net.spawn(Client, &["python3", &program, "client", &address, "4000", "1", &text(&new_file)]);
    net.wait_printed(&mut client, "connected");
    let established = ["-Htn", "state", "established", "sport", "=", ":4000"];
    let at_stack = [&[RINGWAY, "ss", "--name", &name], &established[..]].concat();
    new.wait_while_running("has the connection", || net.output(Server, &at_stack).lines().count() == 1);
    let of_kernel = net.output(Server, &[&["ss"], &established[..]].concat());
    assert_eq!(of_kernel.lines().count(), count);
    for (file, client, server, count) in [(&old_file, old_client, old, count), (&new_file, client, new, 1)] {
        std::fs::write(file, "").expect("a folder of ours");
        assert!(client.finish(DEADLINE).success().stdout.ends_with(&format!("{count} whole\n")));
        server.finish(DEADLINE).success();
    }
}

#[test]
fn the_kernels_connections_of_a_port_go_on_beside_a_new_listener() {
    connections_go_on_beside_a_new_listener(3, &[]);
    connections_go_on_beside_a_new_listener(3, &["--workers", "2"]);
}

/// They are more than a worker stops for, so the service looks for them.
#[test]
fn many_connections_of_the_kernels_go_on_beside_a_new_listener() {
    connections_go_on_beside_a_new_listener(1500, &[]);
    connections_go_on_beside_a_new_listener(1500, &["--workers", "2"]);
}

/// Only root and the service's user may say so, and only what is in the contract.
#[test]
fn wishes_that_make_no_sense_are_refused() {
    let net = Net::new();
    let (_service, name) = net.serve(Server, &[]);
    for (what, status) in [("none", 2), ("0", 2), (":0", 2), ("10.0.0.1:80", 2)] {
        let said = net.run(Server, &[RINGWAY, "handover", what, "--name", &name]);
        assert_eq!(said.code(), status, "{what}: {}", said.stderr);
    }
    let user = ["setpriv", "--reuid", "65534", "--clear-groups", RINGWAY, "handover", "all", "--name", &name];
    let said = net.run(Server, &user);
    assert_eq!(said.code(), 1);
    assert!(said.stderr.contains("only root and the user of the service"), "{}", said.stderr);
    let said = net.run(Server, &[RINGWAY, "handover", "all", "--name", &name]).success();
    assert_eq!(said.stdout, "0 connections, 0 at the kernel, 0 stay\n");
    let said = net.run(Server, &[RINGWAY, "handover", "all", "--name", "no-such-service"]);
    assert_eq!(said.code(), 1);
}

/// The client of a socket that was given away gets all its lines back.
fn is_served(net: &Net, mut server: Process, script: &str, what: &str) {
    match what {
        "listener" => net.wait_printed(&mut server, "given"),
        _ => net.wait_served(Server, 4000, &mut server),
    }
    let got = net.output(Client, &["python3", script, "client", &net.address(Server), "4000", what]);
    assert_eq!(got, "first\nsecond\n", "{what}");
    assert_eq!(server.finish(DEADLINE).success().stdout, "listens\ngiven\n", "{what}");
}

/// A socket goes to a program of this kind: by fork and exec, by vfork as Python's subprocess does, by posix_spawn.
fn inherits(compiler: &[&str], mode: &str) {
    let net = Net::new();
    let program = compile(&net, compiler, "echo");
    net.output(Server, &["chown", "65534", &program]);
    net.output(Server, &["chmod", mode, &program]);
    give(&net, &["exec", "vfork", "spawn"], &program);
}

/// Two stacks have its connections.
#[test]
fn a_static_program_inherits_a_listener_of_two_workers() {
    let net = Net::new();
    let program = compile(&net, &["cc", "-static"], "echo");
    let kinds = given().filter(|what| ["listener", "early"].contains(what));
    give_kinds(&net, (&["exec", "vfork", "spawn"], kinds), &program, &["--workers", "2"]);
}

fn has_queues() -> bool {
    std::fs::read_to_string("/proc/kallsyms").is_ok_and(|symbols| symbols.contains(INTO_QUEUE))
}

fn given() -> impl Iterator<Item = &'static str> + Clone {
    GIVEN.into_iter().take(if has_queues() { GIVEN.len() } else { GIVEN.len() - 1 })
}

pub(crate) fn compile(net: &Net, compiler: &[&str], file: &str) -> String {
    let (source, program) = (net.file("echo.c", ECHO), text(&net.path(file)));
    net.output(Server, &[compiler, &["-o", &program, &source]].concat());
    program
}

/// Each kind of socket goes to the program in each of these ways.
pub(crate) fn give(net: &Net, ways: &[&str], program: &str) {
    give_kinds(net, (ways, given()), program, &[]);
}

/// These kinds of sockets go to the program in these ways, from a service with these options.
fn give_kinds<'a>(net: &Net, (ways, kinds): (&[&str], impl Iterator<Item = &'a str> + Clone), program: &str, options: &[&str]) {
    let (_service, name) = net.serve(Server, options);
    let script = net.file("inherit.py", INHERIT);
    for (how, what) in ways.iter().flat_map(|how| kinds.clone().map(move |what| (how, what))) {
        let run = [RINGWAY, "run", "--name", &name, "--", "python3", &script, "server", "4000", how, what, program];
        let arguments: &[&str] = if ["listener", "early"].contains(&what) { &["accepts"] } else { &[] };
        is_served(net, net.spawn(Server, &[&run, arguments].concat()), &script, what);
    }
}

#[test]
fn a_static_program_inherits_sockets() {
    inherits(&["cc", "-static"], "755");
}

/// Its loader would end at the library, which is not in its environment.
#[test]
fn a_program_of_musl_inherits_sockets() {
    inherits(&["musl-gcc"], "755");
}

/// The dynamic linker does not load the library into it.
#[test]
fn a_program_that_gains_rights_inherits_sockets() {
    inherits(&["cc"], "4755");
}

/// A manager of sockets, which becomes the server when the first client comes, or starts it.
const ACTIVATES: &str = "
import os, select, socket, subprocess, sys
listener = socket.create_server(('0.0.0.0', 4000))
program = [sys.argv[1], 'accepts']
print('listens', flush=True)
select.select([listener], [], [])
if sys.argv[2] == 'vfork':
    sys.exit(subprocess.run(program, stdin=listener).returncode)
if sys.argv[2] == 'spawn':
    listener.set_inheritable(True)
    actions = [(os.POSIX_SPAWN_DUP2, listener.fileno(), 0)]
    os.posix_spawn(program[0], program, os.environ, file_actions=actions)
elif sys.argv[2] == 'becomes' or os.fork() == 0:
    os.dup2(listener.fileno(), 0)
    os.execv(program[0], program)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))";

/// What it sends waits in the stack. An old kernel's accept queue does not take the connection: the client hears that it has to try again.
const ASKS: &str = "
import socket, sys
for attempt in range(2):
    with socket.create_connection((sys.argv[1], 4000), timeout=20) as c:
        try:
            c.sendall(b'x' * 20)
            print('got', c.recv(20, socket.MSG_WAITALL))
            break
        except ConnectionResetError: print('reset')";

/// The server gets the client that came before it.
#[test]
fn a_manager_of_a_static_server_passes_on_what_the_stack_has_accepted() {
    passes_on_what_the_stack_has_accepted(1);
}

#[test]
fn a_manager_passes_on_what_two_workers_have_accepted() {
    passes_on_what_the_stack_has_accepted(2);
}

fn passes_on_what_the_stack_has_accepted(workers: usize) {
    let net = Net::new();
    let program = compile(&net, &["cc", "-static"], "echo");
    let (_service, name) = net.serve(Server, &["--workers", &workers.to_string()]);
    let got = format!("{}got b'{}'\n", if has_queues() { "" } else { "reset\n" }, "x".repeat(20));
    for way in ["becomes", "starts", "vfork", "spawn"] {
        let manager = [RINGWAY, "run", "-q", "--name", &name, "--", "python3", "-c", ACTIVATES, &program, way];
        let mut manager = net.spawn(Server, &manager);
        net.wait_served(Server, 4000, &mut manager);
        assert_eq!(net.output(Client, &["python3", "-c", ASKS, &net.address(Server)]), got, "{way}");
        manager.finish(DEADLINE).success();
    }
    if has_queues() {
        let count = (4 * workers + 4).to_string();
        wait_until("each worker has handed each listener over once, and one each connection", DEADLINE, || {
            let counted = net.output(Server, &[RINGWAY, "nstat", "--name", &name, "-az"]);
            counted.lines().any(|line| line.split_whitespace().take(2).eq(["RingwaySocketsHandedOver", &count]))
        });
    }
}

/// Neither the library nor the service is below its root directory.
#[test]
fn a_program_in_a_jail_inherits_sockets() {
    let net = Net::new();
    std::fs::create_dir(net.path("jail")).expect("a folder of ours");
    let program = compile(&net, &["cc"], "jail/echo");
    let copy = format!("for f in $(ldd {program} | grep -o '/[^ ]*'); do cp -L --parents $f {}; done", text(&net.path("jail")));
    net.output(Server, &["sh", "-c", &copy]);
    give(&net, &["jail"], &program);
}

/// A socket is sent in a message to a process that the library is not in.
#[test]
fn a_process_outside_gets_sockets_in_a_message() {
    let net = Net::new();
    let (_service, name) = net.serve(Server, &[]);
    let script = net.file("inherit.py", INHERIT);
    for what in given() {
        let path = text(&net.path(what));
        let mut helper = net.spawn(Server, &["python3", &script, "helper", &path, what]);
        net.wait_printed(&mut helper, "listens");
        let run = [RINGWAY, "run", "-q", "--name", &name, "--", "python3", &script, "server", "4000", "passed", what, &path];
        is_served(&net, net.spawn(Server, &run), &script, what);
        helper.finish(DEADLINE).success();
    }
}

/// `service.drain_s`: new connections are the kernel's at once, those that there are end by themselves.
#[test]
fn connections_end_by_themselves_while_the_service_waits() {
    let mut streams = Streams::start(4, 400_000, "[service]\ndrain_s = 60\n");
    streams.service.signal(Signal::TERM);
    // The server listens no more, but its kernel listener does: a SYN-ACK says so.
    wait_until("a new connection is the kernel's", DEADLINE, || {
        let new = "import socket, sys; socket.create_connection((sys.argv[1], 4000), 0.5)";
        let answered = streams.net.run(Client, &["python3", "-c", new, &streams.net.address(Server)]).code() == 0;
        answered && streams.net.output(Server, &["ss", "-Htan", "sport", "=", ":4000"]).lines().count() > 1
    });
    let established = streams.net.output(Server, &["ss", "-Htn", "state", "established", "sport", "=", ":4000"]);
    assert_eq!(established, "", "those of before are the stack's");
    assert!(streams.service.poll().is_none(), "it waits for its connections");
    let (_net, service) = streams.finish(4);
    let ended = service.finish(DEADLINE).success();
    assert!(!ended.stderr.contains("not handed over"), "{}", ended.stderr);
}

/// SIGHUP: what can change does, the rest is named, a mistake changes nothing.
#[test]
fn the_configuration_is_read_again_on_sighup() {
    let net = Net::new();
    let config = net.file("ringway.toml", "[tcp]\nretries = 8\n");
    let (mut service, _name) = net.serve(Server, &["--config", &config]);
    net.file("ringway.toml", "[tcp]\nretries = 5\n[memory]\nslots = 4096\n");
    service.signal(Signal::HUP);
    service.wait_for_error_line("configuration read again: changed: tcp.retries; needs a restart: memory.slots");
    net.file("ringway.toml", "[tcp]\nretries = 1000\n");
    service.signal(Signal::HUP);
    service.wait_for_error_line("the configuration stays as it is: ");
    assert!(service.poll().is_none(), "it runs on: {}", service.stderr());
    service.signal(Signal::TERM);
    service.finish(DEADLINE).success();
}

/// What a program has not read when the service ends comes first, and then what the kernel has received since; it can send meanwhile.
fn unread_datagrams_come_first(is_connected: bool, end: Signal) {
    let net = Net::new();
    let script = net.file("pending.py", include_str!("handover/pending.py"));
    let (service, name) = net.serve(Server, &[]);
    let (server, client) = (net.address(Server), net.address(Client));
    let mut holder = net.spawn(Client, &["python3", &script, "hold"]);
    net.wait_printed(&mut holder, "ready");
    let peer: &[&str] = if is_connected { &[&client, "5700"] } else { &[] };
    let receive = [&[RINGWAY, "run", "-q", "--name", &name, "--", "python3", &script, "receive", "5600"], peer].concat();
    let mut receiver = net.spawn(Server, &receive);
    net.wait_printed(&mut receiver, "ready");
    net.output(Client, &["python3", &script, "send", &server, "5600", "0", "5"]);
    receiver.wait_while_running("the stack has received them", || {
        let counted = net.output(Server, &[RINGWAY, "nstat", "-az", "UdpInDatagrams"]);
        counted.lines().any(|line| line.split_whitespace().take(2).eq(["UdpInDatagrams", "5"]))
    });
    service.signal(end);
    service.finish(DEADLINE);
    net.output(Client, &["python3", &script, "send", &server, "5600", "5", "5"]);
    receiver.signal(Signal::USR1);
    let ended = receiver.finish(DEADLINE).success();
    assert_eq!(ended.stdout, "ready\n0\n4\n1\n2\n3\n4\n5\n6\n7\n8\n9\n", "{}", ended.stderr);
    assert_eq!(holder.finish(DEADLINE).success().stdout, "ready\nseen\n");
}

#[test]
fn unread_datagrams_come_before_the_kernels() {
    let is_connected = false;
    unread_datagrams_come_first(is_connected, Signal::TERM);
    unread_datagrams_come_first(is_connected, Signal::KILL);
}

#[test]
fn unread_datagrams_of_a_connected_socket_come_before_the_kernels() {
    let is_connected = true;
    unread_datagrams_come_first(is_connected, Signal::TERM);
    unread_datagrams_come_first(is_connected, Signal::KILL);
}

/// Waits for a connected socket alone.
const WAITS: &str = "
import select, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('', int(sys.argv[3]))); s.connect((sys.argv[1], 5700)); s.send(b'first')
waiter = {'epoll': select.epoll, 'poll': select.poll}[sys.argv[2]]()
waiter.register(s, 1)
print('ready', flush=True)
print(len(waiter.poll()), s.recv(100).decode(), flush=True)";
const ANSWERS: &str = "
import signal, socket
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 5700))
print('ready', flush=True)
peers = [s.recvfrom(100)[1] for _ in range(2)]
print('asked', flush=True)
signal.sigwait([signal.SIGUSR1])
for peer in peers: s.sendto(b'after', peer)";

/// The kernel socket under a connected socket is not watched while the service lives.
#[test]
fn a_wait_for_a_connected_datagram_socket_outlives_a_killed_service() {
    let net = Net::new();
    let (service, name) = net.serve(Server, &[]);
    let mut peer = net.spawn(Client, &["python3", "-c", ANSWERS]);
    net.wait_printed(&mut peer, "ready");
    let start = |(port, how): (&str, &str)| {
        let client = net.address(Client);
        let mut waiter =
            net.spawn(Server, &[RINGWAY, "run", "-q", "--name", &name, "--", "python3", "-c", WAITS, &client, how, port]);
        net.wait_printed(&mut waiter, "ready");
        waiter
    };
    let waiters = [("5601", "epoll"), ("5602", "poll")].map(start);
    net.wait_printed(&mut peer, "asked");
    service.signal(Signal::KILL);
    service.finish(DEADLINE);
    peer.signal(Signal::USR1);
    for waiter in waiters {
        let ended = waiter.finish(DEADLINE).success();
        assert_eq!(ended.stdout, "ready\n1 after\n", "{}", ended.stderr);
    }
    peer.finish(DEADLINE).success();
}

mod rings;
