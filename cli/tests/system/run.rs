//! `ringway run`: exit status, signals, output, banner, dry run, fallback.

use rustix::process::Signal;

use crate::harness::*;

#[test]
fn the_exit_status_is_the_programs_own() {
    let net = Net::new();
    for status in [0, 1, 7, 255] {
        let script = format!("exit {status}");
        assert_eq!(net.run(Server, &ringway(&["sh", "-c", &script])).code(), status);
    }
}

#[test]
fn a_missing_program_is_127_and_one_that_cannot_run_126() {
    let net = Net::new();
    let missing = net.run(Server, &ringway(&["no-such-program-here"]));
    assert_eq!(missing.code(), 127, "{}", missing.stderr);
    assert!(missing.stderr.contains("no-such-program-here"), "{}", missing.stderr);
    let plain = net.file("plain", "not a program");
    assert_eq!(net.run(Server, &ringway(&[&plain])).code(), 126);
}

#[test]
fn it_dies_by_the_programs_signal() {
    let net = Net::new();
    for (name, number) in [("TERM", 15), ("KILL", 9), ("USR1", 10)] {
        let script = format!("kill -{name} $$");
        assert_eq!(net.run(Server, &ringway(&["sh", "-c", &script])).code(), -number, "SIG{name}");
    }
}

#[test]
fn signals_reach_the_program() {
    let net = Net::new();
    for (signal, name) in [(Signal::TERM, "TERM"), (Signal::HUP, "HUP"), (Signal::USR1, "USR1"), (Signal::INT, "INT")] {
        let script = format!("trap 'echo got {name}; exit 42' {name}; echo ready; while :; do sleep 0.05; done");
        let mut program = net.spawn_ringway(Server, &["sh", "-c", &script]);
        net.wait_printed(&mut program, "ready");
        program.signal(signal);
        let ended = program.finish(DEADLINE);
        assert_eq!(ended.code(), 42, "SIG{name}: {}", ended.stderr);
        assert_eq!(ended.stdout, format!("ready\ngot {name}\n"));
    }
}

/// A program that a script starts with `&` ignores SIGQUIT; when it changes its mind (nginx) the signal reaches it.
#[test]
fn a_signal_that_was_ignored_reaches_a_program_that_wants_it() {
    let net = Net::new();
    let script = "import os, signal, sys
print(signal.getsignal(signal.SIGQUIT) == signal.SIG_IGN, flush=True)
signal.signal(signal.SIGQUIT, lambda *_: os._exit(42))
print('ready', flush=True)
while True: signal.pause()";
    let ignoring = ["sh", "-c", "trap '' QUIT; exec \"$0\" \"$@\""];
    let mut program = net.spawn(Server, &[&ignoring[..], &ringway(&["python3", "-c", script])].concat());
    net.wait_printed(&mut program, "ready");
    program.signal(Signal::QUIT);
    let ended = program.finish(DEADLINE);
    assert_eq!((ended.code(), ended.stdout.as_str()), (42, "True\nready\n"), "{}", ended.stderr);
}

/// With `--detach` the caller gets the number of the process and an end of its pipe; what fails before is still said.
#[test]
fn a_detached_program_goes_on_alone() {
    let net = Net::new();
    let output = text(&net.path("output"));
    let script = format!(
        "echo out; {RINGWAY} run --detach -- sh -c 'echo program; exec python3 -c \"import signal; signal.pause()\"' | cat"
    );
    let to_files = format!("{RINGWAY} run --detach -- sh -c 'echo $$; echo error >&2' > {output} 2>&1");
    // cat reads to the end of the pipe: neither the program nor its service holds it, and what it prints goes nowhere.
    let printed = net.output(Server, &["sh", "-c", &script]);
    let pid = printed.strip_prefix("out\n").and_then(|pid| pid.trim().parse::<u32>().ok()).expect(&printed);
    let status = |pid: u32, name: &str| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        text.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
    };
    let service: u32 = status(pid, "PPid:").and_then(|pid| pid.parse().ok()).expect("the program runs");
    assert_eq!(status(service, "Name:").as_deref(), Some("ringway"));
    // python3 may be a script that becomes another program: in between the library is not loaded yet.
    wait_until("the program is on Ringway", DEADLINE, || {
        net.run(Server, &[RINGWAY, "why", &pid.to_string()]).stdout.contains("on Ringway")
    });
    let process = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a positive number");
    rustix::process::kill_process(process, Signal::TERM).expect("it is ours");
    wait_until("the end of the private service", DEADLINE, || status(service, "Name:").is_none());

    net.output(Server, &["sh", "-c", &to_files]);
    let written = || std::fs::read_to_string(&output).unwrap_or_default();
    wait_until("the program's output in the file", DEADLINE, || written().contains("error\n"));
    wait_until("the banner in the file", DEADLINE, || written().contains("accelerated"));

    let missing = net.run(Server, &[RINGWAY, "run", "--detach", "--", "no-such-program-here"]);
    assert!(missing.code() == 127 && missing.stderr.contains("no such program"), "{}", missing.stderr);
    let refused = net.run(Server, &[RINGWAY, "run", "--detach", "--name", "no-such-service", "-e", "strict", "--", "true"]);
    assert!(refused.code() == 125 && refused.stderr.contains("no-such-service"), "{}", refused.stderr);
}

#[test]
fn standard_streams_are_the_programs_own() {
    let net = Net::new();
    let content = noise(9, 300_000);
    let input = net.path(&net.file("input", &content));
    let got = text(&net.path("got"));
    let arguments = ringway(&["sh", "-c", "cat >\"$0\"; echo out; echo err >&2", &got]);
    let ended = net.spawn_with(Server, &arguments, &[], Some(&input)).finish(DEADLINE).success();
    assert_eq!(ended.stdout, "out\n");
    // The banner needs the program's number, so it may come after what a short program says.
    assert!(ended.stderr.lines().any(|line| line == "err"), "{}", ended.stderr);
    assert_eq!(digest_of(&got).expect("cat has written it"), digest(&content));
}

#[test]
fn the_banner_is_one_line_and_q_is_silent() {
    let net = Net::new();
    let loud = net.run(Server, &ringway(&["true"])).success();
    let lines: Vec<&str> = loud.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "{}", loud.stderr);
    for word in ["ringway: ", INTERFACE, &net.address(Server), "kernel"] {
        assert!(lines[0].contains(word), "no `{word}` in: {}", lines[0]);
    }
    let silent = net.run(Server, &[RINGWAY, "run", "-q", "--", "true"]).success();
    assert_eq!(silent.stderr, "");
}

#[test]
fn a_dry_run_says_and_does_nothing() {
    let net = Net::new();
    let marker = text(&net.path("marker"));
    let dry = net.run(Server, &[RINGWAY, "run", "--dry-run", "--", "touch", &marker]).success();
    let said = format!("{}{}", dry.stdout, dry.stderr);
    assert!(said.contains(INTERFACE) && said.contains(&net.address(Server)), "{said}");
    assert!(!net.path("marker").exists(), "the program ran");
}

#[test]
fn a_static_program_is_named_as_not_accelerated() {
    let net = Net::new();
    let source = net.file("static.c", "int main(void) { return 3; }\n");
    let program = text(&net.path("static"));
    net.output(Server, &["cc", "-static", "-o", &program, &source]);
    let dry = net.run(Server, &[RINGWAY, "run", "--dry-run", "--", &program]);
    let said = format!("{}{}", dry.stdout, dry.stderr);
    assert!(said.contains("static"), "{said}");
    assert_eq!(net.run(Server, &ringway(&[&program])).code(), 3);
    let strict = net.run(Server, &[RINGWAY, "run", "-e", "strict", "--", &program]);
    assert_eq!(strict.code(), 125, "{}", strict.stderr);
}

/// Copied away from its library the command can accelerate nothing, ever: `-q` must not hide that.
#[test]
fn without_its_library_it_does_not_run() {
    let net = Net::new();
    let alone = text(&net.path("ringway"));
    std::fs::copy(RINGWAY, &alone).expect("the command can be copied");
    let ended = net.run(Server, &[&alone, "run", "-q", "--", "true"]);
    assert_eq!(ended.code(), 125, "{}", ended.stderr);
    assert!(ended.stderr.contains("libringway_preload.so"), "{}", ended.stderr);
    let library = std::path::Path::new(RINGWAY).with_file_name("libringway_preload.so");
    let named = net.spawn_with(Server, &[&alone, "run", "-q", "--", "true"], &[("RINGWAY_PRELOAD", &text(&library))], None);
    named.finish(DEADLINE).success();
}

#[test]
fn nothing_is_left_behind() {
    let net = Net::new();
    let mut program = net.spawn_ringway(Server, &["sh", "-c", "echo ready; read line"]);
    let private = format!("private-{}@", program.pid().as_raw_pid());
    net.wait_printed(&mut program, "ready");
    program.finish(DEADLINE);
    assert_eq!(runtime_files(&private), Vec::<String>::new());
    let (mut named, name) = net.serve(Server, &[]);
    assert_ne!(runtime_files(&format!("{name}@")), Vec::<String>::new(), "a running service has files");
    named.signal(Signal::TERM);
    wait_until("the service ends", DEADLINE, || named.poll().is_some());
    assert_eq!(runtime_files(&format!("{name}@")), Vec::<String>::new());
}

/// Names in `/run/ringway` that start so; other services of the machine come and go.
fn runtime_files(start: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/run/ringway").into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).filter(|name| name.starts_with(start)).collect()
}

/// The loader may have the library of a package for all programs, and `ringway run` that of another place for one.
#[test]
fn of_two_copies_of_the_library_one_serves() {
    let net = Net::new();
    let copy = text(&net.path("libringway_preload.so"));
    std::fs::copy(std::path::Path::new(RINGWAY).with_file_name("libringway_preload.so"), &copy).expect("it can be copied");
    let script = "
import os, socket
s = socket.create_server(('', 7000)); print('ready', flush=True)
c, _ = s.accept()
if os.fork() == 0:
    c.sendall(c.recv(100).upper()); os._exit(0)
os.wait(); c.close()
print(len({line.split()[-1] for line in open('/proc/self/maps') if 'libringway_preload.so' in line}))";
    let run = [RINGWAY, "run", "-q", "-e", "strict", "--", "python3", "-c", script];
    let before = net.kernel_tcp(Server);
    let mut server = net.spawn_with(Server, &run, &[("LD_PRELOAD", &copy)], None);
    net.wait_printed(&mut server, "ready");
    let client = "import socket, sys; c = socket.create_connection((sys.argv[1], 7000)); c.sendall(b'hello'); print(c.recv(100), c.recv(1))";
    assert_eq!(net.output(Client, &["python3", "-c", client, &net.address(Server)]), "b'HELLO' b''\n");
    assert_eq!(server.finish(DEADLINE).success().stdout, "ready\n2\n");
    net.assert_kernel_received(Server, &before, 0);
}

#[test]
fn loopback_stays_on_the_kernel() {
    let net = Net::new();
    let script = "
import socket, threading
s = socket.create_server(('127.0.0.1', 7000))
def serve():
    c, _ = s.accept(); c.sendall(c.recv(100).upper()); c.close()
threading.Thread(target=serve).start()
c = socket.create_connection(('127.0.0.1', 7000)); c.sendall(b'hello'); print(c.recv(100).decode())";
    assert_eq!(net.output_ringway(Server, &["python3", "-c", script]), "HELLO\n");
}

#[test]
fn a_refused_connection_says_so() {
    let net = Net::new();
    let script = "
import socket, sys
try: socket.create_connection((sys.argv[1], 9), 5)
except OSError as error: print(type(error).__name__)";
    assert_eq!(net.output_ringway(Server, &["python3", "-c", script, &net.address(Client)]), "ConnectionRefusedError\n");
}

#[test]
fn a_keyboard_interrupt_reaches_the_program_once() {
    let net = Net::new();
    let program = "
import signal, time
count = 0
def interrupted(*_):
    global count
    count += 1
signal.signal(signal.SIGINT, interrupted)
print('ready', flush=True)
while count == 0: time.sleep(0.01)
time.sleep(0.3)
print('count', count, flush=True)";
    let terminal = "
import os, pty, sys
pid, fd = pty.fork()
if pid == 0: os.execv(sys.argv[1], sys.argv[1:])
seen, pressed = b'', False
while True:
    try: part = os.read(fd, 1000)
    except OSError: break
    if not part: break
    seen += part
    if b'ready' in seen and not pressed:
        os.write(fd, b'\\x03')
        pressed = True
os.waitpid(pid, 0)
print(seen.decode().replace('\\r', ''))";
    let arguments = [&["python3", "-c", terminal], &ringway(&["python3", "-c", program])[..]].concat();
    let seen = net.output(Server, &arguments);
    assert!(seen.contains("count 1\n"), "{seen}");
}

#[test]
fn a_daemon_is_served_until_it_ends() {
    let net = Net::new();
    let pidfile = text(&net.path("daemon.pid"));
    let script = "
import os, signal, socket, sys
s = socket.create_server(('0.0.0.0', 7100))
if os.fork(): os._exit(5)
os.setsid()
open(sys.argv[1], 'w').write(str(os.getpid()))
while True:
    c, _ = s.accept()
    c.sendall(b'daemon'); c.close()";
    let mut parent = net.spawn_ringway(Server, &["python3", "-c", script, &pidfile]);
    net.wait_served(Server, 7100, &mut parent);
    let fetch = "import socket, sys; print(socket.create_connection((sys.argv[1], 7100), 5).recv(100).decode())";
    assert_eq!(net.output(Client, &["python3", "-c", fetch, &net.address(Server)]), "daemon\n");
    let pid = std::fs::read_to_string(&pidfile).expect("the daemon has written it");
    net.output(Server, &["kill", &pid]);
    assert_eq!(parent.finish(DEADLINE).code(), 5, "the status of the program that was started");
}

/// Reads nothing for a while, then all; says how much and how it ended.
const SLOW_READER: &str = "
import socket, time
s = socket.create_server(('0.0.0.0', 4000)); c, _ = s.accept()
time.sleep(0.5)
count = 0
while data := c.recv(65536): count += len(data)
print(count)";

/// The kernel sends what a program wrote before it ended; so does a private service, which ends with the program.
#[test]
fn what_was_written_before_the_end_arrives() {
    let net = Net::new();
    let mut reader = net.spawn(Server, &["python3", "-c", SLOW_READER]);
    net.wait_listening(Server, 4000, &mut reader);
    let writer = "
import os, socket, sys
c = socket.create_connection((sys.argv[1], 4000)); c.sendall(bytes(1_000_000)); os._exit(3)";
    let address = net.address(Server);
    let arguments = ringway(&["python3", "-c", writer, &address]);
    let ended = net.untouched(Client, || net.run(Client, &arguments));
    assert_eq!(ended.code(), 3, "{}", ended.stderr);
    assert_eq!(reader.finish(DEADLINE).success().stdout, "1000000\n");
}

/// The library's price for a program that never opens a socket: no unwinder, no memory of the service, no table of its own; and for one that
/// could not, nothing but the look at it.
#[test]
fn a_child_without_sockets_costs_little() {
    const CHILDREN: u32 = 20;
    // Built without much optimization the library has 37. The table of waits took 16 more, libgcc_s some 10.
    for (program, page_faults_max) in [("'sh', '-c', ':'", 44), ("'true'", 4)] {
        let net = Net::new();
        let script = format!(
            "import os, resource
faults = lambda: resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
before = faults()
for _ in range({CHILDREN}): os.waitpid(os.posix_spawnp([{program}][0], [{program}], os.environ), 0)
print(faults() - before)"
        );
        let faults = |command: &[&str]| -> u32 { net.run(Server, command).success().stdout.trim().parse().expect("a number") };
        let (plain, under) = (faults(&["python3", "-c", &script]), faults(&ringway(&["python3", "-c", &script])));
        assert!(
            under <= plain + CHILDREN * page_faults_max,
            "{CHILDREN} of {program}: {plain} page faults, under ringway {under}"
        );
    }
    let net = Net::new();
    let maps = "while read -r line; do echo \"$line\"; done </proc/self/maps; ls -l /proc/self/fd";
    let maps = net.run(Server, &ringway(&["sh", "-c", maps])).success().stdout;
    assert!(maps.contains("libringway_preload"), "{maps}");
    for foreign in ["libgcc_s", "memfd:", "socket:", "eventfd"] {
        assert!(!maps.contains(foreign), "{foreign}:\n{maps}");
    }
    let maps = net.run(Server, &ringway(&["sh", "-c", "cat /proc/self/maps"])).success().stdout;
    assert!(maps.contains("libc.so") && !maps.contains("libringway_preload"), "{maps}");
    let why = format!("sleep 50 & until [ \"$(cat /proc/$!/comm)\" = sleep ]; do :; done; {RINGWAY} why $!; kill $!");
    let why = net.run(Server, &ringway(&["sh", "-c", &why])).success().stdout;
    assert!(why.contains("on the kernel: it was started without the library"), "{why}");
}

/// What a service serves is told from the moment that it says that it is ready.
#[test]
fn a_service_that_is_ready_shows_its_interfaces() {
    let net = Net::new();
    for _ in 0..5 {
        let (_service, name) = net.serve(Server, &[]);
        let said = net.output(Server, &[RINGWAY, "run", "--dry-run", "--name", &name, "--", "true"]);
        let expected = format!("service: {name}, running; serves {INTERFACE} {} (service {name})", net.address(Server));
        assert!(said.contains(&expected), "{said}");
    }
}

const ECHO: &str = include_str!("run/echo.c");

/// Sanitizers intercept the same functions of libc. AddressSanitizer's library wants to be the first one.
#[test]
fn programs_with_sanitizers_are_accelerated() {
    let net = Net::new();
    let source = net.file("echo.c", ECHO);
    let script = "import socket, sys
c = socket.create_connection((sys.argv[1], int(sys.argv[2])))
c.sendall(b'x' * 100_000)
print(len(c.recv(100_000, socket.MSG_WAITALL)))";
    for (port, sanitizer) in (4000..).zip(["address", "thread", "undefined"]) {
        let (program, port_text) = (text(&net.path(sanitizer)), port.to_string());
        net.output(Server, &["cc", "-g", &format!("-fsanitize={sanitizer}"), "-pthread", "-o", &program, &source]);
        // ThreadSanitizer knows few of the places where a program may be.
        let mut server = net.spawn_ringway(Server, &["setarch", "-R", &program, &port_text]);
        net.wait_served(Server, port, &mut server);
        net.untouched(Server, || {
            let client = ["python3", "-c", script, &net.address(Server), &port_text];
            assert_eq!(net.output(Client, &client), "100000\n", "{sanitizer}");
        });
        assert!(!server.finish(DEADLINE).success().stderr.contains("Sanitizer"), "{sanitizer}");
    }
}

/// A program that starts others may have options of its own for their sanitizer.
#[test]
fn a_child_with_a_sanitizer_starts_whatever_its_options() {
    let net = Net::new();
    let (source, program) = (net.file("empty.c", "int main(void) { return 7; }"), text(&net.path("empty")));
    net.output(Server, &["cc", "-fsanitize=address", "-o", &program, &source]);
    for variables in ["", "ASAN_OPTIONS=detect_leaks=0 ", "env -u ASAN_OPTIONS "] {
        let script = format!("{variables}{program}; echo $?");
        assert_eq!(net.run(Server, &ringway(&["sh", "-c", &script])).success().stdout, "7\n", "{variables}");
    }
    let options = ringway(&["printenv", "ASAN_OPTIONS"]);
    assert_eq!(net.run(Server, &options).success().stdout, "verify_asan_link_order=0\n");
    let own = [&["env", "ASAN_OPTIONS=detect_leaks=0"], &options[..]].concat();
    assert_eq!(net.run(Server, &own).success().stdout, "detect_leaks=0:verify_asan_link_order=0\n");
}

/// The library's line about a program that it does not reach ends none, also where the reader of standard error has gone.
#[test]
fn a_program_without_a_reader_of_its_errors_starts_others() {
    let net = Net::new();
    let (source, program) = (net.file("seven.c", "int main(void) { return 7; }"), text(&net.path("seven")));
    net.output(Server, &["cc", "-static", "-o", &program, &source]);
    let script = "import os, signal, sys
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
read, write = os.pipe()
os.close(read)
os.dup2(write, 2)
os.execv(sys.argv[1], [sys.argv[1]])";
    assert_eq!(net.run(Server, &ringway(&["python3", "-c", script, &program])).code(), 7);
}
